"""The command line of a trial.  Standard library only."""

import argparse
import re
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

from .. import project
from ..lab import arguments as of_lab
from ..servers import ServerError, is_tree, server_name

EPILOG = """\
SERVER is one of these:
  source:PATH[@REVISION]  a source tree, which is compiled with assertions for the suite
                          and optimised for the lab
  PATH                    the path of a pg_config
  NAME                    a name that servers/provide --list shows
  SERVER,SERVER           two of the latter: the first for the suite, the second for the lab

The parts, in this order:
  suite    does it still work?  the test suite, before and after
  changes  what else changed?  recordings and schedules, before and after
  lines    which lines of the patch does nothing execute?
  bugs     which bugs in the patch's own lines does nothing notice?
  lab      is it faster?
"lines" and "bugs" want AFTER to be a source tree.

Exit status: 0 nothing is worse; 1 a test fails that passed before; 3 a figure of the
lab is worse; 4 the trial could not be completed, or a test that passed before fails
sometimes; 2 wrong usage; 130 interrupted.  The same command resumes an
interrupted trial.
"""

ROLES = ("before", "after")

#: the exit status
RIGHT, FAILS, WORSE, INCOMPLETE = 0, 1, 3, 4

PARTS = ("suite", "changes", "lines", "bugs", "lab")

# cases about test_aio itself say nothing about a server's patch
OWN_COST = ("d", "k")

# minutes of the whole trial, of which the lab gets what the other parts leave; minutes for the bugs
QUICK_MINUTES = 15
MARGIN_MINUTES = 2
BUGS_MINUTES = 30
BUGS_MINUTES_QUICK = 3


@dataclass(frozen=True)
class Side:
    #: one of ROLES
    role: str
    #: what servers/run calls the servers
    suite: str
    lab: str


def side(role: str, text: str) -> Side:
    """Returns the side that a text names.  source:PATH[@REVISION] is compiled twice, for the suite and for the lab.
    Of two servers with a comma between them the first is for the suite.  Raises ServerError."""
    if is_tree(text):
        # with its revision, if it has one
        tree = Path(text.partition(":")[2]).absolute()
        return Side(role, f"source:{tree}", f"source-optimised:{tree}")
    suite, comma, lab = text.partition(",")
    if not suite or (comma and not lab):
        raise ServerError(f"{text!r}: a server, or two with a comma between them")
    return Side(role, server_name(suite), server_name(lab or suite))


def parse(argv: list[str] | None = None) -> Namespace:
    parser = argparse.ArgumentParser(
        prog="bench/trial",
        description="Puts a patch on trial: runs the test suite and the lab on a server before and after it, and writes one report.",
        epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("before", metavar="BEFORE", help="SERVER without the patch")
    parser.add_argument("after", metavar="AFTER", help="SERVER with it")
    parser.add_argument("cases", nargs="*", default=[], metavar="CASE", help="cases of the lab, as bench/lab takes them (default: all but those of test_aio's own cost, D and K)")
    parser.add_argument("--quick", action="store_true",
                        help=f"few rounds, and no case begins after {QUICK_MINUTES - MARGIN_MINUTES} minutes: with warm caches all of it takes {QUICK_MINUTES}; the report names the cases left out")
    parser.add_argument("--only", default="", metavar="VALUES", help="only variants with these values, such as --only io_uring")
    parser.add_argument("--tests", action="append", default=[], metavar="FILE", help="run only this file of the suite, such as t/server/streams/shapes.pl; once or several times")
    parser.add_argument("--parts", default=",".join(PARTS), metavar="PART,…", help="only these parts (default: %(default)s)")
    parser.add_argument("--minutes", type=project.positive, metavar="N", help=f"begin no bug after so many minutes of that part (default: {BUGS_MINUTES}, with --quick {BUGS_MINUTES_QUICK})")
    parser.add_argument("--again", action="store_true", help="begin anew, without the results of an earlier trial")
    parser.add_argument("--output", type=Path, metavar="DIR", help="where results and the report go (default: build/trial/BEFORE..AFTER)")
    parser.add_argument("--work", type=Path, default=Path("/var/tmp"), metavar="DIR", help="directory of the lab's clusters: its file system is measured (default: %(default)s)")
    parsed = parser.parse_intermixed_args(argv)
    parsed.parts = tuple(filter(None, re.split(r"[\s,]+", parsed.parts)))
    if not parsed.parts or set(parsed.parts) - set(PARTS):
        parser.error(f"--parts: some of {', '.join(PARTS)}, with commas between them")
    if missing := [name for name in parsed.tests if not (project.ROOT / name).is_file()]:
        parser.error(f"there is no test {', '.join(missing)}")
    try:
        parsed.sides = tuple(side(role, text) for role, text in zip(ROLES, (parsed.before, parsed.after)))
        parsed.before, parsed.after = parsed.sides
        parsed.cases = list(dict.fromkeys(path for name in parsed.cases for path in of_lab.find_cases(name))) or [
            path for path in of_lab.find_cases("all") if path.stem[0] not in OWN_COST]
    except (project.Problem, argparse.ArgumentTypeError, OSError, ValueError) as error:
        parser.error(str(error))
    parsed.minutes = parsed.minutes or (BUGS_MINUTES_QUICK if parsed.quick else BUGS_MINUTES)
    parsed.output = parsed.output.absolute() if parsed.output else None
    return parsed
