"""A private cluster of the server to explore, and its log."""

from pathlib import Path
from typing import Self

from .. import servers
from .scenario import Scenario

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
    "test_aio.gate": "try",
    # a read that its session waits for at once is no choice, but where a scenario wants it
    "test_aio.reach_synchronous_reads": "off",
    "test_aio.trace_size": "4096",
    # a read ends by a step of the schedule
    "test_aio.uninterruptible_timeout": "1min",
    "timezone": "UTC",
}


class Cluster(servers.Cluster):
    """The cluster that scenarios run on; started again when one needs other settings, or has ended it."""

    # it may hang
    stop_mode = "immediate"

    def __init__(self, server: str, directory: Path, stage: Path | None = None) -> None:
        super().__init__(server, directory, extension=stage)
        self._runs_with: tuple | None = None

    def serve(self, method: str, scenario: Scenario) -> Self:
        wanted = (method, scenario.key)
        if self._runs_with != wanted or not self._process:
            self.stop()
            settings = {**SETTINGS, "io_method": method, **scenario.settings}
            if method == "sync":
                settings["test_aio.reach_synchronous_reads"] = "on"
            self.start(settings)
            self.new_log_lines()
            self._runs_with = wanted
        return self

    def why_no_gate(self) -> str:
        """Why nothing can be held, or nothing."""
        self.session.execute("CREATE EXTENSION IF NOT EXISTS test_aio")
        [(gate, why_not)] = self.session.execute("SELECT gate, why_not FROM io_gate")
        return "" if gate else why_not or "io_gate does not say why"
