"""bench/mutants: does the suite notice bugs?  Puts those of bench/bugs into one server and this library, and tries them one by one.

A bug is caught if a test fails with it twice, and not without it; the test that caught it the last time need fail
only once.  A bug that no test of the short tier notices is tried with the long one.

With --sweep the bugs are made by rule, in the read path and around it: calls, assignments and increments that could be
left out, and conditions of "if" that could be wrong (points.py).  They are tried in random order, each with the tests
of the short tier that reach it.  Most of what no test notices cannot be seen from outside, or only makes the server
slower: it is for somebody to read.
"""

import argparse
import json
import random
import re
from collections import defaultdict
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from ..project import ROOT, Problem, json_lines, perform, positive
from ..servers import server_name
from .bugs import HERE, Bug, load
from .engine import Engine
from .generator import generate
from .history import SERVERS, history, known_tests, page, record
from .points import KINDS, Point
from .switches import sort_out

#: which tests notice what, written by --matrix
NOTICED = HERE / "noticed.tsv"
#: files of the server that --sweep makes bugs in
SWEPT = (
    *(f"src/backend/storage/{name}.c" for name in ("aio/*", "buffer/*", "smgr/*", "file/fd", "freespace/freespace", "page/bufpage", "sync/sync")),
    *(f"src/backend/access/{name}.c" for name in ("heap/heapam_handler", "heap/vacuumlazy", "heap/hio", "heap/visibilitymap", "gin/ginvacuum", "gist/gistvacuum",
                                                  "hash/hash", "nbtree/nbtree", "spgist/spgvacuum", "table/tableam", "transam/xlogprefetcher", "transam/xlogutils")),
    *(f"src/backend/{name}.c" for name in ("executor/nodeBitmap*scan", "executor/nodeSeqscan", "executor/instrument", "utils/activity/pgstat_io",
                                           "utils/activity/pgstat_backend", "utils/activity/pgstat_relation", "postmaster/bgwriter", "postmaster/checkpointer",
                                           "commands/analyze", "commands/vacuum", "catalog/storage")),
    "contrib/pg_buffercache/pg_buffercache_pages.c", "contrib/pg_prewarm/*.c",
)


def verdict(row: dict) -> str:
    if row["by"]:
        return ", ".join(row["by"]) + (" (time limit)" if row["timed_out"] else "") + (" (assertion)" if row["asserted"] else "")
    return ("NOT CAUGHT" if row["ran"] else "NOT REACHED") + (f"; failed only once: {', '.join(row['once'])}" if row["once"] else "")


def show(rows: list[dict]) -> bool:
    """Prints the result of a run.  Returns whether all is caught."""
    caught = [row for row in rows if row["by"]]
    # names made by rule have numbers of lines
    for row in sorted(rows, key=lambda row: re.sub(r":(\d+)", lambda found: f":{found[1]:>6}", row["name"])):
        if not row["by"]:
            print(f"  {row['name']}: {verdict(row)}")
    share = 100 * len(caught) / len(rows) if rows else 0
    print(f"{len(caught)} of {len(rows)} caught ({share:.1f} %), {sum(row['asserted'] for row in caught)} of them with an assertion of the server's"
          f" own, {sum(row['timed_out'] for row in caught)} by a time limit only", flush=True)
    return len(caught) == len(rows)


def noticed_by() -> dict[str, list[str]]:
    """The tests that noticed each bug in the last run with --matrix."""
    tests: dict[str, list[str]] = defaultdict(list)
    for line in NOTICED.read_text().splitlines()[1:]:
        test, alone, others = line.split("\t")
        for bug in (alone + " " + others).split():
            tests[bug].append(test)
    return tests


def note(rows: list[dict]) -> None:
    """Writes NOTICED anew, where these results take the place of older ones."""
    lists = {bug.name for major in (18, 19) for bug in load(major)}
    tests = {bug: by for bug, by in (noticed_by() | {row["name"]: row["by"] for row in rows}).items() if bug in lists}
    lines = ["test\talone\twith another"]
    for test in sorted({test for by in tests.values() for test in by}):
        those = sorted(bug for bug, by in tests.items() if test in by)
        alone, others = ([bug for bug in those if (len(tests[bug]) == 1) == is_alone] for is_alone in (True, False))
        lines.append(f"{test}\t{' '.join(alone)}\t{' '.join(others)}")
    NOTICED.write_text("\n".join(lines) + "\n")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="bugs to try; default: all")
    parser.add_argument("--source", type=Path, metavar="TREE", help="source of the server; default: that of 18-instrumented")
    parser.add_argument("--without-assertions", action="store_true", help="a server built without assertions, as --sweep has it")
    parser.add_argument("--server", type=server_name, default="", metavar="SERVER",
                        help="try the bugs of the library alone, on a server that servers/provide --list shows, or of a pg_config")
    parser.add_argument("--lists", nargs="+", type=Path, default=[], metavar="FILE", help="the bugs of these lists; default: all of bench/bugs/*.bugs")
    parser.add_argument("--own", action="store_true", help="only the bugs of the library")
    parser.add_argument("--sentinels", action="store_true", help="only the bugs that bench/bugs/sentinels names, each with the test that catches it; minutes")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help="only the tests whose names match, such as 't/extension/*' or regress; may be repeated")
    parser.add_argument("--shard", metavar="K/N", default="1/1", help="the K-th of N parts, for several machines; of a sweep they need the same --seed")
    parser.add_argument("--matrix", action="store_true", help="note in bench/bugs/noticed.tsv which test notices each bug, and which of the twelve likeliest others")
    parser.add_argument("--fuzz", type=positive, metavar="MINUTES", help="try each bug with bench/fuzz alone, for so long; of those that a switch turns on")
    parser.add_argument("--list", action="store_true", help="print the list and stop")
    parser.add_argument("--check", action="store_true", help="only see whether each edit fits the source")
    parser.add_argument("--merge", nargs="+", type=Path, metavar="FILE", help="the same for the results of several runs; prints their outcome")
    real = parser.add_argument_group("real bugs, that commits of PostgreSQL have fixed (doc/real-bugs.md)")
    real.add_argument("--history", action="store_true", help="try them; bench/bugs/history/commits.tsv names them")
    real.add_argument("--clone", type=Path, metavar="DIRECTORY", help="a clone of PostgreSQL that has these commits; default: the source")
    real.add_argument("--record", nargs="+", metavar=("COLUMN", "FILE"), help=f"note results in a column of the table: {', '.join(SERVERS)}")
    real.add_argument("--page", action="store_true", help="write the rates of the table into doc/real-bugs.md and README.md")
    sweep = parser.add_argument_group("bugs made by rule")
    sweep.add_argument("--sweep", action="store_true", help="try them, without assertions")
    sweep.add_argument("--file", action="append", default=[], metavar="PATTERN", help="only those in files whose name matches, such as 'bufmgr*'; may be repeated")
    sweep.add_argument("--kind", action="append", default=[], choices=KINDS, help="only this kind of bug; may be repeated")
    sweep.add_argument("--minutes", type=int, default=30, metavar="N", help="begin no bug after so many minutes (30)")
    sweep.add_argument("--tests", type=int, default=25, metavar="N", help="run so many tests at most for each bug (25)")
    sweep.add_argument("--seed", type=int, default=random.randrange(1 << 30), metavar="N", help="of the random order")
    sweep.add_argument("--unreached", action="store_true", help="print the places that no test reaches, and stop")
    given = parser.parse_args(argv)
    if given.record and (given.record[0] not in SERVERS or len(given.record) < 2):
        parser.error(f"--record: one of {', '.join(SERVERS)}, then files")
    if given.sentinels:
        given.expected = dict(line.split(maxsplit=1) for line in (HERE / "sentinels").read_text().splitlines())
        # no other tests run
        given.names, given.only = [*given.expected], given.only or sorted(set(given.expected.values()))
    else:
        given.expected = {bug: tests[0] for bug, tests in noticed_by().items()}
    given.without_assertions |= given.sweep
    return given


def chosen_bugs(given: argparse.Namespace, engine: Engine) -> list[Bug | Point]:
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


def chosen_points(given: argparse.Namespace, engine: Engine) -> list[Bug | Point]:
    """Returns the points to try in random order, or with --unreached those that no test reaches."""
    assert engine.source
    engine.build([], sorted(str(path.relative_to(engine.source)) for pattern in SWEPT for path in engine.source.glob(pattern)))
    print(f"{len(engine.points)} points; the suite runs once without a bug", flush=True)
    reached = engine.reach()
    chosen = [point for point in engine.points
              if (not given.kind or point.kind in given.kind)
              and (not given.file or any(fnmatch(Path(point.file).name, pattern) for pattern in given.file))]
    if given.unreached:
        return [point for point in chosen if point.number not in reached]
    left: list[Bug | Point] = [point for point in random.Random(given.seed).sample(chosen, len(chosen)) if point.number in reached]
    print(f"{len(chosen)} chosen, {len(left)} of them reached; --seed {given.seed}", flush=True)
    return left


def run(given: argparse.Namespace) -> int:
    if given.record:
        record(given.record[0], given.record[1:])
    if given.page:
        page()
    if given.record or given.page:
        return 0
    if given.merge:
        rows = [*{row["name"]: row for row in json_lines(*given.merge)}.values()]
        note(rows)
        return not show(rows)
    base = f"source:{given.source.resolve()}" if given.source else "18-instrumented"
    engine = Engine(base, given.server, not given.without_assertions, given.only)
    part, parts = map(int, given.shard.split("/"))
    chosen = (chosen_points if given.sweep else chosen_bugs)(given, engine)[part - 1::parts]
    if given.list or given.unreached:
        print("\n".join(f"{one.name:44} {one.about}".rstrip() for one in chosen))
        return 0
    if given.check:
        wrong = sort_out((bug for bug in chosen if isinstance(bug, Bug)), engine.source or ROOT)[2]
        print("\n".join(wrong) if wrong else f"all {len(chosen)} bugs fit {engine.source or ROOT}")
        return bool(wrong)
    kept = ROOT / "build" / (f"sweep-{engine.major}-{given.seed}.jsonl" if given.sweep else f"mutants-{engine.label}.jsonl")
    kept.parent.mkdir(exist_ok=True)
    limits = {"minutes": given.minutes, "most": given.tests} if given.sweep else {}
    left, found = chosen, {}
    try:
        with kept.open("w") as file:
            if given.fuzz:
                for row in generate(engine, (bug for bug in chosen if isinstance(bug, Bug)), given.fuzz, given.seed):
                    found[row["name"]] = row
                    print(json.dumps(row), file=file, flush=True)
                    print(f"[{len(found)}/{len(chosen)}] {row['name']}: {verdict(row)} {row['reason']}", flush=True)
                return 0
            for tier in ("short",) if given.sweep or given.sentinels else ("short", "long"):
                if not left:
                    break
                engine.reach(tier)
                for row in engine.tries(left, tier, others=12 * given.matrix, expected=given.expected, **limits):
                    found[row["name"]] = row
                    print(json.dumps(row), file=file, flush=True)
                    print(f"[{len(found)}/{len(chosen)}] {row['name']}: {verdict(row)} ({row['reason']}) {row['ran']} tests, {row['seconds']} s", flush=True)
                left = [] if given.sweep else [bug for bug in left if not found[bug.name]["by"]]
    finally:
        if given.matrix:
            note([*found.values()])
        all_caught = show([*found.values()])
        print(f"Details: {kept}")
    return not all_caught


def main(argv: Sequence[str] | None = None) -> int:
    given = parse(argv)
    return perform("bench/mutants", lambda: run(given))
