"""bench/mutants: does the suite notice bugs?  Puts those of bench/bugs into one server and this library, and tries them one by one.

A bug is caught if a test fails with it twice, and then not without it; the test that caught it the last time need fail
only once.  A bug that no test of the short tier notices is tried with the long one.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from ..project import ROOT, Problem, perform, positive
from ..servers import server_name
from .bugs import HERE, Bug, load
from .engine import Engine
from .generator import generate
from .history import SERVERS, history, known_tests, record
from .switches import sort_out


def verdict(row: dict) -> str:
    if row["by"]:
        return ", ".join(row["by"]) + (" (time limit)" if row["timed_out"] else "") + (" (assertion)" if row["asserted"] else "")
    return ("NOT CAUGHT" if row["ran"] else "NOT REACHED") + (f"; failed only once, or without it: {', '.join(row['once'])}" if row["once"] else "")


def show(rows: list[dict]) -> bool:
    """Prints the result of a run.  Returns whether all is caught."""
    caught = [row for row in rows if row["by"]]
    for row in sorted(rows, key=lambda row: row["name"]):
        if not row["by"]:
            print(f"  {row['name']}: {verdict(row)}")
    share = 100 * len(caught) / len(rows) if rows else 0
    print(f"{len(caught)} of {len(rows)} caught ({share:.1f} %), {sum(row['asserted'] for row in caught)} of them with an assertion of the server's"
          f" own, {sum(row['timed_out'] for row in caught)} by a time limit only", flush=True)
    return len(caught) == len(rows)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="bugs to try; default: all")
    parser.add_argument("--source", type=Path, metavar="TREE", help="source of the server; default: that of 18-instrumented")
    parser.add_argument("--without-assertions", action="store_true", help="a server built without assertions")
    parser.add_argument("--server", type=server_name, default="", metavar="SERVER",
                        help="try the bugs of the library alone, on a server that servers/provide --list shows, or of a pg_config")
    parser.add_argument("--lists", nargs="+", type=Path, default=[], metavar="FILE", help="the bugs of these lists; default: all of bench/bugs/*.bugs")
    parser.add_argument("--own", action="store_true", help="only the bugs of the library")
    parser.add_argument("--sentinels", action="store_true", help="only the bugs that bench/bugs/sentinels names, each with the test that catches it; minutes")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help="only the tests whose names match, such as 't/extension/*' or regress; may be repeated")
    parser.add_argument("--fuzz", type=positive, metavar="MINUTES", help="try each bug with bench/fuzz alone, for so long; of those that a switch turns on")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="the first seed of --fuzz")
    parser.add_argument("--list", action="store_true", help="print the list and stop")
    parser.add_argument("--check", action="store_true", help="only see whether each edit fits the source")
    real = parser.add_argument_group("real bugs, that commits of PostgreSQL have fixed (doc/real-bugs.md)")
    real.add_argument("--history", action="store_true", help="try them; bench/bugs/history/commits.tsv names them")
    real.add_argument("--clone", type=Path, metavar="DIRECTORY", help="a clone of PostgreSQL that has these commits; default: the source")
    real.add_argument("--record", nargs="+", metavar=("COLUMN", "FILE"), help=f"note results in a column of the table: {', '.join(SERVERS)}")
    given = parser.parse_args(argv)
    if given.record and (given.record[0] not in SERVERS or len(given.record) < 2):
        parser.error(f"--record: one of {', '.join(SERVERS)}, then files")
    if given.sentinels:
        given.expected = dict(line.split(maxsplit=1) for line in (HERE / "sentinels").read_text().splitlines())
        # no other tests run
        given.names, given.only = [*given.expected], given.only or sorted(set(given.expected.values()))
    else:
        given.expected = {}
    return given


def chosen_bugs(given: argparse.Namespace, engine: Engine) -> list[Bug]:
    if given.history:
        if not engine.source or not (given.clone or engine.source / ".git").exists():
            raise Problem("--history takes the differences from a clone of PostgreSQL: --source, or --clone")
        bugs = history(engine.major, engine.source, given.clone or engine.source)
        given.expected = known_tests()
    else:
        bugs = [bug for bug in load(engine.major, given.lists) if bug.is_own or not (given.own or given.server)]
    if unknown := set(given.names) - {bug.name for bug in bugs}:
        raise Problem(f"no such bugs: {', '.join(sorted(unknown))}")
    if not given.list and not given.check:
        engine.build(bugs)
    return [bug for bug in bugs if not given.names or bug.name in given.names]


def run(given: argparse.Namespace) -> int:
    if given.record:
        record(given.record[0], given.record[1:])
        return 0
    base = f"source:{given.source.resolve()}" if given.source else "18-instrumented"
    engine = Engine(base, given.server, not given.without_assertions, given.only, kind="history" if given.history else "-".join(path.stem for path in given.lists))
    chosen = chosen_bugs(given, engine)
    if given.list:
        print("\n".join(f"{one.name:44} {one.about}".rstrip() for one in chosen))
        return 0
    if given.check:
        wrong = sort_out(chosen, engine.source or ROOT)[2]
        print("\n".join(wrong) if wrong else f"all {len(chosen)} bugs fit {engine.source or ROOT}")
        return bool(wrong)
    kept = ROOT / "build" / f"mutants-{engine.label}.jsonl"
    kept.parent.mkdir(exist_ok=True)
    left, found = chosen, {}
    try:
        with kept.open("w") as file:
            def keep(row: dict, told: str) -> None:
                found[row["name"]] = row
                print(json.dumps(row), file=file, flush=True)
                print(f"[{len(found)}/{len(chosen)}] {row['name']}: {verdict(row)} {told}", flush=True)

            if given.fuzz:
                for row in generate(engine, chosen, given.fuzz, given.seed):
                    keep(row, row["reason"])
                return 0
            for tier in ("short",) if given.sentinels else ("short", "long"):
                if not left:
                    break
                engine.reach(tier)
                for row in engine.tries(left, tier, expected=given.expected):
                    keep(row, f"({row['reason']}) {row['ran']} tests, {row['seconds']} s")
                left = [bug for bug in left if not found[bug.name]["by"]]
    finally:
        all_caught = show([*found.values()])
        print(f"Details: {kept}")
    return not all_caught


def main(argv: Sequence[str] | None = None) -> int:
    given = parse(argv)
    return perform("bench/mutants", lambda: run(given))
