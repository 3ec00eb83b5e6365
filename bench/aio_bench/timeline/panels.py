"""What is drawn of a trace, whatever draws it: a panel for each relation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from .trace import Io, Trace, Wait

# panels of one trace; the first one's title names the relations left out, as those of catalogs that
# have been read beside a table
MOST_PANELS = 3
LEAST_SHARE = 0.05  # of the I/Os of the relation that was read most


@dataclass(frozen=True)
class Window:
    """A stretch of time, in ms."""

    begin: float
    end: float


#: the values of a figure, each from a time on
Steps = list[tuple[float, int]]


@dataclass(frozen=True)
class Panel:
    trace: Trace
    target: str
    ios: tuple[Io, ...]
    #: the relations of this trace without a panel, in words
    left_out: str

    @cached_property
    def end(self) -> float:
        return max(max([io.start, io.end or 0, *(wait.end for wait in io.waits)]) for io in self.ios)

    def end_of(self, io: Io) -> float:
        return self.end if io.end is None else io.end

    @property
    def waits(self) -> list[Wait]:
        return sorted((wait for io in self.ios for wait in io.waits), key=lambda wait: wait.start)

    @property
    def waiters(self) -> list[int]:
        return sorted({wait.pid for wait in self.waits})

    def in_progress(self) -> Steps:
        """Returns how many I/Os are under way, between submission and completion, as steps."""
        changes = Counter(io.start for io in self.ios)
        changes.subtract(self.end_of(io) for io in self.ios)
        times = sorted(changes)
        return list(zip(times, accumulate(changes[at] for at in times)))

    def lookahead(self) -> Steps:
        """Returns how many blocks a process has started and not yet used, as steps.  Of several processes the
        farthest counts.  It is known when an I/O is submitted."""
        latest: dict[int, int] = {}
        steps = []
        for io in sorted(self.ios, key=lambda io: io.start):
            if io.lookahead is not None:
                latest[io.pid] = io.lookahead
                steps.append((io.start, max(latest.values())))
        return steps

    def within(self, window: Window) -> Panel | None:
        """Returns the panel of what is in the window, or None if nothing is."""
        ios = tuple(io for io in self.ios if io.start <= window.end and self.end_of(io) >= window.begin)
        return Panel(self.trace, self.target, ios, self.left_out) if ios else None

    def summary(self) -> str:
        span = self.end - min(io.start for io in self.ios)
        ios = len(self.ios)
        size = f"{sum(io.blocks for io in self.ios) / ios:.3g}"
        under_way = sum(self.end_of(io) - io.start for io in self.ios) / span if span else 0
        words = [
            f"{ios:,} I/O{'' if ios == 1 else 's'} of {size} block{'' if size == '1' else 's'} in {duration(span)}",
            f"{under_way:.1f} in progress, averaged over time" if max(number for _, number in self.in_progress()) > 1 else f"one at a time, for {100 * under_way:.0f} % of it",
        ]
        if waits := self.waits:
            waited = sum(wait.end - wait.start for wait in waits)
            words.append(f"{len(waits):,} waits, {duration(waited)}")
        for outcome, word in (("short", "short"), ("error", "failed"), ("open", "not completed")):
            if number := sum(io.outcome == outcome for io in self.ios):
                words.append(f"{number:,} {word}")
        if self.trace.lost:
            words.append(f"{self.trace.lost:,} more did not fit into the trace")
        return "; ".join(words)


def highest(steps: Steps, window: Window, pieces: int) -> Steps:
    """Returns the highest value of each piece of the window, as a line of more steps than pixels is an area."""
    length = (window.end - window.begin) / pieces
    found: dict[int, int] = {}
    for at, value in steps:
        piece = int((at - window.begin) // length)
        found[piece] = max(found.get(piece, 0), value)
    return [(window.begin + piece * length, value) for piece, value in found.items()]


def duration(ms: float) -> str:
    return f"{ms / 1000:.2f} s" if ms >= 10000 else f"{ms:,.0f} ms" if ms >= 100 else f"{ms:.1f} ms" if ms >= 1 else f"{ms * 1000:.0f} µs"


def of(traces: Iterable[Trace]) -> list[Panel]:
    """Returns panels in the order of the traces.  Of one trace the relation that was read most comes first."""
    panels = []
    for trace in traces:
        counts = Counter(io.target for io in trace.ios).most_common()
        shown = [target for target, count in counts[:MOST_PANELS] if count >= LEAST_SHARE * counts[0][1]]
        left_out = ", ".join(target for target, _ in counts[len(shown):])
        for target in shown:
            panels.append(Panel(trace, target, tuple(io for io in trace.ios if io.target == target), left_out and f"not shown: {left_out}"))
            left_out = ""
    return panels


def processes(panels: Iterable[Panel]) -> dict[str, list[int]]:
    """Returns the processes that issued I/Os, by trace, because two servers may have the same pid."""
    found: dict[str, list[int]] = {}
    for panel in panels:
        own = found.setdefault(panel.trace.label, [])
        own += sorted({io.pid for io in panel.ios} - set(own))
    return found


def windows(panels: list[Panel], begin: float = 0.0, end: float | None = None, zoom: float | None = None) -> list[Window]:
    """Returns the window of each column.  The first is a little longer than the longest trace."""
    last = max(panel.end for panel in panels)
    found = [Window(begin, end if end is not None else begin + (last - begin) * 1.01 or 1)]
    if zoom is not None and zoom < found[0].end - begin:
        found.append(Window(begin, begin + zoom))
    return found


def finding(panels: list[Panel]) -> str:
    """Returns how long each trace took; by how much one is slower is for the lab to say, which runs it many times."""
    ends: dict[str, float] = {}
    for panel in panels:
        ends[panel.trace.label] = max(ends.get(panel.trace.label, 0), panel.end)
    return ", ".join(f"{label}: {duration(end)}" for label, end in ends.items())
