--
-- Reads: read_rel_block_ll() and read_buffers()
--
\pset format unaligned
\pset tuples_only
CREATE TABLE reads_heap (blk int, body text STORAGE PLAIN);
INSERT INTO reads_heap SELECT i, repeat(md5(i::text), 250) FROM generate_series(0, 39) i;
VACUUM (FREEZE) reads_heap;

-- nothing cached: as large as io_combine_limit allows
SET io_combine_limit = 16;
SELECT FROM evict_rel('reads_heap');
SELECT blockoff, blocknum, io_reqd, foreign_io, nblocks, cardinality(buf) AS bufs
FROM read_buffers('reads_heap', 1, 38);
-- all of it cached: one block an operation, the same buffers
SELECT count(*), bool_or(io_reqd) AS io, bool_or(foreign_io) AS joined, max(nblocks) AS most, min(blocknum), max(blocknum)
FROM read_buffers('reads_heap', 1, 38);
-- hits in front, in the middle, at the end
SELECT FROM evict_rel('reads_heap');
SELECT count(*) FROM read_stream_for_blocks('reads_heap', ARRAY[0, 3, 9]);
SELECT blockoff, blocknum, io_reqd, nblocks FROM read_buffers('reads_heap', 0, 10);
SET io_combine_limit = 1;
SELECT FROM evict_rel('reads_heap');
SELECT blockoff, blocknum, io_reqd, nblocks FROM read_buffers('reads_heap', 37, 3);
RESET io_combine_limit;

-- by hand: one block, several, in a batch, without files, without waiting
SELECT FROM evict_rel('reads_heap');
SELECT FROM read_rel_block_ll('reads_heap', 0);
SELECT FROM read_rel_block_ll('reads_heap', 1, 16);
SELECT FROM read_rel_block_ll('reads_heap', 17, nblocks => 3, batchmode_enter => true, batchmode_exit => true);
SELECT FROM read_rel_block_ll('reads_heap', 20, nblocks => 4, smgrreleaseall => true);
SELECT FROM read_rel_block_ll('reads_heap', 24, nblocks => 4, batchmode_enter => true, smgrreleaseall => true, batchmode_exit => true);
SELECT FROM read_rel_block_ll('reads_heap', 28, nblocks => 5, wait_complete => false);
SELECT FROM read_rel_block_ll('reads_heap', 33, nblocks => 7, wait_complete => false, batchmode_enter => true, batchmode_exit => true);
-- what was read is what was written
SELECT count(*), count(*) FILTER (WHERE body = repeat(md5(blk::text), 250) AND ctid = format('(%s,1)', blk)::tid) AS right
FROM reads_heap;
-- reading again what is cached, dirty even, loses nothing
UPDATE reads_heap SET body = repeat(md5((-blk)::text), 250) WHERE blk = 5;
SELECT FROM generate_series(38, 40) b, read_rel_block_ll('reads_heap', b);
SELECT blk, body = repeat(md5((-blk)::text), 250) AS right FROM reads_heap WHERE blk IN (5, 39) ORDER BY blk;

-- other kinds of relations
CREATE INDEX reads_index ON reads_heap (blk);
CREATE UNLOGGED TABLE reads_unlogged AS SELECT * FROM reads_heap;
CREATE TEMP TABLE reads_temp (LIKE reads_heap INCLUDING STORAGE);
INSERT INTO reads_temp SELECT * FROM reads_heap ORDER BY blk;
SELECT FROM evict_rel('reads_temp');
CREATE MATERIALIZED VIEW reads_matview AS SELECT * FROM reads_heap;
CREATE SEQUENCE reads_sequence;
SELECT evict_rel(rel), read_rel_block_ll(rel, 0), evict_rel(rel) FROM unnest(ARRAY['reads_index', 'reads_unlogged', 'reads_temp', 'reads_matview', 'reads_sequence']::regclass[]) rel;
SELECT blockoff, blocknum, io_reqd, foreign_io, nblocks FROM read_buffers('reads_temp', 3, 5);
SELECT blockoff, blocknum, io_reqd, foreign_io, nblocks, buf[1] < 0 AS local FROM read_buffers('reads_temp', 2, 3);
SELECT count(*), count(*) FILTER (WHERE body = repeat(md5(CASE blk WHEN 5 THEN -blk ELSE blk END::text), 250)) AS right FROM reads_temp;

DROP MATERIALIZED VIEW reads_matview;
DROP TABLE reads_heap, reads_unlogged, reads_temp;
DROP SEQUENCE reads_sequence;
