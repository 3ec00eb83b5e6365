"""Case files in TOML: what is set up, run, varied and expected.  The models below are the whole format.  pydantic checks
files against them."""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, StrictBool, StrictFloat, StrictInt, StrictStr, ValidationError, conint

from ..project import Problem
from . import devices, plans
from .arguments import MIN_RUNS
from .figures import FIGURES, Figure
from .variants import OWN, Variant, combinations

# Every case has these.
EXTENSIONS = ("pg_buffercache", "pg_prewarm", "test_aio")

# Settings of all cases, unless they say otherwise: nothing else reads or writes during a run.
SETTINGS = {"autovacuum": "off", "checkpoint_timeout": "1h", "max_wal_size": "4GB", "shared_buffers": "256MB", "max_parallel_workers_per_gather": 0}

Text: TypeAlias = StrictStr | list[StrictStr]
Value: TypeAlias = StrictBool | StrictInt | StrictFloat | StrictStr
FigureName: TypeAlias = Literal[tuple(FIGURES)]  # type: ignore[valid-type]
Sign: TypeAlias = Literal[tuple(sorted({sign for figure in FIGURES.values() for sign in figure.signs}))]  # type: ignore[valid-type]


class _Table(BaseModel, extra="forbid"):  # type: ignore[call-arg]
    """A table of the file.  Unknown keys are errors."""


class Setup(_Table):
    large: StrictInt = 0  # blocks of the table "large", with a row in each; 0: it is not made
    sql: list[StrictStr] = []  # further statements that set the case up, once a server
    direct_io: StrictBool = False  # read directly if the file system can and no device is simulated


class RunTable(_Table):
    runs: conint(strict=True, ge=MIN_RUNS) = MIN_RUNS  # type: ignore[valid-type]  # rounds at least
    most_runs: StrictInt = 21  # rounds at most
    seconds: conint(strict=True, gt=0) = 120  # type: ignore[valid-type]  # no further round of a variant begins later
    before: Text = []  # statements before each run, not measured
    statement: Text  # of several statements the last one is measured
    after: Text = []  # statements after each run, not measured
    measure: FigureName = "time"  # figure by which servers are compared
    also: list[FigureName] = []  # figures shown beside it
    unit: StrictStr = ""  # unit of a figure that has none of its own
    explain: StrictBool | None = None  # false: the statement has no EXPLAIN, and its time is the client's
    plan: list[StrictStr] | dict[str, list[StrictStr]] = []  # nodes that EXPLAIN must show, each before those below it, also by values of what is varied; another plan is an error
    counts: dict[str, StrictInt | dict[str, StrictInt]] = {}  # minimum counts of EXPLAIN over all nodes, such as Heap Fetches, also by values of what is varied
    shared_read_blocks: StrictInt = 0  # a run that reads fewer blocks is an error
    pgbench: list[StrictStr] = []  # options of pgbench, which then runs the statement
    interleave: StrictBool = False  # variants take turns, and the server is started anew for each run


class Contrast(_Table):
    """Two values of what is varied, compared on each server by itself."""

    of: StrictStr
    to: StrictStr
    expect: dict[str, Sign] = {}  # sign by major version; other versions promise nothing


class CaseFile(_Table):
    id: StrictStr
    title: StrictStr
    commit: StrictStr = ""  # the server's commit that changed the behaviour
    known: StrictStr  # which servers have the behaviour, and what cannot be shown
    vary: dict[str, list[Value]] = {}  # settings and their values, or names of variants.OWN
    parameters: dict[str, list[Value] | dict[str, StrictStr]] = {}  # values that replace {name}, or labels with their values
    settings: dict[str, Value | dict[str, Value]] = {}  # settings of all servers; tables 18, 19: from that major version on
    setup: Setup = Setup()
    run: RunTable
    expect: dict[str, StrictInt | StrictFloat | Sign] = {}  # gone_in, at_least, and signs of variants
    contrast: list[Contrast] = []


def _statements(value: str | list[str]) -> tuple[str, ...]:
    return tuple(each.strip() for each in ([value] if isinstance(value, str) else value))


@dataclass(frozen=True)
class Case:
    """A case file, and what follows from it."""

    #: the file's name without .toml
    name: str
    file: CaseFile
    id: str
    title: str
    known: str
    setup: Setup
    run: RunTable
    before: tuple[str, ...]
    #: the last one is measured
    statement: tuple[str, ...]
    after: tuple[str, ...]
    varied: tuple[str, ...]
    variants: tuple[Variant, ...]
    #: what replaces {name}, by name and then by label
    parameters: dict[str, dict[str, str]]

    @property
    def setup_statements(self) -> list[str]:
        large = [
            "CREATE TABLE large (id int, filler text STORAGE PLAIN)",
            f"INSERT INTO large SELECT i, repeat('x', 5000) FROM generate_series(1, {self.setup.large}) i",
            "VACUUM (FREEZE, ANALYZE) large",
        ]
        return [*(f"CREATE EXTENSION {name}" for name in EXTENSIONS), *(large if self.setup.large else []), *self.setup.sql, "CHECKPOINT"]

    @property
    def settings(self) -> dict[str, Any]:
        return SETTINGS | self.file.settings

    @property
    def measure(self) -> str:
        return self.run.measure

    @property
    def figure(self) -> Figure:
        return FIGURES[self.measure]

    @property
    def figures(self) -> set[str]:
        """The names of all figures that a run must have."""
        return {self.measure, *self.run.also}

    @property
    def unit(self) -> str:
        return self.run.unit or self.figure.unit

    @property
    def explain(self) -> bool:
        return self.measure != "value" if self.run.explain is None else self.run.explain

    @property
    def gone_in(self) -> int:
        return int(self.file.expect.get("gone_in", 0))

    @property
    def at_least(self) -> float | None:
        """The ratio that is promised on every machine.  None: there is no such promise."""
        value = self.file.expect.get("at_least")
        return None if value is None else float(value)

    @property
    def expected(self) -> dict[str, str]:
        return {words: str(sign) for words, sign in self.file.expect.items() if words not in ("gone_in", "at_least")}

    @property
    def simulated(self) -> bool:
        """Whether all reads are from a simulated device: a variant's, or one that the case's statements make."""
        return all(variant.has_device for variant in self.variants) or "io_device(" in " ".join(self.before + self.statement)

    def contrasted(self, variants: Sequence[Variant]) -> list[tuple[Contrast, Variant, Variant]]:
        """Returns the pairs of variants that differ only in the two values of a contrast."""
        return [(contrast, of, to) for contrast in self.file.contrast for of in variants for to in variants
                if [(one[1], other[1]) for one, other in zip(of.values, to.values) if one != other] == [(contrast.of, contrast.to)]]

    def number_of_comparisons(self, variants: Sequence[Variant], servers: int) -> int:
        return (len(variants) if servers == 2 else 0) + servers * len(self.contrasted(variants))

    @property
    def told_apart_by(self) -> str:
        """The names whose values are the variants' labels, as a column's title."""
        return ", ".join(name for name in self.varied if name not in self.variants[0].constant)

    @property
    def constants(self) -> str:
        """The names and values that are the same in all variants.  No server setting may show them."""
        return ", ".join(f"{name}: {value}" for name, value in self.variants[0].values if name in self.variants[0].constant)

    def expected_sign(self, label: str, version_a: int, version_b: int) -> str | None:
        """Returns the sign that the case promises for a pair of servers, or None.  If several keys match the variant,
        the one with most values counts."""
        if not version_a < self.gone_in <= version_b:
            return None
        variant = next(variant for variant in self.variants if variant.label == label)
        matching = [words for words in self.expected if variant.matches(words)]
        return self.expected[max(matching, key=lambda words: words.count(","))] if matching else None

    def substituted(self, text: str, variant: Variant) -> str:
        for name, texts in self.parameters.items():
            label = variant.value_of(name)
            assert label
            text = text.replace("{" + name + "}", texts[label])
        return text

    def expected_plan(self, variant: Variant) -> plans.Expected:
        plan = self.run.plan
        names = plan if isinstance(plan, list) else next((plan[words] for words in plan if variant.matches(words)), [])
        counts: dict[str, int] = {}
        for words, count in self.run.counts.items():
            if not isinstance(count, dict):
                counts[words] = count
            elif variant.matches(words):
                counts |= count
        return plans.Expected([self.substituted(each, variant) for each in names], counts)

    def data(self) -> dict[str, Any]:
        """Returns the file's contents, from which from_data() makes the case again."""
        # pydantic 2 has other names than 1
        dump = getattr(self.file, "model_dump", None) or self.file.dict
        return dump(exclude_unset=True)


def _problems(case: Case) -> list[str]:
    found = []
    run, signs = case.run, case.figure.signs

    def matches(words: str) -> bool:
        return any(variant.matches(words) for variant in case.variants)

    if run.runs > run.most_runs:
        found.append("run.runs must be at most run.most_runs")
    for name, values in case.file.vary.items():
        found += [f"vary.{name}: {value!r} is not one of {known}" for value in values if (known := OWN.get(name)) and value not in known]
    for value in case.file.vary.get("device", []):
        try:
            devices.named(str(value))
        except ValueError as error:
            found.append(f"vary.device: {error}")
    for name, by_values in (("plan", run.plan), ("counts", {words: each for words, each in run.counts.items() if isinstance(each, dict)})):
        found += [f"run.{name}: {words!r} is no value of what is varied" for words in (by_values if isinstance(by_values, dict) else ()) if not matches(words)]
    if (run.plan or run.counts) and (run.pgbench or not case.explain):
        found.append("run.plan and run.counts need EXPLAIN, and this statement has none")
    if "gate" in case.varied and not run.interleave:
        found.append("vary.gate needs run.interleave, because the filter ends with the server")
    if case.expected and not case.gone_in:
        found.append("expect.gone_in must be given, as an integer")
    found += [f"expect.{words} = {sign!r}: neither a variant's sign nor one of {signs}"
              for words, sign in case.expected.items() if sign not in signs or not matches(words)]
    for contrast in case.file.contrast:
        found += [f"contrast: {value!r} is no value of what is varied" for value in (contrast.of, contrast.to) if not matches(value)]
        found += [f"contrast.expect: {sign!r} is not one of {signs}" for sign in contrast.expect.values() if sign not in signs]
    return found


def from_data(name: str, data: dict[str, Any], where: str = "") -> Case:
    """Returns the case of a file's contents.  Raises Problem."""
    where = where or name
    try:
        file = CaseFile(**data)
    except ValidationError as error:
        # pydantic repeats a complaint for each type of a union
        raise Problem("\n".join(dict.fromkeys(f"{where}: {'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()))) from error
    # a list's values stand for themselves
    parameters = {
        name: values if isinstance(values, dict) else {str(value): str(value) for value in values}
        for name, values in file.parameters.items()
    }
    vary = file.vary | {name: list(texts) for name, texts in parameters.items()}
    if not vary or not all(vary.values()):
        raise Problem(f"{where}: vary must be given, and each name in it needs values")
    run = file.run
    case = Case(name, file, file.id, file.title, " ".join(file.known.split()), file.setup, run,
                _statements(run.before), _statements(run.statement), _statements(run.after), tuple(vary), combinations(vary), parameters)
    if problems := _problems(case):
        raise Problem("\n".join(f"{where}: {problem}" for problem in problems))
    return case


def changed(case: Case, device: str = "", measure: str = "") -> Case:
    """Returns the case on these simulated devices, which commas separate, and compared by this figure, of which it
    promises nothing.  Empty arguments leave the case as it is.  Raises Problem."""
    data = case.data()
    if device:
        data["vary"] = {"device": list(dict.fromkeys(device.split(",")))} | {name: values for name, values in case.file.vary.items() if name != "device"}
    if device and devices.NONE not in data["vary"]["device"]:
        # nothing is read but from the page cache
        data["vary"].pop("io", None)
        if "cache" in data["vary"]:
            data["vary"]["cache"] = list(dict.fromkeys(str(state).replace("kernel", "server") for state in data["vary"]["cache"]))
        data["known"] = " ".join(each for each in re.split(r"(?<=\.) ", case.known) if not re.search("direct|page cache|hardware|virtual machine", each))
    if measure and measure != case.measure:
        data["run"] = data["run"] | {"measure": measure, "also": [name for name in case.run.also if name != measure]}
        data["contrast"] = [{"of": contrast.of, "to": contrast.to} for contrast in case.file.contrast]
        data.pop("expect", None)
    return from_data(case.name, data)


def load(path: Path) -> Case:
    """Returns the case of a file.  Raises Problem."""
    try:
        data = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise Problem(f"{path}: {error}") from error
    return from_data(path.stem, data, str(path))
