-- Pages that are broken, one field of the header after the other.
-- not replayed: writes blocks without WAL
CREATE TABLE t (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i, repeat('x', 1900) FROM generate_series(0, 79) i;
CREATE INDEX t_n ON t (n);
VACUUM (FREEZE) t;
SELECT n FROM t WHERE n < 3;
-- a hint bit is worth WAL if there are checksums
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
-- pd_special
\write t 5 16 0120
SELECT count(body) FROM t;
\write t 5 16 0320
SELECT count(body) FROM t;
\write t 5 16 0020
-- pd_pagesize_version
\write t 6 18 0320
SELECT count(body) FROM t;
\write t 6 18 0420
-- a page of zeros but for one byte
CREATE TABLE z (n int) WITH (autovacuum_enabled = off);
SELECT grow_rel('z', 4);
SELECT count(n) FROM z;
\write z 2 8191 01
SELECT count(n) FROM z;
SELECT read_rel_block_ll('z', 0, nblocks => 4);
\write z 2 8191 00
\write z 1 0 01
SELECT read_rel_block_ll('z', 0, nblocks => 4);
VACUUM (VERBOSE) z;
-- an index
\write t_n 1 16 ff1f
SELECT n FROM t WHERE n = 5;
SET enable_seqscan = off;
SELECT n FROM t WHERE n = 5;
\write t_n 1 16 f01f
SELECT n FROM t WHERE n = 5;
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
