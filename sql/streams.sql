--
-- Read streams: read_stream_for_blocks(), read_stream_run()
--
\pset format unaligned
\pset tuples_only
CREATE TABLE streams_heap (blk int, body text STORAGE PLAIN);
INSERT INTO streams_heap SELECT i, repeat(md5(i::text), 250) FROM generate_series(0, 99) i;
VACUUM (FREEZE) streams_heap;
SELECT FROM evict_rel('streams_heap');

SELECT blockoff, blocknum, buf > 0 AS shared FROM read_stream_for_blocks('streams_heap', ARRAY[0, 2, 5, 99]);
-- repeats are welcome, and get the same buffer
SELECT FROM evict_rel('streams_heap');
SELECT array_agg(blocknum ORDER BY blockoff), count(DISTINCT buf) FROM read_stream_for_blocks('streams_heap', ARRAY[3, 3, 4, 3, 3, 4, 5, 5]);
-- an empty stream, in whatever way the array is empty
SELECT * FROM read_stream_for_blocks('streams_heap', '{}');
SELECT * FROM read_stream_for_blocks('streams_heap', ARRAY(SELECT 1 WHERE false));
-- a lower bound other than 1 is a dimension of one all the same
SELECT blockoff, blocknum FROM read_stream_for_blocks('streams_heap', '[5:7]={7,8,9}');
-- backward
SELECT FROM evict_rel('streams_heap');
SELECT count(*), bool_and(blocknum = 99 - blockoff) AS right FROM read_stream_for_blocks('streams_heap', ARRAY(SELECT generate_series(99, 0, -1)));

-- in an order of no meaning, with the limits that streams go by
DO $$
DECLARE
	limits int[];
BEGIN
	FOREACH limits SLICE 1 IN ARRAY ARRAY[[0, 16], [1, 16], [1000, 16], [1000, 1], [1000, 128]] LOOP
		PERFORM set_config('effective_io_concurrency', limits[1]::text, true), set_config('io_combine_limit', limits[2]::text, true);
		PERFORM evict_rel('streams_heap');
		RAISE NOTICE '%: %', limits, (SELECT (count(*), bool_and(blocknum = (blockoff * 13) % 100))
			FROM read_stream_for_blocks('streams_heap', ARRAY(SELECT (i * 13) % 100 FROM generate_series(0, 299) i ORDER BY i)));
	END LOOP;
END $$;
SELECT count(*), count(*) FILTER (WHERE body = repeat(md5(blk::text), 250) AND ctid = format('(%s,1)', blk)::tid) AS right
FROM streams_heap;

-- several in one query, and one that is not read to its end
SELECT a.blocknum, b.blocknum FROM read_stream_for_blocks('streams_heap', ARRAY[1, 2]) a, read_stream_for_blocks('streams_heap', ARRAY[2, 3]) b;
SELECT blocknum FROM read_stream_for_blocks('streams_heap', ARRAY[7, 8, 9]) LIMIT 1;

-- a temporary table
CREATE TEMP TABLE streams_temp (LIKE streams_heap INCLUDING STORAGE);
INSERT INTO streams_temp SELECT * FROM streams_heap ORDER BY blk;
SELECT FROM evict_rel('streams_temp');
SELECT blockoff, blocknum, buf < 0 AS local FROM read_stream_for_blocks('streams_temp', ARRAY[1, 1, 2, 3, 1]);
SELECT count(*), bool_and(blocknum = (blockoff * 13) % 100) AS right FROM read_stream_for_blocks('streams_temp', ARRAY(SELECT (i * 13) % 100 FROM generate_series(0, 299) i ORDER BY i));
-- an index
CREATE INDEX streams_index ON streams_heap (blk);
SELECT FROM evict_rel('streams_index');
SELECT blockoff, blocknum FROM read_stream_for_blocks('streams_index', ARRAY[1, 0, 1]);

-- arrays that are not flat, as PL/pgSQL keeps them, and ones with a bitmap of no nulls
DO $$
DECLARE
	blocks int[] := '{}';
	without_nulls int[] := '{5,NULL,7}';
BEGIN
	FOR i IN 0 .. 9 LOOP
		blocks[i] := 99 - i;
	END LOOP;
	without_nulls[2] := 6;
	RAISE NOTICE '%, %', (SELECT array_agg(blocknum ORDER BY blockoff) FROM read_stream_for_blocks('streams_heap', blocks)),
		(SELECT array_agg(blocknum ORDER BY blockoff) FROM read_stream_for_blocks('streams_heap', without_nulls));
	RAISE NOTICE '%, %', (SELECT r.blocks FROM read_stream_run('streams_heap', blocks, per_buffer_data => 8) r),
		(SELECT r.blocks FROM read_stream_run('streams_heap', without_nulls, per_buffer_data => 8) r);
	blocks[4] := NULL;
	PERFORM read_stream_run('streams_heap', blocks);
EXCEPTION WHEN null_value_not_allowed THEN
	RAISE NOTICE '%', SQLERRM;
END $$;

-- streams without a result set; what has been read is the same, however it is read
\set blocks 'ARRAY(SELECT (i * 37) % 100 FROM generate_series(0, 999) i ORDER BY i)'
SELECT FROM evict_rel('streams_heap');
SELECT runs, blocks, read_bytes / current_setting('block_size')::int AS blocks_read FROM read_stream_run('streams_heap', :blocks);
SELECT runs, blocks, hits, reads FROM read_stream_run('streams_heap', :blocks, nruns => 5, "full" => true);
SELECT runs, blocks, hits, reads FROM read_stream_run('streams_heap', :blocks, maintenance => true, sequential => true, use_batching => true, per_buffer_data => 24);
SELECT runs, blocks, hits >= 10 AS hits, reads FROM read_stream_run('streams_heap', :blocks, end_at => 10);
SELECT blocks, reads FROM read_stream_run('streams_heap', :blocks, reset_at => '{0,10,500,1000}', per_buffer_data => 5);
SELECT blocks, reads FROM read_stream_run('streams_heap', '{}', reset_at => '{0}', end_at => 0);
SELECT blocks FROM read_stream_run('streams_temp', :blocks, context => 'bulkread');
SELECT blocks FROM read_stream_run('streams_heap', '{0}', fork => 'vm');

DROP TABLE streams_heap, streams_temp;
