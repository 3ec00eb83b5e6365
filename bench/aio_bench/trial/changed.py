"""bench/changed: which test files execute the functions that have changed?  Standard library only."""

import argparse
import json
import sys
from pathlib import Path

from .. import project
from ..servers import ServerError, is_tree, split_tree
from . import patch, suite
from .coverage import Coverage

#: what the last run of bench/coverage has seen: the tests that execute a function, by file and name
REACH = project.CACHE / "reach.json"


def keep_reach(found: Coverage) -> None:
    """Keeps which share of all that a test executes are calls of a function."""
    reach: dict[str, dict[str, dict[str, float]]] = {}
    for test in (test for test in found.by_test if test.endswith(".pl") and test != suite.RECORDINGS):
        counts = {(name, function): count for name, file in found.by_test[test].items() for function, count in file.functions.items() if count}
        for (name, function), count in counts.items():
            reach.setdefault(name, {}).setdefault(function, {})[test] = count / sum(counts.values())
    REACH.parent.mkdir(parents=True, exist_ok=True)
    REACH.write_text(json.dumps(reach))


def in_order(reach: dict[str, dict[str, dict[str, float]]], functions: dict[str, set[str]]) -> list[str]:
    """Returns the tests that execute one of these functions.  First comes what executes them more than other tests do."""
    weight: dict[str, float] = {}
    for shares in (reach.get(name, {}).get(function, {}) for name, names in functions.items() for function in names):
        for test, share in shares.items():
            weight[test] = weight.get(test, 0) + share / sum(shares.values())
    return sorted(weight, key=lambda test: (-weight[test], test))


def functions_of(server: str, base: str) -> dict[str, set[str]]:
    """Returns the functions that a tree changes, by file; base is a revision, or empty: the last commit, or what is not
    committed yet."""
    path, revision = split_tree(server)
    head = revision or "HEAD"
    if not project.git(path, "rev-parse", "--verify", f"{head}:src/backend"):
        raise ServerError(f"{path} is no git repository with a commit {head} of PostgreSQL")
    old = project.git(path, "merge-base", base, head) if base else head if not revision and project.git(path, "status", "--porcelain", "-uno") else f"{head}^"
    if not old:
        raise ServerError(f"there is no commit {base} in {path}")
    found = patch.parse(project.git(path, "diff", "--no-color", "--no-renames", "-w", "-U0", old, *([revision] if revision else []), "--", "src/backend", "contrib"))
    return {name: patch.functions(project.git(path, "show", f"{revision}:{name}") + "\n" if revision else Path(path, name).read_text(errors="replace"), lines)
            for name, lines in found.lines.items()}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench/changed", description="Prints the test files that execute the changed functions, those first that do so most.")
    parser.add_argument("server", metavar="source:PATH[@REVISION]")
    parser.add_argument("base", nargs="?", default="", metavar="REVISION", help="what has changed since the branch left this one (default: since the last commit; if nothing has, in the last commit)")
    given = parser.parse_args(argv)
    if not is_tree(given.server):
        parser.error(f"{given.server}: no source tree, source:PATH[@REVISION]")
    try:
        functions = functions_of(given.server, given.base)
    except ServerError as error:
        parser.error(str(error))
    names = sorted(name for each in functions.values() for name in each)
    print(f"changed: {', '.join(names[:8]) or 'no function of the server'}{', …' * (len(names) > 8)}", file=sys.stderr)
    if not REACH.exists():
        print("nothing is known of what tests execute: bench/coverage SERVER", file=sys.stderr)
        return 0
    # a test may be gone since then
    found = [test for test in in_order(json.loads(REACH.read_text()), functions) if (project.ROOT / test).is_file()]
    print(f"{len(found)} test files execute them, by the last coverage", file=sys.stderr)
    print("\n".join(found))
    return 0
