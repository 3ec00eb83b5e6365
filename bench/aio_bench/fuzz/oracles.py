"""What is judged when all is quiet, without a stored answer."""

import re
from functools import partial
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import psycopg

from ..project import wait_for
from .configuration import SHARED
from .model import COLUMNS, OBSERVER, TERM, checksum, describe_difference
from .script import OWNERS

if TYPE_CHECKING:
    from .driver import Driver

#: ways to read a table that must all give the same rows
PLANS = {
    "sequential": "enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; SET max_parallel_workers_per_gather = 0",
    "index": "enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off; SET max_parallel_workers_per_gather = 0",
    "index only": "enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = on; SET max_parallel_workers_per_gather = 0",
    "bitmap": "enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off; SET work_mem = '64kB'",
    "parallel": "enable_seqscan = on; SET enable_indexscan = off; SET max_parallel_workers_per_gather = 2; SET enable_bitmapscan = off; SET effective_io_concurrency = 3; SET io_combine_limit = 5",
}
UNNAMED = ("SELECT a.backend_type, a.wait_event_type, a.wait_event FROM pg_stat_activity a WHERE a.wait_event IS NOT NULL AND wait_event_type NOT IN ('Extension', 'InjectionPoint') AND wait_event NOT LIKE 'test\\_aio%'"
                       " AND NOT EXISTS (SELECT FROM pg_wait_events w WHERE w.type = a.wait_event_type AND w.name = a.wait_event)")
#: processes that are always there, where there are any
SERVANTS = "('io worker', 'checkpointer', 'background writer', 'walwriter', 'walsummarizer', 'autovacuum launcher', 'logical replication launcher')"
LOG = re.compile(r"PANIC|TRAP|terminated by signal|FATAL|ERROR|WARNING|could not")
#: of the log, mostly after a fault or a crash that was asked for
EXPECTED_LOG = re.compile("terminating|shutting down|starting up|in recovery mode|could not send data to client|canceling|connection to client lost|not yet accepting|recovery mode|aborting any|"
                          "could not receive data from client|must specify .restore_command|startup process|could not open directory|useless files|not currently accepting connections|database .* does not exist|invalid database|parallel worker|due to administrator|could not write to the|could not connect to the primary|could not send end-of-streaming|unexpected directory entry|WAL stream|walreceiver|replication|deadlock|conflicts? with|archive|cached plan|data checksums|io_min_workers")


def look(driver: "Driver") -> None:
    driver.looks += 1
    for check in (log, checksums, rows, indexes, leftovers, processes, logged, synced, standby, log):
        check(driver)


def log(driver: "Driver") -> None:
    for line in driver.cluster.new_log_lines():
        pid, kind, state, text = ([*line.split("|", 3), "", "", ""])[:4]
        # an assertion's line has no prefix
        if not LOG.search(text or line):
            continue
        driver.lacks_workers |= "could not start background worker" in text
        if driver.killed and re.search("signal 9|signal 15", line):
            continue
        if re.search("PANIC|TRAP|was terminated by signal", line):
            driver.fail(f"log: {line}")
        if kind in ("client backend", "parallel worker", "") or EXPECTED_LOG.search(text) or driver.failing or driver.full or driver.spoiled:
            # its client has judged it, or a fault explains it
            continue
        driver.fail(f"log: {line}")


def checksums(driver: "Driver") -> None:
    """They are as they were, or as they were switched, unless something has gone wrong meanwhile."""
    [(state,)] = driver.ask("SHOW data_checksums")
    excused = driver.switched and (driver.killed or driver.failing or driver.spoiled or driver.full or driver.lacks_workers or driver.ask("SELECT 1 FROM pg_database WHERE datconnlimit = -2"))
    if state != driver.checksums and not excused:
        driver.fail(f"data_checksums is {state}, not {driver.checksums}")
    driver.checksums = state


def rows(driver: "Driver", session: Any = None) -> None:
    """Each table has the rows of the model, whatever the plan, in the cache and after eviction, also on the standby."""
    evict = driver.killed
    gone = driver.unlogged() if session else set()
    session = session or driver.observer()
    first = driver.script.seed % len(PLANS) + 2 * driver.looks
    for at, table in enumerate(sorted({*SHARED, *(f"own{number}" for number in range(OWNERS))} - gone)):
        expected = {row: version for owner in driver.owners for row, version in owner.now.get(table, {}).items()}
        wanted = (*checksum(expected), 0)
        # by each plan in some run
        for plan, settings in islice(cycle(PLANS.items()), first + at, first + at + 2):
            columns = f"count(*), coalesce(sum({TERM}), 0)" if plan == "index only" else COLUMNS
            if evict and "parts" not in table:
                session.execute(f"SELECT pg_buffercache_evict_relation('{table}')")
            evict = not evict
            session.execute(f"SET {settings}")
            [found] = session.execute(f"SELECT {columns} FROM {table} WHERE id >= 0").fetchall()
            session.execute(OBSERVER)
            if tuple(map(int, found)) != wanted[:len(found)]:
                actual = dict(session.execute(f"SELECT id, v FROM {table} WHERE id >= 0").fetchall())
                driver.fail(f"{table}{' of the standby' if gone else ''} by {plan} scan: {tuple(map(int, found))}, not {wanted}: {describe_difference(expected, actual)}")


def indexes(driver: "Driver", standby: Any = None) -> None:
    """Indexes agree with heaps, heaps with themselves, and the visibility map with both; also on the standby."""
    session = standby or driver.observer()

    def ask(sql: str) -> list[tuple[Any, ...]]:
        return session.execute(sql).fetchall()

    # waits for VACUUM
    ask("SELECT set_config('lock_timeout', '10s', false)")
    btree, gin = ("bt_index_parent_check('{}', true, true)", "gin_index_check('{}')") if standby is None else ("bt_index_check('{}', true)", "")
    for name, am in ask("SELECT c.oid::regclass, amname FROM pg_index i JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam"
                        " WHERE relkind = 'i' AND indisvalid AND relpersistence <> 't' AND relnamespace = 'public'::regnamespace"):
        if check := {"btree": btree, "gin": gin}.get(am):
            ask(f"SELECT {check.format(name)}")
    for name, kept in ask("SELECT oid::regclass, relpersistence FROM pg_class WHERE relkind IN ('r', 't', 'm') AND relpersistence <> 't' AND (relnamespace = 'public'::regnamespace"
                       " OR oid IN (SELECT reltoastrelid FROM pg_class WHERE relnamespace = 'public'::regnamespace))"):
        # a standby has no files of unlogged tables
        for check in ("verify_heapam('{}', check_toast => true)", "pg_check_frozen('{}')", "pg_check_visible('{}')")[:1 if standby and kept == "u" else 3]:
            if found := ask(f"SELECT * FROM {check.format(name)}"):
                driver.fail(f"{check.format(name)}{' on the standby' if standby else ''}: {found[:3]}")
    if found := ask("SELECT oid::regclass FROM pg_class c WHERE NOT relhasindex AND EXISTS (SELECT FROM pg_index WHERE indrelid = c.oid)"):
        driver.fail(f"tables that do not know their indexes: {found[:3]}")
    ask("SELECT set_config('lock_timeout', '300ms', false)")


def standby(driver: "Driver") -> None:
    """A standby has all rows as soon as it has replayed them."""
    if there := driver.cluster.standby:
        there.forget()
        [(flushed,)] = driver.ask("SELECT pg_current_wal_flush_lsn()::text")
        if not wait_for(lambda: there.session.execute(f"SELECT pg_last_wal_replay_lsn() >= '{flushed}'").fetchall()[0][0], 30, 0.02):
            driver.fail(f"the standby does not replay up to {flushed}: {there.session.execute('SELECT pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()').fetchall()}")
        if not wait_for(partial(can_be_read, driver, there), 30):
            driver.fail("the standby cannot be read for 30 s")
        # what replay has not extended, it may extend later; VACUUM goes on
        larger = partial(larger_than, driver, there)
        # a crash takes blocks from the primary that were extended without WAL
        if not driver.has_crashed and not wait_for(lambda: not larger(), 10):
            driver.fail(f"larger on the standby than on the primary: {larger()}")
        # the end of a transaction that is rolled back may be flushed later
        locks = partial(there.session.execute, "SELECT l FROM pg_locks l WHERE mode = 'AccessExclusiveLock'")
        if not wait_for(lambda: not locks().fetchall(), 10):
            driver.fail(f"locks are left on the standby: {locks().fetchall()}")


#: of the main fork and of the visibility map
SIZES = ("SELECT oid::regclass::text, coalesce(pg_relation_size(oid), 0), coalesce(pg_relation_size(oid, 'vm'), 0) FROM pg_class WHERE relkind IN ('r', 't', 'm', 'i') AND relpersistence = 'p'"
         " AND relnamespace IN ('public'::regnamespace, 'pg_toast'::regnamespace)")


def larger_than(driver: "Driver", there: Any) -> list[tuple[Any, ...]]:
    here = {name: sizes for name, *sizes in driver.ask(SIZES)}
    try:
        sizes_there = there.session.execute(SIZES).fetchall()
    except (psycopg.errors.SerializationFailure, psycopg.errors.LockNotAvailable) as error:
        # not yet
        there.forget()
        return [(str(error),)]
    return [(name, sizes, here[name]) for name, *sizes in sizes_there if name in here and any(there > here for there, here in zip(sizes, here[name], strict=True))]


def can_be_read(driver: "Driver", there: Any) -> bool:
    try:
        rows(driver, there.session)
        indexes(driver, there.session)
    except (psycopg.errors.SerializationFailure, psycopg.errors.LockNotAvailable):
        # VACUUM goes on
        there.forget()
        return False
    return True


def leftovers(driver: "Driver") -> None:
    """Nothing is left when nothing happens: pins, handles, I/O in progress, temporary files, held reads."""
    questions = {
        "pinned buffers": "SELECT relfilenode, relblocknumber, pinning_backends FROM pg_buffercache WHERE pinning_backends > 0"
                          " AND NOT EXISTS (SELECT FROM pg_aios WHERE state = 'SUBMITTED')",
        # with io_uring nobody completes a read that nobody waits for
        "handles in use": f"SELECT * FROM pg_aios WHERE state NOT IN ('COMPLETED_SHARED', '{'SUBMITTED' if driver.script.method == 'io_uring' else ''}') AND pid IN (SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid())",
        "held reads": "SELECT * FROM io_held",
        "temporary files": "SELECT * FROM pg_ls_tmpdir()",
        "locks of extensions": "SELECT l FROM pg_locks l JOIN pg_stat_activity USING (pid) WHERE locktype = 'extend' AND state ~ '^idle'",
    }
    # a crash leaves those of relations whose transaction has not ended; others do not know those of new relations
    if not driver.has_crashed:
        questions["buffers of dropped relations"] = (
            "SELECT relfilenode, relforknumber, relblocknumber FROM pg_buffercache WHERE reldatabase = (SELECT oid FROM pg_database WHERE datname = current_database())"
            " AND relfilenode NOT IN (SELECT pg_relation_filenode(oid) FROM pg_class WHERE relfilenode > 0 OR relkind IN ('r', 'i', 't'))"
            " AND NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()) AND NOT EXISTS (SELECT FROM pg_prepared_xacts)")
    for what, question in questions.items():
        if not wait_for(partial(lambda question: not driver.ask(question), question), 8, 0.02):
            driver.fail(f"{what} are left: {driver.ask(question)[:5]}")


def processes(driver: "Driver") -> None:
    """The same processes as before, with their titles, and waits that have names."""
    if driver.killed and not wait_for(lambda: driver.titles_before <= driver.processes(), 8, 0.05):
        driver.fail(f"processes that do not come back: {driver.titles_before - driver.processes()}")
    if wrong := driver.ask(UNNAMED):
        driver.fail(f"waits without a name: {wrong}")
    # by its number of a process, its title
    for kind, title in driver.ask(f"SELECT backend_type, encode(pg_read_binary_file('/proc/' || pid || '/cmdline', 0, 4000, true), 'escape') FROM pg_stat_activity WHERE backend_type IN {SERVANTS}"):
        if title is not None and (not title.startswith(f"postgres: {kind}") or title.count(kind) > 1):
            driver.fail(f"the title of a process of type {kind} is {title[:60]!r}")
    if missing := driver.ask("SELECT DISTINCT backend_type FROM pg_stat_activity WHERE backend_type NOT IN ('logical replication launcher', 'test_aio gate', 'parallel worker', 'archiver', 'logger')"
                             " AND backend_type NOT LIKE 'autoprewarm%' EXCEPT SELECT backend_type FROM pg_stat_io"):
        driver.fail(f"processes without rows in pg_stat_io: {missing}")
    if wrong := driver.ask("SELECT DISTINCT backend_type, object FROM pg_stat_io WHERE object = 'wal' AND reads IS NOT NULL AND backend_type ~ 'autovacuum|writer|receiver'"
                           " OR object <> 'wal' AND backend_type IN ('walwriter', 'walsummarizer', 'walreceiver')"):
        driver.fail(f"pg_stat_io has rows of what processes do not do: {wrong}")


#: again and again, for what a view shows lasts for microseconds
WATCH = """DO $$ DECLARE found text; BEGIN FOR i IN 1..30 LOOP
SELECT string_agg(a::text, ' ') INTO found FROM pg_aios a WHERE operation NOT IN ('invalid', 'readv', 'writev') OR target NOT IN ('invalid', 'smgr');
IF found IS NOT NULL THEN RAISE 'pg_aios: %', found; END IF; {}
END LOOP; END $$"""


def watch(driver: "Driver") -> None:
    """Views of what is going on, while it goes on: they have the names that the manual has, and reading them does no harm."""
    driver.ask(WATCH.format(f"SELECT string_agg(u::text, ' ') INTO found FROM ({UNNAMED}) u; IF found IS NOT NULL THEN RAISE 'waits without a name: %', found; END IF;"))


def logged(driver: "Driver") -> None:
    """The WAL since the last checkpoint has no blocks of unlogged relations, but for init forks."""
    blocks = ("SELECT c.oid::regclass, b.relforknumber, b.record_type, b.start_lsn FROM pg_control_checkpoint() k, pg_get_wal_block_info(k.redo_lsn, pg_current_wal_flush_lsn(), false) b"
              " JOIN pg_class c ON pg_relation_filenode(c.oid) = b.relfilenode WHERE relpersistence = 'u' AND b.relforknumber <> 3 AND b.reldatabase = (SELECT oid FROM pg_database WHERE datname = current_database()) LIMIT 5")
    try:
        found = driver.ask(blocks)
    except psycopg.errors.UndefinedFile:
        # a checkpoint has removed the file meanwhile
        found = driver.ask(blocks)
    if found:
        driver.fail(f"WAL of unlogged relations: {found}")


def synced(driver: "Driver") -> None:
    """A checkpoint syncs each file that was written before it began."""
    below = driver.cluster.below
    if below and driver.script.settings.get("fsync", "on") == "on":
        until = below.last()
        driver.ask("CHECKPOINT")
        # CREATE DATABASE that fails may leave files (doc/reports.md), and so does DROP DATABASE that is interrupted
        databases = {"global", *(str(row[0]) for row in driver.ask("SELECT oid FROM pg_database WHERE datconnlimit <> -2"))}
        if files := [str(path.relative_to(driver.cluster.data)) for path, _ in below.unsynced(databases, until)]:
            driver.fail(f"files that the checkpoint has not synced: {files[:5]}")


