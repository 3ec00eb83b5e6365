"""The figures of a run: times, and what the server, the kernel or the processor counts.  The names are those of case
files."""

from dataclasses import dataclass

from .stats import SAME


@dataclass(frozen=True)
class Figure:
    #: written behind a value
    unit: str
    #: the title of an axis
    title: str
    #: the words for a higher and for a lower value
    high: str = "more"
    low: str = "fewer"
    #: whichever of the two is better; empty: neither
    good: str = ""
    #: ratios within this share of 1 are the same
    same: float = SAME

    def judged(self, sign: str | None, expected: str | None = None) -> str:
        """Returns "better" or "worse", whichever the sign is for the first of the two, or "" if it is neither.  A
        difference that is expected is none for the worse, and another sign than expected is."""
        word = self.sign(sign)
        if expected and word:
            return "worse" if word != expected else "" if word == "same" else "better"
        return "" if not self.good or word in (None, "same") else "better" if word == self.good else "worse"

    def sign(self, sign: str | None) -> str | None:
        """Returns stats.Ratio.sign in this figure's words."""
        return {"higher": self.high, "lower": self.low}.get(sign, sign) if sign else None

    @property
    def signs(self) -> tuple[str, str, str]:
        return self.high, "same", self.low


_TIME = ("slower", "faster", "faster")  # high, low, good
_AMOUNT = ("more", "less", "less")

FIGURES = {
    # Execution Time of EXPLAIN; for statements without EXPLAIN the client's time
    "time": Figure("ms", "execution time (ms)", *_TIME),
    # pgbench's "latency average"
    "latency": Figure("ms", "average latency (ms)", *_TIME),
    # reads and read_bytes of pg_stat_io
    "ios": Figure("I/Os", "I/Os", good="fewer"),
    "mean_blocks": Figure("blocks", "mean size of an I/O (blocks)", good="more"),
    # Shared and Local Read Blocks of EXPLAIN
    "read_blocks": Figure("blocks", "blocks read", good="fewer"),
    # Shared and Local I/O Read Time of EXPLAIN, where track_io_timing is on
    "read_time": Figure("ms", "time spent waiting for reads (ms)", good="fewer"),
    # I/O Waits and Average I/Os In Progress of 19's EXPLAIN (IO)
    "waits": Figure("waits", "I/O waits", good="fewer"),
    "in_progress": Figure("I/Os in progress", "I/Os in progress, on average"),
    # "tps" of pgbench
    "tps": Figure("tps", "transactions a second", good="more"),
    # CPU time of all the server's processes, from the kernel; with pgbench for a transaction
    "cpu": Figure("µs", "CPU time (µs)", *_AMOUNT),
    # of all the server's processes; with pgbench for a transaction, without the start and end of its sessions
    "instructions": Figure("k instructions", "thousands of instructions in user mode", good="fewer", same=0.01),
    # the one value that the statement returns
    "value": Figure("", "value returned"),
}
