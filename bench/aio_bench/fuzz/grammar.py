"""Steps drawn from a seed: statements of the sessions, faults, and when all is looked at."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from .configuration import CHOICES, ROW, SHARED, filler, storage_sql
from .model import TERM, where
from .script import IDS, OWNERS, Step

PLANS = ("enable_seqscan", "enable_indexscan", "enable_bitmapscan", "enable_indexonlyscan", "enable_hashjoin", "enable_mergejoin", "enable_material", "enable_sort",
         "enable_hashagg", "enable_memoize")
CHANGED = ("io_combine_limit", "effective_io_concurrency", "maintenance_io_concurrency", "work_mem", "maintenance_work_mem", "vacuum_buffer_usage_limit",
           "max_parallel_workers_per_gather", "backend_flush_after")
RELOADED = ("io_workers", "io_workers", "io_combine_limit", "io_max_combine_limit", "effective_io_concurrency", "bgwriter_delay", "bgwriter_lru_maxpages", "autovacuum", "full_page_writes")


#: what looks at pages and WAL; of its arguments, r is a relation, f a fork, b a block, p a page, n a buffer, l a place in WAL, t true or false
CALLS = """bt_metap(r) bt_page_stats(r,b) bt_page_items(r,b) bt_multi_page_stats(r,b,b) hash_bitmap_info(r,b) get_raw_page(r,f,b) bt_page_items(p) brin_metapage_info(p) brin_page_items(p,r)
 brin_page_type(p) brin_revmap_data(p) fsm_page_contents(p) gin_leafpage_items(p) gin_metapage_info(p) gin_page_opaque_info(p) gist_page_items(p,r) gist_page_items_bytea(p) gist_page_opaque_info(p)
 hash_metapage_info(p) hash_page_items(p) hash_page_stats(p) hash_page_type(p) heap_page_items(p) heap_page_item_attrs(p,r) heap_page_item_attrs(p,r,t) page_checksum(p,b) page_header(p) pg_relpages(r)
 pgstatginindex(r) pgstathashindex(r) pgstatindex(r) pgstattuple(r) pgstattuple_approx(r) pg_visibility(r) pg_visibility(r,b) pg_visibility_map(r,b) pg_visibility_map_summary(r) pg_check_frozen(r)
 pg_check_visible(r) pg_truncate_visibility_map(r) pg_freespace(r,b) verify_heapam(r,t,t,'none',b,b) bt_index_check(r,t) bt_index_parent_check(r,t,t) gin_index_check(r) pg_buffercache_evict(n)
 pg_buffercache_mark_dirty(n) pg_buffercache_evict_relation(r) pg_prewarm(r,'buffer',f,b,b) pg_get_wal_records_info(l,l) pg_get_wal_block_info(l,l,t) pg_get_wal_stats(l,l,t) pg_get_wal_record_info(l)
 pg_relation_size(r,f)"""
#: some runs lack some of them
RELATIONS = ("heap", "heap", "parts", "parts_0", "unlogged", "temp1", "seen", "counter", "mat", "heap_id", "heap_id_idx", "heap_id_v_idx", "heap_p_idx", "heap_p_idx1", "heap_a_idx", "heap2_a_idx", "heap2_id_idx",
             "heap2_id_idx1", "unlogged_p_idx", "unlogged_a_idx", "parts_id", "parts_0_id_idx", "pg_class", "pg_database", "pg_toast.pg_toast_1255", "pg_toast.pg_toast_1255_index")


class Grammar:
    def __init__(self, random: Random, shape: dict[str, Any]) -> None:
        self.random = random
        self.shape = shape
        self.version = 0
        #: which kinds of statements this run has, and how often: a run of few kinds goes deeper
        self.weights: dict[str, float] = {name: random.choice((0, 1, 1, 4)) for name in self.kinds()}
        self.weights["write"] = self.weights["read"] = 4

    # what statements are made of

    def one(self, *of: Any) -> Any:
        return self.random.choice(of)

    def new_version(self) -> int:
        self.version += 1
        return self.version

    def range(self) -> tuple[int, int]:
        low = self.random.randrange(IDS)
        return low, min(IDS - 1, low + self.one(3, 40, 300, 999))

    def table(self, me: int, shared: float = 0.7) -> str:
        return self.one(*SHARED) if self.random.random() < shared else self.one(f"own{me}", f"temp{me}")

    def leaf(self, me: int) -> str:
        """A relation with storage."""
        return self.one("heap", "parts_0", "parts_400", "unlogged", "heap2", f"own{me}")

    def relation(self, me: int) -> str:
        return self.one(self.leaf(me), self.one(f"own{me}_id", "heap_id", "heap2_id", "unlogged_id", "parts_0_id_idx"), "seen", "counter", "mat", "parts", "parts_id",
                        f"temp{me}") if self.random.random() < 0.5 else self.leaf(me)

    def predicate(self, change: bool = False) -> tuple[Any, ...]:
        low, high = self.range()
        if change:
            return self.one(("id", low, high), ("k", low % 37), ("id", low, low))
        first = self.random.randrange(self.version + 1)
        return self.one(("id", low, high), ("id", low, low), ("k", low % 37), ("a", low % 17), ("p", low, high), ("v", first, first + self.one(2, 50)), ("all",))

    def rows(self, me: int, table: str, predicate: tuple[Any, ...], extra: str = "", source: str = "") -> Step:
        mine = f"id % {OWNERS} = {me}"
        narrow = self.random.random() < 0.4
        wrong = "0" if narrow else "count(*) FILTER (WHERE body <> payload(id, v) OR k <> id % 37 OR body IS NULL)"
        return Step(me, "sql", f"SELECT count(*) FILTER (WHERE {mine}), coalesce(sum({TERM}) FILTER (WHERE {mine}), 0), {wrong}"
                    f" FROM {source or table} WHERE {where(predicate)}{extra}", ("rows", table, predicate))

    # kinds of steps: each gives those of one piece of work

    def kinds(self) -> dict[str, Callable[[int], Iterator[Step]]]:
        return {name.removeprefix("make_"): getattr(self, name) for name in dir(self) if name.startswith("make_")}

    def write(self, me: int, kind: str = "", table: str = "") -> Step:
        table, (low, high), version = table or self.table(me), self.range(), self.new_version()
        mine = f"id % {OWNERS} = {me}"
        first = low + (me - low) % OWNERS
        row = ROW.format(id="i", v=version)
        fresh = f"generate_series({first}, {high}, {OWNERS}) i WHERE NOT EXISTS (SELECT FROM {table} WHERE id = i)"
        kind = kind or self.one("insert", "insert", "copy", "update", "update", "delete", "merge")
        if kind == "insert":
            return Step(me, "sql", f"INSERT INTO {table} SELECT {row} FROM {fresh}", ("insert", table, low, high, version))
        if kind == "copy":
            file = f"{{directory}}/copy{me}"
            # from one partition to the other with each row
            order = " ORDER BY i % 400" if table == "parts" else ""
            # COPY's snapshot is older than its lock: it would not see the rows of a table that ALTER TABLE has just rewritten
            return Step(me, "sql", f"LOCK TABLE {table} IN ROW EXCLUSIVE MODE; COPY (SELECT {row} FROM {fresh}{order}) TO '{file}'{(how := self.one('', ' (FORMAT binary)', ' (FORMAT csv)'))};"
                        f" COPY {table} FROM '{file}'{how}", ("insert", table, low, high, version))
        condition = self.predicate(change=True)
        if kind == "delete":
            return Step(me, "sql", f"DELETE FROM {table} WHERE {mine} AND {where(condition)}", ("delete", table, condition))
        change = f"SET v = {version}, p = point(id, {version}), a = ARRAY[id % 17, 100 + {version} % 13], body = payload(id, {version})"
        sql = f"UPDATE {table} {change} WHERE {mine} AND {where(condition)}"
        if kind == "merge" and not table.startswith("temp"):
            sql = f"MERGE INTO {table} t USING (SELECT id AS i FROM {table} WHERE {mine} AND {where(condition)}) s ON t.id = s.i WHEN MATCHED THEN UPDATE {change}"
        return Step(me, "sql", sql, ("update", table, condition, version))

    def make_write(self, me: int) -> Iterator[Step]:
        yield self.write(me)

    def make_copy(self, me: int) -> Iterator[Step]:
        yield self.write(me, "delete", "parts")
        yield self.write(me, "copy", "parts")

    def read(self, me: int) -> Step:
        table = self.table(me)
        return self.rows(me, table, self.predicate())

    def make_read(self, me: int) -> Iterator[Step]:
        yield self.read(me)

    def make_join(self, me: int) -> Iterator[Step]:
        """Many scans at once, rescans, spilling sorts and hash joins."""
        table = self.table(me)
        twin = self.one(f"(SELECT id AS j, body AS b2 FROM {table} ORDER BY body, id)", f"(SELECT id AS j, max(body) AS b2 FROM {table} GROUP BY id)", f"(SELECT id AS j, body AS b2 FROM {table})")
        yield self.rows(me, table, self.predicate(), source=self.one(
            f"{table} JOIN {twin} s ON id = j AND body = b2", f"{table} CROSS JOIN LATERAL (SELECT id AS j FROM {table} x WHERE x.id = {table}.id LIMIT 1) s",
            f"(SELECT * FROM {table} WHERE k < 20 UNION ALL SELECT * FROM {table} WHERE k >= 20) s",
            f"(SELECT *, row_number() OVER (ORDER BY body) FROM {table}) s"))

    def make_temporary(self, me: int) -> Iterator[Step]:
        """Several scans of one temporary table at once, which is larger than its buffers may be."""
        table = f"temp{me}"
        # again after a crash
        yield Step(me, "sql", f"{filler(table, 12000)} WHERE NOT EXISTS (SELECT FROM {table} WHERE id < -40000)", (), "no tx")
        twins = " JOIN ".join([table, *(f"(SELECT id AS j{i} FROM {table} ORDER BY id) s{i} ON j{i} = id" for i in range(self.random.randrange(4)))])
        yield Step(me, "sql", f"SET effective_io_concurrency = {self.one(16, 1000)}; SET io_combine_limit = '{self.one(16, 128)}'")
        yield self.rows(me, table, self.predicate(), source=twins)
        # three streams at once
        yield Step(me, "sql", "; ".join(["BEGIN", *(f"DECLARE t{i} CURSOR FOR SELECT * FROM {table}; MOVE 3000 FROM t{i}" for i in range(3)), f"SELECT count(*) FROM {table} WHERE id = 1", "ROLLBACK"]), (), "no tx")
        yield Step(me, "sql", f"SELECT (SELECT count(body) FROM {table}) - (SELECT count(*) FROM (SELECT body FROM {table} UNION ALL SELECT body FROM {table}) s) / 2", ("none",))

    def make_full(self, me: int) -> Iterator[Step]:
        """A table cannot grow, for the disk is full for a moment; after that it can."""
        table = self.one(f"temp{me}", f"temp{me}", "heap", f"own{me}")
        yield Step(-1, "below", "", (1, 1))
        yield Step(me, "sql", filler(table, self.one(100, 2000), 20000 * self.new_version()), (), "no tx", -1)
        yield Step(-1, "below", "", (1, 0))
        yield Step(me, "sql", filler(table, 100, 20000 * self.new_version()), (), "no tx")
        yield self.rows(me, table, ("all",))

    def make_anti(self, me: int) -> Iterator[Step]:
        table = self.table(me)
        low = self.random.randrange(37)
        # stops early, again and again
        yield Step(me, "sql", f"SELECT count(*) FROM generate_series(0, 36) g WHERE g >= {low} AND (SELECT payload(id, v) <> body FROM {table} WHERE k = g LIMIT 1)", ("none",))
        yield Step(me, "sql", f"SELECT count(*) FROM {table} x WHERE NOT EXISTS (SELECT FROM {table} y WHERE y.id = x.id AND y.v = x.v)", ("none",))

    def make_cursor(self, me: int) -> Iterator[Step]:
        table, predicate, name = self.table(me), self.predicate(), f"c{self.random.randrange(1000)}"
        scroll, hold = self.one("SCROLL ", "NO SCROLL ", ""), self.random.random() < 0.3
        columns = self.one("id, v, body = payload(id, v)", "id, v, true")
        if not hold:
            yield Step(me, "sql", "BEGIN", ("begin",), "no tx")
        yield Step(me, "sql", f"DECLARE {name} {scroll}CURSOR {'WITH HOLD ' if hold else ''}FOR SELECT {columns} FROM {table} WHERE {where(predicate)} AND id % {OWNERS} = {me}",
                   ("declare", name, table, predicate, hold), "no tx" if hold else "tx")
        for _ in range(self.random.randrange(4)):
            yield Step(me, "sql", f"FETCH {self.one(1, 1, 5, 50)} FROM {name}", ("fetch", name), "" if hold else "tx", self.one(0, 5))
            yield self.one(self.setting(me), Step(me, "sql", f"SET io_combine_limit = {self.one(1, 16, 128)}"), self.read(me), self.write(me))
        if scroll == "SCROLL ":
            yield Step(me, "sql", f"MOVE ABSOLUTE 0 FROM {name}", ("rewind", name), "" if hold else "tx")
        yield Step(me, "sql", f"FETCH ALL FROM {name}", ("fetch all", name), "" if hold else "tx")
        yield Step(me, "sql", self.one("COMMIT", "ROLLBACK", f"CLOSE {name}; COMMIT"), ("commit",), "tx") if not hold else Step(me, "sql", f"CLOSE {name}", ("close", name))

    def make_empty_cursor(self, me: int) -> Iterator[Step]:
        """A count of rows that needs none of their columns, and goes on while others vacuum."""
        table, predicate, name = self.table(me, 1), self.one(("all",), ("k", self.random.randrange(37)), ("id", 0, self.random.randrange(IDS))), f"e{self.random.randrange(1000)}"
        mine = f"id % {OWNERS} = {me}"
        condition = self.predicate(change=True)
        yield Step(me, "sql", f"DELETE FROM {table} WHERE {mine} AND {where(condition)}", ("delete", table, condition), "no tx")
        yield Step(me, "sql", f"BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = {self.one('on', 'off')}", ("begin",), "no tx")
        yield Step(me, "sql", f"DECLARE {name} CURSOR FOR SELECT FROM {table} WHERE {where(predicate)}", (), "tx")
        yield Step(me, "sql", f"FETCH 1 FROM {name}", ("count", name), "tx", 5)
        yield Step((me + 1) % OWNERS, "sql", f"VACUUM (DISABLE_PAGE_SKIPPING) {table}", (), "no tx", -1)
        yield Step(me, "sql", f"FETCH ALL FROM {name}", ("count", name), "tx")
        yield Step(me, "sql", f"SET LOCAL enable_seqscan = on; SET LOCAL enable_bitmapscan = off; SELECT count(*) FROM {table} WHERE {where(predicate)}", ("counted", name), "tx")
        yield Step(me, "sql", "COMMIT", ("commit",), "tx")

    def make_transaction(self, me: int) -> Iterator[Step]:
        yield Step(me, "sql", "BEGIN", ("begin",), "no tx")
        for _ in range(self.random.randrange(1, 4)):
            if self.random.random() < 0.4:
                name = self.one("a", "b")
                yield Step(me, "sql", f"SAVEPOINT {name}", ("savepoint", name), "tx")
                yield self.write(me)
                if self.random.random() < 0.5:
                    yield Step(me, "sql", f"ROLLBACK TO {name}", ("rollback to", name), "tx")
            yield self.one(self.write, self.read)(me)
        if self.random.random() < 0.2:
            name = f"p{me}"
            yield Step(me, "sql", f"PREPARE TRANSACTION '{name}'", ("prepare",), "tx")
            yield self.read(me)
            if self.random.random() < 0.3:
                yield Step(me, "sql", "CHECKPOINT")
            end = self.one("COMMIT", "ROLLBACK")
            yield Step(me, "sql", f"{end} PREPARED '{name}'", ("finish", end), "no tx")
        else:
            end = self.one("COMMIT", "COMMIT", "ROLLBACK")
            yield Step(me, "sql", end, (end.lower(),), "tx")

    def make_lock(self, me: int) -> Iterator[Step]:
        """Rows that several sessions lock at once."""
        strength, end, table = self.one("UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE", "KEY SHARE"), self.one("COMMIT", "ROLLBACK"), self.table(me, 1)
        if self.random.random() < 0.3:
            yield Step(me, "sql", f"VACUUM (FREEZE) {table}", (), "no tx")
        yield Step(me, "sql", "BEGIN", ("begin",), "no tx")
        yield Step(me, "sql", f"SELECT count(*) FROM (SELECT FROM {table} WHERE {where(self.predicate(change=True))} FOR {strength}{self.one('', ' SKIP LOCKED')}) s", (), "tx", self.one(0, 5))
        yield self.one(self.write, self.read)(me)
        yield Step(me, "sql", end, (end.lower(),), "tx")

    def setting(self, me: int) -> Step:
        if self.random.random() < 0.6:
            return Step(me, "sql", f"SET {self.one(*PLANS)} = {self.one('on', 'off')}")
        name = self.one(*CHANGED)
        return Step(me, "sql", f"SET {name} = '{self.one(*CHOICES[name])}'")

    def make_setting(self, me: int) -> Iterator[Step]:
        yield self.setting(me)

    def make_reload(self, me: int) -> Iterator[Step]:
        name = self.one(*RELOADED)
        yield Step(-1, "reload", "", (name, self.one(*CHOICES[name])))

    def make_vacuum(self, me: int) -> Iterator[Step]:
        options = [self.one(*choice) for choice in self.random.sample(
            (("FULL",), ("FREEZE",), ("DISABLE_PAGE_SKIPPING",), ("PARALLEL 2", "PARALLEL 0"), ("INDEX_CLEANUP on", "INDEX_CLEANUP off"), ("TRUNCATE off",), ("PROCESS_TOAST off", "PROCESS_MAIN off"),
             ("ANALYZE",), ("BUFFER_USAGE_LIMIT 0", "BUFFER_USAGE_LIMIT '128kB'"), ("SKIP_LOCKED",)), self.random.randrange(4))]
        if "FULL" in options and {"PARALLEL 2", "DISABLE_PAGE_SKIPPING", "PROCESS_TOAST off"} & {*options}:
            options.remove("FULL")
        if "FULL" in options and any(option.startswith("BUFFER_USAGE_LIMIT") for option in options) and "ANALYZE" not in options:
            options.remove("FULL")
        failsafe = self.random.random() < 0.1
        if failsafe:
            yield Step(me, "sql", "SET vacuum_failsafe_age = 0; SET vacuum_multixact_failsafe_age = 0; SET vacuum_freeze_table_age = 0", (), "no tx")
        yield Step(me, "sql", f"VACUUM ({', '.join(options)}) {self.table(me)}" if options else f"VACUUM {self.one(self.table(me), 'heap, heap2, parts')}", (), "no tx")
        if failsafe:
            yield Step(me, "sql", "RESET vacuum_failsafe_age; RESET vacuum_multixact_failsafe_age; RESET vacuum_freeze_table_age", (), "no tx")

    def make_maintenance(self, me: int) -> Iterator[Step]:
        leaf = self.leaf(me)
        yield Step(me, "sql", self.one(
            f"ANALYZE {leaf}", f"CLUSTER {leaf} USING {leaf}_id" if "parts" not in leaf else f"CLUSTER {leaf} USING {leaf}_id_idx", f"REINDEX TABLE {leaf}", f"REINDEX TABLE CONCURRENTLY {leaf}",
            f"ALTER TABLE {leaf} SET TABLESPACE {self.one('aside', 'pg_default')}", f"ALTER TABLE {leaf} SET (fillfactor = {self.one(30, 90)})",
            f"ALTER INDEX heap_id SET TABLESPACE {self.one('aside', 'pg_default')}", "REFRESH MATERIALIZED VIEW mat", "REFRESH MATERIALIZED VIEW CONCURRENTLY mat",
            f"ALTER TABLE {(name := self.one('heap', 'heap2', 'unlogged'))} ADD COLUMN extra float8 DEFAULT random(); ALTER TABLE {name} DROP COLUMN extra", "CHECKPOINT", "SELECT nextval('counter')",
            f"CREATE INDEX CONCURRENTLY x{me} ON {leaf} (v, id)", f"DROP INDEX IF EXISTS x{me}", f"DROP INDEX CONCURRENTLY IF EXISTS x{me}", f"BEGIN; DROP INDEX {name}_id; ANALYZE {name}; ROLLBACK"), (), "no tx")

    def make_repack(self, me: int) -> Iterator[Step]:
        """REPACK (since 19), also of tables that others change meanwhile."""
        table, written = self.one((f"own{me}", ""), ("heap2", "heap2"), ("heap2", "heap2"), ("parts_400", "parts"))
        options = self.one("", "(ANALYZE) ", "(CONCURRENTLY) ", "(CONCURRENTLY) ", "(CONCURRENTLY, ANALYZE) ")
        yield Step(me, "sql", f"REPACK {options}{table}{self.one('', f' USING INDEX {table}_id' + '_idx' * (table == 'parts_400'))}",
                   ("errors", "42601", "0A000", "22023", "53400", "55000", "42704"), "no tx")
        for other in {*range(OWNERS)} - {me} if written else ():
            yield replace(self.write(other, table=written), needs="no tx")

    def make_checksums(self, me: int) -> Iterator[Step]:
        """Checksums are switched while sessions write (since 19)."""
        yield Step(-1, "checksums", "", (self.one("enable", "enable", "disable"),))
        for _ in range(self.random.randrange(20)):
            yield replace(self.write(other := self.random.randrange(OWNERS), table=self.one(*SHARED, f"own{other}")), needs="no tx")
        yield Step(-1, "checksums", "", ("wait",))

    def make_shrink(self, me: int) -> Iterator[Step]:
        """A table that becomes shorter, and shorter again."""
        name = f"shrinks{me}"
        yield Step(me, "sql", f"CREATE TABLE IF NOT EXISTS {name} AS SELECT i AS id, repeat('x', 500) AS body FROM generate_series(1, 0) i; INSERT INTO {name} SELECT i, repeat('x', 500) FROM generate_series(1, 2000) i", (), "no tx")
        for part in sorted(self.random.sample(range(1, 20), 3), reverse=True):
            yield Step(me, "sql", f"DELETE FROM {name} WHERE id > {100 * part}", (), "no tx")
            yield Step(me, "sql", f"VACUUM {name}", (), "no tx")
            yield Step(me, "sql", self.one("CHECKPOINT", f"DELETE FROM {name} WHERE id = {100 * part}"), (), "no tx")
        yield Step(me, "sql", f"INSERT INTO {name} SELECT i, repeat('x', 500) FROM generate_series(1, {self.one(5, 500)}) i", (), "no tx")

    def make_own(self, me: int) -> Iterator[Step]:
        """A table of the session's alone, which is emptied, dropped and made again."""
        table, (low, high), version = f"own{me}", self.range(), self.new_version()
        first = low + (me - low) % OWNERS
        fill = f"INSERT INTO {table} SELECT {ROW.format(id='i', v=version)} FROM generate_series({first}, {high}, {OWNERS}) i"
        yield Step(me, "sql", "BEGIN", ("begin",), "no tx")
        if self.random.random() < 0.5:
            yield Step(me, "sql", "SAVEPOINT o", ("savepoint", "o"), "tx")
        how = self.random.randrange(4)
        if how == 0:
            yield Step(me, "sql", f"DROP TABLE {table}; {'; '.join(storage_sql(self.random, table, self.one('heap', 'unlogged')))}", ("clear", table), "tx")
        elif how == 1:
            yield Step(me, "sql", f"ALTER TABLE {table} SET {self.one('LOGGED', 'UNLOGGED')}", (), "tx")
        else:
            yield Step(me, "sql", f"TRUNCATE {table}", ("clear", table), "tx")
        if how != 1:
            yield Step(me, "sql", fill, ("insert", table, low, high, version), "tx")
            yield self.rows(me, table, self.predicate())
        end = self.one("COMMIT", "COMMIT", "ROLLBACK")
        yield Step(me, "sql", end, (end.lower(),), "tx")

    def make_cache(self, me: int) -> Iterator[Step]:
        """What else reads, and what empties the cache."""
        relation, leaf = self.relation(me), self.leaf(me)
        fork = self.one("main", "main", "fsm", "vm", "init")
        yield Step(me, "sql", f"SELECT pg_prewarm('{relation}', '{self.one('buffer', 'read', 'prefetch')}', '{fork}')", ("errors", "42809", "22023", "0A000"))
        yield Step(me, "sql", f"SET ROLE reader; SELECT pg_prewarm('{self.one('heap', 'heap_id', 'heap2_id', 'mat')}'); SELECT count(*) FROM heap2; RESET ROLE", (), "no tx")
        super_ = me & 2
        choices = [f"SELECT evict_rel('{leaf}')", f"SELECT evict_rel('{leaf}')", "SELECT pg_buffercache_evict_all()", f"SELECT pg_buffercache_evict_relation('{leaf}')",
                   "SELECT count(*) FROM pg_buffercache", "SELECT * FROM pg_buffercache_summary()", f"SELECT * FROM pgstattuple('{leaf}')", f"SELECT * FROM pgstattuple_approx('{leaf}')",
                   f"SELECT count(*) FROM pg_visibility('{leaf}')", f"SELECT * FROM verify_heapam('{leaf}', on_error_stop => {self.one('true', 'false')}, skip => '{self.one('none', 'all-visible')}')",
                   "SELECT bt_index_check('heap_id', true)", "SELECT autoprewarm_dump_now()"]
        yield Step(super_, "sql", self.one(*choices), ("errors", "55000", "42P01"))

    def make_call(self, me: int) -> Iterator[Step]:
        """Functions that look at pages are shown pages of every kind."""
        for _ in range(5):
            name, parts = self.one(*CALLS.split())[:-1].split("(")
            # mostly a page with the relation that it is of
            relations = self.one(RELATIONS, [self.one(*RELATIONS)], [self.one(*RELATIONS)])
            arguments = ", ".join(self.argument(kind, relations) for kind in parts.split(","))
            yield Step(me, "sql", f"SELECT count(r::text) FROM {name}({arguments}) r", ("call", "page" if "p" in parts else "relation"))

    def argument(self, kind: str, relations: Sequence[str]) -> str:
        block, relation, fork = self.one(0, 0, 1, 1, 2, 3, 7, -1, 100000, (1 << 32) - 1), f"'{self.one(*relations)}'", f"'{self.one('main', 'main', 'main', 'fsm', 'vm', 'init')}'"
        page = f"get_raw_page({relation}, {fork}, {block})"
        return {"r": self.one(relation, f"{relation}::regclass"), "f": fork, "b": str(block), "p": self.one(page, page, page, page, "decode(repeat('00', 8192), 'hex')", f"substr({page}, 1, 100)"), "t": self.one("true", "false"),
                "n": str(self.one(1, 2, 40, 127)), "l": self.one(*[f"pg_current_wal_flush_lsn() - {self.random.randrange(1, 300000)}"] * 4, "pg_current_wal_flush_lsn() + 1", "'0/1'")}.get(kind, kind)

    def make_streams(self, me: int) -> Iterator[Step]:
        """Our own functions: random streams of any shape."""
        me &= 2
        leaf = self.one("heap", "heap2", f"temp{me}")
        blocks = f"(SELECT (pg_relation_size('{leaf}') / 8192)::int)"
        start, step, count = self.random.randrange(50), self.one(1, 1, 2, -1, 3, 17), self.random.randrange(1, 120)
        shape = self.one(f"(({start} + i * {step}) % n + n) % n", f"({start} + i / {self.one(2, 3, 7)} * {self.one(1, 5)} + i % {self.one(1, 2, 3)}) % n", f"(i * i + {start}) % n",
                         f"CASE WHEN i % {self.one(5, 20)} = 0 THEN (i * 31) % n ELSE i % n END")
        array = f"ARRAY(SELECT {shape} FROM generate_series(0, {count}) i, (SELECT {blocks} AS n) s WHERE n > 0 ORDER BY i)"
        yield Step(me, "sql", self.one(
            f"SELECT count(*) FROM (SELECT {array} AS b) x, read_stream_for_blocks('{leaf}', b) r WHERE r.blocknum <> b[r.blockoff + 1]",
            f"SELECT cardinality(b) - (SELECT count(*) FROM read_stream_for_blocks('{leaf}', b)) FROM (SELECT {array} AS b) x",
            f"SELECT sum(r.nblocks) - n FROM (SELECT {blocks} AS n) x, read_buffers('{leaf}', 0, n) r GROUP BY n"), ("none",))

    def make_database(self, me: int) -> Iterator[Step]:
        me &= 2
        name, errors = f"copy{me}", ("errors", "42P04", "3D000", "55006", "22023")
        yield Step(me, "sql", f"CREATE DATABASE {name} TEMPLATE template0 STRATEGY {self.one('wal_log', 'file_copy')} TABLESPACE {self.one('pg_default', 'aside')}", errors, "no tx")
        if self.random.random() < 0.4:
            # a move that a crash has interrupted leaves files, which are in the way of the next one; a database whose DROP was interrupted has none
            yield Step(me, "sql", f"ALTER DATABASE {name} SET TABLESPACE {self.one('pg_default', 'aside')}", (*errors, "55000", "58P01"), "no tx")
        if self.random.random() < 0.5:
            yield Step(me, "sql", f"DROP DATABASE {name}", errors, "no tx")

    def make_spoiled(self, me: int) -> Iterator[Step]:
        """A table that nobody else knows is spoiled, and looked at by what must report that, and go on."""
        me &= 2
        how = self.one("corrupt_header => true", "corrupt_checksum => true", "zero => true")
        yield Step(me, "sql", f"CREATE TABLE bad{me} AS SELECT i AS id, repeat('x', 200) AS body FROM generate_series(1, 500) i; CREATE INDEX bad{me}_id ON bad{me} USING {self.one('btree', 'hash')} (id)", (), "no tx")
        yield Step(me, "sql", "CHECKPOINT", (), "no tx")
        # replay reads no page that is spoiled: the same table may have been looked at, and pruned, since
        yield Step(me, "sql", f"CHECKPOINT; SELECT modify_rel_block('bad{me}', {self.random.randrange(10)}, {how})", ("spoil",), "no tx")
        for _ in range(2):
            yield Step(me, "sql", self.one(f"SELECT count(*) FROM verify_heapam('bad{me}', on_error_stop => true)", f"SELECT count(*) FROM bad{me}", f"SELECT pg_prewarm('bad{me}')",
                                           f"VACUUM bad{me}", f"SELECT * FROM pgstattuple('bad{me}')", f"SELECT count(*) FROM bad{me} WHERE id = 7"), ("errors", "XX001", "58030", "XX002", "42P01", "0A000"), "no tx")
        yield Step(me, "sql", f"SELECT grow_rel('bad{me}_id', {self.one(1, 3)})", ("errors", "XX001", "42P01"), "no tx")
        # pgstatindex() is rare, for it ends the run on servers with assertions (pgstatindex-new-page)
        kind = self.random.choices(("pgstattuple", "pgstathashindex", "pgstatindex"), (9, 9, 1))[0]
        yield Step(me, "sql", f"SELECT * FROM {kind}('bad{me}_id')",
                   ("errors", "0A000", "42809", "42P01"), "no tx")
        yield Step(me, "sql", f"DROP TABLE bad{me}", (), "no tx")

    # faults

    def fault(self) -> Step:
        victim = self.random.randrange(OWNERS)
        leaf = self.leaf(victim)
        return self.one(
            Step(-1, "interrupt", "", ("pg_cancel_backend", victim)), Step(-1, "interrupt", "", ("pg_cancel_backend", victim)), Step(-1, "interrupt", "", ("pg_terminate_backend", victim)),
            Step(-1, "below", "", (0, self.one(1, 3))), Step(-1, "below", "", (1, self.one(1, 2))),
            Step(-1, "gate", f"SELECT io_hold('{leaf}', times => {self.one(1, 3)})"), Step(-1, "gate", "SELECT io_release_all()"), Step(-1, "gate", "SELECT io_release_all()"),
            Step(-1, "gate", "SELECT io_hold_end()"), Step(-1, "gate", f"SELECT io_device('{leaf}', '{self.one(1, 2)} ms', {self.one(1, 4, 32)}, {self.one(0, 0.9)})"),
            Step(-1, "gate", "SELECT io_device_end()"),
            Step(-1, "gate", f"SELECT io_fail('{leaf}', -5, times => {self.one(1, 2)}, skip => {self.one(0, 3)})"),
            Step(-1, "gate", f"SELECT io_fail('{leaf}', {self.one(4096, 8192, 20000, 65536)}, times => {self.one(1, 5, 50)}, skip => {self.one(0, 2)})"))

    def steps(self, phases: int, length: int) -> Iterator[Step]:
        """Interleaves the sessions' pieces of work; after each phase all is looked at."""
        kinds = self.kinds()
        names = [name for name in kinds if self.weights[name]]
        weights = [self.weights[name] for name in names]
        for phase in range(phases):
            faults = self.random.random() < 0.5
            work: list[Iterator[Step]] = [iter(()) for _ in range(OWNERS)]
            for _ in range(length):
                me = self.random.randrange(OWNERS)
                step = next(work[me], None)
                while step is None:
                    work[me] = kinds[self.random.choices(names, weights)[0]](me)
                    step = next(work[me], None)
                yield step
                if self.shape.get("standby") and self.random.random() < 0.04:
                    yield Step(-1, "standby", "", (self.random.randrange(6),))
                if self.random.random() < 0.03:
                    yield Step(-1, "watch", "", (self.one(1, 5),))
                if faults and self.random.random() < 0.1:
                    yield self.fault()
            if phase == phases - 1 or self.random.random() < 0.5:
                yield Step(-1, "down", "", (self.one("crash", "restart", "kill", *["promote"] * 3 * bool(self.shape.get("standby"))), self.random.randrange(100)))
            yield Step(-1, "check", "", (phase,))
            yield Step(-1, "probe", "", (self.random.randrange(1 << 30),))
