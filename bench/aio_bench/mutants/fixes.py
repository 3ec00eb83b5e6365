"""bench/fix: patches for the bugs of doc/reports, each with a test in the server's own manner.

A directory of doc/reports has the mail (mail.md), the test (test.pl), and the fix (fix.bugs), edits as in the lists of
seeded bugs.  The edits named NAME are the fix, those named NAME-test are what its test needs of the server, such as an
injection point.  "# needs OTHER" says that the fix stands on another one.
"""

import argparse
import os
import re
import subprocess
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path

from .. import servers
from ..project import CACHE, ROOT, Problem, lock, perform, write_files
from .bugs import Bug, Edit, major_of, parse
from .engine import Engine
from .switches import edited

REPORTS = ROOT / "doc/reports"
#: where the patches put their tests
TESTS = "src/test/modules/test_misc"
#: what a hanging server makes a test wait for, in seconds
TIMEOUT = 30
PROVE = """
tools=$(dirname "$("$PG_CONFIG" --pgxs)")/../test
enable_injection_points=$(sed -n 's/^enable_injection_points[[:blank:]]*=[[:blank:]]*//p' "$tools/../Makefile.global")
export enable_injection_points PG_REGRESS="$tools/regress/pg_regress" TESTDATADIR="$TEST_AIO_DATA" TESTLOGDIR="$PWD/log"
rm -rf log
exec prove -v -I "$tools/perl" "$1"
"""


def reports(major: int = 0) -> list[str]:
    """Returns the names of the bugs that have a fix; for this version, if one is given, since some came with later ones."""
    return sorted(path.parent.name for path in REPORTS.glob("*/fix.bugs") if not major or any(bug.is_for(major) for bug in parse(path.read_text(), str(path))))


def bugs_of(name: str, major: int) -> tuple[list[Bug], list[Bug]]:
    """Returns the edits of a fix, and the edits that its test needs, each after the edits of the fixes that it stands on."""
    path = REPORTS / name / "fix.bugs"
    text = path.read_text()
    fixes, points = list[Bug](), list[Bug]()
    for other in re.findall(r"^# needs (\S+)$", text, re.MULTILINE):
        for those, more in zip((fixes, points), bugs_of(other, major), strict=True):
            those.extend(more)
    for bug in parse(text, str(path)):
        if bug.is_for(major):
            (points if bug.name == f"{name}-test" else fixes).append(bug)
    if not any(bug.name == name for bug in fixes):
        raise Problem(f"{path} has no fix of {name} for {major}")
    return fixes, points


def texts_of(names: Sequence[str], source: Path, fixed: bool = True) -> dict[str, str]:
    """Returns the files of the source that these fixes change, as they are then.  Without "fixed", only with what
    their tests need."""
    edits: dict[Edit, None] = {}
    for name in names:
        fixes, points = bugs_of(name, major_of(source))
        edits |= dict.fromkeys(edit for bug in points + fixes * fixed for edit in bug.edits)
    return edited(Bug("", tuple(edits)), source)


def test_texts(name: str, source: Path) -> dict[str, str]:
    """Returns the test of a report as a file of the source, and the list of tests that names it."""
    tests = sorted(path.name for path in (source / TESTS / "t").glob("[0-9]*.pl"))
    new = f"t/{int(tests[-1][:3]) + 1:03}_{name.replace('-', '_')}.pl"
    build = (source / TESTS / "meson.build").read_text()
    last = f"      't/{tests[-1]}',\n"
    if build.count(last) != 1:
        raise Problem(f"{source}/{TESTS}/meson.build does not name {tests[-1]}")
    return {f"{TESTS}/{new}": (REPORTS / name / "test.pl").read_text(), f"{TESTS}/meson.build": build.replace(last, f"{last}      '{new}',\n")}


def message_of(name: str, major: int) -> str:
    """Returns the message of the commit: what the fix does, and the cause as the mail tells it."""
    about = next(bug.about for bug in bugs_of(name, major)[0] if bug.name == name)
    cause = re.search(r"^## Cause\n\n(.*?)\n(?:\n|\Z)", (REPORTS / name / "mail.md").read_text(), re.MULTILINE | re.DOTALL)
    if not cause:
        raise Problem(f"the mail of {name} does not tell the cause")
    return f"{about[0].upper()}{about[1:]}\n\n{textwrap.fill(cause[1], 72)}"


def patch(name: str, source: Path) -> str:
    """Returns the fix and the test as git format-patch writes them."""
    with tempfile.TemporaryDirectory() as place:
        def git(*words: str) -> str:
            return subprocess.run(["git", "-c", "commit.gpgsign=false", *identity, "-C", place, *words], env=environment, check=True, capture_output=True, text=True).stdout

        environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        is_known = subprocess.run(["git", "config", "user.email"], env=environment, stdout=subprocess.DEVNULL).returncode == 0
        identity = [] if is_known else ["-c", "user.name=test_aio", "-c", "user.email=test_aio@invalid"]
        after = texts_of([name], source) | test_texts(name, source)
        git("init", "--quiet")
        before = {file: (source / file).read_text() for file in after if (source / file).exists()}
        for texts, message in ((before, "before"), (after, message_of(name, major_of(source)))):
            write_files(Path(place), texts)
            git("add", "--all")
            git("commit", "--quiet", "--no-verify", "-m", message)
        return git("format-patch", "-1", "--stdout", "--no-signature")


def check(names: Sequence[str], source: Path) -> list[str]:
    """Returns which patches cannot be made for the source; all at once have to fit, too."""
    wrong = []
    for name in names:
        try:
            patch(name, source)
        except Problem as error:
            wrong.append(f"{name}: {error}")
    if not wrong:
        texts_of(names, source)
    return wrong


def outcome(engine: Engine, name: str) -> str:
    """Runs a test.  Returns whether it passes, fails, or breaks off before an assertion fails."""
    command = servers.command(engine.server, engine.work, "env", f"PG_TEST_TIMEOUT_DEFAULT={TIMEOUT}", "sh", "-euc", PROVE, "-",
                              REPORTS / name / "test.pl", data=True)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if "Result: NOTESTS" in done.stdout:
        raise Problem(f"{name} was skipped: {done.stdout}")
    (engine.work / f"{name}.log").write_text(done.stdout)
    return "passes" if done.returncode == 0 else "fails" if re.search(r"^not ok", done.stdout, re.MULTILINE) else "breaks off"


def try_out(base: str, names: Sequence[str]) -> int:
    """Runs tests on two servers, without and with the fixes."""
    engines, locked, wrong = [], [], 0
    for step, fixed in ("before", False), ("after", True):
        engine = Engine(base, directory=CACHE / "fixes" / step)
        assert engine.source
        locked.append(lock(engine.directory, f"another run uses {engine.directory}"))
        engine.compile(texts_of(names, engine.source, fixed))
        engines.append(engine)
    for name in names:
        before, after = (outcome(engine, name) for engine in engines)
        is_wrong = (before, after) != ("fails", "passes")
        wrong += is_wrong
        print(f"{name}: the test {before} before and {after} after the fix{' -- WRONG' * is_wrong}", flush=True)
    print(f"{len(names) - wrong} of {len(names)} fixes turn their tests; logs: {CACHE}/fixes/*/work/*.log")
    return bool(wrong)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench/fix", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="bugs of doc/reports; with --check and --try all, if none is named")
    parser.add_argument("--source", type=Path, metavar="TREE", help="source of the server; default: the one of 18-instrumented")
    parser.add_argument("--check", action="store_true", help="only see whether each patch can be made, and all at once; compiles nothing")
    parser.add_argument("--try", action="store_true", dest="tried", help="compile the server with the fixes, all at once, and run each test before and after")
    given = parser.parse_args(argv)
    if unknown := set(given.names) - set(reports()):
        parser.error(f"no such bugs: {', '.join(sorted(unknown))}; known: {', '.join(reports())}")
    if not (given.names or given.check or given.tried):
        parser.error("name a bug")

    def run() -> int:
        base = f"source:{given.source.resolve()}" if given.source else "18-instrumented"
        source = servers.source_of(base)
        names = given.names or reports(major_of(source))
        if given.tried:
            return try_out(base, names)
        if given.check:
            wrong = check(names, source)
            print("\n".join(wrong) if wrong else f"all {len(names)} fixes fit {source}")
            return bool(wrong)
        print("\n".join(patch(name, source) for name in names), end="")
        return 0

    return perform("bench/fix", run)
