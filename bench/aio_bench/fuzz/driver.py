"""Runs a script: sends statements to sessions, follows the model, and looks at each answer."""

import copy
import re
import select
import time
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any

import psycopg
from psycopg import pq

from ..explorer.client import Answer, Connection, Lost
from ..project import wait_for
from . import counts, oracles
from .cluster import Cluster
from .configuration import FILLED, SHARED
from .model import COLUMNS, OBSERVER, Owner, checksum, describe_difference
from .script import OWNERS, Script, Step

#: a statement that takes longer never ends: locks and held reads are given up after less than a second
STUCK = 15.0
#: so long a statement waits for a page that another session's cursor has pinned
PATIENCE = 0.5
#: errors that concurrency or a draw explains
ALWAYS = {"55P03", "40P01", "25P02", "34000", "55006", "40001"}
MESSAGES = re.compile("dump file is being used by process|is in use|is being read by another session|being used by active queries|is out of range for relation|could not find a valid record|could not open relation with OID|nblocks must be between|operated on temporary objects")
FAILED_READ = re.compile("could not read|invalid page|Input/output error|unexpected data|read only")
WARNINGS = re.compile("skipping|no transaction in progress|already a transaction|could not read|does not exist|PROCESS_|only superuser|permission denied|hash index|pinned and stay|terminating connection|database with OID")


class Failure(Exception):
    """An oracle has found something."""


class Session:
    def __init__(self, cluster: Cluster, number: int) -> None:
        self.cluster, self.number = cluster, number
        self.step: Step | None = None
        self.since = 0.0
        self.cancelled = self.terminated = False
        self.counts: dict[str, int] = {}
        self.connect()

    def connect(self) -> None:
        self.connection = Connection(self.cluster)
        self.terminated = False
        self.connection.ask("SET lock_timeout = '200ms'; SET idle_session_timeout = 0")
        if self.number % 2:
            self.connection.ask("SET SESSION AUTHORIZATION app")


class Driver:
    def __init__(self, cluster: Cluster, script: Script) -> None:
        self.cluster, self.script = cluster, script
        #: what 19 has in the place of a setting
        self.renamed = {"io_workers": "io_max_workers"} if cluster.build.major >= 19 else {}
        self.sessions: list[Session] = []
        self.owners = [Owner(number, [*SHARED, f"own{number}", f"temp{number}"]) for number in range(OWNERS)]
        #: reads may fail: a fault of the gate, since all was looked at last
        self.failing = False
        #: at any time in this run
        self.has_crashed = False
        #: processes may have been killed since then
        self.killed = False
        #: the I/O gate works on this server
        self.gate = False
        self.spoiled = self.crashed = False
        #: statements that began before this time may have found the disk full
        self.full = 0.0
        #: checksums are being enabled, which waits for temporary tables to be dropped: there are none
        self.no_temporary = False
        #: what data_checksums must be, and whether they were switched since all was looked at last
        self.checksums, self.switched = "on" if script.shape["checksums"] else "off", False
        #: no worker was free to switch them
        self.lacks_workers = False
        #: of each statement, how long it took
        self.times: list[tuple[float, str]] = []
        #: how often all was looked at
        self.looks = 0
        #: why the run ended early, without a verdict
        self.ended = ""
        self.trail: list[str] = []

    # sessions

    def observer(self) -> Any:
        return self.cluster.session

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        cursor = self.observer().execute(sql)
        return cursor.fetchall() if cursor.description else []

    def begin(self) -> None:
        self.cluster.renew({self.renamed.get(name, name): value for name, value in self.script.settings.items()}, self.script.shape["checksums"])
        for sql in self.script.setup:
            self.observer().execute(sql)
        for owner in self.owners:
            for table, rows in owner.now.items():
                rows.update(dict.fromkeys(owner.mine(0, FILLED - 1) if not table.startswith("temp") else (), 0))
        [(self.gate,)] = self.ask("SELECT gate FROM io_gate")
        self.connect()
        self.titles_before = self.processes()

    def processes(self) -> set[str]:
        return {row[0] for row in self.ask("SELECT backend_type FROM pg_stat_activity WHERE backend_type NOT IN ('client backend', 'autovacuum worker', 'parallel worker', 'io worker', 'autovacuum launcher')")}

    def connect(self) -> None:
        self.observer().execute(OBSERVER)
        self.sessions = [Session(self.cluster, number) for number in range(OWNERS)]
        for session in self.sessions:
            self.make_temporary(session)

    def make_temporary(self, session: Session) -> None:
        if self.no_temporary:
            return
        name = f"temp{session.number}"
        session.connection.ask(f"CREATE TEMP TABLE {name} (id int, v int, k int, p point, a int[], body text); CREATE INDEX {name}_id ON {name} (id)")
        self.owners[session.number].now[name] = {}

    def running(self) -> str:
        """Returns what sessions run, or have run when they were lost."""
        return "\n".join([f"s{session.number} runs {session.step}" for session in self.sessions if session.step] + [line for line in self.trail[-30:] if line.endswith("-- lost")])

    def fail(self, why: str) -> None:
        raise Failure(why)

    # statements

    def poll(self) -> None:
        """Takes the answers that have come."""
        for session in self.sessions:
            if session.step is None:
                continue
            try:
                answers = session.connection.poll()
            except Lost as lost:
                self.on_loss(session, str(lost))
                continue
            if answers is not None:
                step, session.step = session.step, None
                self.on_answer(session, step, answers)
            elif time.monotonic() > session.since + STUCK:
                # one that is at work, on a busy machine or slow storage, is ended
                if session.cancelled or not self.is_at_work(session.connection.pid):
                    self.fail(f"{step_text(session.step)} does not end\n{self.who_waits()}")
                session.cancelled, session.since = True, time.monotonic()
                self.ask(f"SELECT pg_cancel_backend({session.connection.pid})")

    def is_at_work(self, pid: int) -> bool:
        """Whether a session runs, or its reads come and go."""
        processes = f"SELECT pid FROM pg_stat_activity WHERE {pid} IN (pid, leader_pid)"
        reads = partial(self.ask, f"SELECT pid, io_id, io_generation FROM pg_aios WHERE pid IN ({processes}) ORDER BY 1, 2")
        before = reads()
        return wait_for(lambda: self.ask(f"{processes} AND wait_event IS NULL") or reads() != before, 1)

    def wait(self, session: Session | None = None, seconds: float = 2 * STUCK + 5) -> None:
        """Waits until a session is idle, or all of them."""
        deadline = time.monotonic() + seconds
        while busy := [each for each in self.sessions if each.step and session in (None, each)]:
            select.select([each.connection.socket for each in busy], [], [], 0.02)
            self.poll()
            for each in busy:
                # another session's cursor has pinned the page, or a lock is not one of those that lock_timeout knows
                if each.step and time.monotonic() > each.since + PATIENCE and not each.cancelled:
                    pid = each.connection.pid
                    if self.ask(f"SELECT 1 FROM pg_stat_activity WHERE {pid} IN (pid, leader_pid) AND (wait_event_type IN ('BufferPin', 'Buffer', 'Lock') OR wait_event = 'VacuumTruncate')"):
                        each.cancelled = True
                        self.ask(f"SELECT pg_cancel_backend({each.connection.pid})")
            if time.monotonic() > deadline:
                break

    def who_waits(self) -> str:
        try:
            with self.cluster.connect("statement_timeout=5s") as connection:
                return "\n".join(str(row) for sql in ("SELECT pid, backend_type, wait_event_type, wait_event, state, query FROM pg_stat_activity WHERE pid <> pg_backend_pid()",
                                                      "SELECT * FROM pg_aios") for row in connection.execute(sql).fetchall())
        except psycopg.Error as error:
            return str(error)

    def send(self, session: Session, step: Step) -> None:
        session.step, session.since, session.cancelled = step, time.monotonic(), False
        # others may meet the block before there is an answer
        self.spoiled |= step.effect[:1] == ("spoil",)
        try:
            session.connection.send(step.sql.replace("{directory}", str(self.cluster.directory)))
        except Lost as lost:
            self.on_loss(session, str(lost))

    def on_answer(self, session: Session, step: Step, answers: list[Answer]) -> None:
        owner = self.owners[session.number]
        self.times.append((time.monotonic() - session.since, f"seed {self.script.seed}: {step_text(step)}"))
        error = next((answer for answer in answers if answer.sqlstate), None)
        self.trail.append(f"{step_text(step)}   -- {error or (answers[-1] if answers else '')}"[:600])
        for notice in session.connection.notices:
            if not (WARNINGS.search(notice) or self.failing or self.spoiled):
                self.fail(f"{step_text(step)}: warning: {notice}")
        session.connection.notices.clear()
        if error:
            if not self.is_expected(session, step, error):
                self.fail(f"{step_text(step)}: {error}")
            if step.effect[:1] in (("commit",), ("prepare",)) and not session.connection.in_transaction:
                owner.roll_back()
            if error.sqlstate == "34000" and step.effect[:1] in (("fetch",), ("fetch all",), ("rewind",), ("close",)):
                owner.cursors.pop(step.effect[1], None)
            return
        if step.effect:
            self.follow(session, step, answers[-1] if answers else Answer())

    def is_expected(self, session: Session, step: Step, error: Answer) -> bool:
        if "could not apply concurrent" in error.message:
            return False
        return (error.sqlstate in ALWAYS or bool(MESSAGES.search(error.message)) or (error.sqlstate == "57014" and session.cancelled)
                or (step.effect[:1] in (("errors",), ("spoil",)) and error.sqlstate in (step.effect[1:] or ('42P01',)))
                or (self.failing and (bool(FAILED_READ.search(error.message)) or error.sqlstate in ("58030", "XX001", "XX002", "42P01", "42704", "55000")))
                # an internal error is none that a user should see
                or (step.effect[:1] == ("call",) and not error.sqlstate.startswith("XX" if step.effect == ("call", "relation") else "XX000"))
                or (session.since < self.full and "No space left" in error.message) or (self.no_temporary and error.sqlstate == "42P01" and '"temp' in error.message)
                # an index that another session has just dropped or not finished
                or (step.effect == () and error.sqlstate in ("42704", "42P01", "42P07", "55000", "2BP01", "42809")))

    def follow(self, session: Session, step: Step, answer: Answer) -> None:
        """Compares an answer with the model, or has the model do the same."""
        owner, (what, *given) = self.owners[session.number], step.effect
        if what == "rows":
            table, predicate = given
            expected = (*checksum(owner.selected(table, predicate)), 0)
            if tuple(int(value or 0) for value in answer.rows[0]) != expected:
                self.fail(f"{step_text(step)}: {answer}, not {expected}\n{self.difference(session, table)}")
        elif what == "none":
            if any(row[0] not in ("0", None) for row in answer.rows):
                self.fail(f"{step_text(step)}: {answer}, not 0")
        elif what == "declare":
            name, table, predicate, hold = given
            owner.cursors[name] = (owner.selected(table, predicate), {}, hold)
        elif what in ("fetch", "fetch all") and given[0] in owner.cursors:
            expected_rows, got, _ = owner.cursors[given[0]]
            for row, version, right in answer.rows:
                if right != "t" or int(row or 0) in got:
                    self.fail(f"{step_text(step)}: row {row} twice, or not as written")
                got[int(row or 0)] = int(version or 0)
            if what == "fetch all" and got != expected_rows:
                self.fail(f"{step_text(step)}: {describe_difference(expected_rows, got)}")
        elif what == "rewind" and given[0] in owner.cursors:
            owner.cursors[given[0]][1].clear()
        elif what == "close":
            owner.cursors.pop(given[0], None)
        elif what == "count":
            session.counts[given[0]] = session.counts.get(given[0], 0) + len(answer.rows)
        elif what == "counted":
            if given[0] in session.counts and session.counts.pop(given[0]) != int(answer.rows[0][0] or 0):
                self.fail(f"{step_text(step)}: {answer} rows, but the cursor has returned another number")
        elif what not in ("errors", "call", "spoil"):
            owner.apply(step.effect, answer.tag)

    def difference(self, session: Session, table: str) -> str:
        owner = self.owners[session.number]
        try:
            rows = session.connection.ask(f"SELECT id, v, ctid FROM {table} WHERE id % {OWNERS} = {owner.number}")[0]
        except Exception as error:
            return str(error)
        return describe_difference(owner.now[table], {int(row[0] or 0): int(row[1] or 0) for row in rows}) + f" ({len(rows)} rows)"

    # losses

    def on_loss(self, session: Session, why: str) -> None:
        """The session's connection has ended: what it was doing may have happened or not."""
        step, session.step = session.step, None
        if not (session.terminated or self.killed):
            self.fail(f"{step_text(step)}: connection lost: {why}\n{self.alarming()}")
        self.trail.append(f"{step_text(step) if step else '?'}   -- lost")
        pid = session.connection.pid
        with suppress(Exception):
            session.connection.close()
        self.reconnect(session, pid, step)

    def alarming(self) -> str:
        return "\n".join(line for line in self.cluster.new_log_lines() if re.search("TRAP|PANIC|FATAL|terminated by signal|CONTEXT:  WAL redo", line))

    def reconnect(self, session: Session, pid: int, step: Step | None) -> None:
        if pid and not wait_for(lambda: not self.ask(f"SELECT 1 FROM pg_stat_activity WHERE pid = {pid} AND backend_type = 'client backend'"), STUCK):
            self.fail(f"process {pid} does not end\n{self.who_waits()}")
        deadline = time.monotonic() + STUCK
        while True:
            try:
                session.connect()
                break
            except Exception as error:
                # a read of a catalog may fail
                if not (self.failing or self.killed) or time.monotonic() > deadline:
                    self.fail(f"cannot connect: {error}\n{self.alarming()}\n{self.running()}")
        session.counts = {}
        owner = self.owners[session.number]
        candidates = [owner]
        # a change within a transaction is lost with it
        if step and step.effect and step.effect[0] in ("commit", "prepare", "finish", *(("insert", "update", "delete", "clear") if owner.before is None else ())):
            candidates.insert(0, copy.deepcopy(owner))
            candidates[0].apply(step.effect, "")
        self.make_temporary(session)
        prepared = bool(self.ask(f"SELECT 1 FROM pg_prepared_xacts WHERE gid = 'p{session.number}'"))
        found = {table: self.rows_of(table, session.number) for table in owner.now if not table.startswith("temp")}
        gone = self.unlogged() if self.crashed else set()
        for candidate in candidates:
            candidate.lost()
            for table in candidate.now:
                if table in gone or table.startswith("temp"):
                    candidate.now[table] = {}
                    if candidate.prepared is not None:
                        candidate.prepared[table] = {}
            if (candidate.prepared is not None) == prepared and all(candidate.now[table] == rows for table, rows in found.items()):
                self.owners[session.number] = candidate
                return
        self.fail(f"s{session.number} after {step_text(step) if step else 'a crash'}: "
                  + "; ".join(f"{table}: {describe_difference(candidates[-1].now[table], rows)}" for table, rows in found.items() if rows != candidates[-1].now[table])
                  + (f" prepared: {prepared}" if prepared != (owner.prepared is not None) else "") + f"\n{self.alarming()}")

    def unlogged(self) -> set[str]:
        return {row[0] for row in self.ask("SELECT relname FROM pg_class WHERE relpersistence = 'u' AND relkind = 'r'")}

    def rows_of(self, table: str, number: int) -> dict[int, int]:
        deadline = time.monotonic() + STUCK
        while True:
            try:
                return dict(self.ask(f"SELECT id, v FROM {table} WHERE id % {OWNERS} = {number}"))
            except psycopg.Error:
                # a read is made to fail, or the table is locked
                if time.monotonic() > deadline:
                    raise
                if self.gate:
                    self.ask("SELECT io_fail_end()")

    # steps

    def run(self, until: float) -> None:
        """Does the steps, or as many as there is time for."""
        for step in self.script.steps:
            if time.monotonic() > until:
                self.mend()
                return
            self.poll()
            if step.session < 0:
                getattr(self, f"do_{step.kind}")(step)
                continue
            session = self.sessions[step.session]
            self.wait(session)
            if step.needs == "no tx" and session.connection._pg.transaction_status == pq.TransactionStatus.INERROR:
                self.send(session, Step(step.session, "sql", "ROLLBACK", ("rollback",)))
                self.wait(session)
            if (step.needs and (step.needs == "tx") != session.connection.in_transaction) or self.left_out(step):
                continue
            self.send(session, step)
            if step.pause < 0:
                self.wait(session)
            elif step.pause:
                time.sleep(step.pause / 1000)

    def left_out(self, step: Step) -> bool:
        # rows that a prepared transaction has locked
        what = step.effect[0] if step.effect else ""
        return self.owners[step.session].prepared is not None and what in ("insert", "update", "delete", "clear", "begin", "prepare") or (
            what == "finish" and self.owners[step.session].prepared is None) or (
            what == "rollback to" and step.effect[1] not in [name for name, _ in self.owners[step.session].savepoints])

    def do_interrupt(self, step: Step) -> None:
        function, victim = step.effect
        session = self.sessions[victim]
        if session.step is None and function == "pg_cancel_backend":
            return
        session.cancelled = True
        session.terminated |= function == "pg_terminate_backend"
        pid = session.connection.pid
        self.ask(f"SELECT {function}({pid})")
        if function == "pg_terminate_backend" and session.step is None:
            with suppress(Exception):
                session.connection.close()
            self.reconnect(session, pid, None)

    def do_gate(self, step: Step) -> None:
        if not self.gate:
            return
        self.failing |= "io_fail" in step.sql
        self.trail.append(str(step))
        # the relation may be locked, or gone
        with suppress(psycopg.errors.LockNotAvailable, psycopg.errors.UndefinedTable, psycopg.errors.ConfigurationLimitExceeded):
            self.ask(step.sql)

    def do_below(self, step: Step) -> None:
        """System calls fail: some are interrupted, or the disk is full for a moment."""
        if self.cluster.below:
            if step.effect[0] == 1:
                self.full = inf if step.effect[1] else min(self.full, time.monotonic())
            self.cluster.below.fail(*step.effect)
            self.trail.append(str(step))

    def do_watch(self, step: Step) -> None:
        for _ in range(*step.effect):
            oracles.watch(self)
            self.poll()

    def do_reload(self, step: Step) -> None:
        name, value = step.effect
        self.trail.append(str(step))
        self.observer().execute(f"ALTER SYSTEM SET {self.renamed.get(name, name)} = '{value}'")
        self.ask("SELECT pg_reload_conf()")

    def do_checksums(self, step: Step) -> None:
        # 19rc1 lacks it
        if not self.ask("SELECT 1 FROM pg_proc WHERE proname = 'pg_enable_data_checksums'"):
            return
        self.trail.append(str(step))
        self.quiet()
        if step.effect == ("wait",):
            oracles.log(self)
            oracles.checksums(self)
            self.switched = self.lacks_workers = False
            return
        if step.effect == ("enable",):
            self.no_temporary = True
            for session, owner in zip(self.sessions, self.owners, strict=True):
                session.connection.ask(f"DROP TABLE temp{session.number}")
                owner.now[f"temp{session.number}"] = {}
            # a crash leaves them
            for (orphan,) in self.ask("SELECT oid::regclass FROM pg_class WHERE relpersistence = 't' AND relkind = 'r'"):
                self.ask(f"DROP TABLE IF EXISTS {orphan}")
        self.switched = True
        # an invalid database is in the way, or all workers are taken
        with suppress(psycopg.errors.ObjectNotInPrerequisiteState, psycopg.errors.InsufficientResources):
            self.ask(f"SELECT pg_{step.effect[0]}_data_checksums()")
            self.checksums = {"enable": "on", "disable": "off"}[step.effect[0]]

    def quiet(self) -> None:
        """Ends faults and transactions; waits until the sessions are idle."""
        self.mend()
        for sql in ("SELECT io_hold_end()", "SELECT io_fail_end()", "SELECT io_device_end()", "SELECT io_release_all()") if self.gate else ():
            self.ask(sql)
        self.wait()
        for session, owner in zip(self.sessions, self.owners, strict=True):
            if session.connection.in_transaction:
                self.send(session, Step(session.number, "sql", "ROLLBACK", ("rollback",)))
                self.wait(session)
            if owner.prepared is not None:
                self.send(session, Step(session.number, "sql", f"COMMIT PREPARED 'p{session.number}'", ("finish", "COMMIT")))
                self.wait(session)
            self.send(session, Step(session.number, "sql", "CLOSE ALL", ()))
            self.wait(session)
            owner.cursors = {}
        if not wait_for(lambda: not self.ask("SELECT 1 FROM pg_stat_activity WHERE backend_type LIKE 'datachecksum%'"), 4 * STUCK):
            self.fail(f"checksums are not switched\n{self.who_waits()}")
        if self.no_temporary:
            self.no_temporary = False
            for session in self.sessions:
                self.make_temporary(session)
        for (table,) in self.ask("SELECT relname FROM pg_class WHERE relname ~ '^bad[0-9]$'"):
            self.ask(f"DROP TABLE {table}")

    def do_check(self, step: Step) -> None:
        self.quiet()
        self.trail.append("-- all is looked at")
        oracles.look(self)
        self.failing = self.killed = self.spoiled = self.switched = self.lacks_workers = False
        self.full = 0.0

    def do_probe(self, step: Step) -> None:
        # without the trace there is little to compare with
        if not self.gate:
            return
        self.quiet()
        self.trail.append(str(step))
        counts.probe(self, *step.effect)

    def mend(self) -> None:
        for fault in (0, 1) if self.cluster.below else ():
            self.cluster.below.fail(fault, 0)
        self.full = min(self.full, time.monotonic())

    def down(self, how: str, victim: int = 0) -> None:
        self.mend()
        self.killed = True
        how = "restart" if how == "promote" and not self.cluster.standby else how
        # or a shutdown does not wait for it
        if how == "promote" and not wait_for(partial(self.ask, "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'"), STUCK):
            self.fail(f"the standby does not follow\n{self.who_waits()}")
        self.crashed = how != "restart"
        self.has_crashed |= self.crashed
        self.no_temporary = False
        pids = [(session, session.connection.pid, session.step) for session in self.sessions]
        if how == "kill":
            victims = [row[0] for row in self.ask(f"SELECT pid FROM pg_stat_activity WHERE backend_type IN {oracles.SERVANTS} OR pid = ANY ('{{{','.join(str(pid) for _, pid, _ in pids)}}}') ORDER BY backend_type, pid")]
            # one that has just gone cannot be killed
            with suppress(psycopg.Error):
                for pid in victims[victim % len(victims):] + victims:
                    with suppress(psycopg.errors.ExternalRoutineException):
                        self.observer().execute(f"COPY (SELECT 1) TO PROGRAM 'kill -9 {pid}'")
                        break
            for session in self.sessions:
                if not wait_for(partial(self.is_lost, session), STUCK):
                    self.fail(f"s{session.number} goes on after process {pid} was killed\n{self.who_waits()}")
            self.cluster.wait_until_up()
        else:
            self.cluster.signal("QUIT" if how == "crash" else "INT")
            if how != "crash":
                self.while_down(how)
            elif self.cluster.below and self.script.settings.get("fsync", "on") == "on":
                self.cluster.below.lose_power()
            self.cluster.start(self.cluster.settings)
        self.observer().execute(OBSERVER)
        for session, _, running in pids:
            session.step = None
            with suppress(Exception):
                session.connection.close()
            self.reconnect(session, 0, running)
        self.crashed = False

    def while_down(self, how: str) -> None:
        """A start that cannot succeed leaves no process; single-user mode works, and so does the standby; each page has its checksum."""
        if how == "promote":
            self.cluster.promote()
        # in one call, as what is left ends with the call's namespace of processes; a postmaster is the last to end
        failed = self.cluster.ask("sh", "-c", "touch data/recovery.signal; postgres -D data >failed.log 2>&1 && exit 2; left=$(grep -las '^postgres: ' /proc/[0-9]*/cmdline);"
                                  " rm data/recovery.signal; [ -z \"$left\" ] || { echo $left; cat $left; exit 3; }")
        if failed.returncode != 0:
            told = {2: "has succeeded", 3: "leaves processes"}.get(failed.returncode, "is not possible")
            self.fail(f"a start without restore_command {told}: {failed.stdout[:300]}{failed.stderr[:300]}")
        done = self.cluster.ask("sh", "-c", "printf 'SELECT count(*) FROM heap\nVACUUM heap2\nSELECT pg_sleep(0.001)\n' | postgres --single -D data postgres 2>&1")
        if done.returncode != 0 or "count = " not in done.stdout:
            self.fail(f"single-user mode: {done.returncode}: {done.stdout[-500:]}")
        check = "control=$(pg_controldata data); ! echo \"$control\" | grep -q 'page checksum version: *1$' || pg_checksums --check --pgdata=data"
        if not self.spoiled and (done := self.cluster.ask("sh", "-ec", check)).returncode != 0:
            self.fail(f"pg_checksums: {done.stdout}{done.stderr}")
        if self.cluster.below:
            # what it knows of files was changed without it
            self.cluster.below.reset()

    @staticmethod
    def is_lost(session: Session) -> bool:
        try:
            answers = session.connection.poll()
            if answers is not None and session.step is None:
                session.connection.send("SELECT")
        except Lost:
            return True
        return False

    def do_down(self, step: Step) -> None:
        self.trail.append(str(step))
        self.down(*step.effect)

    def do_standby(self, step: Step) -> None:
        """Makes a standby while the sessions write.  Later it crashes, or shows a snapshot the same rows again, whatever was replayed meanwhile."""
        self.trail.append(str(step))
        unverified = ["--no-verify-checksums"] * self.spoiled
        if (there := self.cluster.standby) is None:
            if self.script.settings.get("summarize_wal") == "on" and not self.cluster.has_full_backup:
                self.cluster.back_up_fully(*unverified)
            else:
                self.cluster.make_standby(self.script.shape["standby"], *unverified)
        elif step.effect[0]:
            try:
                if not there.seen:
                    there.session.execute(f"{OBSERVER}; BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL enable_seqscan = {'off' if step.effect[0] % 2 else 'on'}")
                found = [there.session.execute(f"SELECT {what}").fetchall() for what in (*(f"{COLUMNS} FROM {table}" for table in ("heap", "heap2", "parts")), "count(*), sum(id), 0 FROM heap2 WHERE id IS NOT NULL")]
                if there.seen not in ([], found) or any(wrong for [(_, _, wrong)] in found):
                    self.fail(f"a snapshot of the standby sees {found}, and before {there.seen}")
                there.seen = found
            except psycopg.Error as error:
                if not (there.session.broken or error.sqlstate in ALWAYS):
                    raise
                there.forget()
        else:
            there.forget()
            there.signal("QUIT")
            there.start(self.cluster.settings)


def step_text(step: Step | None) -> str:
    return str(step) if step else "nothing"
