"""Figures from EXPLAIN and pgbench, expected plans, and cases of queries."""

import unittest
from typing import Any

from aio_bench.lab import casefile, plans, query, runs
from aio_bench.lab.runs import figures_of_pgbench, figures_of_plan
from aio_bench.project import Problem
from aio_bench.servers import ServerError

from . import WithDirectory, load_case


def explained(**more: Any) -> dict[str, Any]:
    return {"Execution Time": 12.5, "Plan": {"Shared Read Blocks": 30, "Local Read Blocks": 2, **more}}


def scan(ios: int, waits: int, in_progress: float) -> dict[str, Any]:
    return {"I/O Count": ios, "I/O Waits": waits, "Average I/Os In Progress": in_progress}


class Plans(unittest.TestCase):
    def test_figures(self) -> None:
        """Read times are there if they are tracked; scans are added up, and a function has none."""
        common = {"time": 12.5, "read_blocks": 32}
        for more, figures in (
            ({}, {}),
            ({"Shared I/O Read Time": 3.5, "Local I/O Read Time": 0.5}, {"read_time": 4}),
            ({"Plans": [scan(30, 5, 4.0), {"Plans": [scan(10, 1, 2.0)]}]}, {"waits": 6, "in_progress": 3.5}),
            ({"Plans": [scan(0, 0, 0.0)]}, {}),
        ):
            self.assertEqual(figures_of_plan(explained(**more)), common | figures)


INDEX_SCAN = {"Node Type": "Index Scan", "Scan Direction": "Backward", "Index Name": "t_i_idx", "Relation Name": "t", "Actual Rows": 9, "Heap Fetches": 3}


class ExpectedPlans(unittest.TestCase):
    def test_names(self) -> None:
        scan = {"Node Type": "Seq Scan", "Parallel Aware": True, "Relation Name": "t", "Alias": "a"}
        plan = {"Node Type": "Aggregate", "Plans": [INDEX_SCAN, {"Node Type": "Bitmap Index Scan", "Index Name": "t_i_idx"}, scan]}
        self.assertEqual([plans.name(node) for node in plans.nodes(plan)],
                         ["Aggregate", "Index Scan Backward using t_i_idx on t", "Bitmap Index Scan on t_i_idx", "Parallel Seq Scan on t"])

    def test_another_plan_is_told(self) -> None:
        expected = plans.Expected(["Index Scan using t_i_idx on t"])
        self.assertIn("the plan is Index Scan Backward using t_i_idx on t", expected.difference(INDEX_SCAN) or "")
        self.assertIsNone(plans.Expected(["Index Scan Backward using t_i_idx on t"]).difference(INDEX_SCAN))
        self.assertIsNone(plans.Expected([]).difference(INDEX_SCAN))

    def test_too_few_counted(self) -> None:
        self.assertIsNone(plans.Expected([], {"Heap Fetches": 3}).difference(INDEX_SCAN))
        self.assertEqual(plans.Expected([], {"Heap Fetches": 4}).difference(INDEX_SCAN), "Heap Fetches: 3, where the case is about at least 4")
        self.assertIsNotNone(plans.Expected([], {"Lossy Heap Blocks": 1}).difference(INDEX_SCAN))


class Queries(WithDirectory):
    """The case of a user's own files."""

    def case_of(self, query_sql: str, setup_sql: str = "") -> casefile.Case:
        own, setup = self.directory / "q.sql", self.directory / "s.sql"
        own.write_text(query_sql)
        setup.write_text(setup_sql)
        return query.case_of(own, setup, "gp3")

    def test_statements_are_told_apart(self) -> None:
        sql = "SELECT ';', \"a;b\", $x$ ; $x$ -- no; end\n; /* none; */ DO $$ BEGIN; END $$;"
        self.assertEqual(query.statements(sql), ["SELECT ';', \"a;b\", $x$ ; $x$", "DO $$ BEGIN; END $$"])

    def test_the_last_one_is_measured(self) -> None:
        case = self.case_of("SET work_mem = '1MB'; SELECT 1;", "CREATE TABLE t ();")
        self.assertEqual((case.statement[-1], case.explain, case.id), ("SELECT 1", True, "q.sql"))
        self.assertIn("CREATE TABLE t ()", case.setup.sql)
        self.assertFalse(self.case_of("VACUUM").explain)
        self.assertEqual({variant.value_of("device") for variant in case.variants}, {"gp3"})

    def test_what_is_no_query(self) -> None:
        for sql in ("", " -- nothing\n", "\\d t"):
            with self.assertRaises(Problem):
                self.case_of(sql)


class Pgbench(unittest.TestCase):
    def test_a_parameter_may_be_several_options(self) -> None:
        case = load_case("k01_gate")
        self.assertEqual(runs._pgbench_options(case, case.variants[0]), ["--client=1", "--transactions=3200", "--jobs=2", "--protocol=prepared", "--random-seed=1"])

    def test_latency(self) -> None:
        said = "number of failed transactions: 0 (0.000%)\nlatency average = 3.141 ms\ntps = 10 (including reconnection times)\n"
        self.assertEqual(figures_of_pgbench(said), {"latency": 3.141, "tps": 10})

    def test_failures_are_no_figures(self) -> None:
        with self.assertRaises(ServerError):
            figures_of_pgbench("number of failed transactions: 3 (3.000%)\nlatency average = 3.141 ms\n")
