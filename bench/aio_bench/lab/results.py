"""The report of a case: what was measured and on what.  Table, JSON lines, picture and page show nothing else."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from . import casefile, devices, stats
from .casefile import Case
from .devices import Device
from .machine import Machine, Storage

# the verdict on a revision, as git bisect run takes it, and its name
GOOD, BAD, CANNOT_TELL = 0, 1, 125
VERDICTS = {GOOD: "good", BAD: "bad", CANNOT_TELL: "cannot tell"}


def decide(ratio: stats.Ratio | None, threshold: float) -> int:
    """Returns the verdict on one variant.  Only an interval wholly on one side of the threshold decides."""
    return CANNOT_TELL if ratio is None or ratio.low < threshold <= ratio.high else BAD if ratio.low >= threshold else GOOD


@dataclass(frozen=True)
class Setting:
    name: str
    value: str
    default: str

    def __str__(self) -> str:
        return f"{self.name} = {self.value or repr('')}"


@dataclass(frozen=True)
class Server:
    #: what servers/run calls it
    name: str
    #: the name in the report; no other server has it
    label: str
    version: str
    version_num: int
    #: settings unlike the server's defaults; not those that are varied
    settings: tuple[Setting, ...]


@dataclass(frozen=True)
class Run:
    #: the servers' runs of one round follow one another directly
    round: int
    #: by name, as in figures.py
    figures: dict[str, float]


@dataclass(frozen=True)
class Skipped:
    server: str
    variant: str
    reason: str


@dataclass(frozen=True)
class ContrastResult:
    server: str
    of: str
    to: str
    ratio: stats.Ratio
    expected_sign: str | None


@dataclass
class Report:
    case: Case
    commit: str
    started: str
    machine: Machine
    storage: Storage
    servers: list[Server]
    #: by the label of the variant, then of the server
    runs: dict[str, dict[str, list[Run]]] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)
    #: few runs, which show at best which is faster
    quick: bool = False
    #: comparisons of the whole session; 0: of this case
    comparisons: int = 0

    @property
    def corrected_for(self) -> int:
        return self.comparisons or self.case.number_of_comparisons(self.case.variants, len(self.servers))

    def values(self, variant: str, server: str, figure: str | None = None) -> list[float]:
        """Returns the values of the case's figure, or of another one.  Runs without it are left out."""
        name = figure or self.case.measure
        return [run.figures[name] for run in self.runs.get(variant, {}).get(server, []) if name in run.figures]

    def summary(self, variant: str, server: str, figure: str | None = None) -> stats.Summary | None:
        values = self.values(variant, server, figure)
        return stats.summarize(values) if values else None

    def ratio(self, variant: str) -> stats.Ratio | None:
        """Returns the ratio of the first server's figure to the second's, or None without two servers."""
        if len(self.servers) != 2:
            return None
        first, second = (self.values(variant, server.label) for server in self.servers)
        return stats.compare(first, second, True, self.case.figure.same, self.corrected_for) if first and second else None

    def contrasts(self) -> list[ContrastResult]:
        """Returns the contrasts: pairs of variants that differ only in the two values."""
        results = []
        for contrast, of, to in self.case.contrasted(self.case.variants):
            # without interleave, variants with different settings are not in the same rounds
            paired = self.case.run.interleave or of.settings(self.case.parameters, 190000) == to.settings(self.case.parameters, 190000)
            for server in self.servers:
                first, second = (self.values(each.label, server.label) for each in (of, to))
                if first and second:
                    ratio = stats.compare(first, second, paired, self.case.figure.same, self.corrected_for)
                    results.append(ContrastResult(server.label, of.label, to.label, ratio, contrast.expect.get(str(server.version_num // 10000))))
        return results

    def expected_sign(self, variant: str) -> str | None:
        if len(self.servers) != 2:
            return None
        first, second = self.servers
        return self.case.expected_sign(variant, first.version_num, second.version_num)

    def promises(self) -> dict[str, bool]:
        """Returns, by variant, whether the ratio is as high as the case promises."""
        return {
            variant: ratio.ratio >= self.case.at_least
            for variant in self.runs
            if self.case.at_least and self.expected_sign(variant) and (ratio := self.ratio(variant))
        }

    def decide(self, variants: list[str], threshold: float) -> int:
        """Returns the verdict on all of these: bad if one of them is bad, good if all of them are good."""
        said = {decide(self.ratio(variant), threshold) for variant in variants}
        return next(status for status in (BAD, CANNOT_TELL, GOOD) if status in said)

    @property
    def direct_io(self) -> bool | None:
        """Whether reads are direct.  None: it is varied."""
        if "io" in self.case.varied:
            return None
        return self.case.setup.direct_io and self.storage.no_direct_io is None

    def devices(self) -> dict[str, Device]:
        names = dict.fromkeys(variant.value_of("device") or devices.NONE for variant in self.case.variants)
        return {name: device for name in names if (device := devices.named(name))}

    def _compared(self, ratio: stats.Ratio, expected_sign: str | None) -> dict[str, Any]:
        return {**asdict(ratio), "sign": self.case.figure.sign(ratio.sign), "expected_sign": expected_sign}

    def as_json_lines(self) -> str:
        """Returns lines of JSON that load() reads.  Each line says what it is: first the provenance, then runs,
        ratios, contrasts and what was skipped."""
        case = {"case": self.case.id}
        lines: list[dict[str, Any]] = [{
            "line": "provenance", "name": self.case.name, "case": self.case.data(), "project_commit": self.commit,
            "started": self.started, "quick": self.quick, "comparisons": self.corrected_for,
            "devices": {name: asdict(device) for name, device in self.devices().items()}, "machine": asdict(self.machine),
            "storage": asdict(self.storage), "direct_io": self.direct_io, "servers": [asdict(server) for server in self.servers],
        }]
        for variant, by_server in self.runs.items():
            for server, runs in by_server.items():
                of_run = {"line": "run", **case, "variant": variant, "server": server, "measure": self.case.measure}
                lines += [of_run | asdict(run) for run in runs]
        for variant in self.runs:
            if ratio := self.ratio(variant):
                first, second = (server.label for server in self.servers)
                lines.append({"line": "ratio", **case, "variant": variant, "of": first, "to": second,
                              **self._compared(ratio, self.expected_sign(variant))})
        for found in self.contrasts():
            lines.append({"line": "contrast", **case, "server": found.server, "of": found.of, "to": found.to,
                          **self._compared(found.ratio, found.expected_sign)})
        lines += [{"line": "skipped", **case, **asdict(skipped)} for skipped in self.skipped]
        return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def load(path: Path) -> Report:
    """Returns the report of a file of as_json_lines().  Raises ValueError or Problem if it is no such
    file."""
    try:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        first = lines[0]
        servers = [Server(**{**server, "settings": tuple(Setting(**each) for each in server["settings"])}) for server in first["servers"]]
        report = Report(casefile.from_data(first["name"], first["case"], str(path)), first["project_commit"], first["started"],
                        Machine(**first["machine"]), Storage(**first["storage"]), servers, quick=first.get("quick", False),
                        comparisons=first.get("comparisons", 0))
        for line in lines[1:]:
            if line["line"] == "run":
                by_server = report.runs.setdefault(line["variant"], {})
                by_server.setdefault(line["server"], []).append(Run(line["round"], line["figures"]))
            elif line["line"] == "skipped":
                report.skipped.append(Skipped(line["server"], line["variant"], line["reason"]))
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: not the results of bench/lab: {error!r}") from error
    return report
