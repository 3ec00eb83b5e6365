"""The packages: what they import and need, and what works without that."""

import ast
import os
import subprocess
import sys
import tomllib
import unittest
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from aio_bench import project

from . import WithDirectory

BENCH = project.ROOT / "bench"

#: packages of aio_bench: each may import itself and those behind it only; "" has the modules beside them
LAYERS = ("trial", "lab", "fuzz", "explorer", "mutants", "timeline", "")

#: the commands, which are links to launch
COMMANDS = [path.name for path in BENCH.iterdir() if path.is_symlink()]


def modules() -> dict[str, Path]:
    """Returns the modules, without "aio_bench.", each with its file."""
    return {".".join(path.relative_to(BENCH / "aio_bench").with_suffix("").parts): path
            for path in (BENCH / "aio_bench").rglob("*.py") if path.name != "__init__.py"}


def imported(name: str, path: Path) -> set[str]:
    """Modules of the package that a module imports when it is itself imported or
    when its functions run, but not for the sake of types alone."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = ".".join(filter(None, [*name.split(".")[:-node.level], node.module or ""]))
            found |= {base, *(f"{base}.{alias.name}".lstrip(".") for alias in node.names)}
    return found & modules().keys()


class Imports(unittest.TestCase):
    def test_no_circle(self) -> None:
        graph = {name: imported(name, path) for name, path in modules().items()}
        self.assertLessEqual({"lab.measure", "servers"}, graph["lab.session"])
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            self.fail(" -> ".join(error.args[1]))

    def test_no_package_knows_those_above_it(self) -> None:
        for name, path in modules().items():
            above = LAYERS[: LAYERS.index(name.rpartition(".")[0])]
            self.assertFalse({other for other in imported(name, path) if other.rpartition(".")[0] in above}, name)


class Bare(WithDirectory):
    """Commands in an interpreter without any package, on a system without dpkg."""

    def run_bare(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-I", "-S", "-B", str(BENCH / command), *arguments],
            env={**os.environ, "PATH": str(self.directory)}, capture_output=True, text=True, cwd=self.directory,
        )

    def test_help(self) -> None:
        self.assertIn("lab", COMMANDS)
        for command in COMMANDS:
            done = self.run_bare(command, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""), command)
            self.assertIn("usage: bench/", done.stdout)

    def test_list(self) -> None:
        for command, name in (("lab", "r03_repeated_blocks"), ("explorer", "two_readers")):
            self.assertIn(name, self.run_bare(command, "--list").stdout)

    def test_one_command_is_printed(self) -> None:
        for command, arguments in (("timeline", ["x.jsonl"]), ("lab", ["--show", __file__]), ("lab", ["r3", "--server", "/nonexistent/pg_config"])):
            done = self.run_bare(command, *arguments)
            self.assertEqual(done.returncode, 1, command)
            self.assertEqual(done.stderr.count("pip install -e"), 1, done.stderr)
            self.assertNotIn("Traceback", done.stderr)


class Dependencies(unittest.TestCase):
    def table(self, name: str) -> list[str]:
        said = subprocess.check_output(["bash", "-c", f'. "$0"; printf "%s\\n" "${{{name}[@]}}"', BENCH.parent / "servers" / "packages"], text=True)
        return said.split()

    def test_of_pyproject_are_those_of_the_table(self) -> None:
        told = tomllib.loads((BENCH / "pyproject.toml").read_text())["project"]
        self.assertEqual(sorted(told["dependencies"]), sorted(self.table("python_modules")))

    def test_debian_has_each(self) -> None:
        names = {each.partition(">=")[0] for each in self.table("python_modules")}
        self.assertEqual(names, set(project.MODULES))
        self.assertLessEqual({f"python3-{name}" for name in names}, set(self.table("packages_bench")))
