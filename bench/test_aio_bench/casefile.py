"""Case files: what is set up, run, varied and expected, in TOML."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .figures import FIGURES, Figure
from .variants import OWN, Variant, combinations

# A bootstrap of fewer rounds would promise more than they can tell.
MIN_RUNS = 7

TOML_NAMES = {dict: "a table", list: "an array", str: "a string", int: "an integer", bool: "true or false"}

SECTIONS = {
    "": {"id", "title", "commit", "known"},
    "setup": {"direct_io", "sql", "relation"},
    "run": {"runs", "most_runs", "seconds", "narrow", "before", "statement", "after", "measure", "also", "unit",
            "explain", "shared_read_blocks", "pgbench"},
    "published": {"source", "before_ms", "after_ms", "figures"},
}
FREE_SECTIONS = {"vary", "parameters", "settings", "expect"}
CONTRAST = {"of", "to", "expect"}


class CaseError(Exception):
    """A case file that does not say what it has to."""


@dataclass(frozen=True)
class Published:
    """Figures of somebody else's, shown beside the measured ones."""

    source: str
    before_ms: float | None = None
    after_ms: float | None = None
    #: those that are not a before and an after
    figures: str | None = None

    @property
    def ratio(self) -> float | None:
        return self.before_ms / self.after_ms if self.before_ms and self.after_ms else None


@dataclass(frozen=True)
class Contrast:
    """Two values of what is varied, compared on each server by itself."""

    of: str
    to: str
    #: the sign by major version; a version not named promises nothing
    expect: dict[str, str]

    def expected_sign(self, version_num: int) -> str | None:
        return self.expect.get(str(version_num // 10000))


@dataclass(frozen=True)
class Case:
    name: str
    id: str
    title: str
    commit: str
    #: which server is known to have it, and what this machine cannot show
    known: str
    varied: tuple[str, ...]
    variants: tuple[Variant, ...]
    #: by name, then by label: what takes the place of {name}
    parameters: dict[str, dict[str, str]]
    settings: dict[str, Any]
    direct_io: bool
    setup: tuple[str, ...]
    #: what the state of caches is about
    relation: str | None
    before: tuple[str, ...]
    #: the last one is measured
    statement: tuple[str, ...]
    after: tuple[str, ...]
    measure: str
    also: tuple[str, ...]
    unit: str
    explain: bool
    #: options of pgbench, which then runs the statement
    pgbench: tuple[str, ...]
    runs: int
    most_runs: int
    seconds: int
    narrow: float
    shared_read_blocks: int
    gone_in: int
    expected: dict[str, str]
    #: that the ratio is at least this, whatever the machine; None: nothing is promised
    at_least: float | None
    contrasts: tuple[Contrast, ...]
    published: Published | None

    @property
    def told_apart_by(self) -> str:
        """What the labels of variants say, as a column's title."""
        return ", ".join(name for name in self.varied if name not in self.variants[0].constant)

    @property
    def constants(self) -> str:
        """What is the same for all variants, though no server's setting may say it."""
        return ", ".join(f"{name}: {value}" for name, value in self.variants[0].values if name in self.variants[0].constant)

    @property
    def figure(self) -> Figure:
        return FIGURES[self.measure]

    def expected_sign(self, label: str, version_a: int, version_b: int) -> str | None:
        """The sign that the case promises, if this is a pair it speaks of.  Of
        several that match the variant, the one with most words counts."""
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


class _Reader:
    """Takes what a case file has to say out of it, or says what is wrong."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.data = tomllib.loads(path.read_text())
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise CaseError(f"{path}: {error}") from error
        self._refuse_unknown()

    def fail(self, what: str) -> CaseError:
        return CaseError(f"{self.path}: {what}")

    def _refuse_unknown(self) -> None:
        for name, value in self.data.items():
            if name in SECTIONS and isinstance(value, dict):
                for key in value.keys() - SECTIONS[name]:
                    raise self.fail(f"{name}.{key} is not known")
            elif name not in FREE_SECTIONS | SECTIONS[""] | {"contrast"}:
                raise self.fail(f"{name} is not known")

    def section(self, name: str) -> dict[str, Any]:
        table = self.data.get(name, {})
        if not isinstance(table, dict):
            raise self.fail(f"{name} must be a table")
        return table

    def take(self, key: str, kind: type, section: str = "") -> Any:
        value = (self.section(section) if section else self.data).get(key)
        if not isinstance(value, kind):
            where = f"{section}." if section else ""
            raise self.fail(f"{where}{key} must be given, as {TOML_NAMES[kind]}")
        return value

    def take_or(self, key: str, default: Any, section: str = "") -> Any:
        given = key in (self.section(section) if section else self.data)
        return self.take(key, type(default), section) if given else default

    def statements(self, key: str, section: str) -> tuple[str, ...]:
        value = self.section(section).get(key, [])
        if not isinstance(value, (str, list)):
            raise self.fail(f"{section}.{key} must be a string or an array of them")
        return tuple(each.strip() for each in ([value] if isinstance(value, str) else value))

    def parameters(self) -> dict[str, dict[str, str]]:
        """A list's values stand for themselves."""
        return {
            name: values if isinstance(values, dict) else {str(value): str(value) for value in values}
            for name, values in self.section("parameters").items()
        }

    def variants(self) -> tuple[tuple[str, ...], tuple[Variant, ...]]:
        vary = self.section("vary") | {name: list(texts) for name, texts in self.parameters().items()}
        for name, values in vary.items():
            if not isinstance(values, list) or not values:
                raise self.fail(f"vary.{name} must be an array of values")
            for value in values:
                if (known := OWN.get(name)) and value not in known:
                    raise self.fail(f"vary.{name}: {value!r} is not one of {known}")
        if not vary:
            raise self.fail("vary must be given, as a table")
        return tuple(vary), combinations(vary)

    def figures(self) -> tuple[str, tuple[str, ...]]:
        measure = self.take_or("measure", "time", "run")
        also = tuple(self.take_or("also", [], "run"))
        for name in (measure, *also):
            if name not in FIGURES:
                raise self.fail(f"run: {name!r} is no figure; known: {', '.join(FIGURES)}")
        return measure, also

    def expectations(self, variants: tuple[Variant, ...], figure: Figure) -> tuple[int, dict[str, str], float | None]:
        expected = dict(self.section("expect"))
        if not expected:
            return 0, {}, None
        gone_in = self.take("gone_in", int, "expect")
        at_least = self.take_or("at_least", 0.0, "expect") or None
        expected = {words: sign for words, sign in expected.items() if words not in ("gone_in", "at_least")}
        for words, sign in expected.items():
            if sign not in figure.signs or not any(variant.matches(words) for variant in variants):
                raise self.fail(f"expect.{words} = {sign!r}: neither a variant's sign nor one of {figure.signs}")
        return gone_in, expected, at_least

    def _contrast(self, table: dict[str, Any], variants: tuple[Variant, ...], figure: Figure) -> Contrast:
        for key in table.keys() ^ CONTRAST:
            if key != "expect":
                raise self.fail(f"contrast: {key} is {'not known' if key in table else 'missing'}")
        contrast = Contrast(table["of"], table["to"], table.get("expect", {}))
        for value in (contrast.of, contrast.to):
            if not any(variant.matches(value) for variant in variants):
                raise self.fail(f"contrast: {value!r} is no value of what is varied")
        for sign in contrast.expect.values():
            if sign not in figure.signs:
                raise self.fail(f"contrast.expect: {sign!r} is not one of {figure.signs}")
        return contrast

    def contrasts(self, variants: tuple[Variant, ...], figure: Figure) -> tuple[Contrast, ...]:
        return tuple(self._contrast(table, variants, figure) for table in self.take_or("contrast", []))


def load(path: Path) -> Case:
    reader = _Reader(path)
    varied, variants = reader.variants()
    measure, also = reader.figures()
    figure = FIGURES[measure]
    gone_in, expected, at_least = reader.expectations(variants, figure)
    runs, most_runs = (reader.take(key, int, "run") for key in ("runs", "most_runs"))
    if not MIN_RUNS <= runs <= most_runs:
        raise reader.fail(f"run.runs must be at least {MIN_RUNS} and at most run.most_runs")
    relation = reader.take_or("relation", "", "setup") or None
    if not relation and not {"cache", "device"}.isdisjoint(varied):
        raise reader.fail("setup.relation must be given, as a string, where cache or device is varied")
    statement = reader.statements("statement", "run")
    if not statement:
        raise reader.fail("run.statement must be given")

    return Case(
        name=path.stem,
        id=reader.take("id", str),
        title=reader.take("title", str),
        commit=reader.take_or("commit", ""),
        known=" ".join(reader.take("known", str).split()),
        varied=varied,
        variants=variants,
        parameters=reader.parameters(),
        settings=reader.section("settings"),
        direct_io=reader.take_or("direct_io", False, "setup"),
        setup=tuple(reader.take("sql", list, "setup")),
        relation=relation,
        before=reader.statements("before", "run"),
        statement=statement,
        after=reader.statements("after", "run"),
        measure=measure,
        also=also,
        unit=reader.take_or("unit", figure.unit, "run"),
        explain=reader.take_or("explain", measure != "value", "run"),
        pgbench=tuple(reader.take_or("pgbench", [], "run")),
        runs=runs,
        most_runs=most_runs,
        seconds=reader.take_or("seconds", 120, "run"),
        narrow=float(reader.section("run").get("narrow", 0.1)),
        shared_read_blocks=reader.take_or("shared_read_blocks", 0, "run"),
        gone_in=gone_in,
        expected=expected,
        at_least=at_least,
        contrasts=reader.contrasts(variants, figure),
        published=Published(**data) if (data := reader.section("published")) else None,
    )
