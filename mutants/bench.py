"""A server that is compiled to be mutated."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

from seeds import major_of

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "test_aio"


def say(text: str) -> None:
    print(text, flush=True)


class Bench:
    """A private server that is mutated, in a work directory of its own: VERSION-NAME."""

    def __init__(self, source: Path, name: str, assertions: bool):
        self.source = source
        self.major = major_of(source)
        self.assertions = assertions
        self.work = CACHE / "mutants" / f"{self.major}-{name}"
        self.pg_config = self.work / "prefix/bin/pg_config"

    def lock(self) -> None:
        """Keeps other runs, which would seed other bugs, from this server until this one ends."""
        self.work.parent.mkdir(parents=True, exist_ok=True)
        self.locked = open(f"{self.work}.lock", "w")
        try:
            fcntl.flock(self.locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"another run uses {self.work}; set XDG_CACHE_HOME to have a server of your own")

    def command(self, *command: str, server: str = "") -> list[str]:
        """What runs a script of this directory inside servers/run."""
        return [str(CHECKOUT / "servers/run"), "--data", "--work", str(self.work), "--read", str(self.source),
                server or f"pg_config:{self.pg_config}", str(HERE / command[0]), *command[1:]]

    def inside(self, *command: str, server: str = "") -> subprocess.CompletedProcess:
        """Runs such a script; its output is captured."""
        return subprocess.run(self.command(*command, server=server), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def must(self, *command: str, server: str = "") -> subprocess.CompletedProcess:
        done = self.inside(*command, server=server)
        if done.returncode != 0:
            sys.exit(f"mutants/{' '.join(command[:2])} failed:\n{done.stdout[-3000:]}")
        return done

    def prepare(self) -> None:
        stamp = self.work / "complete"
        if not stamp.exists() or stamp.read_text() != f"{self.source}\n":
            say(f"compiling {self.major} {'with' if self.assertions else 'without'} assertions (once, some minutes)")
            subprocess.run([CHECKOUT / "servers/provide", "18-instrumented"], check=True)
            subprocess.run(["rm", "-rf", self.work], check=True)
            self.must("inside", "prepare", str(self.source),
                      *([] if self.assertions else ["--disable-cassert"]), server="18-instrumented")
            stamp.write_text(f"{self.source}\n")
        self.must("inside", "stage")
