-- Time that a read stream takes on a simulated device, over what it would take if
-- the device were all: reads * latency / depth.  One block a read.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS test_aio;
CREATE TABLE IF NOT EXISTS device_table (i int, filler text STORAGE PLAIN);
INSERT INTO device_table SELECT i, repeat('x', 5000) FROM generate_series(1, 8000) i
	WHERE (SELECT pg_relation_size('device_table')) = 0;
VACUUM (FREEZE) device_table;
SET io_combine_limit = 1;

CREATE TEMP TABLE measured (latency numeric, depth int, shape text, run int,
	reads int, seconds float8, mean_late float8, worst_late float8);

CREATE PROCEDURE pg_temp.measure(latency numeric, depth int, shape text, run int,
	jitter float8 DEFAULT 0, bandwidth int8 DEFAULT NULL)
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
	nreads int := least(8000, 400 * depth / greatest(latency, 1));
	blocks int[];
	started timestamptz;
	rows int;
BEGIN
	PERFORM evict_rel('device_table');
	PERFORM set_config('effective_io_concurrency', depth::text, false);
	blocks := CASE shape
		WHEN 'sequential' THEN ARRAY(SELECT i FROM generate_series(0, nreads - 1) i)
		ELSE ARRAY(SELECT (i * 4801::int8 % 8000)::int FROM generate_series(0, nreads - 1) i)
		END;
	PERFORM io_device(make_interval(secs => latency / 1000), depth, jitter, bandwidth, 'device_table');
	started := clock_timestamp();
	SELECT count(*) INTO rows FROM read_stream_for_blocks('device_table', blocks);
	INSERT INTO measured SELECT latency, depth, shape, run, nreads,
		extract(epoch FROM clock_timestamp() - started), mean_lateness, max_lateness FROM io_devices;
	PERFORM io_device_end();
END $$;

DO $$
DECLARE
	l numeric; d int; s text;
BEGIN
	FOR r IN 1 .. 5 LOOP
		FOREACH l IN ARRAY ARRAY[0.1, 1, 10] LOOP
			FOREACH d IN ARRAY ARRAY[1, 8, 32] LOOP
				FOREACH s IN ARRAY ARRAY['sequential', 'random'] LOOP
					CALL pg_temp.measure(l, d, s, r);
				END LOOP;
			END LOOP;
		END LOOP;
	END LOOP;
END $$;

SELECT latency AS "latency/ms", depth, shape, max(reads) AS reads,
	round((percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds * 1000 * depth / reads / latency))::numeric, 3) AS "time/ideal",
	round((100 / percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds * 1000 * depth / reads / latency))::numeric, 1) AS "throughput/%",
	round(avg(mean_late)::numeric) AS "mean lateness/us",
	round(max(worst_late)::numeric) AS "worst/us"
FROM measured GROUP BY 1, 2, 3 ORDER BY 1, 2, 3 DESC;

-- With jitter the mean counts; with a bandwidth limit that is what takes the time.
TRUNCATE measured;
DO $$
BEGIN
	FOR r IN 1 .. 5 LOOP
		CALL pg_temp.measure(1, 8, 'jitter 0.5', r, jitter => 0.5);
		CALL pg_temp.measure(1, 32, '80 MB/s', r, bandwidth => 10000 * 8192);
	END LOOP;
END $$;

SELECT latency AS "latency/ms", depth, shape, max(reads) AS reads,
	round((percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds
		/ CASE shape WHEN '80 MB/s' THEN reads / 10000.0 ELSE reads * latency / depth / 1000 END))::numeric, 3) AS "time/ideal"
FROM measured GROUP BY 1, 2, 3 ORDER BY 2;
