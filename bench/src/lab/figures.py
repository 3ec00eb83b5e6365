"""What a run is judged by: time, or a count that the server keeps.

The names are those that case files use; the server's own words are beside them.
"""

from __future__ import annotations

from dataclasses import dataclass

from .stats import SAME


@dataclass(frozen=True)
class Figure:
    #: behind a value
    unit: str
    #: of an axis
    title: str
    #: what a higher value is called, and a lower one
    high: str = "more"
    low: str = "fewer"
    #: that of the two which is welcome; empty: neither
    good: str = ""
    #: a count: two are equal or they are not
    exact: bool = False

    @property
    def same(self) -> float:
        """Up to which share ratios are the same."""
        return 0 if self.exact else SAME

    def judged(self, sign: str | None) -> str:
        """What that sign is for the one that has it: better or worse; empty: neither."""
        word = self.sign(sign)
        return "" if not self.good or word in (None, "same") else "better" if word == self.good else "worse"

    def sign(self, sign: str | None) -> str | None:
        """stats.Ratio.sign in this figure's words."""
        return {"higher": self.high, "lower": self.low}.get(sign, sign) if sign else None

    @property
    def signs(self) -> tuple[str, str, str]:
        return self.high, "same", self.low


_TIME = {"high": "slower", "low": "faster", "good": "faster"}
_AMOUNT = {"high": "more", "low": "less", "good": "less"}

FIGURES = {
    # Execution Time of EXPLAIN; of a statement that has none, the client's clock
    "time": Figure("ms", "execution time (ms)", **_TIME),
    # pgbench's "latency average"
    "latency": Figure("ms", "average latency (ms)", **_TIME),
    # reads and read_bytes of pg_stat_io
    "ios": Figure("I/Os", "I/Os", good="fewer", exact=True),
    "mean_blocks": Figure("blocks", "mean size of an I/O (blocks)", good="more"),
    # Shared and Local Read Blocks of EXPLAIN
    "read_blocks": Figure("blocks", "blocks read", good="fewer", exact=True),
    # Shared and Local I/O Read Time of EXPLAIN, where track_io_timing is on
    "read_time": Figure("ms", "time spent waiting for reads (ms)", good="fewer"),
    # of EXPLAIN (IO), which 19 has: I/O Waits, Average I/Os In Progress
    "waits": Figure("waits", "I/O waits", good="fewer", exact=True),
    "in_progress": Figure("I/Os in progress", "I/Os in progress, on average"),
    # "tps" of pgbench
    "tps": Figure("tps", "transactions a second", good="more"),
    # of time or latency, for what run.blocks says
    "time_per_block": Figure("µs", "time per block (µs)", **_TIME),
    # CPU of all the server's processes, as the kernel counts it; with pgbench a transaction's
    "cpu": Figure("µs", "CPU time (µs)", **_AMOUNT),
    "worker_cpu": Figure("µs", "CPU time of the I/O workers (µs)", **_AMOUNT),
    "cpu_per_block": Figure("µs", "CPU time per block (µs)", **_AMOUNT),
    # RssAnon of all the server's processes, at most, above what they had before
    "memory": Figure("MB", "memory of processes (MB)", **_AMOUNT),
    # fio's time for the same reads, and the share of it in the server's
    "fio": Figure("ms", "time of fio (ms)", **_TIME),
    "of_fio": Figure("of fio", "speed (of fio's)", **_AMOUNT | {"good": "more"}),
    # the one value that the statement returns
    "value": Figure("", "value returned"),
}
