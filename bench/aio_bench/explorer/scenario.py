"""Scenarios: sessions, what they do, and what may happen to them."""

# a file's values are compared with the words of the types below
from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter
from pathlib import Path

from ..project import ROOT, Problem

DIRECTORY = ROOT / "bench/scenarios"

METHODS = ("worker", "io_uring", "sync")
TIERS = ("quick", "long")

#: kinds of failure, and the result of a read of so many blocks that fails so
FAILURES = {
    "EIO": lambda nblocks: -5,
    "short": lambda nblocks: (nblocks - 1) * 8192,
    "cut": lambda nblocks: nblocks * 8192 - 4096,
    "empty": lambda nblocks: 0,
}


@dataclass(frozen=True)
class SessionPlan:
    name: str
    steps: tuple[str, ...]
    #: said once, when the session begins; a scenario's "session_setup" is said by each of them, before that
    setup: tuple[str, ...] = ()
    #: said before each run, when nothing is held
    before: tuple[str, ...] = ()
    #: a step of another session, such as "A1": this one begins when that is done
    after: str = ""


@dataclass(frozen=True)
class Scenario:
    name: str
    about: str
    sessions: tuple[SessionPlan, ...]
    #: made once, before the first run; the table "t" of so many blocks is there
    setup: tuple[str, ...] = ()
    #: done before each run, when nothing is held; "fresh = true" in a file has "t" made anew
    before: tuple[str, ...] = ()
    #: asked after each run; its rows must be those of a serial run
    check: str = "SELECT sum(i), count(*), sum(length(f)) FROM t"
    #: rows depend on the order of reads, so only the graph tells whether they are right
    rows_vary: bool = False
    #: blocks of "t" that are in the buffer pool when a run begins
    cached: tuple[int, ...] = ()
    blocks: int = 8
    #: relations whose reads are held; "*": all reads of the sessions
    hold: tuple[str, ...] = ("t",)
    failures: tuple[str, ...] = ("EIO",)
    cancel: tuple[str, ...] = ()
    terminate: tuple[str, ...] = ()
    #: server settings besides the usual ones
    settings: dict[str, str] = field(default_factory=dict)
    methods: tuple[str, ...] = ("worker", "io_uring")
    #: handles in these states may be left when all is over
    leaves: tuple[str, ...] = ()
    #: SQLSTATEs of errors with which statements may end at any time; a serial run must not end
    #: with another one
    errors: tuple[str, ...] = ()
    #: patterns of log lines that are expected
    log: tuple[str, ...] = ()
    #: "quick" scenarios are run by "make check"
    tier: str = "long"
    #: a read that somebody waits for may be staged only, as long as its owner is at work
    staged: bool = False
    #: major versions for which this is meant
    versions: tuple[int, ...] = ()
    #: what the command line calls it
    called: str = field(default="", repr=False, compare=False)

    @property
    def key(self) -> tuple:
        """Scenarios with the same key can share a server."""
        return tuple(sorted(self.settings.items()))


def parse_step(text: str) -> tuple[str, int]:
    """"A1" is the first step of session A."""
    parsed = re.fullmatch(r"([A-Z]+)([1-9]\d*)", text)
    if not parsed:
        raise ValueError(f"{text!r} is not a step")
    return parsed[1], int(parsed[2])


def _fields(kind: type[Scenario] | type[SessionPlan], entries: dict) -> dict:
    """The entries of a file as a dataclass wants them; a text may stand for a list of one."""
    found = {}
    for key, value in entries.items():
        if key in ("name", "sessions", "called") or key not in kind.__dataclass_fields__:
            raise Problem(f"what is {key}?")
        outer, _, inner = str(kind.__dataclass_fields__[key].type).partition("[")
        if outer == "tuple" and inner.startswith("str") and isinstance(value, str):
            value = [value]
        # True is an integer, too
        if type(value).__name__ != outer.replace("tuple", "list"):
            raise Problem(f"{key}: {value!r} is not of type {outer.replace('tuple', 'list')}")
        if outer == "tuple" and any(type(one).__name__ != inner.split(",")[0] for one in value):
            raise Problem(f"{key}: {value!r} has what is not of type {inner.split(',')[0]}")
        found[key] = tuple(value) if outer == "tuple" else {name: str(one) for name, one in value.items()} if outer == "dict" else value
    return found


def load(path: Path) -> list[Scenario]:
    """The scenarios of a file; Problem if anything in it is wrong."""
    try:
        return [_scenario(name, table) for name, table in tomllib.loads(path.read_text()).items()]
    except (Problem, tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise Problem(f"{path}: {error}") from None


def _scenario(scenario: str, raw: dict) -> Scenario:
    if not isinstance(raw, dict):
        raise Problem(f"what is {scenario}, outside of a scenario's table?")
    # a table in capitals is a session
    sessions = {key: raw.pop(key) for key in [*raw] if re.fullmatch("[A-Z]+", key)}
    fresh = raw.pop("fresh", False)
    common = _fields(SessionPlan, {"setup": raw.pop("session_setup", [])})["setup"]
    values = _fields(Scenario, raw)
    if fresh:
        rows = 4 * values.get("blocks", Scenario.blocks)
        values["before"] = ("TRUNCATE t", f"INSERT INTO t SELECT g, repeat('x', 1900) FROM generate_series(0, {rows - 1}) g", "VACUUM (FREEZE) t")
    if "about" not in raw:
        raise Problem('there is no "about"')
    if not sessions:
        raise Problem("there is no session")
    for key, known in {"tier": TIERS, "failures": FAILURES, "methods": METHODS, "cancel": sessions, "terminate": sessions}.items():
        for value in [values[key]] if isinstance(values.get(key), str) else values.get(key, ()):
            if value not in known:
                raise Problem(f"{key}: what is {value}?  There are {', '.join(known)}")
    plans, before = [], dict[str, list[str]]()
    for name, entry in sessions.items():
        if not isinstance(entry, dict) or not entry.get("steps"):
            raise Problem(f"{name}: a session needs steps")
        plan = SessionPlan(name, **_fields(SessionPlan, entry))
        plans.append(replace(plan, setup=common + plan.setup))
    for plan in (plan for plan in plans if plan.after):
        try:
            other, number = parse_step(plan.after)
            TopologicalSorter(before := before | {plan.name: [other]}).prepare()
        except ValueError as error:
            raise Problem(f"after: {error.args[0]} ({plan.after})") from None
        if number > next((len(one.steps) for one in plans if one.name == other), 0):
            raise Problem(f"after: there is no step {plan.after}")
    for pattern in values.get("log", ()):
        try:
            re.compile(pattern)
        except re.error as error:
            raise Problem(f"log: {pattern!r}: {error}") from None
    return Scenario(scenario, sessions=tuple(plans), called=scenario, **values)


def _load_named(name: str) -> list[Scenario]:
    """The scenarios of FILE, or the one of FILE:NAME."""
    path, only = (name, "") if Path(name).exists() else name.rpartition(":")[::2]
    found = [replace(one, called=f"{Path(path).resolve()}:{one.name}") for one in load(Path(path)) if only in ("", one.name)]
    if only and not found:
        raise Problem(f"there is no scenario {only} in {path}")
    return found


def load_all(names: list[str]) -> list[Scenario]:
    """The scenarios with these names, or all; a name with a dot is a file of scenarios, or FILE:NAME."""
    known: dict[str, Scenario] = {}
    for path in sorted(DIRECTORY.glob("*.toml")):
        for scenario in load(path):
            if scenario.name in known:
                raise Problem(f"{path}: {scenario.name} is there twice")
            known[scenario.name] = scenario
    if unknown := [name for name in names if name not in known and "." not in name]:
        raise Problem(f"there is no scenario {', '.join(unknown)}")
    return [one for name in names or sorted(known) for one in ([known[name]] if name in known else _load_named(name))]
