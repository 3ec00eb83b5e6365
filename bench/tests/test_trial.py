"""Trials: the suite's output, comparisons, kept results, summary and page.  No server runs."""

import html
import json
import os
import re
import shutil
import subprocess
import unittest
from dataclasses import asdict, replace
from unittest import mock

from aio_bench import project, results, servers
from aio_bench.mutants.points import Instrumented, Point
from aio_bench.mutants.switches import DEFINES
from aio_bench.results import Assertion, File, Suite
from aio_bench.timeline import trace
from aio_bench.trial import arguments, bugs, changed, changes, command, coverage, findings, kept, page, patch, shown, suite, summary
from aio_bench.trial.bugs import Tried
from aio_bench.trial.changes import Changes
from aio_bench.trial.coverage import Coverage, Gap
from aio_bench.trial.findings import Findings
from aio_bench.trial.kept import Kept

from . import WithDirectory
from .test_report import report
from .traces import parallel, serial

NESTED = """\
ok 1 - worker: SHOW io_method
# Subtest: worker: two sessions
    ok 1 - the first reads
    not ok 2 - the second reads
    # Failed test
    ok 3 - the first reads
    1..3
not ok 2 - worker: two sessions
ok 3 # skip io_uring: needs a kernel
1..3
"""


class Tap(WithDirectory):
    def parse(self, text: str) -> list[dict]:
        (self.directory / "a.pl").write_text(text)
        return results.parse(self.directory, ["a.pl"])["a.pl"]

    def test_innermost_assertions(self) -> None:
        found = {each["name"]: each for each in self.parse(NESTED)}
        self.assertEqual(len(found), 5)
        self.assertFalse(found["worker: two sessions › the second reads"]["passed"])
        self.assertTrue(found["worker: two sessions › the first reads (2)"]["passed"])
        self.assertEqual(found[""]["skipped"], "io_uring: needs a kernel")

    def test_what_passes_and_is_skipped(self) -> None:
        for what, text, found in (
            ("a subtest that fails though all in it has passed", "    ok 1 - inner\nnot ok 1 - outer\n", [("outer › inner", True, None), ("outer", False, None)]),
            ("a subtest that was broken off", "ok 1 - a\n    not ok 1 - inner\n", [("a", True, None), ("inner", False, None)]),
            ("a file that is skipped", "1..0 # SKIP needs the gate\n", [("the whole file", True, "needs the gate")]),
            ("an expected failure", "not ok 1 - later # TODO not yet\n", [("later", True, None)]),
            ("pg_regress", "# using temp instance\nok 1         - bad_input       102 ms\nnot ok 2     + types            5 ms\n1..2\n",
             [("bad_input", True, None), ("types", False, None)]),
        ):
            with self.subTest(what):
                self.assertEqual([(each["name"], each["passed"], each["skipped"]) for each in self.parse(text)], found)


# replaces servers/run: leaves results of servers/check that depend on the name of the server
CHECK = """\
#!/bin/bash
work=$3 server=$4 files=
echo "$server ${PROVE_TESTS:-all}" >>"$CALLS"
mkdir -p "$work/test"
for file in ${PROVE_TESTS:-t/a.pl t/b.pl}; do
	passed=true
	[ "$server$file" != newt/b.pl ] || passed=false
	files+=", \\"$file\\": {\\"passed\\": $passed, \\"log\\": \\"y is not what it was\\", \\"logs\\": [\\"$work/log_b\\"], \\"assertions\\": [{\\"name\\": \\"y\\", \\"passed\\": $passed}]}"
done
echo "y is not what it was" >"$work/log_b"
echo "{\\"seconds\\": 1, \\"broken\\": \\"\\", \\"files\\": {${files#, }}}" >"$work/test/results.json"
"""


class RunSuite(WithDirectory):
    """Runs of the suite, with a script in place of servers/run."""

    def setUp(self) -> None:
        super().setUp()
        script = self.directory / "run"
        script.write_text(CHECK)
        script.chmod(0o755)
        self.calls = self.directory / "calls"
        self.calls.touch()
        for replaced in (mock.patch.object(servers, "RUN", script), mock.patch.dict(os.environ, CALLS=str(self.calls))):
            replaced.start()
            self.addCleanup(replaced.stop)
        self.given = arguments.parse(["old", "new", "--parts", "suite", "--output", str(self.directory / "trial")])

    def trial(self) -> command._Trial:
        store = Kept(self.directory / "trial")
        store.begin({}, False)
        self.addCleanup(store.locked.close)
        return command._Trial(self.given, store, mock.Mock(), 0.0)

    def test_failure_is_found_and_repeated_on_both(self) -> None:
        runs = self.trial().run_suites()
        [difference] = suite.compare(runs["before"], runs["after"])
        self.assertEqual((difference.name, difference.verdict, difference.failures), ("t/b.pl", "broken", ("y",)))
        self.assertEqual((difference.before, difference.after), ((0, 3), (3, 3)))
        self.assertIn("not what it was", difference.log)
        self.assertEqual(self.calls.read_text().split("\n"), ["old all", "new all", *["old t/b.pl", "new t/b.pl"] * 2, ""])
        kept_log = self.directory / "trial" / "suite" / "after-0" / "log_b"
        self.assertEqual(kept_log.read_text(), "y is not what it was\n")

    def test_goes_on_where_it_was_interrupted(self) -> None:
        interrupted = mock.patch.object(suite, "run", side_effect=[suite.run("old", self.directory / "w", self.directory / "l", [], print), KeyboardInterrupt])
        trial = self.trial()
        with interrupted, self.assertRaises(KeyboardInterrupt):
            trial.run_suites()
        self.calls.write_text("")
        runs = trial.run_suites()
        self.assertEqual(self.calls.read_text().splitlines()[0], "new all")
        self.assertEqual([len(each) for each in runs.values()], [3, 3])

    def test_a_suite_that_does_not_run_is_told(self) -> None:
        servers.RUN.write_text("#!/bin/sh\necho error: no such server\nexit 1\n")
        trial = self.trial()
        runs = trial.run_suites()
        self.assertEqual(runs["before"][0].broken, "error: no such server")
        self.assertEqual(Findings("", "", "", False, suites=runs).status, findings.INCOMPLETE)
        servers.RUN.write_text(CHECK)
        self.assertFalse(trial.run_suites()["before"][0].broken)


class Logs(WithDirectory):
    def test_first_failure_and_why_a_server_ended(self) -> None:
        log = self.directory / "log"
        log.mkdir()
        lines = [f"[1]     ok {n} - fine" for n in range(50)] + ["[2]     not ok 51 - count", "[2]     # got: 1"] + [f"[3]     ok {n} - fine" for n in range(52, 99)]
        lines[80] = "[3]     # got: 'PANIC:  stuck spinlock'"
        (log / "regress_log_121_x").write_text("\n".join(lines))
        (log / "121_x_121_x_sync.log").write_text("LOG:  fine\nFATAL:  could not setup io_uring queue\n")
        (log / "122_y_122_y_sync.log").write_text("PANIC:  of another test\n")
        told = results.excerpt(log, "121_x").splitlines()
        self.assertEqual(told[:2], ["[2]     not ok 51 - count", "[2]     # got: 1"])
        self.assertEqual(told[-2:], ["121_x_121_x_sync.log:", "FATAL:  could not setup io_uring queue"])
        self.assertIn(lines[80], told)
        self.assertLess(len(told), 40)


class Verdicts(unittest.TestCase):
    def test_all(self) -> None:
        for verdict, before, after in (("broken", 0, 3), ("doubtful", 0, 1), ("unsteady", 1, 3), ("unsteady", 1, 0), ("both", 3, 3), ("mended", 3, 0)):
            self.assertEqual(suite.Difference("f", (before, 3), (after, 3), (), "").verdict, verdict)


AFTER = """\
int
f(int a, int b)
{
	int			r = 0;

	if (a)
		r++;
	if (a && b)
		r += 2;
	if (a ||
		b)
		r += 4;
	if (b > 1)
	{
		/* never */
		r += 8;
	}
	return r;
}
"""
BEFORE = re.sub(r"\tif \(a &&.*(?=\treturn r)", "", AFTER, flags=re.DOTALL)
NAME = "src/backend/f.c"


class PatchInC(WithDirectory):
    """A patch of one function, which is compiled with counts, run, and instrumented."""

    def setUp(self) -> None:
        super().setUp()
        for side, text in (("before", BEFORE), ("after", AFTER)):
            project.write_files(self.directory / side, dict.fromkeys((NAME, "src/include/f.h", "src/test/t.c"), text))
        self.after = self.directory / "after"

    def covered(self, calls: str) -> Coverage:
        """Returns the coverage of a program that calls the function."""
        program = self.after / "main.c"
        program.write_text(f"int f(int a, int b);\nint main(void) {{ {calls} return 0; }}\n")
        build, notes = self.directory / "build", self.directory / "notes" / "src/backend"
        build.mkdir()
        notes.mkdir(parents=True)
        subprocess.run(["gcc", "-c", "-O0", "--coverage", self.after / NAME, "-o", build / "f.o"], check=True)
        subprocess.run(["gcc", "--coverage", program, "f.o", "-o", "main"], cwd=build, check=True)
        (build / "f.gcno").rename(notes / "f.gcno")
        prefix = self.directory / "work/gcov/t/x.pl"
        subprocess.run(["./main"], cwd=build, check=True, env={"GCOV_PREFIX": str(prefix), "GCOV_PREFIX_STRIP": "99"})
        (prefix / "src/backend").mkdir(parents=True)
        (prefix / "f.gcda").rename(prefix / "src/backend/f.gcda")
        return coverage.read(self.directory)

    def test_lines_are_those_of_the_server(self) -> None:
        found = patch.compare(self.directory / "before", self.after)
        self.assertEqual(found.lines, {NAME: set(range(8, 18))})
        self.assertEqual(found.others, ["src/include/f.h", "src/test/t.c"])
        self.assertEqual(patch.functions(AFTER, {13}), {"f"})
        self.assertEqual(patch.functions(AFTER, {30}), set())

    def test_an_untested_branch_is_named(self) -> None:
        found = self.covered("f(1, 0); f(0, 0);")
        lines = patch.compare(self.directory / "before", self.after).lines
        told = [str(gap).removeprefix(f"{NAME}:") for gap in coverage.gaps(found, self.after, lines)]
        self.assertEqual(told, ["8: b is never true: if (a && b)", "9: r += 2;", "11: b is never true: b)", "13: b > 1 is never true: if (b > 1)", "16: r += 8;"])
        self.assertEqual(coverage.share(found, lines)[:2], (4, 6))
        self.assertEqual(list(found.by_test), ["t/x.pl"])

    def test_the_patch_is_shown_with_its_tests(self) -> None:
        found = patch.compare(self.directory / "before", self.after)
        covered = self.covered("f(1, 0); f(0, 0);")
        tried = [Tried(Point(1, NAME, "f", 10, "never", "a || b"), None), Tried(Point(2, NAME, "f", 12, "left out", "r += 4;"), "t/x.pl")]
        lines = shown.lines_of(found, self.after, covered, coverage.gaps(covered, self.after, found.lines), tried)[NAME]
        kinds = {line.text.strip("+\t "): line.kind for line in lines if line.text[0] == "+"}
        self.assertEqual(kinds, {"if (a && b)": "branch", "r += 2;": "never", "if (a ||": "unnoticed", "b)": "branch", "r += 4;": "noticed",
                                 "if (b > 1)": "branch", "{": "", "/* never */": "", "r += 8;": "never", "}": ""})
        self.assertEqual([line.notes for line in lines if "r += 4;" in line.text], [("noticed by t/x.pl",)])

    def test_what_is_executed_is_not_named(self) -> None:
        found = self.covered("f(1, 2); f(0, 0); f(0, 1); f(1, 0);")
        self.assertEqual(coverage.gaps(found, self.after, {NAME: set(range(1, 20))}), [])
        data = json.loads(json.dumps(asdict(Coverage(found.files))))
        self.assertEqual(coverage.share(coverage.from_data(data)), coverage.share(found))

    def test_tests_that_are_about_a_function_come_first(self) -> None:
        found = Coverage()
        for test, f, g in (("t/z.pl", 1, 1), ("t/y.pl", 30, 90), ("t/x.pl", 2, 0), (suite.RECORDINGS, 9, 0), (results.REGRESSION, 9, 0)):
            found.add(test, {NAME: coverage.File(functions={"f": f}), "other.c": coverage.File(functions={"g": g})})
        with mock.patch.object(changed, "REACH", self.directory / "reach.json"):
            changed.keep_reach(found)
        reach = json.loads((self.directory / "reach.json").read_text())
        self.assertEqual(changed.in_order(reach, {NAME: {"f"}, "new.c": {"i"}}), ["t/x.pl", "t/z.pl", "t/y.pl"])
        self.assertEqual(changed.in_order(reach, {"other.c": {"g"}}), ["t/y.pl", "t/z.pl"])

    def test_lcov_reads_it(self) -> None:
        info = self.directory / "coverage.info"
        info.write_text(coverage.lcov(self.covered("f(1, 0);"), self.after))
        self.assertIn("DA:9,0", info.read_text())
        if shutil.which("lcov"):
            done = subprocess.run(["lcov", "--summary", info], capture_output=True, text=True, check=True)
            self.assertRegex(done.stdout + done.stderr, r"lines\.+: [\d.]+% \(\d+ of 11 lines\)")

    def test_bugs_are_in_the_lines_of_the_patch_only(self) -> None:
        defines = self.after / DEFINES
        defines.parent.mkdir(parents=True)
        defines.write_text('#include "postgres.h"\n')
        chosen, texts = bugs.instrument(self.after, {NAME: set(range(8, 18))})
        self.assertEqual({point.line for point in chosen}, {8, 9, 10, 12, 13, 16})
        self.assertIn(("never", 13, "b > 1"), [(point.kind, point.line, point.text) for point in chosen])
        self.assertIn("mutants_init(void)", texts[DEFINES])
        results = self.directory / "bugs.jsonl"
        lines = [{"name": str(chosen[0]), "by": ["x", "y"], "reason": "z"}, {"name": str(chosen[1]), "by": [], "reason": ""}, {"name": "another", "by": [], "reason": ""}]
        results.write_text("\n".join(map(json.dumps, lines)) + '\n{"na')
        self.assertEqual([(each.point, each.by) for each in bugs.tried(chosen, results)], [(chosen[0], "x"), (chosen[1], None)])

    def test_a_variable_whose_assignment_is_left_out_has_another_value(self) -> None:
        source = self.directory / "f.c"
        text = Instrumented("f.c", "int\nf(int on)\n{\n\tint\t\tx;\n\n\tx = 5;\n\treturn x;\n}\n", 1).text
        source.write_text(f"#define MUTANT(number) (on == (number))\n{text}int main(void) {{ return f(0) != 5 || f(1) == 5; }}\n")
        subprocess.run(["gcc", "-O2", "-ftrivial-auto-var-init=zero", source, "-o", self.directory / "f"], check=True)
        subprocess.run([self.directory / "f"], check=True)


class OtherChanges(unittest.TestCase):
    def test_what_could_not_be_compared_is_not_nothing(self) -> None:
        for told in (changes.told_of_recordings({}, "error: x"), changes.told_of_schedules({}, "error: x")):
            self.assertEqual((told.told, told.text), ("could not be compared", "error: x"))


class Sides(unittest.TestCase):
    def test_a_tree_is_compiled_twice(self) -> None:
        side = arguments.side("before", "source:/x/pg@master")
        self.assertEqual((side.suite, side.lab), ("source:/x/pg@master", "source-optimised:/x/pg@master"))

    def test_one_server_or_two(self) -> None:
        self.assertEqual(arguments.side("after", "18-instrumented,18-stock").lab, "18-stock")
        side = arguments.side("after", "/a/bin/pg_config")
        self.assertEqual((side.suite, side.lab), ("pg_config:/a/bin/pg_config", "pg_config:/a/bin/pg_config"))
        with self.assertRaises(servers.ServerError):
            arguments.side("after", "18-stock,")
        with self.assertRaisesRegex(servers.ServerError, "no server is called"):
            servers.identity("nosuch")
        with self.assertRaisesRegex(servers.ServerError, "no source of PostgreSQL"):
            servers.identity(f"source:{project.ROOT / 'bench'}")
        with self.assertRaisesRegex(servers.ServerError, "no git repository"):
            changed.functions_of("source:/tmp", "")

    def test_cases(self) -> None:
        self.assertEqual([path.stem for path in arguments.parse(["18-stock", "19-stock", "--parts", "lab", "r9"]).cases], ["r09_backward"])
        names = [path.stem for path in arguments.parse(["18-stock", "19-stock"]).cases]
        self.assertFalse([name for name in names if name[0] in "dk"])
        self.assertIn("r09_backward", names)


class KeptResults(WithDirectory):
    KEY = {"project": "state", "quick": False}

    def test_another_trial_is_not_mixed_in(self) -> None:
        store = Kept(self.directory / "t")
        self.assertFalse(store.begin(self.KEY, False))
        store.write("suite/x", 1)
        store.locked.close()
        self.assertTrue(store.begin(self.KEY, False))
        store.locked.close()
        with self.assertRaisesRegex(project.Problem, "project"):
            store.begin(self.KEY | {"project": "other"}, False)
        store.locked.close()
        self.assertFalse(store.begin(self.KEY | {"project": "other"}, True))
        self.assertIsNone(store.read("suite/x"))
        store.locked.close()

    def test_one_trial_at_a_time(self) -> None:
        store = Kept(self.directory / "t")
        store.begin(self.KEY, False)
        other = Kept(store.directory)
        with self.assertRaisesRegex(project.Problem, "another trial is at work"):
            other.begin(self.KEY, False)
        store.locked.close()

    def test_project_state_knows_tests(self) -> None:
        root = self.directory
        (root / "t").mkdir()
        (root / "t" / "1.pl").write_text("1")
        subprocess.run(["git", "init", "-q", root], check=True)
        with mock.patch.object(project, "ROOT", root):
            first = kept.project_state()
            (root / "README").write_text("2")
            self.assertEqual(kept.project_state(), first)
            (root / "t" / "1.pl").write_text("2")
            self.assertNotEqual(kept.project_state(), first)


def made() -> Findings:
    """Returns findings of a patch that breaks one test, and makes two variants faster and one slower."""
    passing = File(True, (Assertion("x", True), Assertion("y", True)))
    failing = File(False, (Assertion("x", True), Assertion("y", False)), "the <log>")
    builds = {role: servers.Build(f"pg_config:/{role}/pg_config", f"own-{role}", "PostgreSQL 20devel", "'--enable-cassert' '--enable-injection-points'", "-O1", "") for role in arguments.ROLES}
    slower, faster = (replace(report(), servers=[replace(server, label=role) for server, role in zip(report().servers, ("after", "before"))], runs={name: {} for name in names})
                      for names in (["worker"], ["worker", "io_uring"]))
    for made, after, before in ((slower, "18.6", "19rc1"), (faster, "19rc1", "18.6")):
        for variant in made.runs:
            made.runs[variant] = {"after": report().runs[variant][after], "before": report().runs[variant][before]}
    slower = replace(slower, case=replace(slower.case, name="slower"))
    return Findings(
        "bench/trial a b", "2026-01-02 03:04", "v1", True, suite_builds=builds, lab_builds={},
        parts=arguments.PARTS, changes=[Changes("recordings", "2 of 9 statements, such as scans 3: -io 1 +io 2", "the <differences>"), Changes("schedules", "", "")],
        share=(9, 10, 5, 6), gaps=[Gap("src/backend/a/b.c", 7, 8, "\t\tif (x < 1)\n\t\t\treturn;"), Gap("src/backend/a/b.c", 12, 12, "\tif (y)", "y is never true")],
        bugs=[Tried(Point(1, "src/backend/a/b.c", "f", 12, "always", "y"), None), Tried(Point(2, "src/backend/a/b.c", "f", 13, "left out", "g();"), "t-x")],
        shown={"src/backend/a/b.c": [shown.Line("@@ -1 +1 @@"), shown.Line("+\tif (y)", "unnoticed", ("not noticed: always: y",))]}, bugs_reached=3, bugs_unreached=[Point(3, "src/backend/a/b.c", "f", 7, "always", "x < 1")],
        suites={"before": [Suite(1, "", {"t/a.pl": passing, "t/b.pl": passing})], "after": [Suite(1, "", {"t/a.pl": passing, "t/b.pl": failing})]},
        reports=[faster, slower], left_out=["t04_bitmap"],
        traces={"slower": ("worker", [trace.from_rows("before", parallel(40)), trace.from_rows("after", serial(40))])},
    )


class Assertions(unittest.TestCase):
    def test_other_numbers_are_no_difference(self) -> None:
        before, after, other = (Suite(1, "", {"t/a.pl": File(True, tuple(Assertion(name, True) for name in names))}) for names in (("read 1", "all"), ("read 2", "all"), ("read 2",)))
        self.assertEqual(suite.other_assertions(before, after), [])
        self.assertEqual(suite.other_assertions(before, other), ["t/a.pl -1, such as all"])


class Status(unittest.TestCase):
    def test_a_test_that_fails_counts_most(self) -> None:
        found = made()
        self.assertEqual(found.status, findings.FAILS)
        self.assertEqual(replace(found, suites={}, failures={"x": "y"}).status, findings.INCOMPLETE)
        self.assertEqual(replace(found, suites={}).status, findings.WORSE)
        self.assertEqual(replace(found, suites={}, reports=found.reports[:1]).status, findings.RIGHT)


class Summary(unittest.TestCase):
    def test_fits_into_a_mail(self) -> None:
        many = made()
        many.reports = [replace(many.reports[0], case=replace(report().case, name=f"r{n}")) for n in range(40)]
        for found in (made(), many):
            lines = summary.text(found).splitlines()
            self.assertLessEqual(len(lines), summary.LINES)
            self.assertLessEqual(max(map(len, lines)), summary.WIDTH)
        self.assertRegex(summary.text(many), r"and \d+ more cases that changed")


class Page(unittest.TestCase):
    def test_is_whole_and_needs_nothing_else(self) -> None:
        text = page.render(made())
        # a picture for each case, and the timeline of one
        self.assertEqual(re.findall(r'<img[^>]* src="([a-z]+:)', text), ["data:"] * 3)
        self.assertEqual(re.findall(r'(?:src|href)="(?!data:|#)', text), [])
        for anchor in re.findall(r'href="#([^"]+)"', text):
            self.assertIn(f'id="{anchor}"', text)
        for words in ("2 of 9 statements", "the <differences>", "schedules: nothing else", "src/backend/a/b.c:12: y is never true", "9 of 10 executed", "2 tried, 1 noticed, 1 not",
                      "t/b.pl: fails before in 0 of 1 runs, after in 1 of 1", "the <log>", "(quick)", "not measured yet: 1 case: t04_bitmap", "--enable-cassert",
                      "? executed, and a bug in it that no test notices: 1", '<span class="unnoticed">? +\tif (y)<i>not noticed: always: y</i></span>'):
            self.assertIn(words, html.unescape(text))
