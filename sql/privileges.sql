--
-- Privileges: who may call which functions and read which views
--
\set ECHO none
\pset format unaligned
\pset tuples_only

CREATE ROLE regress_test_aio_super SUPERUSER;
CREATE ROLE regress_test_aio_stats IN ROLE pg_read_all_stats;
CREATE ROLE regress_test_aio_monitor IN ROLE pg_monitor;
CREATE ROLE regress_test_aio_user;
-- everything has been granted to these
CREATE ROLE regress_test_aio_granted;
CREATE ROLE regress_test_aio_granted_stats IN ROLE pg_read_all_stats;
-- a member that does not have the privileges
CREATE ROLE regress_test_aio_noinherit;
GRANT pg_read_all_stats TO regress_test_aio_noinherit WITH INHERIT FALSE;

-- every function and view, and how to call it: zeros name no relation, process or buffer;
-- functions with internal arguments cannot be called
CREATE TABLE privileges_objects AS
SELECT 'function' AS kind, p.oid::regprocedure::text AS object, proname AS name,
	format('SELECT %I.%I(%s)', nspname, proname, (
		SELECT string_agg(CASE WHEN typcategory = 'A' THEN '''{}''' ELSE '''0''' END || '::' || typname, ', ' ORDER BY place)
		FROM unnest(proargtypes) WITH ORDINALITY argument(type, place) JOIN pg_type t ON t.oid = type)) AS call,
	format('GRANT EXECUTE ON FUNCTION %s TO regress_test_aio_granted, regress_test_aio_granted_stats', p.oid::regprocedure) AS give
FROM pg_depend d JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid JOIN pg_namespace n ON n.oid = pronamespace
WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
	AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'test_aio')
	AND 'internal'::regtype <> ALL (proargtypes)
UNION ALL
SELECT 'view', c.oid::regclass::text, relname, format('SELECT * FROM %s', c.oid::regclass),
	format('GRANT ALL ON %s TO regress_test_aio_granted, regress_test_aio_granted_stats', c.oid::regclass)
FROM pg_depend d JOIN pg_class c ON d.classid = 'pg_class'::regclass AND d.objid = c.oid
WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
	AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'test_aio');
\echo are there many?
SELECT kind, count(*) > 5 AS many FROM privileges_objects GROUP BY kind ORDER BY kind;

DO $$
DECLARE
	command text;
BEGIN
	FOR command IN SELECT give FROM privileges_objects LOOP
		EXECUTE command;
	END LOOP;
END $$;

-- as a role; whatever the call does is rolled back, where that is possible
CREATE FUNCTION attempt(role name, query text, OUT state text, OUT message text, OUT detail text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('SET LOCAL ROLE %I', role);
	EXECUTE query;
	RAISE EXCEPTION 'succeeds';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	state := SQLSTATE;
	message := SQLERRM;
END $$;
SET client_min_messages = error;
CREATE TABLE privileges_outcomes AS
SELECT replace(rolname, 'regress_test_aio_', '') AS role, kind, object, name, outcome.*
FROM (SELECT * FROM privileges_objects, pg_roles WHERE rolname ~ '^regress_test_aio_' ORDER BY rolname, kind, object) calls,
	attempt(rolname, call) outcome;
RESET client_min_messages;
\set ECHO all

-- A superuser may do everything.
SELECT object, state, message FROM privileges_outcomes WHERE role = 'super' AND state = '42501';
-- Others may do this.  Where there is no gate, they are allowed to be told so.
SELECT kind, object, string_agg(role, ', ' ORDER BY role COLLATE "C") AS allowed
FROM privileges_outcomes WHERE role <> 'super' AND state <> '42501'
GROUP BY kind, object ORDER BY kind, object COLLATE "C";
-- Why they may do nothing else: it has not been granted, or the functions say no.
SELECT kind, regexp_replace(message, '(function|aggregate|view) io_\w+$|function \w+$', 'X') AS message, detail,
	string_agg(DISTINCT role, ', ' ORDER BY role) AS refused
FROM privileges_outcomes WHERE state = '42501' GROUP BY 1, 2, 3 ORDER BY kind, message;
-- and with their own names
SELECT role, object, message FROM privileges_outcomes
WHERE kind = 'function' AND state = '42501' AND message !~ (name || '$');

-- only superusers can create the extension, or drop it
SELECT superuser, trusted FROM pg_available_extension_versions WHERE name = 'test_aio';
CREATE SCHEMA privileges_schema AUTHORIZATION regress_test_aio_user;
SELECT state, message FROM attempt('regress_test_aio_user', 'DROP EXTENSION test_aio');
BEGIN;
DROP EXTENSION test_aio;
SELECT state, message FROM attempt('regress_test_aio_user', 'CREATE EXTENSION test_aio SCHEMA privileges_schema');
ROLLBACK;

DROP FUNCTION attempt;
DROP TABLE privileges_objects, privileges_outcomes;
DROP OWNED BY regress_test_aio_user, regress_test_aio_granted, regress_test_aio_granted_stats;
DROP ROLE regress_test_aio_super, regress_test_aio_stats, regress_test_aio_monitor, regress_test_aio_user,
	regress_test_aio_granted, regress_test_aio_granted_stats, regress_test_aio_noinherit;
