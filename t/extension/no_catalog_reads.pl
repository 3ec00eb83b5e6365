# A call reads no catalog to find out whether it may run: the read could be held, perhaps by what
# the call is about to end.
#
# io_methods: worker; long: all
use FindBin; use lib "$FindBin::RealBin/..";
use TestAio;

my @calls = ("errno_from_string('EIO')", 'handle_get_release()', 'inj_io_completion_continue()', 'io_release_all()', 'io_trace_stop()', 'count(*) FROM io_held_get()');

for_each_io_method(sub {
	$aio->scenario('the extension is looked up', sub {
		my ($alice) = $aio->sessions('alice');
		for my $call (@calls)
		{
		  SKIP: {
				my $needs = $call =~ /inj_/ ? $aio->no_faults : $call =~ /io_(?:release|held)/ ? $aio->lacks('gate') : $call =~ /trace/ ? $aio->lacks('trace') : undef;
				skip "$call: $needs", 1 if $needs;
				$alice->sql("PREPARE p AS SELECT $call");
				$alice->sql('EXECUTE p');
				# drops what sessions have of it in their caches
				$aio->sql("UPDATE pg_extension SET extversion = extversion WHERE extname = 'test_aio'");
				$aio->sql('CHECKPOINT');
				$aio->sql("SELECT evict_rel('pg_extension'), evict_rel('pg_extension_name_index'), evict_rel('pg_extension_oid_index')");
				$alice->sql('EXECUTE p');
				$aio->gives("SELECT count(*) FROM buffers_in_file(pg_relation_filenode('pg_extension'))", 0, $call);
				$alice->sql('DEALLOCATE p');
			}
		}
	});
}, leaves => 'nothing');
