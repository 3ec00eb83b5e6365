"""A private cluster of the server to explore, and its log."""

from __future__ import annotations

import subprocess
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
#: compiling the extension, initdb and pg_basebackup take no longer, even on a busy machine
LONGEST_SECONDS = 900

PORTS = {"primary": 5432, "standby": 5433}

SETTINGS = {
    "shared_preload_libraries": "test_aio",
    "autovacuum": "off",
    "bgwriter_lru_maxpages": "0",
    "checkpoint_timeout": "1h",
    "deadlock_timeout": "10s",
    "effective_io_concurrency": "16",
    "fsync": "off",
    "io_max_concurrency": "8",
    "jit": "off",
    "log_checkpoints": "off",
    "log_line_prefix": "%p ",
    "log_min_error_statement": "panic",
    "max_connections": "20",
    "max_logical_replication_workers": "0",
    "max_parallel_workers_per_gather": "0",
    "max_wal_senders": "3",
    "max_worker_processes": "4",
    "shared_buffers": "16MB",
    "synchronize_seqscans": "off",
    "synchronous_commit": "off",
    # a read that its session waits for at once is no choice, but where a scenario wants it
    "test_aio.reach_synchronous_reads": "off",
    "test_aio.trace_size": "4096",
    "timezone": "UTC",
}


class ClusterError(Exception):
    """A cluster that could not be made or started."""


class Cluster:
    """One cluster, and a standby of it if one is wanted, in a directory of their own."""

    def __init__(self, server: str, directory: Path, stage: Path | None = None) -> None:
        self.server = server
        self.directory = directory
        self.stage = stage
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._settings: dict[str, str] = {}
        self._has_standby = False
        self._read_up_to: dict[str, int] = {}

    def _command(self, *arguments: str) -> list[str]:
        read = ["--read", str(self.stage)] if self.stage else []
        return [str(CHECKOUT / "servers/run"), "--work", str(self.directory), *read, self.server,
                str(CHECKOUT / "explorer/inside"), *arguments]

    def _must(self, *arguments: str) -> None:
        # timeout ends the whole process group
        done = subprocess.run(["timeout", "--kill-after=10", str(LONGEST_SECONDS), *self._command(*arguments)],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode in (124, 137):
            raise ClusterError(f"{self.server}: explorer/inside {arguments[0]} took longer than {LONGEST_SECONDS} s")
        if done.returncode != 0:
            raise ClusterError(f"{self.server}: explorer/inside {arguments[0]} failed:\n{done.stdout}{done.stderr[-3000:]}")

    def prepare(self) -> None:
        self._must("prepare", *([str(self.stage)] if self.stage else []))

    def log_file(self, which: str = "primary") -> Path:
        return self.directory / f"{which}.log"

    def start(self, method: str, settings: dict[str, str], standby: bool) -> None:
        """Returns when the servers accept connections."""
        self._settings = {**SETTINGS, "io_method": method, **settings}
        if method == "sync":
            self._settings["test_aio.reach_synchronous_reads"] = "on"
        (self.directory / "settings.conf").write_text(
            "".join(f"{name} = '{value}'\n" for name, value in self._settings.items()))
        self._serve("primary")
        if standby:
            if not self._has_standby:
                self._must("standby", str(PORTS["primary"]))
                self._has_standby = True
            self._serve("standby")

    def _serve(self, which: str) -> None:
        log = self.log_file(which)
        self._read_up_to[which] = log.stat().st_size if log.exists() else 0
        process = subprocess.Popen(
            self._command("serve", which, str(PORTS[which])), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, start_new_session=True)
        self._running[which] = process
        assert process.stdout
        if not process.stdout.readline().startswith("ready"):
            self.stop()
            raise ClusterError(f"{self.server} ({which}) did not start:\n{self._tail(which)}")
        self.new_log_lines(which)

    def _tail(self, which: str) -> str:
        log = self.log_file(which)
        return "\n".join(log.read_text(errors="replace").splitlines()[-15:]) if log.exists() else "it has no log"

    def stop(self) -> None:
        """Ends the servers at once: that is what the end of their input means."""
        for which in ("standby", "primary"):
            if process := self._running.pop(which, None):
                process.communicate()

    def conninfo(self, which: str = "primary") -> str:
        return (f"host={self.directory} port={PORTS[which]} user=postgres dbname=postgres"
                " application_name=explorer")

    def new_log_lines(self, which: str = "primary") -> list[str]:
        """What has been logged since this was asked last."""
        log = self.log_file(which)
        if not log.exists() or log.stat().st_size <= self._read_up_to[which]:
            return []
        with log.open("rb") as file:
            file.seek(self._read_up_to[which])
            text = file.read()
        # a line that is being written is left for the next time
        end = text.rfind(b"\n") + 1
        self._read_up_to[which] += end
        return text[:end].decode(errors="replace").splitlines()
