"""The private cluster of a run: made anew from a template, stopped in every way, and its log."""

import os
import time
from pathlib import Path
from typing import Any

from .. import processes, servers
from ..project import wait_for
from .configuration import EXTENSIONS, FIXED


class Cluster(servers.Cluster):
    def __init__(self, server: str, directory: Path, stage: Path | None = None) -> None:
        super().__init__(server, directory, extension=stage)
        self.settings: dict[str, str] = {}
        #: there is a full backup, with which another can be combined
        self.has_full_backup = False
        #: the table of system calls (below.py), if there is one
        self.below: Any = None
        self.standby: Standby | None = None
        # for servers/cluster
        os.environ |= {"TEST_AIO_PRELOAD": f"{directory}/below.so", "TEST_AIO_BELOW": f"{directory}/below"}

    def prepare(self) -> None:
        self.begin_prepare()
        self.finish_prepare()
        self.start(FIXED)
        for name in EXTENSIONS:
            self.session.execute(f"CREATE EXTENSION {name}")
        self.stop()
        self.must("mv", "data", "template")

    def must(self, *words: str) -> str:
        done = self.ask(*words)
        if done.returncode != 0:
            raise servers.ServerError(f"{' '.join(words)}: {done.stderr[-2000:]}")
        return done.stdout

    def renew(self, settings: dict[str, str], checksums: bool) -> None:
        """Starts a cluster in which nothing has happened yet."""
        self.end()
        off = "" if checksums else "pg_checksums --disable --no-sync --pgdata=data >/dev/null;"
        self.must("sh", "-ec", f"chmod -R u+rwx data 2>/dev/null || :; rm -rf data server.log standby*; cp -R --preserve=mode template data; {off}")
        self._read_up_to = 0
        self.settings, self.has_full_backup = settings, False
        if self.below:
            self.below.reset()
        self.start(settings)

    def end(self) -> None:
        if self.standby:
            self.standby.stop()
            self.standby = None
        self.stop()

    def new_log_lines(self) -> list[str]:
        return super().new_log_lines() + (self.standby.new_log_lines() if self.standby else [])

    def back_up(self, where: str, *options: str) -> None:
        self.must("pg_basebackup", f"--host={self.directory}", "--username=postgres", f"--pgdata={where}", "--checkpoint=fast", "--no-sync", *options)

    def back_up_fully(self, *options: str) -> None:
        self.back_up("standby.full", *options)
        self.has_full_backup = True

    def make_standby(self, feedback: str, *options: str) -> None:
        """Makes it from a backup, or from the full one and one of what has changed since."""
        self.back_up("standby.changed" if self.has_full_backup else "standby", "--write-recovery-conf", "--create-slot", "--slot=standby", *["--incremental=standby.full/backup_manifest"] * self.has_full_backup, *options)
        if self.has_full_backup:
            self.must("pg_combinebackup", "--no-sync", "--output=standby", "standby.full", "standby.changed")
        self.standby = Standby(self, feedback)
        self.standby.start(self.settings)

    def promote(self) -> None:
        """Has the standby take the place of its primary, which has stopped."""
        there = self.standby
        assert there
        there.forget()
        there.session.execute("SELECT pg_promote(false)")
        # a query that lasts would be cancelled
        if not wait_for(lambda: not there.session.execute("SELECT pg_is_in_recovery()").fetchall()[0][0], 30, 0.02):
            raise TimeoutError("the standby is not promoted within 30 s")
        there.stop()
        self.has_full_backup = False
        self.must("sh", "-ec", f"rm -rf data standby.full standby.changed; mv standby data; tail -c +{there._read_up_to + 1} standby.log >>server.log")
        self.standby = None

    def signal(self, name: str) -> None:
        """Sends a signal to the postmaster; waits until its processes are gone."""
        try:
            self.session.execute(f"COPY (SELECT 1) TO PROGRAM 'kill -{name} $(head -1 postmaster.pid)'")
        except Exception as error:
            self._disconnect()
            if "conflict with recovery" in str(error):
                # it was not sent
                self.signal(name)
                return
            # the answer may be lost
        if not wait_for(lambda: not processes.pids(self.data), 30, 0.02):
            raise TimeoutError(f"processes are left 30 s after SIG{name}: {self.titles()}")
        self.stop()

    def titles(self) -> list[str]:
        return [processes._read(process / "cmdline").replace("\0", " ").strip() for process in processes.of_cluster(self.data)]

    def wait_until_up(self) -> None:
        """Waits until sessions can begin after a crash, unless the server ends."""
        self._disconnect()
        deadline = time.monotonic() + 30
        while True:
            try:
                self.session.execute("SELECT")
                return
            except Exception as error:
                self._disconnect()
                if not processes.pids(self.data):
                    raise TimeoutError(f"the server has ended after a crash: {error}") from None
                if time.monotonic() > deadline:
                    raise TimeoutError(f"no session 30 s after a crash: {error}") from None
                time.sleep(0.02)


class Standby(Cluster):
    """A standby of a cluster, in the same directory."""

    port = 5433

    def __init__(self, primary: Cluster, feedback: str) -> None:
        super().__init__(primary.server, primary.directory, primary.extension)
        self.data, self.log = self.directory / "standby", self.directory / "standby.log"
        self.options = ("standby", f"-c port={self.port} -c hot_standby_feedback={feedback} -c max_standby_archive_delay=100ms -c max_standby_streaming_delay=100ms -c wal_retrieve_retry_interval=100ms -c wal_receiver_status_interval=1")
        #: what a transaction that is open there has seen
        self.seen: list[Any] = []

    def forget(self) -> None:
        """Ends the transaction."""
        self._disconnect()
        self.seen = []
