"""Conservation: where several counters count the same thing, their numbers are the same.

A session of its own runs statements while all others are idle.  EXPLAIN, the statistics of its process and of the
parallel workers, those of the relations and of the database, and the trace say what was read, hit, written and searched.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import psycopg

from ..project import wait_for
from .configuration import filler, storage_sql
from .grammar import Grammar
from .model import where
from .oracles import SERVANTS, log

if TYPE_CHECKING:
    from .driver import Driver

#: of one process, or of all of a type: blocks of relations, in all contexts
IO = ("SELECT object, coalesce(sum(hits), 0)::int8, coalesce(sum(read_bytes), 0)::int8 / 8192, coalesce(sum(reads), 0)::int8, coalesce(sum(write_bytes), 0)::int8 / 8192,"
      " coalesce(sum(extend_bytes), 0)::int8 / 8192, coalesce(sum(read_time), 0), coalesce(sum(write_time), 0), coalesce(sum(extend_time), 0)"
      " FROM {} WHERE object IN ('relation', 'temp relation') GROUP BY 1")
NAMES = ("hits", "read", "reads", "written", "extended", "read time", "write time", "extend time")
RELATIONS = ("SELECT coalesce(sum(heap_blks_read), 0), coalesce(sum(heap_blks_hit), 0), sum(coalesce(idx_blks_read, 0) + coalesce(toast_blks_read, 0) + coalesce(tidx_blks_read, 0)),"
             " sum(coalesce(idx_blks_hit, 0) + coalesce(toast_blks_hit, 0) + coalesce(tidx_blks_hit, 0)) FROM pg_statio_user_tables WHERE schemaname <> 'pg_toast'")
#: EXPLAIN does not count blocks of indexes that are read before the plan begins
START = 6
#: so many pins a stream may have
PINS = ("SELECT max(setting::int) FILTER (WHERE name = 'shared_buffers') / (40 + sum(setting::int) FILTER (WHERE name <> 'shared_buffers')) FROM pg_settings"
        " WHERE name IN ('shared_buffers', 'max_connections', 'autovacuum_worker_slots', 'max_worker_processes', 'max_wal_senders')")
#: the first oid of relations that are not catalogs
USER = 16384


class Probe:
    def __init__(self, driver: "Driver", random: Random) -> None:
        self.driver, self.random = driver, random
        self.ask = driver.ask
        self.notices: list[str] = []
        self.connection = driver.cluster.connect("client_min_messages=info")
        self.connection.add_notice_handler(lambda notice: self.notices.append(f"{notice.message_primary}\n{notice.message_detail or ''}"))
        self.pid = self.connection.info.backend_pid

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        self.driver.trail.append(f"probe {sql}"[:600])
        cursor = self.connection.execute(sql)
        return cursor.fetchall() if cursor.description else []

    def snapshot(self) -> Counter[str]:
        self.run("SELECT pg_stat_force_next_flush()")
        self.ask("SELECT pg_stat_force_next_flush()")
        # which leave their counters when they exit
        wait_for(lambda: not self.ask("SELECT 1 FROM pg_stat_activity WHERE backend_type = 'parallel worker'"), 10)
        found: Counter[str] = Counter()
        for source in (f"pg_stat_get_backend_io({self.pid})", "(SELECT * FROM pg_stat_io WHERE backend_type = 'background worker') s"):
            for kind, *values in self.ask(IO.format(source)):
                found.update({f"{kind} {name}": float(value) for name, value in zip(NAMES, values, strict=True)})
        [blocks] = self.ask(RELATIONS)
        found.update(dict(zip(("heap read", "heap hit", "other read", "other hit"), map(float, blocks), strict=True)))
        [(searches,)] = self.ask("SELECT coalesce(sum(idx_scan), 0) FROM pg_stat_user_indexes")
        [(files, size)] = self.ask("SELECT temp_files, temp_bytes FROM pg_stat_database WHERE datname = current_database()")
        found.update({"searches": float(searches), "temporary files": float(files), "temporary bytes": float(size)})
        [(records, pages)] = self.ask(f"SELECT wal_records, wal_fpi FROM pg_stat_get_backend_wal({self.pid})")
        found.update({"wal records": float(records), "wal pages": float(pages)})
        return found

    def measure(self, sql: str) -> tuple[list[tuple[Any, ...]], Counter[str], list[dict[str, Any]]]:
        """Runs a statement; returns its rows, what it added to the counters, and its reads."""
        before = self.snapshot()
        self.ask("SELECT io_trace_reset(), io_trace_start()")
        rows = self.run(sql)
        # reads of its own, which are counted, are in the trace, too
        self.run("SELECT pg_stat_force_next_flush()")
        self.ask("SELECT io_trace_stop()")
        counted = self.snapshot()
        counted.subtract(before)
        reads = [dict(zip(("nblocks", "f_sync", "relation"), row, strict=True)) for row in self.ask(
            f"SELECT nblocks, f_sync, coalesce(relation::oid, {USER})::int8 FROM io_trace WHERE pid = {self.pid} OR backend_type IN ('background worker', 'parallel worker')")]
        counted["trace reads"] = len(reads)
        counted["trace"] = sum(each["nblocks"] for each in reads)
        counted["trace user"] = sum(each["nblocks"] for each in reads if each["relation"] >= USER)
        counted["user read"], counted["user hits"] = counted["heap read"] + counted["other read"], counted["heap hit"] + counted["other hit"]
        return rows, counted, reads

    def ordered(self, what: str, *values: float, by: float = 0) -> None:
        """Each number is at least the one before it: what comes later counts more, such as catalogs that are read."""
        if any(second < first - by for first, second in pairwise(values)):
            self.driver.fail(f"{what}: not in order: {' '.join(f'{value:g}' for value in values)}")

    def same(self, what: str, *values: float) -> None:
        if max(values) != min(values):
            self.driver.fail(f"{what} differ: {' '.join(f'{value:g}' for value in values)}")

    def failed_checksums(self) -> list[int]:
        self.ask("SELECT pg_stat_force_next_flush()")
        return [row[0] for row in self.ask("SELECT checksum_failures FROM pg_stat_database WHERE datid = 0 OR datname = current_database() ORDER BY datid = 0")]

    def old(self, log: Path, start: int) -> list[tuple[Any, ...]]:
        """Asks processes for a line of the log; returns those whose lines, from a place in the log on, do not begin with "new" yet."""
        found = set(re.findall(r"^(\d+)\|[^|]*\|[^|]*\|new\|", log.read_bytes()[start:].decode(errors="replace"), re.MULTILINE))
        left = [row for row in self.ask(f"SELECT pid, backend_type FROM pg_stat_activity WHERE backend_type IN {SERVANTS}") if str(row[0]) not in found]
        for pid, _ in left:
            self.ask(f"SELECT pg_log_backend_memory_contexts({pid})")
        return left


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def evict(probe: Probe) -> None:
    # checkpointed, for a dirty block is written by the session that evicts it
    probe.ask("CHECKPOINT")
    probe.ask("SELECT pg_buffercache_evict_relation(oid) FROM pg_class WHERE relkind IN ('r', 'i', 't', 'm') AND relpersistence <> 't' AND oid >= 16384")


def explain(probe: Probe, sql: str) -> tuple[dict[str, Any], Counter[str], list[dict[str, Any]]]:
    rows, counted, reads = probe.measure(f"EXPLAIN (ANALYZE, BUFFERS, WAL, FORMAT JSON) {sql}")
    told = rows[0][0]
    return (told if isinstance(told, list) else json.loads(told))[0], counted, reads


def scan(probe: Probe) -> None:
    """A query, by any plan, of which part is in the cache."""
    random = probe.random
    grammar = Grammar(random, {})
    grammar.version = 20
    table = random.choice(("heap", "heap2", "unlogged", "parts", "counted", "counted"))
    if table == "counted":
        probe.run("DROP TABLE IF EXISTS counted")
        for each in storage_sql(random, "counted", "heap"):
            probe.run(each)
        probe.run(filler(table, 3000).replace("-1 - 4 *", ""))
        # pages without a row that is visible
        probe.run(f"DELETE FROM counted WHERE id BETWEEN {random.randrange(500)} AND {random.randrange(500, 2000)}")
    wanted = random.choice(("seqscan", "indexscan", "bitmapscan", "indexonlyscan"))
    for name in ("seqscan", "indexscan", "bitmapscan", "indexonlyscan"):
        probe.run(f"SET enable_{name} = {'on' if name == wanted else 'off'}")
    # an expensive row makes parallel plans worth while
    probe.run(f"SET max_parallel_workers_per_gather = {random.choice((0, 2))}; SET work_mem = '{random.choice(('64kB', '4MB'))}'; SET cpu_tuple_cost = {random.choice((0.01, 10))}")
    sql = random.choice((f"SELECT count(body), sum(v) FROM {table} WHERE {where(grammar.predicate())}", f"SELECT count(*) FROM {table} WHERE {where(grammar.predicate())}",
                         f"SELECT count(*) FROM {table} WHERE id = ANY (ARRAY[3, 50, 51, 700, 701])", f"SELECT count(*) FROM generate_series(0, 30) g JOIN {table} ON k = g WHERE v < 100",
                         f"SELECT sum(length(body)) FROM (SELECT * FROM {table} ORDER BY body, id {random.choice(('OFFSET', 'LIMIT'))} 3) s"))
    probe.run(sql)
    # the planner looks up the ends of an index
    planned = probe.measure(f"EXPLAIN {sql}")[1]
    if is_cold := random.random() < 0.7:
        # rows without hint bits; with an index the planner would look at other blocks than before
        if table == "counted" and wanted == "seqscan":
            probe.run("UPDATE counted SET v = v WHERE id % 7 = 0")
        evict(probe)
    told, counted, reads = explain(probe, sql)
    plan, planning = told["Plan"], Counter(told.get("Planning", {}))
    if "Workers Launched" in str(plan) and counted["user read"] > counted["trace user"]:
        probe.driver.fail(f"hit-not-counted: {sql}: pg_statio has {counted['user read']:g} blocks of tables read, the trace {counted['trace user']:g}")
    probe.ordered(f"{sql}: blocks read: of tables by pg_statio, by EXPLAIN, with planning, by pg_stat_io", counted["user read"] - planning["Shared Read Blocks"], plan["Shared Read Blocks"],
                  counted["relation read"], by=START)
    probe.ordered(f"{sql}: hits: of tables by pg_statio, by EXPLAIN, by pg_stat_io", counted["user hits"] - planning["Shared Hit Blocks"], plan["Shared Hit Blocks"], counted["relation hits"], by=START)
    if is_cold:
        # all were written before
        [(dirty,)] = probe.ask("SELECT count(*) FROM pg_buffercache JOIN pg_database d ON d.oid = reldatabase WHERE isdirty AND relfilenode >= 16384 AND datname = current_database()")
        probe.ordered(f"{sql}: blocks dirtied: in the pool, by EXPLAIN", dirty, plan["Shared Dirtied Blocks"] + planning["Shared Dirtied Blocks"])
    probe.same(f"{sql}: blocks read: by pg_stat_io, by the trace", counted["relation read"], counted["trace"])
    probe.same(f"{sql}: blocks of tables read: by pg_statio, by the trace", counted["user read"], counted["trace user"])
    probe.same(f"{sql}: reads: by pg_stat_io, by the trace", counted["relation reads"], counted["trace reads"])
    time = plan.get("Shared I/O Read Time", 0.0)
    probe.ordered(f"{sql}: time of reads: by EXPLAIN, by pg_stat_io", time, counted["relation read time"] * 1.05, by=0.1)
    if counted["trace"] == counted["trace user"] and not planning["Shared Read Blocks"]:
        probe.ordered(f"{sql}: time of reads: by pg_stat_io, by EXPLAIN", counted["relation read time"], time * 1.05, by=0.1)
    if any(searches := [node["Index Searches"] for node in nodes(plan) if "Index Searches" in node]):
        probe.same(f"{sql}: searches of indexes: by EXPLAIN, by pg_stat_user_indexes", sum(searches), counted["searches"] - planned["searches"])
    bitmap = [node for node in nodes(plan) if node["Node Type"] == "Bitmap Heap Scan"]
    if bitmap and all(node["Node Type"] not in ("Seq Scan", "Index Scan", "Index Only Scan") for node in nodes(plan)):
        blocks = sum(part.get("Exact Heap Blocks", 0) + part.get("Lossy Heap Blocks", 0) for node in bitmap for part in (node, *node.get("Workers", ())))
        probe.same(f"{sql}: blocks of bitmap scans: by EXPLAIN, by pg_statio", blocks, counted["heap read"] + counted["heap hit"] - planned["heap read"] - planned["heap hit"])
    for node in nodes(plan):
        for what in ("Shared Hit Blocks", "Shared Read Blocks"):
            # an InitPlan runs within another child
            probe.ordered(f"{sql}: {what} of the children of {node['Node Type']}, and its own", sum(child[what] for child in node.get("Plans", ()) if child["Parent Relationship"] != "InitPlan"), node[what])
    no_temporary(probe, sql, plan, counted)
    [(limit,)] = probe.run("SELECT min(setting::int) FROM pg_settings WHERE name IN ('io_combine_limit', 'io_max_combine_limit')")
    if too_large := [each["nblocks"] for each in reads if each["nblocks"] > limit]:
        probe.driver.fail(f"{sql}: reads of {too_large} blocks, though io_combine_limit is {limit}")
    # a stream may pin few buffers of a small pool, and the smallest ring of a scan has 32
    whole = min(limit, 32, probe.ask(PINS)[0][0])
    if (is_cold and probe.driver.script.settings.get("shared_buffers") in ("32MB", None) and plan.get("Plans", [{}])[0].get("Node Type") == "Seq Scan" and counted["other read"] == 0 and "parts" not in sql
            and len(user := [each for each in reads if each["relation"] >= USER]) > counted["trace user"] / whole + 2 * limit.bit_length() + 2):
        probe.driver.fail(f"{sql}: a cold sequential scan of {counted['trace user']:g} blocks takes {len(user)} reads, though io_combine_limit is {limit}")


def no_temporary(probe: Probe, sql: str, plan: dict[str, Any], counted: Counter[str]) -> None:
    if not counted["temporary files"]:
        probe.same(f"{sql}: temporary blocks without temporary files", plan["Temp Read Blocks"] + plan["Temp Written Blocks"], 0)


def change(probe: Probe) -> None:
    """A statement that writes, to a table of any kind."""
    random = probe.random
    kind = random.choice(("temp", "heap", "unlogged"))
    probe.run("DROP TABLE IF EXISTS counted")
    for sql in storage_sql(random, "counted", kind):
        probe.run(sql)
    low = random.randrange(100)
    for _ in range(random.randrange(1, 4)):
        sql = random.choice((
            f"INSERT INTO counted SELECT i, 0, i % 37, point(i, 0), ARRAY[i % 17], repeat('x', {random.choice((10, 500))}) FROM generate_series({low}, {low + random.choice((10, 3000))}) i",
            f"UPDATE counted SET v = v + 1 WHERE k = {low % 37}", "DELETE FROM counted WHERE k < 5", "UPDATE counted SET body = body || 'y'"))
        told, counted, _ = explain(probe, sql)
        low += 4000
        plan, planning, what = told["Plan"], Counter(told.get("Planning", {})), f"{sql} ({kind})"
        if kind == "temp":
            probe.same(f"{what}: blocks written: by EXPLAIN, by pg_stat_io", plan["Local Written Blocks"] + planning["Local Written Blocks"], counted["temp relation written"] + counted["temp relation extended"])
            probe.same(f"{what}: blocks read: by EXPLAIN, by pg_stat_io", plan["Local Read Blocks"] + planning["Local Read Blocks"], counted["temp relation read"])
        else:
            probe.ordered(f"{what}: blocks read: by EXPLAIN, by pg_stat_io", plan["Shared Read Blocks"], counted["relation read"])
            probe.ordered(f"{what}: blocks extended by pg_stat_io, written by EXPLAIN, both by pg_stat_io", counted["relation extended"], plan["Shared Written Blocks"],
                          counted["relation extended"] + counted["relation written"], by=1)
            probe.ordered(f"{what}: time of extensions by pg_stat_io, of writes by EXPLAIN, of both by pg_stat_io", counted["relation extend time"], 1.05 * plan.get("Shared I/O Write Time", 0.0),
                          1.1 * (counted["relation extend time"] + counted["relation write time"]), by=0.1)
        no_temporary(probe, what, plan, counted)
        probe.ordered(f"{what}: pages in WAL: by EXPLAIN, by pg_stat_get_backend_wal()", plan.get("WAL FPI", 0), counted["wal pages"])
        records = plan.get("WAL Records", 0)
        probe.ordered(f"{what}: records of WAL: by EXPLAIN, by pg_stat_get_backend_wal()", records, counted["wal records"], records + 60)
    probe.run("DROP TABLE counted")


def vacuum(probe: Probe) -> None:
    random = probe.random
    table = random.choice(("heap", "heap2", "unlogged"))
    probe.run(f"SET min_parallel_index_scan_size = 0; SET maintenance_work_mem = '{random.choice(('64kB', '4MB'))}'")
    probe.ask(f"UPDATE {table} SET k = k WHERE id % 5 = 0")
    evict(probe)
    probe.notices.clear()
    _, counted, _ = probe.measure(f"VACUUM (VERBOSE, INDEX_CLEANUP on, PARALLEL {random.choice((0, 2))}, FREEZE {random.choice(('on', 'off'))}) {table}")
    if found := [tuple(map(int, numbers)) for text in probe.notices for numbers in re.findall(r"buffer usage: (\d+) hits, (\d+) reads", text)]:
        hits, read = map(sum, zip(*found, strict=True))
        probe.ordered(f"VACUUM of {table}: blocks read: of tables by the trace, by its report, by pg_stat_io", counted["trace user"] - 8, read, counted["relation read"])
        probe.ordered(f"VACUUM of {table}: hits: of tables by pg_statio, by its report, by pg_stat_io", counted["user hits"] - 40, hits, counted["relation hits"])


def concurrency(probe: Probe) -> None:
    """Which of the two settings of concurrency a stream follows."""
    random = probe.random
    maintenance = random.random() < 0.5
    zero, other = ("maintenance", "effective") if maintenance else ("effective", "maintenance")
    probe.run(f"SET {zero}_io_concurrency = 0; SET {other}_io_concurrency = 16; SET io_combine_limit = 1; SET max_parallel_workers_per_gather = 0")
    # VACUUM of a table with such an index also scans the table
    brin = {row[0] for row in probe.ask("SELECT indrelid::regclass::text FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam WHERE amname = 'brin'")}
    table = random.choice(sorted({"heap", "heap2"} - brin) or ["mat"])
    evict(probe)
    sql = random.choice((f"SELECT pg_prewarm('{table}')", f"VACUUM (DISABLE_PAGE_SKIPPING, INDEX_CLEANUP on, PARALLEL 0) {table}", f"ANALYZE {table}", "SELECT pg_prewarm('heap_id')") if maintenance else (
        f"SELECT count(*) FROM {table}", f"SET enable_seqscan = off; SELECT sum(v) FROM {table} WHERE id BETWEEN 100 AND 500"))
    _, _, reads = probe.measure(sql)
    if waiting := [each for each in reads if not each["f_sync"] and each["relation"] >= USER]:
        probe.driver.fail(f"{sql}: {len(waiting)} of {len(reads)} reads are asynchronous, though {zero}_io_concurrency is 0: {waiting[:3]}")


def together(probe: Probe) -> None:
    """Two sessions read the same blocks at the same time: together they read each as often as the trace says."""
    table = probe.random.choice(("heap", "heap2"))
    sql = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT count(body) FROM {table}"
    other = probe.driver.sessions[0].connection
    settings = "SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_seqscan = on; SET max_parallel_workers_per_gather = 0"
    probe.run(settings)
    other.ask(settings)
    probe.run(sql)
    other.ask(sql)
    evict(probe)
    probe.ask(f"SELECT io_device('{table}', '1 ms')")
    probe.ask("SELECT io_trace_reset(), io_trace_start()")
    other.send(sql)
    mine = probe.run(sql)[0][0]
    answers = wait_for(other.poll, 20)
    probe.ask("SELECT io_trace_stop(), io_device_end()")
    if not answers or not answers[0].rows:
        probe.driver.fail(f"one of two of {sql} gives {answers}")
    other.ask("RESET enable_indexscan; RESET enable_bitmapscan; RESET enable_seqscan; RESET max_parallel_workers_per_gather")
    told = [mine[0], json.loads(answers[0].rows[0][0])[0]]
    [(traced,)] = probe.ask(f"SELECT coalesce(sum(nblocks), 0) FROM io_trace WHERE relation = '{table}'::regclass AND pid IN ({probe.pid}, {other.pid})")
    # pg_statio is left out: in 18 and 19 it counts a block that another session is reading as read, and EXPLAIN as hit
    probe.same(f"two of {sql}: blocks of the table read: by EXPLAIN, by the trace", sum(each["Plan"]["Shared Read Blocks"] for each in told), float(traced))


def depth(probe: Probe) -> None:
    """A stream on slow storage keeps so many reads in progress as its setting and its pins allow, also in a ring of buffers."""
    settings = probe.driver.script.settings
    [(pins,)] = probe.ask(PINS)
    combined = 4 if pins > 35 else 1
    expected = min(16, pins // combined, int(settings.get("io_max_concurrency", 16)))
    if probe.driver.script.method == "sync" or expected < 6:
        return
    probe.run("DROP TABLE IF EXISTS counted; CREATE UNLOGGED TABLE counted WITH (fillfactor = 10) AS SELECT repeat('x', 700) AS body"
              " FROM generate_series(1, (SELECT setting::int / 4 + 100 FROM pg_settings WHERE name = 'shared_buffers'))")
    evict(probe)
    probe.run(f"SET effective_io_concurrency = 16; SET io_combine_limit = {combined}; SET max_parallel_workers_per_gather = 0")
    probe.ask("SELECT io_device('counted', '10 ms'), io_trace_reset(), io_trace_start()")
    probe.run("SELECT count(body) FROM (SELECT * FROM counted LIMIT 400) s")
    probe.ask("SELECT io_trace_stop(), io_device_end()")
    [(most,)] = probe.ask("SELECT coalesce(max(in_progress), 0) FROM io_trace WHERE relation = 'counted'::regclass")
    if most < (expected - 1 if combined > 1 else 0.6 * expected):
        probe.driver.fail(f"a sequential scan has no more than {most} reads of {combined} blocks in progress, not {expected}")


def alike(probe: Probe) -> None:
    """VACUUM of two tables does to each what VACUUM does to it alone.

    A snapshot elsewhere, such as a standby's, may keep rows of one of them; hardly three times."""
    option = probe.random.choice(("vacuum_truncate", "vacuum_index_cleanup"))
    for _ in range(3):
        sizes = []
        for commands in (("VACUUM one, two",), ("VACUUM two", "VACUUM one")):
            for name, options in ("one", f" WITH ({option} = off)"), ("two", ""):
                probe.run(f"DROP TABLE IF EXISTS {name}; CREATE TABLE {name} (id int PRIMARY KEY, body text STORAGE external){options};"
                          f" INSERT INTO {name} SELECT i, repeat('x', 3000) FROM generate_series(1, 100) i; DELETE FROM {name}")
            for sql in commands:
                probe.run(sql)
            sizes += probe.run("SELECT pg_table_size('one'), pg_table_size('two')")
        if sizes[0] == sizes[1]:
            return
    probe.driver.fail(f"VACUUM one, two: sizes {sizes[0]}; of each by itself: {sizes[1]}; one has {option} = off")


def failures(probe: Probe) -> None:
    """A page whose checksum is wrong counts once, for the database that it belongs to."""
    if probe.ask("SHOW data_checksums") != [("on",)]:
        return
    probe.run("DROP TABLE IF EXISTS counted; CREATE TABLE counted AS SELECT 1 AS id")
    spoiled, probe.driver.spoiled = probe.driver.spoiled, True
    for table, shared in ("counted", False), ("pg_shdescription", True):
        probe.ask("CHECKPOINT")
        [(file,)] = probe.ask(f"SELECT pg_relation_filepath('{table}')")
        path = probe.driver.cluster.data / file
        before, page = probe.failed_checksums(), path.read_bytes()
        probe.ask(f"SELECT modify_rel_block('{table}', 0, corrupt_checksum => true)")
        try:
            probe.run(f"SELECT count(*) FROM {table}")
        except psycopg.errors.DataCorrupted:
            after = probe.failed_checksums()
        else:
            probe.driver.fail(f"{table}: a wrong checksum is not noticed; the page begins with {path.read_bytes()[:12].hex()}, not {page[:12].hex()}; "
                              f"in the pool: {probe.ask(f'SELECT * FROM pg_buffercache WHERE relfilenode = pg_relation_filenode({table!r})')}")
        with path.open("r+b") as out:
            out.write(page)
        if (counted := [int(now - then) for now, then in zip(after, before, strict=True)]) != [not shared, shared]:
            probe.driver.fail(f"{table}: checksum failures of the database, of shared relations: {counted}")
    # what it says of these pages is excused, and nothing later
    log(probe.driver)
    probe.driver.spoiled = spoiled


def cancelled(probe: Probe) -> None:
    """What writes many buffers ends when it is cancelled, though each write takes long."""
    below = probe.driver.cluster.below
    writes = f"SELECT coalesce(sum(writes), 0) FROM pg_stat_get_backend_io({probe.pid})"
    probe.ask("CHECKPOINT; UPDATE heap SET k = k; UPDATE heap2 SET k = k")
    probe.run("SELECT pg_stat_force_next_flush()")
    [(before,)] = probe.ask(writes)
    below.fail(2, 1000)
    try:
        probe.run("SET statement_timeout = '100ms'; SELECT " + probe.random.choice(("pg_buffercache_evict_all()", "pg_buffercache_evict_relation('heap')")))
    except psycopg.errors.QueryCanceled:
        pass
    else:
        probe.run("RESET statement_timeout")
        return
    finally:
        below.fail(2, 0)
    probe.run("SELECT pg_stat_force_next_flush()")
    [(after,)] = probe.ask(writes)
    if after > before + 30:
        probe.driver.fail(f"a statement that is cancelled after 100 ms writes {after - before} buffers; each write takes 50 ms")


def reloaded(probe: Probe) -> None:
    """Each process follows a change of the configuration."""
    # while it writes slowly, the checkpointer does not log what it is asked for
    probe.ask("CHECKPOINT")
    log = probe.driver.cluster.log
    start = log.stat().st_size
    for prefix in "%p|%b|%e|new|", None:
        probe.ask(f"ALTER SYSTEM SET log_line_prefix = '{prefix}'" if prefix else "ALTER SYSTEM RESET log_line_prefix")
        probe.ask("SELECT pg_reload_conf()")
        if prefix and not wait_for(lambda: not probe.old(log, start), 15, 0.1):
            probe.driver.fail(f"processes that do not follow a reload: {probe.old(log, start)}")


PROBES: tuple[Callable[[Probe], None], ...] = (scan, scan, scan, change, change, vacuum, concurrency, together, depth, alike, failures, cancelled, reloaded)


def probe(driver: "Driver", seed: int) -> None:
    random = Random(seed)
    for sql in ("ALTER SYSTEM SET autovacuum = off", "SELECT pg_reload_conf()"):
        driver.ask(sql)
    wait_for(lambda: not driver.ask("SELECT 1 FROM pg_stat_activity WHERE backend_type LIKE 'autovacuum%'"), 10)
    for judge in random.sample(PROBES, 6):
        # counters of other sessions must not come meanwhile
        for session in driver.sessions:
            session.connection.ask("SELECT pg_stat_force_next_flush()")
        driver.ask("SELECT pg_stat_force_next_flush()")
        driver.ask(f"SELECT set_config('stats_fetch_consistency', '{random.choice(('none', 'cache', 'snapshot'))}', false)")
        here = Probe(driver, random)
        try:
            judge(here)
        finally:
            here.connection.close()
    driver.ask("ALTER SYSTEM RESET autovacuum")
    driver.ask("SELECT pg_reload_conf()")
