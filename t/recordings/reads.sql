-- Reads and streams that SQL asks for, of shared and of temporary tables.
-- not replayed: writes blocks without WAL
CREATE TABLE t (n int, body text STORAGE PLAIN) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i, repeat('x', 1900) FROM generate_series(0, 799) i;
CREATE UNLOGGED TABLE u (n int) WITH (autovacuum_enabled = off);
INSERT INTO u SELECT generate_series(1, 2000);
VACUUM FREEZE t;
CHECKPOINT;
SELECT evict_rel('t');
-- StartReadBuffers()
SELECT blockoff, blocknum, io_reqd, foreign_io, nblocks FROM read_buffers('t', 0, 5);
SELECT blockoff, blocknum, io_reqd, foreign_io, nblocks FROM read_buffers('t', 2, 6);
SELECT blockoff, blocknum, io_reqd, foreign_io, nblocks FROM read_buffers('t', 10, 40);
SELECT blockoff, blocknum, io_reqd, foreign_io, nblocks FROM read_buffers('t', 5, 12);
SELECT invalidate_rel_block('t', 13), invalidate_rel_block('t', 15), invalidate_rel_block('t', 16);
SELECT blockoff, blocknum, io_reqd, foreign_io, nblocks FROM read_buffers('t', 11, 8);
SELECT blockoff, blocknum, io_reqd, foreign_io, nblocks FROM start_read_buffers('t', 100, 20);
SELECT blockoff, blocknum, io_reqd, foreign_io, nblocks FROM read_buffers('t', 110, 20);
SELECT read_rel_block_ll('t', 60);
SELECT read_rel_block_ll('t', 61, nblocks => 7);
SELECT read_rel_block_ll('t', 70, nblocks => 16, wait_complete => false);
SELECT read_rel_block_ll('t', 0, nblocks => 2, batchmode_enter => true, smgrreleaseall => true, batchmode_exit => true);
SELECT b, flags, usage_count FROM generate_series(58, 62) b, buffer_state('t', b);
-- streams
SELECT evict_rel('t');
SELECT count(*), sum(blocknum) FROM read_stream_for_blocks('t', ARRAY(SELECT generate_series(0, 199)));
SELECT count(*), sum(blocknum) FROM read_stream_for_blocks('t', ARRAY(SELECT generate_series(0, 199)));
SELECT evict_rel('t');
SELECT count(*), sum(blocknum) FROM read_stream_for_blocks('t', ARRAY(SELECT generate_series(199, 0, -1)));
SELECT evict_rel('t');
SELECT blockoff, blocknum FROM read_stream_for_blocks('t', ARRAY[0, 2, 3, 4, 4, 4, 9, 10, 5, 5, 6, 3, 2, 1, 0]);
SELECT evict_rel('t');
SELECT runs, blocks, hits, reads, read_bytes, waits FROM read_stream_run('t', ARRAY(SELECT i * 37 % 200 FROM generate_series(0, 199) i));
SELECT invalidate_rel_block('t', b) FROM generate_series(0, 199, 7) b;
SELECT runs, blocks, hits, reads, read_bytes, waits FROM read_stream_run('t', ARRAY(SELECT generate_series(0, 199)));
SELECT invalidate_rel_block('t', b) FROM generate_series(20, 60) b;
SELECT runs, blocks, hits, reads, read_bytes, waits FROM read_stream_run('t', ARRAY(SELECT generate_series(0, 199)), per_buffer_data => 12);
SELECT evict_rel('t');
SELECT runs, blocks, hits, reads, read_bytes, waits FROM read_stream_run('t', ARRAY(SELECT generate_series(0, 199)), sequential => true);
SELECT evict_rel('t');
SELECT runs, blocks, hits, reads, read_bytes, waits FROM read_stream_run('t', ARRAY(SELECT generate_series(0, 199)), "full" => true);
SELECT evict_rel('t');
SELECT runs, blocks, hits, reads, read_bytes, waits FROM read_stream_run('t', ARRAY(SELECT i * 3 % 200 FROM generate_series(0, 199) i), maintenance => true, use_batching => true);
SELECT evict_rel('t');
SELECT runs, blocks, hits, reads, read_bytes, waits FROM read_stream_run('t', ARRAY(SELECT generate_series(0, 199)), reset_at => ARRAY[20, 90, 91]);
SELECT evict_rel('t');
SELECT runs, blocks, hits, reads, read_bytes, waits FROM read_stream_run('t', ARRAY(SELECT generate_series(0, 199)), end_at => 50, nruns => 3);
SELECT evict_rel('t');
SELECT runs, blocks, hits, reads, read_bytes, waits FROM read_stream_run('t', ARRAY(SELECT generate_series(0, 199)), context => 'bulkread');
SELECT evict_rel('t');
SELECT runs, blocks, hits, reads, read_bytes, waits FROM read_stream_run('t', ARRAY(SELECT generate_series(0, 199)), context => 'vacuum', ring_size => 128);
SELECT runs, blocks, hits, reads, read_bytes, waits FROM read_stream_run('t', ARRAY(SELECT generate_series(0, 199)), context => 'vacuum', ring_size => 128);
SELECT evict_rel('t');
SELECT runs, blocks, hits, reads, read_bytes, waits FROM read_stream_run('t', ARRAY(SELECT generate_series(0, 199)), context => 'bulkwrite', ring_size => 256);
SELECT runs, blocks, hits, reads, read_bytes, waits FROM read_stream_run('t', ARRAY[0], fork => 'vm');
SELECT runs, blocks, hits, reads, read_bytes, waits FROM read_stream_run('t', ARRAY[0, 1, 2], fork => 'fsm');
SELECT runs, blocks, hits, reads, read_bytes, waits FROM read_stream_run('t', '{}');
-- a stream that is reset or ended while a read that was cut short waits for its turn
SET effective_io_concurrency = 1;
SELECT k, (read_stream_run('t', ARRAY(SELECT generate_series(0, 63)), reset_at => ARRAY[k + length(cold)])).hits
FROM generate_series(1, 50, 3) k, LATERAL (SELECT concat(evict_rel('t'), read_rel_block_ll('t', 20), read_rel_block_ll('t', 40), left(k::text, 0)) AS cold) e;
SELECT k, (read_stream_run('t', ARRAY(SELECT generate_series(0, 63)), end_at => k + length(cold))).hits
FROM generate_series(1, 50, 3) k, LATERAL (SELECT concat(evict_rel('t'), read_rel_block_ll('t', 20), read_rel_block_ll('t', 40), left(k::text, 0)) AS cold) e;
RESET effective_io_concurrency;
-- other sizes of reads
SET io_combine_limit = 3;
SELECT evict_rel('t');
SELECT runs, blocks, hits, reads, read_bytes, waits FROM read_stream_run('t', ARRAY(SELECT generate_series(0, 199)));
SET effective_io_concurrency = 1000;
SET io_combine_limit = 16;
SELECT evict_rel('t');
SELECT runs, blocks, hits, reads, read_bytes, waits FROM read_stream_run('t', ARRAY(SELECT i * 37 % 200 FROM generate_series(0, 199) i));
RESET effective_io_concurrency;
RESET io_combine_limit;
-- blocks that were never written, and blocks behind the end
SELECT grow_rel('u', 4);
SELECT evict_rel('u');
SELECT blockoff, blocknum, io_reqd, nblocks FROM read_buffers('u', 6, 7);
SELECT read_rel_block_ll('u', 1000);
SELECT count(*) FROM u;
-- temporary tables
CREATE TEMP TABLE own (n int, body text STORAGE PLAIN);
INSERT INTO own SELECT i, repeat('y', 1900) FROM generate_series(0, 399) i;
SELECT evict_rel('own');
SELECT blockoff, blocknum, io_reqd, foreign_io, nblocks FROM read_buffers('own', 0, 5);
SELECT blockoff, blocknum, io_reqd, foreign_io, nblocks FROM read_buffers('own', 2, 30);
SELECT runs, blocks, hits, reads, read_bytes, waits FROM read_stream_run('own', ARRAY(SELECT generate_series(0, 99)));
SELECT invalidate_rel_block('own', 9), invalidate_rel_block('own', 11);
SELECT blockoff, blocknum, io_reqd, foreign_io, nblocks FROM read_buffers('own', 7, 8);
SELECT evict_rel('own');
SELECT runs, blocks, hits, reads, read_bytes, waits FROM read_stream_run('own', ARRAY[3, 4, 4, 5, 3, 90, 91, 92, 1, 1]);
SELECT evict_rel('own');
SELECT count(*), sum(n) FROM own;
