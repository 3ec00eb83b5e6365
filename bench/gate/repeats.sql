-- R3 on a simulated device of 1 ms, seconds of seven runs.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS test_aio;
CREATE TABLE IF NOT EXISTS repeats_table (i int, filler text STORAGE PLAIN);
INSERT INTO repeats_table SELECT i, repeat('x', 5000) FROM generate_series(1, 2100) i
	WHERE (SELECT pg_relation_size('repeats_table')) = 0;
VACUUM (FREEZE) repeats_table;
-- look-ahead counts blocks, and three of four are repeats
SET effective_io_concurrency = 64;
SELECT io_device('1ms', 64, rel => 'repeats_table') \g /dev/null
CREATE TEMP TABLE measured (seconds float8);
DO $$
DECLARE
	started timestamptz;
	rows int;
BEGIN
	FOR run IN 1 .. 7 LOOP
		PERFORM evict_rel('repeats_table');
		started := clock_timestamp();
		SELECT count(*) INTO rows FROM read_stream_for_blocks('repeats_table',
			ARRAY(SELECT i + generate_series(0, 3) FROM generate_series(1, 2000) i));
		INSERT INTO measured SELECT extract(epoch FROM clock_timestamp() - started);
	END LOOP;
END $$;
SELECT round(percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds)::numeric, 3) AS "median/s",
	round(min(seconds)::numeric, 3) AS min, round(max(seconds)::numeric, 3) AS max,
	(SELECT reads FROM io_devices) AS reads
FROM measured;
