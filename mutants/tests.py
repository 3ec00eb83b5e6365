"""The tests of the suite, run one by one inside servers/run."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

INSIDE = Path(__file__).resolve().parent / "inside"
TIMEOUT = 60  # seconds for a test
RECORDINGS = "t/recordings.pl"  # takes the name of one
FAILED = re.compile(r"^\s*not ok (?!.*# TODO)", re.MULTILINE)


def jobs() -> list[list[str]]:
    """The arguments of "inside" for each test: the regression tests, the TAP files, and each recording."""
    tree = Path(os.environ["TEST_AIO_WORK"]) / "tree"
    files = [str(path.relative_to(tree)) for path in sorted(tree.glob("t/**/*.pl"))]
    return [["regress"], *(["tap", file] for file in files if file != RECORDINGS),
            *(["tap", RECORDINGS, path.stem] for path in sorted(tree.glob("t/recordings/*.sql")))]


def name_of(job: list[str]) -> str:
    return "-".join(word.removeprefix("t/").removesuffix(".pl").replace("/", "-") for word in job[1:] or job)


def first_failure(output: str) -> str:
    """What a test's output gives as the reason, in one line."""
    for pattern in (r"^\s*not ok \d+ - (.+)", r"^not ok \d+\s+[-+]\s+(\w+)", r"^# {3}Failed test '(.+)'", r"^(.*died.*|.*timed out.*)$"):
        found = re.search(pattern, output, re.MULTILINE)
        if found:
            return found.group(1).strip()[:160]
    lines = [line for line in output.splitlines() if line.strip()]
    return lines[-1][:160] if lines else "no output"


class Runner:
    """Runs tests, in threads, until it is stopped.  Each has a directory of its own for its logs."""

    def __init__(self, directory: Path, environment: dict[str, str]):
        self.directory = directory
        self.environment = environment
        self.running: list[subprocess.Popen] = []
        self.stopped = False

    def run(self, job: list[str]) -> dict | None:
        """Runs one test, to its first failure.  Returns None if it passed, or else the reason."""
        if self.stopped:
            return None
        state = self.directory / name_of(job)
        state.mkdir(parents=True)
        log = state / "output"
        with log.open("w") as output:
            process = subprocess.Popen(
                [str(INSIDE), job[0], str(state), *job[1:]],
                stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "PG_TEST_TIMEOUT_DEFAULT": "20", **self.environment},
            )
            self.running.append(process)
            deadline = time.monotonic() + TIMEOUT
            # once it has failed, a test may run into one timeout after the other
            while (code := process.poll()) is None and not FAILED.search(log.read_text(errors="replace")):
                if time.monotonic() > deadline:
                    os.killpg(process.pid, signal.SIGKILL)
                    return {"reason": f"no end after {TIMEOUT} s", "timed_out": True}
                time.sleep(0.1)
            if code is None and not self.stopped:
                os.killpg(process.pid, signal.SIGKILL)
        if code == 0 or self.stopped:
            return None
        return {"reason": first_failure(log.read_text(errors="replace")), "timed_out": False}

    def stop(self) -> None:
        self.stopped = True
        for process in self.running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
