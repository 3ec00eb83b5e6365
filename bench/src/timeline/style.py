"""Colours and marks of a timeline, the same in picture and page."""

from __future__ import annotations

# Colours of processes, from Okabe and Ito's palette, which colour-blind people can tell
# apart.  Its vermilion is for waits, black for failures.
PROCESSES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#8C6D00")
#: the colour of further processes, which only hovering tells apart
OTHERS = "#999999"
WAIT = "#D55E00"
BAD = "#000000"
LOOKAHEAD = "#7A3E9D"
IN_PROGRESS = "#BBBBBB"

#: opacity of a bar without an end
OPEN = 0.25

# hatches by matplotlib's and by plotly's names
HATCHES = {"short": ("////", "/"), "error": ("xxxx", "x")}


def colour(pids: list[int], pid: int) -> str:
    number = pids.index(pid)
    return PROCESSES[number] if number < len(PROCESSES) else OTHERS


def opacity(outcome: str) -> float:
    return OPEN if outcome == "open" else 1
