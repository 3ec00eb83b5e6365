# Copyright (c) 2026, PostgreSQL Global Development Group

# A fast shutdown ends a server that has begun to restart after the crash of a
# backend, but not to replay WAL.

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
# the startup process takes a while to flush these files
$node->append_conf('postgresql.conf',
	"fsync = on\nrecovery_init_sync_method = fsync\nrestart_after_crash = on");
my $directory = $node->data_dir . '/many_files';
mkdir $directory;
append_to_file("$directory/$_", '') for (1 .. 50000);
$node->start;

my $session = $node->background_psql('postgres', on_error_stop => 0);
my $pid = $session->query_safe('SELECT pg_backend_pid()');
my $offset = -s $node->logfile;
kill 'KILL', $pid;
$node->wait_for_log(qr/database system was interrupted/, $offset);

my @stop = ('pg_ctl', 'stop', '--pgdata' => $node->data_dir, '--mode');
my $stops = command_ok([ @stop, 'fast' ], 'the server stops');
system_log(@stop, 'immediate') if !$stops;
$node->{_pid} = undef;
$session->{run}->kill_kill;
done_testing();
