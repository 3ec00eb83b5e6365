--
-- A user who may create objects in the extension's schema cannot make the
-- extension's views and SQL functions call them.  The library calls nothing by its name.
--
\set ECHO none
\pset format unaligned
\pset tuples_only

-- all in one transaction: the extension moves to another schema for this test
BEGIN;
CREATE VIEW search_path_members AS
SELECT classid, objid FROM pg_depend
WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
	AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'test_aio');

-- the queries of the extension's views and SQL functions
CREATE VIEW search_path_queries AS
SELECT 'pg_rewrite'::regclass AS classid, r.oid AS objid, ev_class::regclass::text AS of_object, ev_action::text AS query
FROM search_path_members m JOIN pg_rewrite r ON m.classid = 'pg_class'::regclass AND m.objid = r.ev_class
UNION ALL
SELECT 'pg_proc', p.oid, p.oid::regprocedure::text, prosqlbody::text
FROM search_path_members m JOIN pg_proc p ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid
WHERE prosqlbody IS NOT NULL;
\echo the views and SQL functions that have queries:
SELECT of_object FROM search_path_queries ORDER BY of_object COLLATE "C";

-- what these queries refer to, by the OIDs in their trees, since pg_depend does not list pinned objects
CREATE VIEW search_path_references AS
SELECT DISTINCT of_object, CASE found[1] WHEN 'opno' THEN 'pg_operator'::regclass WHEN 'eqop' THEN 'pg_operator'
		WHEN 'sortop' THEN 'pg_operator' WHEN 'relid' THEN 'pg_class' ELSE 'pg_proc' END AS classid, found[2]::oid AS objid
FROM search_path_queries, regexp_matches(query, ':(opno|opfuncid|funcid|aggfnoid|winfnoid|eqop|sortop|relid) (\d+)', 'g') found
WHERE found[2] <> '0';

-- their names, those of the extension's own functions, and those that its script uses beside
CREATE TABLE search_path_names AS
SELECT DISTINCT CASE prokind WHEN 'a' THEN 'aggregate' ELSE 'function' END AS kind, proname AS name, pronargs AS nargs,
	CASE WHEN prorettype::regtype::text LIKE 'any%' OR prorettype = 'internal'::regtype THEN 'text' ELSE prorettype::regtype::text END AS result
FROM pg_proc WHERE pronargs BETWEEN 1 AND 3 AND (prokind <> 'a' OR pronargs = 1) AND oid IN (
	SELECT objid FROM search_path_references WHERE classid = 'pg_proc'::regclass UNION ALL
	SELECT objid FROM search_path_members WHERE classid = 'pg_proc'::regclass)
UNION
SELECT 'operator', oprname, 2, CASE WHEN oprname IN ('=', '<>', '<', '>', '<=', '>=') THEN 'bool' ELSE 'same' END
FROM pg_operator WHERE oid IN (SELECT objid FROM search_path_references WHERE classid = 'pg_operator'::regclass)
UNION
SELECT 'operator', name, 2, 'bool' FROM unnest(ARRAY['=', '<>', '<', '>', '<=', '>=', '~~']) name
UNION
SELECT 'operator', name, 2, 'same' FROM unnest(ARRAY['+', '-', '*', '/', '%', '||']) name
UNION
SELECT 'function', name, nargs, 'text' FROM unnest(ARRAY['format', 'quote_ident', 'concat']) name, generate_series(1, 2) nargs
UNION
SELECT DISTINCT 'type', t, 0, '' FROM unnest(ARRAY['int2', 'int4', 'int8', 'oid', 'text', 'name', 'bool', 'float8',
	'interval', 'timestamptz', 'regclass', 'regprocedure', 'record', 'internal']) t
UNION
SELECT 'table', t, 0, '' FROM unnest(ARRAY['pg_database', 'pg_depend', 'pg_extension', 'pg_proc', 'pg_class']) t;
CREATE TABLE search_path_signatures AS
SELECT p.proname AS name, proargtypes::text AS arguments
FROM search_path_members m JOIN pg_proc p ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid;
GRANT SELECT ON search_path_names, search_path_signatures TO PUBLIC;
DROP EXTENSION test_aio;

-- plant overloads of all these names
CREATE ROLE regress_test_aio_planter;
CREATE SCHEMA search_path_planted AUTHORIZATION regress_test_aio_planter;
SET LOCAL ROLE regress_test_aio_planter;
SET LOCAL check_function_bodies = off;
DO $$
DECLARE
	body text := 'LANGUAGE plpgsql AS ''BEGIN RAISE EXCEPTION $m$planted$m$; END''';
	types text[] := '{int2,int4,int8,oid,text,name,float8,numeric,timestamptz,interval,bool,regclass,int4[],int8[],anyelement}';
	few text[] := '{int4,int8,oid,text,regclass,anyelement}';
	n record;
	a text;
	b text;
	c text;
	planted int := 0;
BEGIN
	-- operators of one pair of types share their functions
	FOREACH a IN ARRAY types LOOP
		EXECUTE format('CREATE FUNCTION search_path_planted.step(state text, value %s) RETURNS text %s', a, body);
		FOREACH b IN ARRAY types LOOP
			EXECUTE format('CREATE FUNCTION search_path_planted.op_bool(l %s, r %s) RETURNS bool %s', a, b, body);
			EXECUTE format('CREATE FUNCTION search_path_planted.op_same(l %s, r %s) RETURNS %s %s', a, b, a, body);
		END LOOP;
	END LOOP;

	FOR n IN SELECT * FROM public.search_path_names LOOP
		IF n.kind = 'type' THEN
			EXECUTE format('CREATE DOMAIN search_path_planted.%I AS pg_catalog.text', n.name);
		ELSIF n.kind = 'table' THEN
			EXECUTE format('CREATE TABLE search_path_planted.%I ()', n.name);
		ELSIF n.kind = 'operator' THEN
			FOREACH a IN ARRAY types LOOP
				FOREACH b IN ARRAY types LOOP
					CONTINUE WHEN to_regoperator(format('search_path_planted.%s(%s,%s)', n.name, a, b)) IS NOT NULL;
					EXECUTE format('CREATE OPERATOR search_path_planted.%s (FUNCTION = search_path_planted.op_%s, LEFTARG = %s, RIGHTARG = %s)',
						n.name, n.result, a, b);
					planted := planted + 1;
				END LOOP;
			END LOOP;
		ELSE
			FOREACH a IN ARRAY CASE n.nargs WHEN 3 THEN few ELSE types END LOOP
				FOREACH b IN ARRAY CASE n.nargs WHEN 3 THEN few WHEN 2 THEN types ELSE '{""}' END LOOP
					FOREACH c IN ARRAY CASE n.nargs WHEN 3 THEN few ELSE '{""}' END LOOP
						DECLARE
							arguments text := array_to_string(array_remove(ARRAY[a, b, c], ''), ', ');
						BEGIN
							-- not in the place of the extension's own
							CONTINUE WHEN EXISTS (SELECT FROM public.search_path_signatures s WHERE s.name = n.name
								AND s.arguments = (SELECT string_agg(t::regtype::oid::text, ' ' ORDER BY place) FROM unnest(ARRAY[a, b, c]) WITH ORDINALITY u(t, place) WHERE t <> ''));
							CONTINUE WHEN to_regprocedure(format('search_path_planted.%I(%s)', n.name, arguments)) IS NOT NULL;
							IF n.kind = 'aggregate' THEN
								EXECUTE format('CREATE AGGREGATE search_path_planted.%I(%s) (SFUNC = search_path_planted.step, STYPE = text)', n.name, arguments);
							ELSE
								EXECUTE format('CREATE FUNCTION search_path_planted.%I(%s) RETURNS %s %s', n.name, arguments, n.result, body);
							END IF;
							planted := planted + 1;
						END;
					END LOOP;
				END LOOP;
			END LOOP;
		END IF;
	END LOOP;
	ASSERT planted > 1000, 'nothing has been planted';
END $$;
RESET ROLE;
CREATE EXTENSION test_aio SCHEMA search_path_planted;
\set ECHO all

-- the queries refer to no object but the extension's own and the server's
SELECT of_object, pg_describe_object(refclassid, refobjid, refobjsubid) AS refers_to
FROM search_path_queries q JOIN pg_depend d USING (classid, objid)
WHERE d.deptype <> 'e' AND refclassid <> 'pg_namespace'::regclass
	AND (refclassid, refobjid) NOT IN (SELECT classid, objid FROM search_path_members)
ORDER BY 1, 2;
SELECT of_object, pg_describe_object(classid, objid, 0) AS refers_to
FROM search_path_references
WHERE objid >= 16384 AND (classid, objid) NOT IN (SELECT classid, objid FROM search_path_members)
ORDER BY 1, 2;
-- and there are such references
SELECT count(DISTINCT of_object) FROM search_path_references WHERE classid = 'pg_proc'::regclass;
SELECT count(DISTINCT of_object) FROM search_path_references WHERE classid = 'pg_operator'::regclass;

ROLLBACK;
