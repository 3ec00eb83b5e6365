--
-- Bad blocks: modify_rel_block(), and what reads say of them
--
\set ECHO none
\pset format unaligned
\pset tuples_only
-- names of files differ from run to run, so messages are shown without
CREATE FUNCTION outcome(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
	hint text;
BEGIN
	EXECUTE query;
	RETURN 'succeeds';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(' | ', SQLSTATE, regexp_replace(SQLERRM, 'base/[0-9/t_]+', 'FILE'), nullif(detail, ''), nullif(hint, ''));
END $$;
CREATE FUNCTION corruption_table(kind text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE %s TABLE corruption (blk int, body text STORAGE PLAIN)', kind);
	INSERT INTO corruption SELECT i, repeat(md5(i::text), 250) FROM generate_series(0, 9) i;
	PERFORM evict_rel('corruption');
END $$;
\set right 'SELECT string_agg(blk::text, '','' ORDER BY blk) FROM corruption WHERE body = repeat(md5(blk::text), 250) AND ctid = format(''(%s,1)'', blk)::tid'
\set VERBOSITY terse
SET client_min_messages = error;
\set ECHO all

SELECT FROM corruption_table('');
-- rewritten as it was
SELECT FROM generate_series(0, 9) b, modify_rel_block('corruption', b);
:right;

SELECT FROM modify_rel_block('corruption', 3, corrupt_header => true);
SELECT FROM modify_rel_block('corruption', 4, corrupt_checksum => true);
SELECT FROM modify_rel_block('corruption', 6, corrupt_header => true, corrupt_checksum => true);
SELECT FROM modify_rel_block('corruption', 8, zero => true);
SELECT outcome($$SELECT read_rel_block_ll('corruption', 3)$$);
SELECT outcome($$SELECT read_rel_block_ll('corruption', 2, nblocks => 5)$$);
SELECT outcome($$SELECT read_rel_block_ll('corruption', 7, nblocks => 3)$$);
SELECT outcome($$SELECT * FROM read_buffers('corruption', 0, 10)$$);
SELECT outcome($$SELECT * FROM read_stream_for_blocks('corruption', ARRAY[0, 4, 5])$$);
SELECT outcome($$SELECT count(*) FROM corruption$$);
-- what does not touch them is as it was
SELECT FROM read_rel_block_ll('corruption', 0, nblocks => 3);
SELECT outcome($$SELECT * FROM read_stream_for_blocks('corruption', ARRAY[0, 1, 2, 5, 7, 8, 9])$$);

-- zeroed, in the buffer pool only
SELECT FROM read_rel_block_ll('corruption', 2, nblocks => 5, zero_on_error => true);
:right;
SELECT FROM evict_rel('corruption');
SELECT outcome($$SELECT count(*) FROM corruption$$);
SET zero_damaged_pages = on;
:right;
SELECT FROM evict_rel('corruption');
SELECT FROM read_rel_block_ll('corruption', 3);
RESET zero_damaged_pages;
SELECT FROM evict_rel('corruption');

-- a wrong checksum can be ignored, an impossible header cannot
SET ignore_checksum_failure = on;
SELECT outcome($$SELECT read_rel_block_ll('corruption', 4)$$);
SELECT outcome($$SELECT read_rel_block_ll('corruption', 3)$$);
SELECT outcome($$SELECT read_rel_block_ll('corruption', 6)$$);
SELECT blk FROM corruption WHERE ctid = '(4,1)';
RESET ignore_checksum_failure;
SELECT FROM evict_rel('corruption');

-- mended, but for the header
SELECT FROM modify_rel_block('corruption', 4);
SELECT FROM modify_rel_block('corruption', 6);
SELECT outcome($$SELECT read_rel_block_ll('corruption', 4)$$);
SELECT outcome($$SELECT read_rel_block_ll('corruption', 6)$$);
SELECT FROM unnest(ARRAY[3, 6]) b, modify_rel_block('corruption', b, zero => true);
:right;
DROP TABLE corruption;

-- of a temporary table
SELECT FROM corruption_table('TEMP');
SELECT FROM modify_rel_block('corruption', 3, corrupt_header => true);
SELECT FROM modify_rel_block('corruption', 4, corrupt_checksum => true);
SELECT outcome($$SELECT read_rel_block_ll('corruption', 2, nblocks => 3)$$);
SELECT outcome($$SELECT * FROM read_stream_for_blocks('corruption', ARRAY[0, 4, 5])$$);
SELECT FROM read_rel_block_ll('corruption', 2, nblocks => 3, zero_on_error => true);
:right;
-- the copy of a modified block is dropped, a dirty one written before
SELECT FROM unnest(ARRAY[3, 4]) b, modify_rel_block('corruption', b, zero => true);
UPDATE corruption SET blk = -1 WHERE blk = 9;
SELECT FROM modify_rel_block('corruption', 9);
SELECT FROM modify_rel_block('corruption', 10);
SELECT outcome($$SELECT read_rel_block_ll('corruption', 0, nblocks => 10)$$);
SELECT count(*) FROM corruption WHERE blk = -1;
DROP TABLE corruption;
DROP FUNCTION outcome, corruption_table;
