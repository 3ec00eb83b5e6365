/* test_aio--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION test_aio" to load this file. \quit

--
-- Set-up helpers
--

CREATE FUNCTION errno_from_string(sym text)
RETURNS int4
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

COMMENT ON FUNCTION errno_from_string(text) IS
'number of a named errno, such as EIO';

CREATE FUNCTION grow_rel(rel regclass, nblocks int)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

COMMENT ON FUNCTION grow_rel(regclass, int) IS
'extend the main fork by zeroed blocks';

CREATE FUNCTION modify_rel_block(rel regclass, blockno int,
	zero bool DEFAULT false,
	corrupt_header bool DEFAULT false,
	corrupt_checksum bool DEFAULT false)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

COMMENT ON FUNCTION modify_rel_block(regclass, int, bool, bool, bool) IS
'rewrite a block on disk: zeroed, with an impossible header, or with a wrong checksum';

CREATE FUNCTION evict_rel(rel regclass)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

COMMENT ON FUNCTION evict_rel(regclass) IS
'remove all blocks of all forks from the buffer pool';

CREATE FUNCTION invalidate_rel_block(rel regclass, blockno int)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

COMMENT ON FUNCTION invalidate_rel_block(regclass, int) IS
'remove a block of the main fork from the buffer pool';

CREATE FUNCTION buffer_create_toy(rel regclass, blockno int4)
RETURNS int4
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

COMMENT ON FUNCTION buffer_create_toy(regclass, int4) IS
'a buffer that holds this block, unpinned, neither valid nor dirty';

CREATE FUNCTION buffer_call_start_io(buffer int, for_input bool, wait bool)
RETURNS bool
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

COMMENT ON FUNCTION buffer_call_start_io(int, bool, bool) IS
'start the I/O of a buffer; true if the caller owns it now';

CREATE FUNCTION buffer_call_terminate_io(buffer int, for_input bool,
	succeed bool, io_error bool, release_aio bool)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

COMMENT ON FUNCTION buffer_call_terminate_io(int, bool, bool, bool, bool) IS
'end the I/O of a buffer that buffer_call_start_io() has started';

--
-- Reads
--

CREATE FUNCTION read_rel_block_ll(rel regclass, blockno int,
	nblocks int DEFAULT 1,
	wait_complete bool DEFAULT true,
	batchmode_enter bool DEFAULT false,
	smgrreleaseall bool DEFAULT false,
	batchmode_exit bool DEFAULT false,
	zero_on_error bool DEFAULT false)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

COMMENT ON FUNCTION read_rel_block_ll(regclass, int, int, bool, bool, bool, bool, bool) IS
'one asynchronous read, built by hand';

CREATE FUNCTION read_buffers(rel regclass, startblock int4, nblocks int4,
	OUT blockoff int4, OUT blocknum int4, OUT io_reqd bool,
	OUT foreign_io bool, OUT nblocks int4, OUT buf int4[])
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

COMMENT ON FUNCTION read_buffers(regclass, int4, int4) IS
'StartReadBuffers() and WaitReadBuffers() over a range of blocks, one row an operation';

CREATE FUNCTION read_stream_for_blocks(rel regclass, blocks int4[],
	OUT blockoff int4, OUT blocknum int4, OUT buf int4)
RETURNS SETOF record
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

COMMENT ON FUNCTION read_stream_for_blocks(regclass, int4[]) IS
'a read stream over these blocks in this order, one row a block';

--
-- Handles and batches
--

CREATE FUNCTION handle_get()
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

COMMENT ON FUNCTION handle_get() IS
'acquire an AIO handle';

CREATE FUNCTION handle_release_last()
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

COMMENT ON FUNCTION handle_release_last() IS
'release the AIO handle that handle_get() acquired last';

CREATE FUNCTION handle_get_and_error()
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

COMMENT ON FUNCTION handle_get_and_error() IS
'acquire an AIO handle and raise an error';

CREATE FUNCTION handle_get_twice()
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

COMMENT ON FUNCTION handle_get_twice() IS
'acquire two AIO handles at once, which the server refuses';

CREATE FUNCTION handle_get_release()
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

COMMENT ON FUNCTION handle_get_release() IS
'acquire an AIO handle and release it';

CREATE FUNCTION batch_start()
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

COMMENT ON FUNCTION batch_start() IS
'enter batch mode';

CREATE FUNCTION batch_end()
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

COMMENT ON FUNCTION batch_end() IS
'leave batch mode, submitting what is staged';

--
-- Faults; NULL matches all reads
--

CREATE FUNCTION inj_io_completion_wait(pid int DEFAULT NULL,
	relfilenode oid DEFAULT NULL,
	blockno int4 DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C CALLED ON NULL INPUT;

COMMENT ON FUNCTION inj_io_completion_wait(int, oid, int4) IS
'hold matching reads at their completion';

CREATE FUNCTION inj_io_completion_continue()
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

COMMENT ON FUNCTION inj_io_completion_continue() IS
'let held reads go on, and hold no more';

CREATE FUNCTION inj_io_short_read_attach(result int,
	pid int DEFAULT NULL,
	relfilenode oid DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C CALLED ON NULL INPUT;

COMMENT ON FUNCTION inj_io_short_read_attach(int, int, oid) IS
'let matching reads end with this number of bytes, or with this negative errno';

CREATE FUNCTION inj_io_short_read_detach()
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

COMMENT ON FUNCTION inj_io_short_read_detach() IS
'let reads end with their own results';

CREATE FUNCTION inj_io_reopen_attach()
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

COMMENT ON FUNCTION inj_io_reopen_attach() IS
'let I/O workers fail to reopen files';

CREATE FUNCTION inj_io_reopen_detach()
RETURNS void
AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

COMMENT ON FUNCTION inj_io_reopen_detach() IS
'let I/O workers reopen files';

--
-- Not for the public.  The functions ask for a superuser themselves, too.
--

REVOKE ALL ON FUNCTION errno_from_string(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION grow_rel(regclass, int) FROM PUBLIC;
REVOKE ALL ON FUNCTION modify_rel_block(regclass, int, bool, bool, bool) FROM PUBLIC;
REVOKE ALL ON FUNCTION evict_rel(regclass) FROM PUBLIC;
REVOKE ALL ON FUNCTION invalidate_rel_block(regclass, int) FROM PUBLIC;
REVOKE ALL ON FUNCTION buffer_create_toy(regclass, int4) FROM PUBLIC;
REVOKE ALL ON FUNCTION buffer_call_start_io(int, bool, bool) FROM PUBLIC;
REVOKE ALL ON FUNCTION buffer_call_terminate_io(int, bool, bool, bool, bool) FROM PUBLIC;
REVOKE ALL ON FUNCTION read_rel_block_ll(regclass, int, int, bool, bool, bool, bool, bool) FROM PUBLIC;
REVOKE ALL ON FUNCTION read_buffers(regclass, int4, int4) FROM PUBLIC;
REVOKE ALL ON FUNCTION read_stream_for_blocks(regclass, int4[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION handle_get() FROM PUBLIC;
REVOKE ALL ON FUNCTION handle_release_last() FROM PUBLIC;
REVOKE ALL ON FUNCTION handle_get_and_error() FROM PUBLIC;
REVOKE ALL ON FUNCTION handle_get_twice() FROM PUBLIC;
REVOKE ALL ON FUNCTION handle_get_release() FROM PUBLIC;
REVOKE ALL ON FUNCTION batch_start() FROM PUBLIC;
REVOKE ALL ON FUNCTION batch_end() FROM PUBLIC;
REVOKE ALL ON FUNCTION inj_io_completion_wait(int, oid, int4) FROM PUBLIC;
REVOKE ALL ON FUNCTION inj_io_completion_continue() FROM PUBLIC;
REVOKE ALL ON FUNCTION inj_io_short_read_attach(int, int, oid) FROM PUBLIC;
REVOKE ALL ON FUNCTION inj_io_short_read_detach() FROM PUBLIC;
REVOKE ALL ON FUNCTION inj_io_reopen_attach() FROM PUBLIC;
REVOKE ALL ON FUNCTION inj_io_reopen_detach() FROM PUBLIC;
