"""A server, or this library on a server, with a switch for each bug; and what becomes of each bug in the tests.

    engine = Engine(source=Path("/a/tree"))      # or Engine(), for 18; or Engine(server="19-stock"), for bugs of the library alone
    engine.build(bugs)                           # a list of bugs.Bug; compiles and links once
    engine.reach()                               # runs the suite once without a bug
    for result in engine.tries(bugs):            # what inner.py says of each bug
        print(result["name"], result["by"])

A bug that no switch can turn on, since it is in a header, in a macro or outside of functions, is compiled by
itself; tries() does that last.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from bugs import CHECKOUT, Bug, major_of
from points import Instrumented, Point
from switches import edited, instrumented, root_of, sort_out, with_switch

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "test_aio"
# the files that define the switch: that of the server, that of the library
DEFINES = ("src/backend/storage/aio/aio.c", "src/test_aio.c")
TREE = ("Makefile", "meson.build", "meson_options.txt", "test_aio.control", "src", "sql", "expected", "t", "servers")
Texts = dict[str, str]


def say(text: str) -> None:
    print(text, flush=True)


def shard(items: list, part: str) -> list:
    """The K-th of N parts, for "K/N"."""
    first, parts = map(int, part.split("/"))
    return items[first - 1::parts]


class Engine:
    """Two engines of the same name cannot be used at the same time: they have one directory."""

    #: what is raised if something in this directory fails
    failure: type[BaseException] = SystemExit

    def __init__(self, source: Path | None = None, server: str = "", assertions: bool = True, name: str = "",
                 only: Iterable[str] = (), directory: Path | None = None):
        #: what servers/variant makes the server of; empty: the server is taken as it is
        self.base = ""
        self.source = source.resolve() if source and not server else None
        if not server and not self.source:
            self.source, self.base = Path(subprocess.check_output([CHECKOUT / "servers/source", "18"], text=True).strip()), "18-instrumented"
        self.assertions = assertions
        self.only = " ".join(only)  # patterns of the tests that are run, such as t/extension/*
        if self.source:
            self.major = major_of(self.source)
            self.base = self.base or f"source:{self.source}"
            self.label = name or f"{self.major}{'' if assertions else '-plain'}"
        else:
            self.major = int(server.split("-")[0]) if server[0].isdigit() else 0
            self.label = name or f"own-{server.replace('/', '-').replace(':', '-')}"
        self.directory = directory or CACHE / "mutants" / self.label
        self.work = self.directory / "work"
        self.server = server or f"pg_config:{self.directory}/server/bin/pg_config"
        self.numbers: dict[str, int] = {}  # of the switches
        self.alone: list[Bug] = []
        self.points: list[Point] = []
        self.texts: tuple[Texts, Texts] = ({}, {})  # what has been built, of the server and of the library

    # Running something inside servers/run.

    def command(self, *command: str) -> list[str]:
        return [str(CHECKOUT / "servers/run"), "--data", "--work", str(self.work), "--read", str(self.directory / "checkout"), self.server,
                "env", f"MUTANTS_ONLY={self.only}", str(CHECKOUT / command[0]), *command[1:]]

    def must(self, *command: str) -> str:
        done = subprocess.run(self.command(*command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise self.failure(f"{' '.join(command)} failed: {done.stdout[-3000:]}")
        return done.stdout

    # Compiling.

    def lock(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.locked = open(self.directory / ".lock", "w")  # noqa: SIM115 (it stays open)
        try:
            fcntl.flock(self.locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"another run uses {self.directory}; --name gives this one a directory of its own")

    def build(self, bugs: Iterable[Bug], points: Iterable[str] = ()) -> None:
        """Compiles and links everything with a switch for each bug, and with those of points.py in files of the server."""
        self.lock()
        switched, self.alone, wrong = sort_out(bugs, self.source or CHECKOUT)
        if wrong:
            sys.exit("\n".join(wrong))
        self.numbers = {bug.name: number for number, bug in enumerate(switched, 1)}
        by_file: tuple[dict[str, list], dict[str, list]] = (defaultdict(list), defaultdict(list))
        for bug in switched:
            for file in {edit.file for edit in bug.edits}:
                by_file[bug.is_own][file].append((self.numbers[bug.name], bug))
        texts: tuple[Texts, Texts] = tuple(  # type: ignore[assignment]
            {file: instrumented(file, root, those) for file, those in files.items()}
            for root, files in zip((self.source or CHECKOUT, CHECKOUT), by_file, strict=True))
        for file in points:
            assert self.source
            if (self.source / file).exists():
                done = Instrumented(file, (self.source / file).read_text(), len(switched) + len(self.points) + 1)
                self.points += done.points
                texts[0][file] = done.text
        for texts_of, prefix, defines, root in zip(texts, ("", "test_aio_"), DEFINES, (self.source, CHECKOUT), strict=True):
            if texts_of and root:
                texts_of.setdefault(defines, (root / defines).read_text())
                texts_of |= {file: with_switch(text, prefix, file == defines) for file, text in texts_of.items()}
        self.texts = texts
        if not self.base and not self.server.startswith("pg_config:"):
            subprocess.run([CHECKOUT / "servers/provide", self.server], check=True)
        self.install(*texts)
        # while no bug is switched on
        self.must("mutants/inside", "template")

    def install(self, server: Texts, own: Texts) -> None:
        """Compiles and installs the server and the library with these files in the place of the source's."""
        if self.source:
            self.compile(server)
        checkout = self.directory / "checkout"
        shutil.rmtree(checkout, ignore_errors=True)
        checkout.mkdir(parents=True)
        for path in [*map(CHECKOUT.joinpath, TREE), *CHECKOUT.glob("*.sql")]:
            if path.is_dir():
                # with new times: what had a bug the last time is compiled again
                shutil.copytree(path, checkout / path.name, symlinks=True, ignore=shutil.ignore_patterns("*.o", "*.bc"), copy_function=shutil.copy)
            elif path.exists():
                shutil.copy(path, checkout)
        for file, text in own.items():
            (checkout / file).write_text(text)
        self.must("/usr/bin/env", "COPT=-w", str(CHECKOUT / "servers/stage"), str(checkout))

    def compile(self, texts: Texts) -> None:
        """Makes the server with these files in the place of the source's, unless this has been done."""
        label = subprocess.check_output(["bash", "-euc", '. "$0"; server_label "$1"', CHECKOUT / "servers/lib.sh", self.base], text=True)
        stamp, digest = self.directory / "stamp", hashlib.sha256(f"{label}{json.dumps(texts)}".encode()).hexdigest()
        if stamp.exists() and stamp.read_text() == digest:
            return
        stamp.unlink(missing_ok=True)
        directory = self.directory / "texts"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        for file, text in texts.items():
            (directory / file).parent.mkdir(parents=True, exist_ok=True)
            (directory / file).write_text(text)
        files = {file for file in texts if file.endswith(".c")} | {DEFINES[0]}
        if self.source and any(file.endswith(".h") for file in texts):
            # nobody tells make which files include it; ccache knows what is the same
            files |= {str(path.relative_to(self.source)) for path in self.source.glob("src/backend/**/*.c")}
        # a variable that is not assigned is 0, and the compiler does not conclude that it must be assigned
        options = [*([] if self.assertions else ["--without-assertions"]), "--text", str(directory), self.base, str(self.directory), "-w -ftrivial-auto-var-init=zero"]
        if subprocess.run([CHECKOUT / "servers/variant", *options, *sorted(files)], stdout=subprocess.DEVNULL).returncode != 0:
            raise self.failure(f"servers/variant cannot compile {self.base}")
        stamp.write_text(digest)

    # Testing.

    def fingerprint(self) -> str:
        """Of all that the suite runs with."""
        digest = hashlib.sha256(json.dumps([self.numbers, self.only]).encode())
        for path in [self.directory / "server/bin/postgres", *sorted((self.work / "stage").rglob("*")), *sorted((self.work / "tree/t").rglob("*"))]:
            if path.is_file():
                digest.update(path.read_bytes())
        return digest.hexdigest()

    def reach(self, tier: str = "short") -> set[int]:
        """Runs the suite once, unless this has been done; returns the switches that it reaches."""
        directory = self.work / f"reach-{tier}"
        stamp, fingerprint = directory / "stamp", self.fingerprint()
        if not stamp.exists() or stamp.read_text() != fingerprint:
            if said := self.must("mutants/inner.py", "reach", tier).rstrip():
                say(said)
            stamp.write_text(fingerprint)
        return set(json.loads((directory / "reached.json").read_text()))

    def tries(self, bugs: Iterable[Bug | Point], tier: str = "short", minutes: float = 1e6, most: int = 1000,
              every: bool = False, expected: dict[str, str] | None = None) -> Iterator[dict]:
        """Tries bugs of those that were built.  The test that notices a bug is tried first in the next run."""
        kept = self.work / "before.json"
        before: dict[str, str] = (json.loads(kept.read_text()) if kept.exists() else {}) | (expected or {})
        options = {"tier": tier, "minutes": minutes, "most": most, "every": every, "before": before}
        bugs = list(bugs)
        switched = [bug for bug in bugs if bug not in self.alone]
        batches: list[Sequence[Bug | Point]] = [switched, *([bug] for bug in self.alone if bug in bugs)]
        try:
            for batch in filter(None, batches):
                if batch is not switched:
                    bug = batch[0]
                    assert isinstance(bug, Bug)
                    files = edited(bug, root_of(bug, self.source or CHECKOUT))
                    self.install(*((self.texts[0], self.texts[1] | files) if bug.is_own else (self.texts[0] | files, self.texts[1])))
                for result in self.try_batch(batch, options):
                    if result["by"]:
                        before[result["name"]] = result["by"][0]
                    yield result
                    kept.write_text(json.dumps(before))
        finally:
            if any(bug in self.alone for bug in bugs):
                self.install(*self.texts)

    def try_batch(self, bugs: Sequence[Bug | Point], options: dict) -> Iterator[dict]:
        rows = []
        for bug in bugs:
            if isinstance(bug, Point):
                rows.append({"number": bug.number, "name": str(bug), "place": f"{bug.file} {bug.function}"})
            else:
                edit = bug.edits[0]
                rows.append({"number": self.numbers.get(bug.name, 0), "name": bug.name, "place": f"{edit.file} {edit.function or edit.old[:20]}"})
        with subprocess.Popen(self.command("mutants/inner.py", "try"), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin and process.stdout
            process.stdin.write(json.dumps({"bugs": rows, **options}))
            process.stdin.close()
            for line in process.stdout:
                yield json.loads(line)
        if process.returncode != 0:
            sys.exit(f"mutants/inner.py failed with {process.returncode}")
