"""What an ordinary user is told who lacks servers and packages: one command for root, once;
and what --remove removes.

dpkg-query is another one here, by which no package is installed.
"""

import os
import re
import subprocess
import unittest
from pathlib import Path

from aio_bench.project import ROOT

from . import WithDirectory


@unittest.skipIf(os.geteuid() == 0, "root would install the packages")
class OrdinaryUser(WithDirectory):
    def setUp(self) -> None:
        super().setUp()
        programs = self.directory / "bin"
        programs.mkdir()
        (self.directory / "called").touch()
        for name in ("dpkg-query", "apt-get", "mmdebstrap"):
            (programs / name).write_text(f'#!/bin/sh\necho {name} >>"{self.directory}/called"\nexit 1\n')
            (programs / name).chmod(0o755)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(("PG_", "TEST_AIO"))}
        self.environment |= {"PATH": f"{programs}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(self.directory / "cache")}

    def told(self, *command: str | Path) -> str:
        """Runs a command that cannot work; returns the one command that it prints."""
        done = subprocess.run(command, env=self.environment, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        said = done.stdout + done.stderr
        self.assertNotEqual(done.returncode, 0, said)
        self.assertNotRegex(said, r"command not found|: line \d+:|Traceback", "the scripts are whole")
        found = re.findall(r"^ +(sudo .*)$", said, re.M)
        self.assertEqual(len(found), 1, said)
        self.assertLessEqual(set((self.directory / "called").read_text().split()), {"dpkg-query"}, "nothing is begun")
        return found[0]

    def test_check(self) -> None:
        """A server is compiled by the user; packages are root's business."""
        command = self.told("make", "check")
        self.assertRegex(command, r"^sudo apt-get install .*\bbison\b")

    def test_demo(self) -> None:
        """The stock servers take packages, or, where the user may not make their root, root."""
        self.assertRegex(self.told("make", "demo"), r"^sudo (apt-get install .*\bmmdebstrap\b|env XDG_CACHE_HOME=.*/servers/provide' .*18-stock.*19-stock)")

    def test_all(self) -> None:
        self.told(ROOT / "servers" / "provide", "all")

    def test_demo_as_a_user_with_further_ids(self) -> None:
        """Such a user makes the stock servers without root, once packages are there."""
        user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
        script = self.directory / "provide"
        ids = self.directory / "subuid"
        ids.write_text(f"{user}:100000:65536\n")
        text = (ROOT / "servers" / "provide").read_text()
        for file in ("/etc/subuid", "/etc/subgid"):
            self.assertIn(file, text)
            text = text.replace(file, str(ids))
        script.write_text(text.replace('here=$(cd "$(dirname "$0")" && pwd -P)', f"here={ROOT}/servers"))
        if subprocess.run(["unshare", "--user", "--map-root-user", "true"], capture_output=True).returncode != 0:
            self.skipTest("ordinary users may not make namespaces here")
        self.assertRegex(self.told("bash", script, "18-stock"), r"^sudo apt-get install .*\bmmdebstrap\b.*\buidmap\b")


class Remove(WithDirectory):
    def setUp(self) -> None:
        super().setUp()
        for name in ("18-instrumented", "stock", "source-0123456789ab", "log"):
            (self.directory / "test_aio" / name).mkdir(parents=True)
        (self.directory / "others").mkdir()

    def remove(self, *names: str) -> int:
        return subprocess.run([ROOT / "servers" / "provide", "--remove", *names], env={**os.environ, "XDG_CACHE_HOME": str(self.directory)},
                              capture_output=True).returncode

    def left(self) -> set[str]:
        return {path.name for path in (self.directory / "test_aio").glob("*") if path.is_dir()}

    def test_one(self) -> None:
        """The stock servers lie in one directory."""
        self.assertEqual(self.remove("19-stock"), 0)
        self.assertEqual(self.left(), {"18-instrumented", "source-0123456789ab", "log"})

    def test_all(self) -> None:
        self.assertEqual(self.remove("all"), 0)
        self.assertEqual({path.name for path in self.directory.iterdir()}, {"others"})
        self.assertEqual(self.remove("all"), 0, "nothing is left to remove")

    def test_what_is_none_of_its_own(self) -> None:
        for name in ("bench", "log", "../others", "17-stock"):
            self.assertNotEqual(self.remove(name), 0, name)
        self.assertEqual(len(self.left()), 4)
        self.assertTrue((self.directory / "others").is_dir())
