"""Runs the tests one by one, with one bug switched on or none; run by engine.py inside servers/run.

usage: inner.py reach short|long
       inner.py try < JSON

"reach" runs the suite once without a bug.  It keeps which tests reach which switch, and how long they take; it
prints the tests that fail twice, which are left out.

"try" gets {"bugs": [{"number", "name", "place"}], "tier", "minutes", "most", "before"}.  For each bug the tests
run that reach it, until one notices it, and not more than "most".
First comes the one that "before" names for the bug, then what has noticed other bugs of the same place, is short and
reaches little else.  A test that fails runs once more: a bug counts as noticed only if the test fails again, or if
"before" names it.  A line of JSON is printed for each bug: name, by (the tests that notice it), reason, timed_out (only
a time limit has noticed it), asserted (with an assertion of the server's own), once (tests that failed once only), ran,
seconds.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

from .. import processes, project, results

WORK = Path(os.environ["TEST_AIO_WORK"])
DATA = Path(os.environ["TEST_AIO_DATA"])
REGRESS = "regress"
RECORDINGS = "t/recordings.pl"  # takes the name of one; those with a bug are compared with those without
# tests wait half their time
PARALLEL = int(os.environ.get("MUTANTS_JOBS") or 3 * (os.cpu_count() or 1))
SECONDS = 60  # for a test; more if it takes long without a bug
FAILED = re.compile(r"^\s*not ok (?!.*# TODO)", re.MULTILINE)


def jobs() -> list[str]:
    """The regression tests, the TAP files, and each recording."""
    tree = WORK / "tree"
    files = [str(path.relative_to(tree)) for path in sorted(tree.glob("t/**/*.pl"))]
    every = [REGRESS, *(file for file in files if file != RECORDINGS),
             *(f"{RECORDINGS} {path.stem}" for path in sorted(tree.glob("t/recordings/*.sql")))]
    only = os.environ.get("MUTANTS_ONLY", "").split()
    return [job for job in every if not only or any(fnmatch(job, pattern) for pattern in only)]


def reach_of(tier: str, what: str = "") -> Path:
    return WORK / f"reach-{tier}" / what


def map_of(tier: str, job: str) -> Path:
    return reach_of(tier, job.replace("/", "+") + ".map")


class Place:
    """Runs one test at a time, with clusters, logs and temporary files where no other has them."""

    def __init__(self, name: str):
        self.logs = WORK / "trials" / name
        self.data = DATA / name
        # short, for sockets lie there
        self.temporary = Path(tempfile.mkdtemp())
        self.directories = self.logs, self.data, self.temporary

    def run(self, job: str, tier: str, seconds: float, **environment: str) -> dict | None:
        """Runs a test to its first failure.  Returns None if it passed, or else why not."""
        self.remove()
        for directory in self.directories:
            directory.mkdir(parents=True)
        places = {"TEST_AIO_DATA": str(self.data), "TMPDIR": str(self.temporary), "PG_TEST_TIMEOUT_DEFAULT": "20"}
        long = {"TEST_AIO_LONG": "1"} if tier == "long" else {}
        log = self.logs / "output"
        limit = time.monotonic() + max(SECONDS, 10 * seconds)
        timed_out = False
        with log.open("w") as output:
            process = subprocess.Popen([project.ROOT / "servers" / "tests", self.logs, *([job] if job == REGRESS else ["perl", *job.split()])], stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                       cwd=WORK / "tree", start_new_session=True, env={**os.environ, **places, **long, **environment})
        # once it has failed, a test may run into one timeout after the other
        while (code := process.poll()) is None and not FAILED.search(log.read_text(errors="replace")):
            if timed_out := time.monotonic() > limit:
                break
            time.sleep(0.05)
        if code is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.end_servers()
        if code == 0:
            return None
        texts = [path.read_text(errors="replace") for path in self.logs.rglob("*") if path.is_file() and path.suffix in ("", ".log")]
        return {"reason": f"no end after {limit:.0f} s" if timed_out else results.first_failure(log),
                "timed_out": timed_out, "asserted": any("TRAP: failed Assert" in text for text in texts)}

    def end_servers(self) -> None:
        """Kills the servers that a test leaves when it is ended at its first failure, and waits until they are gone."""
        while left := processes.pids(*self.directories):
            for process in left:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(0.05)

    def remove(self) -> None:
        for directory in self.directories:
            shutil.rmtree(directory, ignore_errors=True)


def in_parallel(items: list, do: Callable[[Place, Any], None], parallel: int = PARALLEL) -> None:
    """Does something with each item, in one of the places."""
    places = [Place(str(number)) for number in range(parallel)]
    idle = list(places)

    def do_somewhere(item: Any) -> None:
        place = idle.pop()
        try:
            do(place, item)
        finally:
            idle.append(place)

    try:
        with ThreadPoolExecutor(parallel) as pool:
            for future in as_completed([pool.submit(do_somewhere, item) for item in items]):
                if error := future.exception():
                    pool.shutdown(cancel_futures=True)
                    raise error
    finally:
        for place in places:
            place.remove()


def reach(tier: str) -> None:
    shutil.rmtree(reach_of(tier), ignore_errors=True)
    reach_of(tier, "recordings").mkdir(parents=True)
    seconds: dict[str, float] = {}
    failed: dict[str, str] = {}

    def measure(place: Place, job: str) -> None:
        start = time.monotonic()
        failure = place.run(job, tier, SECONDS, MUTANTS_REACHED=str(map_of(tier, job)), TEST_AIO_RECORD_INTO=str(reach_of(tier, "recordings")))
        seconds[job] = round(time.monotonic() - start, 1)
        if failure:
            failed[job] = failure["reason"]

    in_parallel(jobs(), measure)
    again, failed = [*failed], {}
    # when the machine has nothing else to do
    in_parallel(again, measure, 1)
    for job, reason in failed.items():
        map_of(tier, job).unlink(missing_ok=True)
        print(f"left out, since it fails without a bug: {job}: {reason}")
    reach_of(tier, "seconds.json").write_text(json.dumps(seconds))
    reach_of(tier, "left_out.json").write_text(json.dumps(sorted(failed)))
    maps = [path.read_bytes() for path in reach_of(tier).glob("*.map")]
    if not maps:
        sys.exit("each test fails without a bug, or none reaches a switch")
    reached = [number for number in range(len(maps[0])) if any(one[number] for one in maps)]
    reach_of(tier, "reached.json").write_text(json.dumps(reached))


def try_all(bugs: list[dict], tier: str, minutes: float, most: int, before: dict[str, str]) -> None:
    seconds: dict[str, float] = json.loads(reach_of(tier, "seconds.json").read_text())
    maps = {job: map_of(tier, job).read_bytes() for job in jobs() if map_of(tier, job).exists()}
    cost = {job: (1 + sum(reached)) * (1 + seconds[job] / 3) for job, reached in maps.items()}
    deadline = time.monotonic() + 60 * minutes
    noticed: Counter[tuple[str, str]] = Counter()  # by place, and test
    printing = threading.Lock()

    def order(bug: dict, job: str) -> tuple[bool, float]:
        file = bug["place"].split(" ")[0]
        return job != before.get(bug["name"]), cost[job] / (1 + 4 * noticed[bug["place"], job] + noticed[file, job])

    def try_one(place: Place, bug: dict) -> None:
        start = time.monotonic()
        if start > deadline:
            return
        result = {"name": bug["name"], "tier": tier, "by": [], "reason": "", "timed_out": False, "asserted": False, "once": [], "ran": 0}
        # number 0: a bug of the build, not of a switch; anything may reach it
        left = [job for job, reached in maps.items() if not bug["number"] or reached[bug["number"]]]
        while left and result["ran"] < most:
            job = min(left, key=lambda job: order(bug, job))
            left.remove(job)
            without = partial(place.run, job, tier, seconds[job], TEST_AIO_COMPARE_WITH=str(reach_of(tier, "recordings")))
            run = partial(without, MUTANT=str(bug["number"]))
            result["ran"] += 1
            if not (failure := run()):
                continue
            # on a busy machine a test may fail by itself; number 0 cannot be switched off
            if job != before.get(bug["name"]) and (not (failure := run()) or (bug["number"] and without())):
                result["once"].append(job)
                continue
            result["by"].append(job)
            with printing:
                noticed[bug["place"], job] += 1
                noticed[bug["place"].split(" ")[0], job] += 1
            result |= failure
            break
        result["seconds"] = round(time.monotonic() - start, 1)
        with printing:
            print(json.dumps(result), flush=True)

    in_parallel(bugs, try_one)


if __name__ == "__main__":
    if sys.argv[1] == "reach":
        reach(sys.argv[2])
    else:
        try_all(**json.load(sys.stdin))
