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
from collections.abc import Iterable, Iterator
from pathlib import Path

from bugs import CHECKOUT, HERE, Bug, major_of
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
                 only: Iterable[str] = ()):
        if not server:
            source = source or Path(subprocess.check_output([CHECKOUT / "servers/source", "18"], text=True).strip())
        self.source = source.resolve() if source and not server else None
        self.assertions = assertions
        self.only = " ".join(only)  # patterns of the tests that are run, such as t/extension/*
        if self.source:
            self.major = major_of(self.source)
            self.label = name or f"{self.major}{'' if assertions else '-plain'}"
        else:
            self.major = int(server.split("-")[0]) if server[0].isdigit() else 0
            self.label = name or f"own-{server.replace('/', '-').replace(':', '-')}"
        self.work = CACHE / "mutants" / self.label
        self.server = server or f"pg_config:{self.work / 'prefix/bin/pg_config'}"
        self.numbers: dict[str, int] = {}  # of the switches
        self.alone: list[Bug] = []
        self.points: list[Point] = []
        self.texts: tuple[Texts, Texts] = ({}, {})  # what has been built, of the server and of the library

    # Running what is in this directory inside servers/run.

    def command(self, *command: str, server: str = "") -> list[str]:
        options = ["--data", "--work", str(self.work), "--at", f"{CACHE}/ccache", f"{CACHE}/ccache"]
        if self.source:
            options += ["--read", str(self.source)]
            if (self.work / "build").is_dir():
                options += ["--at", f"{self.work}/build", f"{CACHE}/tmp.build"]
            if self.seen_source != self.source:
                options += ["--at", str(self.source), str(self.seen_source)]
        return [str(CHECKOUT / "servers/run"), *options, server or self.server, "env", f"MUTANTS_BUILD={CACHE}/tmp.build",
                f"CCACHE_DIR={CACHE}/ccache", f"MUTANTS_ONLY={self.only}", str(HERE / command[0]), *command[1:]]

    @property
    def seen_source(self) -> Path:
        """Where servers/provide has the source when it compiles it: there ccache finds what is the same."""
        assert self.source
        return self.source if self.source.parent == CACHE else CACHE / "tmp.source"

    def inside(self, *command: str, server: str = "") -> subprocess.CompletedProcess:
        return subprocess.run(self.command(*command, server=server), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def must(self, *command: str, server: str = "") -> str:
        done = self.inside(*command, server=server)
        if done.returncode != 0:
            raise self.failure(f"mutants/{' '.join(command[:2])} failed: {done.stdout[-3000:]}")
        return done.stdout

    # Compiling.

    def prepare(self) -> None:
        """Compiles the server as it is, unless it is there."""
        if not self.source:
            if not self.server.startswith("pg_config:"):
                subprocess.run([CHECKOUT / "servers/provide", self.server], check=True)
            self.must("inside", "begin")
            return
        stamp = self.work / "complete"
        if not stamp.exists() or stamp.read_text() != f"{self.source}\n":
            say(f"compiling {self.major} {'with' if self.assertions else 'without'} assertions (once, some minutes)")
            # servers/run wants a server
            subprocess.run([CHECKOUT / "servers/provide", "18-instrumented"], check=True)
            shutil.rmtree(self.work, ignore_errors=True)
            self.must("inside", "begin", server="18-instrumented")
            self.must("inside", "prepare", str(self.seen_source), *([] if self.assertions else ["--disable-cassert"]), server="18-instrumented")
            stamp.write_text(f"{self.source}\n")

    def lock(self) -> None:
        self.work.parent.mkdir(parents=True, exist_ok=True)
        self.locked = open(f"{self.work}.lock", "w")
        try:
            fcntl.flock(self.locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"another run uses {self.work}; --name gives this one a directory of its own")

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
        self.prepare()
        self.install(*texts)
        # while no bug is switched on
        self.must("inside", "template")

    def install(self, server: Texts, own: Texts) -> None:
        """Compiles and installs the server and the library with these files in the place of the source's."""
        if self.source:
            self.relink(server)
        checkout = self.work / "checkout"
        shutil.rmtree(checkout, ignore_errors=True)
        checkout.mkdir()
        for path in [*map(CHECKOUT.joinpath, TREE), *CHECKOUT.glob("*.sql")]:
            if path.is_dir():
                shutil.copytree(path, checkout / path.name, symlinks=True, ignore=shutil.ignore_patterns("*.o", "*.bc"))
            elif path.exists():
                shutil.copy(path, checkout)
        for file, text in own.items():
            (checkout / file).write_text(text)
        self.must("inside", "stage", str(checkout))

    def relink(self, texts: Texts) -> None:
        build, kept = self.work / "build", self.work / "instrumented.json"
        before = json.loads(kept.read_text()) if kept.exists() else []
        kept.write_text(json.dumps([*texts]))
        # files in the build directory go before those of the source
        texts = {file: (self.source / file).read_text() for file in before if file not in texts} | texts  # type: ignore[operator]
        changed = []
        for file, text in texts.items():
            target = build / file
            # what has not changed is not compiled again
            if not target.exists() or target.is_symlink() or target.read_text() != text:
                target.unlink(missing_ok=True)
                target.write_text(text)
                changed.append(file)
        if any(file.endswith(".h") for file in changed):
            # nobody tells make which files include it; ccache knows what is the same
            for path in build.glob("src/backend/**/*.o"):
                path.unlink()
        self.must("inside", "relink", *changed)

    # Testing.

    def fingerprint(self) -> str:
        """Of all that the suite runs with."""
        digest = hashlib.sha256(json.dumps([self.numbers, self.only]).encode())
        for path in [self.work / "prefix/bin/postgres", *sorted((self.work / "stage").rglob("*")), *sorted((self.work / "tree/t").rglob("*"))]:
            if path.is_file():
                digest.update(path.read_bytes())
        return digest.hexdigest()

    def reach(self, tier: str = "short") -> set[int]:
        """Runs the suite once, unless this has been done; returns the switches that it reaches."""
        directory = self.work / f"reach-{tier}"
        stamp, fingerprint = directory / "stamp", self.fingerprint()
        if not stamp.exists() or stamp.read_text() != fingerprint:
            if said := self.must("inner.py", "reach", tier).rstrip():
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
        batches: list[list[Bug | Point]] = [switched, *([bug] for bug in self.alone if bug in bugs)]
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

    def try_batch(self, bugs: list[Bug | Point], options: dict) -> Iterator[dict]:
        rows = []
        for bug in bugs:
            if isinstance(bug, Point):
                rows.append({"number": bug.number, "name": str(bug), "place": f"{bug.file} {bug.function}"})
            else:
                edit = bug.edits[0]
                rows.append({"number": self.numbers.get(bug.name, 0), "name": bug.name, "place": f"{edit.file} {edit.function or edit.old[:20]}"})
        with subprocess.Popen(self.command("inner.py", "try"), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin and process.stdout
            process.stdin.write(json.dumps({"bugs": rows, **options}))
            process.stdin.close()
            for line in process.stdout:
                yield json.loads(line)
        if process.returncode != 0:
            sys.exit(f"mutants/inner.py failed with {process.returncode}")
