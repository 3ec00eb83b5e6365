"""Case files: what is set up, run, varied and expected, in TOML."""

from __future__ import annotations

import itertools
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# A bootstrap of fewer rounds would promise more than they can tell.
MIN_RUNS = 7

TOML_NAMES = {dict: "a table", list: "an array", str: "a string", int: "an integer", bool: "true or false"}

SIGNS = ("slower", "same", "faster")


class CaseError(Exception):
    """A case file that does not say what it has to."""


@dataclass(frozen=True)
class Published:
    """Figures of somebody else's, shown beside the measured ones."""

    source: str
    before_ms: float
    after_ms: float

    @property
    def ratio(self) -> float:
        return self.before_ms / self.after_ms


@dataclass(frozen=True)
class Variant:
    """One combination of the settings that are varied."""

    settings: tuple[tuple[str, str], ...]

    @property
    def label(self) -> str:
        return ", ".join(value for _, value in self.settings)

    def value_of(self, name: str) -> str | None:
        return dict(self.settings).get(name)


@dataclass(frozen=True)
class Case:
    name: str
    id: str
    title: str
    commit: str
    varied: tuple[str, ...]
    variants: tuple[Variant, ...]
    settings: dict[str, str]
    direct_io: bool
    setup: tuple[str, ...]
    before: str
    statement: str
    runs: int
    most_runs: int
    shared_read_blocks: int
    gone_in: int
    expected: dict[str, str]
    published: Published | None

    def expected_sign(self, label: str, version_a: int, version_b: int) -> str | None:
        """The sign that the case promises, if this is a pair it speaks of."""
        if version_a < self.gone_in <= version_b:
            return self.expected.get(label)
        return None


def _take(table: dict[str, Any], path: Path, key: str, kind: type, where: str) -> Any:
    value = table.get(key)
    if not isinstance(value, kind):
        raise CaseError(f"{path}: {where}{key} must be given, as {TOML_NAMES[kind]}")
    return value


def load(path: Path) -> Case:
    try:
        data = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise CaseError(f"{path}: {error}") from error

    def take(key: str, kind: type, section: str = "") -> Any:
        table = data.get(section, {}) if section else data
        return _take(table, path, key, kind, f"{section}." if section else "")

    vary = take("vary", dict)
    variants = tuple(
        Variant(tuple(zip(vary, map(str, values)))) for values in itertools.product(*vary.values())
    )
    expected = dict(take("expect", dict))
    gone_in = _take(expected, path, "gone_in", int, "expect.")
    del expected["gone_in"]
    for label, sign in expected.items():
        if sign not in SIGNS or label not in {variant.label for variant in variants}:
            raise CaseError(f"{path}: expect.{label} = {sign!r}: neither a variant's sign nor one of {SIGNS}")
    runs, most_runs = (take(key, int, "run") for key in ("runs", "most_runs"))
    if not MIN_RUNS <= runs <= most_runs:
        raise CaseError(f"{path}: run.runs must be at least {MIN_RUNS} and at most run.most_runs")

    return Case(
        name=path.stem,
        id=take("id", str),
        title=take("title", str),
        commit=take("commit", str),
        varied=tuple(vary),
        variants=variants,
        settings={name: str(value) for name, value in take("settings", dict).items()},
        direct_io=take("direct_io", bool, "setup"),
        setup=tuple(take("sql", list, "setup")),
        before=take("before", str, "run"),
        statement=take("statement", str, "run").strip(),
        runs=runs,
        most_runs=most_runs,
        shared_read_blocks=take("shared_read_blocks", int, "run"),
        gone_in=gone_in,
        expected=expected,
        published=Published(**data["published"]) if "published" in data else None,
    )
