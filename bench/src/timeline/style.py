"""Colours and marks of a timeline, alike in picture and page."""

from __future__ import annotations

# Of processes: from Okabe and Ito's palette, which colour-blind people can tell
# apart.  Its vermilion is kept for waits, black for what went wrong.
PROCESSES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#8C6D00")
#: those beyond, which only hovering tells apart
OTHERS = "#999999"
WAIT = "#D55E00"
BAD = "#000000"
LOOKAHEAD = "#7A3E9D"
IN_PROGRESS = "#BBBBBB"

#: of a bar that ends where completion was first noticed, not where it was
INEXACT = 0.5
OPEN = 0.25

# matplotlib's names, and plotly's
HATCHES = {"short": ("////", "/"), "error": ("xxxx", "x")}


def colour(pids: list[int], pid: int) -> str:
    number = pids.index(pid)
    return PROCESSES[number] if number < len(PROCESSES) else OTHERS


def opacity(outcome: str, exact: bool) -> float:
    return OPEN if outcome == "open" else 1 if exact else INEXACT
