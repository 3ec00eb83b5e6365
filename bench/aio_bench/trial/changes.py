"""What two servers do differently: recordings of statements (servers/compare), and the schedules that can happen
(bench/explorer).  Standard library only."""

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..project import ROOT, counted


@dataclass(frozen=True)
class Changes:
    #: "recordings" or "schedules"
    what: str
    #: in one line; empty: nothing differs
    told: str
    text: str
    notes: tuple[str, ...] = ()


def _run(logs: Path, program: str, *arguments: str) -> tuple[dict[str, Any], str]:
    """Runs an engine.  Returns what it writes as JSON, or nothing if it could not compare, and its output."""
    logs.mkdir(parents=True, exist_ok=True)
    result = logs / "found.json"
    result.unlink(missing_ok=True)
    done = subprocess.run([ROOT / program, "--json", result, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", env={"TEST_AIO_GATE": "try", **os.environ}, cwd=ROOT)
    (logs / "output").write_text(done.stdout)
    return json.loads(result.read_text()) if result.exists() else {}, done.stdout


def _example(difference: dict[str, Any]) -> str:
    """Returns what differs between the first lines of a difference."""
    sides = [re.split(r", |: ", "".join(difference[side][:1])) for side in ("before", "after")]
    return " -> ".join(", ".join(word for word in one if word not in other) or "nothing" for one, other in (sides, sides[::-1]))


def told_of_recordings(found: dict[str, Any], output: str) -> Changes:
    if not found.get("scripts"):
        return Changes("recordings", "could not be compared", output[-3000:])
    notes = [f"recording {each['script']} is not compared: on {each['side']}, {each['why']}" for each in found["skipped"]]
    told = [f"{each['script']} failed on {each['side']}" for each in found["failed"]]
    if differences := found["differences"]:
        first = differences[0]
        told.append(f"{len(differences)} of {counted(found['statements'], 'statement')}, such as {first['script']} {first['number']}: {_example(first)}")
    return Changes("recordings", "; ".join(told), output, tuple(notes))


def told_of_schedules(found: dict[str, Any], output: str) -> Changes:
    if not found:
        return Changes("schedules", "could not be compared", output[-3000:])
    notes = [f"{counted(len(found[key]), 'scenario')} {words}: {', '.join(found[key][:3])}{', …' * (len(found[key]) > 3)}"
             for key, words in (("unfinished", "not explored to the end"), ("not_compared", "not compared"), ("differed_once", "differed once, but not again")) if found[key]]
    told = [f"{key}: {', '.join(found[key])}" for key in ("failed", "differs") if found[key]]
    return Changes("schedules", "; ".join(told), output, tuple(notes))


ENGINES = ("recordings", "schedules")


def compare(what: str, before: str, after: str, logs: Path, quick: bool) -> Changes:
    if what == "recordings":
        return told_of_recordings(*_run(logs, "servers/compare", before, after))
    return told_of_schedules(*_run(logs, "bench/explorer", "--tier", "quick" if quick else "long", "--before", before, "--server", after))
