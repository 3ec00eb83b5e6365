--
-- Eviction: evict_rel(), invalidate_rel_block(), buffer_state().  t/server/buffers/buffer_io.pl has the I/O of
-- buffer_create_toy(), t/extension/calls.pl eviction beside other sessions.
--
\set ECHO none
\pset format unaligned
\pset tuples_only
CREATE TABLE eviction_heap (i int, filler text STORAGE PLAIN) WITH (fillfactor = 100);
INSERT INTO eviction_heap SELECT i, repeat('x', 7000) FROM generate_series(1, 10) i;
CREATE FUNCTION cached(rel regclass) RETURNS bigint LANGUAGE sql
-- a block that needs no read is cached
RETURN (SELECT count(*) FROM read_buffers(rel, 0, (pg_relation_size(rel) / current_setting('block_size')::int)::int) WHERE NOT io_reqd);
\set ECHO all

-- dirty blocks are written first
UPDATE eviction_heap SET i = -i;
SELECT FROM evict_rel('eviction_heap');
SELECT cached('eviction_heap');
SELECT cached('eviction_heap');
SELECT sum(i), count(*) FROM eviction_heap;
-- all of it again, when nothing is there
SELECT FROM evict_rel('eviction_heap');
SELECT FROM evict_rel('eviction_heap');

-- one block
SELECT cached('eviction_heap');
SELECT FROM invalidate_rel_block('eviction_heap', 3);
SELECT FROM invalidate_rel_block('eviction_heap', 3);
SELECT blocknum FROM read_buffers('eviction_heap', 0, 10) WHERE io_reqd;
UPDATE eviction_heap SET i = -2 WHERE i = -1;
SELECT FROM generate_series(0, 19) b, invalidate_rel_block('eviction_heap', b);
SELECT count(*) FROM eviction_heap WHERE i = -2;

-- blocks that this session has pinned stay
SELECT FROM evict_rel('eviction_heap');
BEGIN;
DECLARE c CURSOR FOR SELECT i FROM eviction_heap WHERE ctid IN ('(10,1)', '(11,1)');
FETCH 1 FROM c;
SELECT FROM invalidate_rel_block('eviction_heap', 10);
SELECT FROM evict_rel('eviction_heap');
FETCH 1 FROM c;
COMMIT;

-- temporary tables too
CREATE TEMP TABLE eviction_temp (LIKE eviction_heap INCLUDING STORAGE);
INSERT INTO eviction_temp SELECT * FROM eviction_heap;
UPDATE eviction_temp SET i = i - 100;
SELECT FROM evict_rel('eviction_temp');
SELECT cached('eviction_temp');
SELECT sum(i), count(*) FROM eviction_temp;
SELECT FROM invalidate_rel_block('eviction_temp', 3);
SELECT blocknum FROM read_buffers('eviction_temp', 0, 10) WHERE io_reqd;
BEGIN;
DECLARE c CURSOR FOR SELECT i FROM eviction_temp WHERE ctid = '(12,1)';
FETCH 1 FROM c;
SELECT FROM evict_rel('eviction_temp');
COMMIT;

-- what the header of a block's buffer says
SELECT FROM evict_rel('eviction_heap');
SELECT * FROM buffer_state('eviction_heap', 12);
SELECT count(*) FROM read_buffers('eviction_heap', 12, 1);
SELECT buffer > 0 AS shared, flags, refcount, usage_count BETWEEN 0 AND 5 AS used FROM buffer_state('eviction_heap', 12);
UPDATE eviction_temp SET i = i WHERE ctid = '(12,1)';
SELECT buffer < 0 AS local, flags, refcount FROM buffer_state('eviction_temp', 12);

DROP TABLE eviction_heap, eviction_temp;
DROP FUNCTION cached;
