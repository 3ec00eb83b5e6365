"""What was measured, and on what: everything that table, JSON and picture show."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from . import stats
from .casefile import Case
from .machine import Machine, Storage


@dataclass(frozen=True)
class Setting:
    name: str
    value: str
    default: str


@dataclass(frozen=True)
class Server:
    #: what servers/run calls it
    name: str
    #: its version, short, and unlike that of the others
    label: str
    version: str
    version_num: int
    #: those that differ from the server's defaults, the varied ones apart
    settings: tuple[Setting, ...]


@dataclass(frozen=True)
class Run:
    #: runs with one number were made one right after the other
    round: int
    execution_ms: float
    shared_read_blocks: int


@dataclass(frozen=True)
class Skipped:
    server: str
    variant: str
    reason: str


@dataclass
class Report:
    case: Case
    commit: str
    started: str
    machine: Machine
    storage: Storage
    servers: list[Server]
    #: by variant, then by server, both by label
    runs: dict[str, dict[str, list[Run]]] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)

    def times(self, variant: str, server: str) -> list[float]:
        return [run.execution_ms for run in self.runs.get(variant, {}).get(server, [])]

    def summary(self, variant: str, server: str) -> stats.Summary | None:
        times = self.times(variant, server)
        return stats.summarize(times) if times else None

    def ratio(self, variant: str) -> stats.Ratio | None:
        """Of the first server's time to the second's, if there are two."""
        if len(self.servers) != 2:
            return None
        first, second = (self.times(variant, server.label) for server in self.servers)
        return stats.compare(first, second) if first and second else None

    def numbers_of_runs(self) -> list[int]:
        """The different ones, sorted: more runs where fewer did not tell."""
        return sorted({len(runs) for results in self.runs.values() for runs in results.values()})

    def expected_sign(self, variant: str) -> str | None:
        if len(self.servers) != 2:
            return None
        first, second = self.servers
        return self.case.expected_sign(variant, first.version_num, second.version_num)

    @property
    def direct_io(self) -> bool:
        return self.case.direct_io and self.storage.no_direct_io is None

    def as_json(self) -> str:
        results = []
        for variant, by_server in self.runs.items():
            for server, runs in by_server.items():
                results.append({
                    "variant": variant,
                    "server": server,
                    "ms": asdict(stats.summarize([run.execution_ms for run in runs])),
                    "runs": [asdict(run) for run in runs],
                })
        ratios = []
        for variant in self.runs:
            if ratio := self.ratio(variant):
                ratios.append({
                    "variant": variant,
                    "of": self.servers[0].label,
                    "to": self.servers[1].label,
                    **asdict(ratio),
                    "sign": ratio.sign,
                    "expected_sign": self.expected_sign(variant),
                })
        case = asdict(self.case)
        case["variants"] = [dict(variant.settings) for variant in self.case.variants]
        return json.dumps({
            "case": case,
            "project_commit": self.commit,
            "started": self.started,
            "machine": asdict(self.machine),
            "storage": asdict(self.storage),
            "direct_io": self.direct_io,
            "servers": [asdict(server) for server in self.servers],
            "results": results,
            "ratios": ratios,
            "skipped": [asdict(skipped) for skipped in self.skipped],
        }, indent=1, ensure_ascii=False) + "\n"

    def write_json(self, path: Path) -> None:
        path.write_text(self.as_json())
