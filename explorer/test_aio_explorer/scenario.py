"""Scenario files: sessions, what they do, and what may happen to them."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

DIRECTORY = Path(__file__).resolve().parents[1] / "scenarios"

METHODS = ("worker", "io_uring", "sync")
TIERS = ("quick", "long")
FORKS = ("main", "fsm", "vm", "init")

#: kinds of failure, and the result of a read of so many blocks that fails so
FAILURES = {
    "EIO": lambda nblocks: -5,
    "short": lambda nblocks: (nblocks - 1) * 8192,
    "cut": lambda nblocks: nblocks * 8192 - 4096,
    "empty": lambda nblocks: 0,
}


class ScenarioError(Exception):
    """A scenario file that is wrong."""


@dataclass(frozen=True)
class SessionPlan:
    name: str
    steps: tuple[str, ...]
    #: said once, when the session begins
    setup: tuple[str, ...] = ()
    #: said before each run, when nothing is held
    before: tuple[str, ...] = ()
    #: "primary" or "standby"
    on: str = "primary"
    #: a step of another session, such as "A1": this one begins when that is done
    after: str = ""


@dataclass(frozen=True)
class Scenario:
    name: str
    about: str
    sessions: tuple[SessionPlan, ...]
    #: made once, before the first run; the table "t" of so many blocks is there
    setup: tuple[str, ...] = ()
    #: done before each run, when nothing is held
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
    fork: str = "main"
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
    #: a standby is there; reads on it are held
    standby: bool = False

    @property
    def key(self) -> tuple:
        """Scenarios with the same key can share a server."""
        return (self.standby, tuple(sorted(self.settings.items())))


def _lines(value: object) -> tuple[str, ...]:
    """A text, or a list of texts."""
    lines = [value] if isinstance(value, str) else value
    if not isinstance(lines, (list, tuple)) or not all(isinstance(line, str) for line in lines):
        raise ScenarioError(f"{value!r} is not a text, nor a list of texts")
    return tuple(lines)


def parse_step(text: str) -> tuple[str, int]:
    """"A1" is the first step of session A."""
    parsed = re.fullmatch(r"([A-Z]+)([1-9]\d*)", text)
    if not parsed:
        raise ValueError(f"{text!r} is not a step")
    return parsed[1], int(parsed[2])


def _check_values(raw: dict, allowed: dict[str, tuple]) -> None:
    for key, values in allowed.items():
        for value in _lines(raw.get(key, ())):
            if value not in values:
                raise ScenarioError(f"{key}: what is {value}?  There are {', '.join(values)}")


def _check_types(raw: dict) -> None:
    for key, kind in (("about", str), ("check", str), ("rows_vary", bool), ("blocks", int), ("settings", dict),
                      ("staged", bool), ("standby", bool), ("versions", list), ("cached", list)):
        # True is an integer, too
        if key in raw and type(raw[key]) is not kind:
            raise ScenarioError(f"{key}: {raw[key]!r} is not of type {kind.__name__}")
    for key in ("versions", "cached"):
        if any(type(value) is not int for value in raw.get(key, ())):
            raise ScenarioError(f"{key}: numbers are wanted")
    for pattern in _lines(raw.get("log", ())):
        try:
            re.compile(pattern)
        except re.error as error:
            raise ScenarioError(f"log: {pattern!r}: {error}") from None


def _check_order(sessions: list[SessionPlan]) -> None:
    """Each session can begin: those that it comes after can begin before it."""
    waiting = {session.name: parse_step(session.after)[0] for session in sessions if session.after}
    while ready := [name for name, other in waiting.items() if other not in waiting]:
        for name in ready:
            del waiting[name]
    if waiting:
        raise ScenarioError(f"after: {', '.join(waiting)} wait for each other, or for themselves")


def load(path: Path) -> Scenario:
    """The scenario of a file; ScenarioError if anything in the file is wrong."""
    try:
        return _load(path)
    except ScenarioError as error:
        raise ScenarioError(f"{path}: {error}") from None


def _load(path: Path) -> Scenario:
    try:
        raw = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ScenarioError(str(error)) from None
    # a table in capitals is a session
    plans = {key: raw.pop(key) for key in [*raw] if re.fullmatch("[A-Z]+", key)}
    known = set(Scenario.__dataclass_fields__) - {"name", "sessions"}
    if unknown := set(raw) - known:
        raise ScenarioError(f"what is {', '.join(sorted(unknown))}?")
    if "about" not in raw:
        raise ScenarioError('there is no "about"')
    _check_types(raw)
    _check_values(raw, {"tier": TIERS, "fork": FORKS})
    sessions = []
    for name, entry in plans.items():
        if not isinstance(entry, dict) or not entry.get("steps"):
            raise ScenarioError(f"{name}: a session needs steps")
        if unknown := set(entry) - set(SessionPlan.__dataclass_fields__) | {"name"} & set(entry):
            raise ScenarioError(f"{name}: what is {', '.join(sorted(unknown))}?")
        _check_values(entry, {"on": ("primary", "standby") if raw.get("standby") else ("primary",)})
        sessions.append(SessionPlan(name, _lines(entry["steps"]), _lines(entry.get("setup", ())),
                                    _lines(entry.get("before", ())), entry.get("on", "primary"), entry.get("after", "")))
    if not sessions:
        raise ScenarioError("there is no session")
    names = [session.name for session in sessions]
    steps = {session.name: len(session.steps) for session in sessions}
    for session in sessions:
        if session.after:
            try:
                name, number = parse_step(session.after)
            except ValueError as error:
                raise ScenarioError(f"after: {error}") from None
            if number > steps.get(name, 0):
                raise ScenarioError(f"after: there is no step {session.after}")
    _check_order(sessions)
    for key in ("setup", "before", "hold", "failures", "cancel", "terminate", "methods", "leaves", "errors", "log"):
        if key in raw:
            raw[key] = _lines(raw[key])
    for key in ("versions", "cached"):
        if key in raw:
            raw[key] = tuple(raw[key])
    if "settings" in raw:
        raw["settings"] = {name: str(value) for name, value in raw["settings"].items()}
    _check_values(raw, {"failures": tuple(FAILURES), "methods": METHODS, "cancel": tuple(names), "terminate": tuple(names)})
    return Scenario(path.stem, raw.pop("about"), tuple(sessions), **raw)


def load_all(names: list[str], directory: Path = DIRECTORY) -> list[Scenario]:
    paths = {path.stem: path for path in sorted(directory.glob("*.toml"))}
    if unknown := [name for name in names if name not in paths]:
        raise ScenarioError(f"there is no scenario {', '.join(unknown)}")
    return [load(paths[name]) for name in (names or paths)]
