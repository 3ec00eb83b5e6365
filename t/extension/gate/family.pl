# Filters and traces of a table with its indexes, its TOAST table and its partitions.
use TestAio;

for_each_io_method('worker; long: all', sub {
	my $relations = "SELECT string_agg(DISTINCT relation::text, ' ' ORDER BY relation::text)";

	$aio->scenario('indexes and TOAST', with('alice', sub ($alice) {
		$aio->sql("CREATE TABLE scenario.f (i int PRIMARY KEY, t text STORAGE EXTERNAL); CREATE TABLE scenario.other (i int PRIMARY KEY);"
			  . " INSERT INTO scenario.f SELECT i, repeat('x', 3000) FROM generate_series(1, 20) i; INSERT INTO scenario.other VALUES (1)");
		my $toast = $aio->sql("SELECT reltoastrelid::regclass FROM pg_class WHERE oid = 'scenario.f'::regclass");
		my @files = ('scenario.f', 'scenario.f_pkey', $toast, "${toast}_index");
		my $evict = sub { $aio->sql('SELECT ' . join ', ', map { "evict_rel('$_')" } @files, 'scenario.other', 'scenario.other_pkey') };
		my $query = "SET enable_seqscan = off; SELECT sum(length(t)) FROM scenario.f WHERE i < 9";
		$alice->sql($query);
		$evict->();
		$aio->sql("SELECT io_trace_reset(), io_trace_start('scenario.f', family => true)");
		$aio->io_device('scenario.f', '1 ms', family => 'true');
		$alice->gives($query, 24000, 'reads');
		$alice->gives('SELECT i FROM scenario.other WHERE i = 1', 1, 'reads another');
		$aio->gives("$relations FROM io_trace", join(' ', sort @files), 'the trace has all of them');
		$aio->gives('SELECT relation, reads = (SELECT count(*) FROM io_trace), (SELECT relation FROM io_trace_status) FROM io_devices', 'scenario.f|t|scenario.f', 'so has the device');
		$aio->sql('SELECT io_trace_stop(), io_device_end()');
		for my $file (@files)
		{
			$evict->();
			$aio->sql("SELECT io_fail('scenario.f', -5, pid => ${\$alice->pid}, times => 1, family => true)");
			$alice->fails("SELECT read_rel_block_ll('$file', 0)", '58030', qr/could not read/, "$file fails");
			$aio->gives('SELECT relation, fired, io_fail_end() FROM io_filters', 'scenario.f|1|1');
		}
	}), log => qr/LOG:  could not read blocks/);

	$aio->scenario('partitions', with('alice', sub ($alice) {
		$aio->sql("CREATE TABLE scenario.p (i int) PARTITION BY RANGE (i); CREATE INDEX ON scenario.p (i);"
			  . " CREATE TABLE scenario.p1 PARTITION OF scenario.p FOR VALUES FROM (0) TO (10); CREATE TABLE scenario.p2 PARTITION OF scenario.p FOR VALUES FROM (10) TO (20);"
			  . ' INSERT INTO scenario.p SELECT generate_series(0, 19)');
		my @files = map { ("scenario.$_", "scenario.${_}_i_idx") } qw(p1 p2);
		$aio->sql('SELECT ' . join ', ', map { "evict_rel('$_')" } @files);
		$alice->fails("SELECT io_hold('scenario.p')", '42809', qr/has no storage/, 'has none itself');
		$aio->io_hold('scenario.p', family => 'true');
		my $matched = 0;
		for my $file (@files)
		{
			$matched++;
			$alice->waits("SELECT read_rel_block_ll('$file', 0)", 'IoGateHeld');
			$aio->gives('SELECT h.relation, f.relation, f.matched FROM io_held h, io_filters f', "$file|scenario.p|$matched");
			$aio->io_release_all;
			$alice->ends;
		}
		$aio->sql("SELECT io_hold_end(), io_trace_start('scenario.p', family => true), io_trace_stop()");
		$aio->gives('SELECT relation FROM io_trace_status', 'scenario.p');
	}));

	$aio->scenario('a temporary table', with('alice', sub ($alice) {
		$alice->sql("CREATE TEMP TABLE own AS SELECT i FROM generate_series(1, 9) i; CREATE INDEX own_i ON own (i); SELECT evict_rel('own'), evict_rel('own_i')");
		$alice->io_fail('own', -5, family => 'true');
		$alice->fails("SELECT read_rel_block_ll('$_', 0)", '58030', qr/could not read/, $_) for qw(own own_i);
		$alice->io_fail_end;
	}), log => qr/LOG:  could not read blocks/);

	$aio->scenario('bad input', with('alice', 2, sub ($alice, $t) {
		$alice->sql('CREATE TEMP VIEW v AS SELECT 1; CREATE TABLE scenario.many (i int) PARTITION BY RANGE (i)');
		$alice->fails("SELECT io_hold('v', family => true)", '42809', qr/has no storage/, 'a view');
		$alice->sql("DO \$\$ BEGIN FOR i IN 1..65 LOOP EXECUTE format('CREATE TABLE scenario.m%s PARTITION OF scenario.many FOR VALUES FROM (%s) TO (%s)', i, i, i + 1); END LOOP; END \$\$");
		$alice->fails("SELECT io_hold('scenario.many', family => true)", '54000', qr/more than 64 relations in the family/, 'too many');
		$alice->gives('SELECT count(*) FROM io_filters', 0, 'nothing is left');
	}));
}, leaves => 'nothing', needs => 'gate trace');
