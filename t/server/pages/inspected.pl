# Functions that show what is on a page: a page of zeroes has nothing, and a page of another kind is no crash.
use TestAio;

for_each_io_method('sync', sub {
	$aio->scenario('pageinspect', with('alice', sub ($alice) {
		my %indexes = (btree => 'n', hash => 'n', gist => 'p', spgist => 'p', gin => 'a', brin => 'n');
		$aio->sql('CREATE TABLE scenario.t (n int, p point, a int[]) WITH (autovacuum_enabled = off); INSERT INTO scenario.t SELECT i, point(i, i), ARRAY[i] FROM generate_series(0, 1999) i');
		$aio->sql("CREATE INDEX $_ ON scenario.t USING $_ ($indexes{$_})") for sort keys %indexes;
		$aio->sql('VACUUM scenario.t');
		# calls a function, and returns how many rows are not NULL, or the error
		$aio->sql(<<'END');
CREATE FUNCTION scenario.try(call text, page bytea) RETURNS text LANGUAGE plpgsql AS $$
DECLARE found text;
BEGIN
	EXECUTE format('SELECT count(*) FROM %s r WHERE r IS NOT NULL', call) INTO found USING page;
	RETURN found;
EXCEPTION WHEN others THEN
	RETURN sqlstate;
END $$;
CREATE TABLE scenario.pages AS SELECT format('%s %s %s', c, fork, b) AS what, get_raw_page(c, fork, b) AS page
FROM unnest(ARRAY['t', 'btree', 'hash', 'gist', 'spgist', 'gin', 'brin']) r, concat('scenario.', r) c, unnest(ARRAY['main', 'fsm', 'vm']) fork,
	generate_series(0, least(3, pg_relation_size(c::regclass, fork) / 8192 - 1)) b;
CREATE TABLE scenario.calls AS SELECT proname AS name, format('%s($1%s)', proname, (
	SELECT string_agg(CASE a WHEN 'regclass'::regtype THEN format(', %L::regclass', 'scenario.' || CASE split_part(proname, '_', 1) WHEN 'heap' THEN 't' ELSE split_part(proname, '_', 1) END)
		WHEN 'boolean'::regtype THEN ', true' ELSE ', 0' END, '' ORDER BY i) FROM unnest(proargtypes[1:]::oid[]) WITH ORDINALITY x (a, i))) AS call
FROM pg_proc WHERE proargtypes[0] = 'bytea'::regtype AND pronamespace = 'public'::regnamespace AND prolang = (SELECT oid FROM pg_language WHERE lanname = 'c');
END
		cmp_ok($aio->sql('SELECT count(*) FROM scenario.calls'), '>=', 18, 'functions');
		# a page that hash indexes do not use yet has this type; others have none
		$aio->gives(q{SELECT string_agg(name || ' ' || found, ', ' ORDER BY name) FROM scenario.calls, scenario.try(call, decode(repeat('00', 8192), 'hex')) found WHERE found <> '0'},
			'hash_metapage_info 22023, hash_page_items 22023, hash_page_stats 22023, hash_page_type 1, page_header 1', 'a page of zeroes');
		$aio->gives(q{SELECT string_agg(DISTINCT found, ' ') FROM scenario.calls, scenario.pages, scenario.try(call, page) found WHERE found !~ '^\d+$|^22|^XX00[12]'}, '', 'pages of each kind');
	}));
}, needs => 'pageinspect');
