"""What each table holds: rows by id and version.  Each session alone writes the rows of its own, so it knows them exactly."""

from typing import Any

from .script import OWNERS

#: the driver's own session
OBSERVER = "RESET ALL; SET lock_timeout = '300ms'; SET client_min_messages = error; SET max_parallel_workers_per_gather = 0"

Rows = dict[int, int]
Tables = dict[str, Rows]


def matches(predicate: tuple[Any, ...], row: int, version: int) -> bool:
    """Returns whether a row fulfils a condition.  where() writes it in SQL."""
    kind, *values = predicate
    return {"all": lambda: True, "id": lambda: values[0] <= row <= values[1], "k": lambda: row % 37 == values[0], "v": lambda: values[0] <= version <= values[1],
            "a": lambda: values[0] == row % 17, "p": lambda: values[0] <= row <= values[1]}[kind]()


def where(predicate: tuple[Any, ...]) -> str:
    kind, *values = predicate
    return {"all": "true", "id": "id BETWEEN {} AND {}", "k": "k = {}", "v": "v BETWEEN {} AND {}", "a": "a @> ARRAY[{}]",
            "p": "p <@ box(point({}, -1), point({}, 1e9))"}[kind].format(*values)


#: the sum of a row in a checksum, in SQL
TERM = "(id::int8 * 1000003 + v * 7919) % 2147483647"
#: of a table: its rows, their checksum, and how many are not as written
COLUMNS = f"count(*), coalesce(sum({TERM}), 0), count(*) FILTER (WHERE body IS DISTINCT FROM payload(id, v) OR k <> id % 37)"


def checksum(rows: Rows) -> tuple[int, int]:
    """Returns what count(*) and the sum of TERM are."""
    return len(rows), sum((row * 1000003 + version * 7919) % 2147483647 for row, version in rows.items())


class Owner:
    """The rows of one session: as it sees them now, and as they are if its transaction fails."""

    def __init__(self, number: int, tables: list[str]) -> None:
        self.number = number
        self.now: Tables = {table: {} for table in tables}
        self.before: Tables | None = None
        self.savepoints: list[tuple[str, Tables]] = []
        #: what a prepared transaction would make of it
        self.prepared: Tables | None = None
        #: rows that open cursors are to return, with those that have come
        self.cursors: dict[str, tuple[Rows, Rows, bool]] = {}

    def _copy(self) -> Tables:
        return {table: dict(rows) for table, rows in self.now.items()}

    def mine(self, low: int, high: int) -> range:
        return range(low + (self.number - low) % OWNERS, high + 1, OWNERS)

    def selected(self, table: str, predicate: tuple[Any, ...]) -> Rows:
        return {row: version for row, version in self.now[table].items() if matches(predicate, row, version)}

    def roll_back(self) -> None:
        if self.before is not None:
            self.now, self.before = self.before, None
        self.savepoints = []
        self.cursors = {name: cursor for name, cursor in self.cursors.items() if cursor[2]}

    def lost(self) -> None:
        """The session has ended."""
        self.roll_back()
        self.cursors = {}

    def apply(self, effect: tuple[Any, ...], tag: str) -> None:
        """A statement has succeeded."""
        what, *given = effect
        if what == "insert":
            table, low, high, version = given
            for row in self.mine(low, high):
                self.now[table].setdefault(row, version)
        elif what == "update":
            table, predicate, version = given
            self.now[table].update(dict.fromkeys(self.selected(table, predicate), version))
        elif what == "delete":
            for row in self.selected(*given):
                del self.now[given[0]][row]
        elif what == "clear":
            self.now[given[0]] = {}
        elif what == "begin":
            self.before = self._copy()
        elif what == "commit":
            if tag == "ROLLBACK":
                self.roll_back()
            else:
                self.before, self.savepoints = None, []
                self.cursors = {name: cursor for name, cursor in self.cursors.items() if cursor[2]}
        elif what == "rollback":
            self.roll_back()
        elif what == "savepoint":
            self.savepoints.append((given[0], self._copy()))
        elif what == "rollback to":
            while self.savepoints[-1][0] != given[0]:
                self.savepoints.pop()
            self.now = {table: dict(rows) for table, rows in self.savepoints[-1][1].items()}
        elif what == "prepare":
            if tag != "ROLLBACK":
                self.prepared = self.now
            self.roll_back()
        elif what == "finish":
            if given[0] == "COMMIT" and self.prepared is not None:
                self.now = self.prepared
            self.prepared = None


def describe_difference(expected: dict[int, int], found: dict[int, int]) -> str:
    missing = sorted(expected.keys() - found.keys())
    more = sorted(found.keys() - expected.keys())
    other = sorted(row for row in expected.keys() & found.keys() if expected[row] != found[row])
    return f"missing {missing[:8]} ({len(missing)}), too many {more[:8]} ({len(more)}), other version {[(row, expected[row], found[row]) for row in other[:5]]} ({len(other)})"
