-- Pages that are broken in a cluster with checksums: every change of a byte is one.
-- not replayed: writes blocks without WAL
CREATE TABLE t (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i, repeat('x', 1900) FROM generate_series(0, 79) i;
CREATE INDEX t_n ON t (n);
VACUUM (FREEZE) t;
SELECT n FROM t WHERE n < 3;
-- the first hint bit since a checkpoint is worth WAL
UPDATE t SET n = n WHERE n = 70;
CHECKPOINT;
SELECT count(body) FROM t;
-- pd_flags
\write t 2 10 0800
SELECT count(body) FROM t;
\write t 2 10 0400
-- pd_lower
\write t 3 12 1000
SELECT count(body) FROM t;
SELECT read_rel_block_ll('t', 2, nblocks => 3);
\write t 3 12 ff7f
SELECT count(body) FROM t;
SELECT read_rel_block_ll('t', 2, nblocks => 3, zero_on_error => true);
\write t 3 12 2800
-- pd_upper
\write t 4 14 0000
SELECT count(body) FROM t;
\write t 4 14 f0ff
SELECT count(body) FROM t;
\write t 4 14 1000
SELECT count(body) FROM t;
SELECT evict_rel('t');
SET zero_damaged_pages = on;
SELECT count(body) FROM t;
RESET zero_damaged_pages;
SELECT count(body) FROM t;
-- several pages of one read
\write t 8 12 1000
\write t 9 12 1000
\write t 11 12 1000
SELECT read_rel_block_ll('t', 7, nblocks => 6);
SELECT read_rel_block_ll('t', 7, nblocks => 6, zero_on_error => true);
SELECT evict_rel('t');
SET zero_damaged_pages = on;
SELECT read_rel_block_ll('t', 7, nblocks => 6);
SELECT checksum_failures FROM pg_stat_database WHERE datname = current_database();
RESET zero_damaged_pages;
