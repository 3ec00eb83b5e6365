"""Which bugs bench/fuzz notices, by itself: each in a run of some minutes, on the server that has a switch for each."""

import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from ..project import ROOT
from .bugs import Bug
from .engine import Engine

FUZZ = ROOT / "bench" / "fuzz"


def fuzz(engine: Engine, number: int, seed: int, minutes: float, *more: str) -> str:
    """Returns the first failure with a bug switched on, or nothing."""
    done = subprocess.run([FUZZ, "--server", engine.server, "--staged", engine.work / "stage", "--first", "--minutes", str(minutes), "--seed", str(seed), *more],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, env={**os.environ, "MUTANT": str(number)})
    return done.stdout + done.stderr if done.returncode else ""


def generate(engine: Engine, bugs: Iterable[Bug], minutes: float, seed: int) -> Iterator[dict]:
    """Tries bugs that a switch turns on; a failure counts if the same seed does not fail without the bug."""

    def one(bug: Bug) -> dict:
        found = fuzz(engine, engine.numbers[bug.name], seed, minutes)
        at = re.search(r"seed (\d+), \w+: FAILED after (\d+) s", found)
        if at and (without := fuzz(engine, 0, int(at[1]), minutes, "--runs", "1")):
            return {"name": bug.name, "by": [], "once": [], "reason": f"a false alarm: {without[:300]}", "seconds": int(at[2])}
        return {"name": bug.name, "by": ["bench/fuzz"] if at else [], "once": [], "reason": found[:300], "seconds": int(at[2]) if at else 60 * minutes}

    with ThreadPoolExecutor(int(os.environ.get("MUTANTS_JOBS") or os.cpu_count() or 1)) as pool:
        for row in pool.map(one, [bug for bug in bugs if bug.name in engine.numbers]):
            yield {"tier": "fuzz", "timed_out": "does not end" in row["reason"], "asserted": "TRAP" in row["reason"], "ran": 1, **row}

