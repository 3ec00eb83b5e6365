"""A private cluster of the server to explore, and its log."""

from __future__ import annotations

import subprocess
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
#: compiling the extension and initdb take no longer, even on a busy machine
LONGEST_SECONDS = 900

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
    # a share of the buffers for each possible process: what a stream may pin, so its capacity
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
    """One cluster, in a directory of its own."""

    def __init__(self, server: str, directory: Path, stage: Path | None = None) -> None:
        self.server = server
        self.directory = directory
        self.stage = stage
        self.log = directory / "primary.log"
        self._running: subprocess.Popen[str] | None = None
        self._read_up_to = 0

    def _command(self, *arguments: str) -> list[str]:
        read = ["--read", str(self.stage)] if self.stage else []
        return [str(CHECKOUT / "servers/run"), "--work", str(self.directory), *read, self.server,
                str(CHECKOUT / "explorer/inside"), *arguments]

    def prepare(self) -> None:
        # timeout ends the whole process group
        done = subprocess.run(["timeout", "--kill-after=10", str(LONGEST_SECONDS), *self._command("prepare", *([str(self.stage)] if self.stage else []))],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode in (124, 137):
            raise ClusterError(f"{self.server}: explorer/inside took longer than {LONGEST_SECONDS} s")
        if done.returncode != 0:
            raise ClusterError(f"{self.server}: explorer/inside failed:\n{done.stdout}{done.stderr[-3000:]}")

    def start(self, method: str, settings: dict[str, str]) -> None:
        """Returns when the server accepts connections."""
        settings = {**SETTINGS, "io_method": method, **settings}
        if method == "sync":
            settings["test_aio.reach_synchronous_reads"] = "on"
        (self.directory / "settings.conf").write_text("".join(f"{name} = '{value}'\n" for name, value in settings.items()))
        self._read_up_to = self.log.stat().st_size if self.log.exists() else 0
        self._running = subprocess.Popen(self._command("serve"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=subprocess.DEVNULL, text=True, start_new_session=True)
        assert self._running.stdout
        if not self._running.stdout.readline().startswith("ready"):
            self.stop()
            tail = self.log.read_text(errors="replace").splitlines()[-15:] if self.log.exists() else ["it has no log"]
            raise ClusterError("\n".join([f"{self.server} did not start:", *tail]))
        self.new_log_lines()

    def stop(self) -> None:
        """Ends the server at once: that is what the end of its input means."""
        if self._running:
            self._running.communicate()
        self._running = None

    def conninfo(self) -> str:
        return f"host={self.directory} port=5432 user=postgres dbname=postgres application_name=explorer"

    def new_log_lines(self) -> list[str]:
        """What has been logged since this was asked last."""
        if not self.log.exists():
            return []
        with self.log.open("rb") as file:
            file.seek(self._read_up_to)
            text = file.read()
        # a line that is being written is left for the next time
        end = text.rfind(b"\n") + 1
        self._read_up_to += end
        return text[:end].decode(errors="replace").splitlines()
