--
-- Reads: what read_buffers() says of them, arrays of blocks, kinds of relations.  t/server/streams and t/server/pages
-- have the shapes and options of streams, and bad blocks.
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
RESET io_combine_limit;

-- streams: repeats get the same buffer
SELECT FROM evict_rel('reads_heap');
SELECT array_agg(blocknum ORDER BY blockoff), count(DISTINCT buf) FROM read_stream_for_blocks('reads_heap', ARRAY[3, 3, 4, 3, 3, 4, 5, 5]);
-- a lower bound other than 1 is a dimension of one all the same
SELECT blockoff, blocknum FROM read_stream_for_blocks('reads_heap', '[5:7]={7,8,9}');
-- arrays that are not flat, as PL/pgSQL keeps them, and ones with a bitmap of no nulls
DO $$
DECLARE
	blocks int[] := '{}';
	without_nulls int[] := '{5,NULL,7}';
BEGIN
	FOR i IN 0 .. 9 LOOP
		blocks[i] := 39 - i;
	END LOOP;
	without_nulls[2] := 6;
	RAISE NOTICE '%, %', (SELECT array_agg(blocknum ORDER BY blockoff) FROM read_stream_for_blocks('reads_heap', blocks)),
		(SELECT array_agg(blocknum ORDER BY blockoff) FROM read_stream_for_blocks('reads_heap', without_nulls));
	RAISE NOTICE '%, %', (SELECT r.blocks FROM read_stream_run('reads_heap', blocks, per_buffer_data => 8) r),
		(SELECT r.blocks FROM read_stream_run('reads_heap', without_nulls, per_buffer_data => 8) r);
	blocks[4] := NULL;
	PERFORM read_stream_run('reads_heap', blocks);
EXCEPTION WHEN null_value_not_allowed THEN
	RAISE NOTICE '%', SQLERRM;
END $$;

-- other kinds of relations
CREATE INDEX reads_index ON reads_heap (blk);
CREATE UNLOGGED TABLE reads_unlogged AS SELECT * FROM reads_heap;
CREATE TEMP TABLE reads_temp (LIKE reads_heap INCLUDING STORAGE);
INSERT INTO reads_temp SELECT * FROM reads_heap ORDER BY blk;
SELECT FROM evict_rel('reads_temp');
CREATE MATERIALIZED VIEW reads_matview AS SELECT * FROM reads_heap;
CREATE SEQUENCE reads_sequence;
SELECT evict_rel(rel), read_rel_block_ll(rel, 0), evict_rel(rel) FROM unnest(ARRAY['reads_index', 'reads_unlogged', 'reads_temp', 'reads_matview', 'reads_sequence']::regclass[]) rel;
SELECT blockoff, blocknum, io_reqd, foreign_io, nblocks, buf[1] < 0 AS local FROM read_buffers('reads_temp', 2, 3);
SELECT count(*), count(*) FILTER (WHERE body = repeat(md5(blk::text), 250)) AS right FROM reads_temp;

-- a write by AIO: changed blocks are clean then, and as they were
DELETE FROM reads_heap WHERE blk IN (3, 5);
SELECT write_rel_block_ll('reads_heap', 2, nblocks => 5);
SELECT count(*) FROM generate_series(2, 6) b, buffer_state('reads_heap', b) WHERE 'DIRTY' = ANY (flags);
SELECT count(*) FROM reads_heap;
SELECT write_rel_block_ll('reads_temp', 0);

DROP MATERIALIZED VIEW reads_matview;
DROP TABLE reads_heap, reads_unlogged, reads_temp;
DROP SEQUENCE reads_sequence;
