--
-- Read streams: read_stream_for_blocks()
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS test_aio;
RESET client_min_messages;
CREATE TABLE streams_heap (blk int, body text STORAGE PLAIN);
INSERT INTO streams_heap SELECT i, repeat(md5(i::text), 250) FROM generate_series(0, 99) i;
VACUUM (FREEZE) streams_heap;
SELECT evict_rel('streams_heap');

SELECT blockoff, blocknum, buf > 0 AS shared FROM read_stream_for_blocks('streams_heap', ARRAY[0, 2, 5, 99]);
-- repeats are welcome, and get the same buffer
SELECT evict_rel('streams_heap');
SELECT array_agg(blocknum ORDER BY blockoff), count(DISTINCT buf) FROM read_stream_for_blocks('streams_heap', ARRAY[3, 3, 4, 3, 3, 4, 5, 5]);
-- an empty stream, in whatever way the array is empty
SELECT * FROM read_stream_for_blocks('streams_heap', '{}');
SELECT * FROM read_stream_for_blocks('streams_heap', ARRAY(SELECT 1 WHERE false));
-- one block
SELECT blockoff, blocknum FROM read_stream_for_blocks('streams_heap', ARRAY[42]);
-- a lower bound other than 1 is a dimension of one all the same
SELECT blockoff, blocknum FROM read_stream_for_blocks('streams_heap', '[5:7]={7,8,9}');
-- backward, and in an order of no meaning
SELECT evict_rel('streams_heap');
SELECT count(*), bool_and(blocknum = 99 - blockoff) AS right FROM read_stream_for_blocks('streams_heap', ARRAY(SELECT generate_series(99, 0, -1)));
SELECT evict_rel('streams_heap');
SELECT count(*), bool_and(blocknum = (blockoff * 37) % 100) AS right FROM read_stream_for_blocks('streams_heap', ARRAY(SELECT (i * 37) % 100 FROM generate_series(0, 9999) i ORDER BY i));

-- the limits that streams go by
\set stream 'SELECT count(*), bool_and(blocknum = (blockoff * 13) % 100) AS right FROM read_stream_for_blocks(''streams_heap'', ARRAY(SELECT (i * 13) % 100 FROM generate_series(0, 299) i ORDER BY i))'
SET effective_io_concurrency = 0;
SELECT evict_rel('streams_heap');
:stream;
SET effective_io_concurrency = 1;
SELECT evict_rel('streams_heap');
:stream;
SET effective_io_concurrency = 1000;
SELECT evict_rel('streams_heap');
:stream;
SET io_combine_limit = 1;
SELECT evict_rel('streams_heap');
:stream;
SET io_combine_limit = 128;
SELECT evict_rel('streams_heap');
:stream;
RESET effective_io_concurrency;
RESET io_combine_limit;
SELECT count(*), count(*) FILTER (WHERE body = repeat(md5(blk::text), 250) AND ctid = format('(%s,1)', blk)::tid) AS right
FROM streams_heap;

-- several in one query, and one that is not read to its end
SELECT a.blocknum, b.blocknum FROM read_stream_for_blocks('streams_heap', ARRAY[1, 2]) a, read_stream_for_blocks('streams_heap', ARRAY[2, 3]) b;
SELECT blocknum FROM read_stream_for_blocks('streams_heap', ARRAY[7, 8, 9]) LIMIT 1;
BEGIN;
DECLARE c CURSOR FOR SELECT blocknum FROM read_stream_for_blocks('streams_heap', ARRAY[7, 8, 9]);
FETCH 1 FROM c;
COMMIT;

-- a temporary table
CREATE TEMP TABLE streams_temp (LIKE streams_heap INCLUDING STORAGE);
INSERT INTO streams_temp SELECT * FROM streams_heap ORDER BY blk;
SELECT evict_rel('streams_temp');
SELECT blockoff, blocknum, buf < 0 AS local FROM read_stream_for_blocks('streams_temp', ARRAY[1, 1, 2, 3, 1]);
SELECT count(*), bool_and(blocknum = (blockoff * 13) % 100) AS right FROM read_stream_for_blocks('streams_temp', ARRAY(SELECT (i * 13) % 100 FROM generate_series(0, 299) i ORDER BY i));
-- an index
CREATE INDEX streams_index ON streams_heap (blk);
SELECT evict_rel('streams_index');
SELECT blockoff, blocknum FROM read_stream_for_blocks('streams_index', ARRAY[1, 0, 1]);

DROP TABLE streams_heap, streams_temp;
