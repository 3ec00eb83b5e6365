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


# replaces mmdebstrap: an archive without 19, which has changed when it is asked for the first time
MMDEBSTRAP = """\
#!/bin/sh
echo "$*" | grep -o "include=[^ ]*" >>called
[ -e asked ] || { touch asked && echo "E: Failed to fetch http://x/libpq5_18.deb  404  Not Found" && exit 1; }
case $* in *postgresql-19,*) echo "E: Unable to locate package postgresql-19" && exit 1 ;; esac
for root; do case $root in */root | */root.tar) break ;; esac; done
mkdir -p files/var/lib/dpkg
printf 'Package: postgresql-18\\nVersion: 18.9-1\\n' >files/var/lib/dpkg/status
case $root in *.tar) tar -cf "$root" -C files . ;; *) cp -R files "$root" ;; esac
"""

# replaces apt-get: the source has moved to testing
APT_GET = """\
#!/bin/sh
suite=$(sed -n 's/.* \\([a-z]*\\) main$/\\1/p' "${2%/apt.conf}/sources.list")
echo "$suite $3" >>"$CALLED"
[ "$3" = update ] && exit
[ "$suite" = testing ] || { echo "E: Unable to find a source package" && exit 100; }
[ -e "$CALLED.404" ] || { touch "$CALLED.404" && exit 100; }
mkdir postgresql-18.9 && echo >postgresql-18.9/configure && chmod +x postgresql-18.9/configure
tar -cJf postgresql-18_18.9.orig.tar.xz postgresql-18.9
"""


class Archive(WithDirectory):
    """Debian's archive moves on."""

    def run_script(self, program: str, text: str, commands: str) -> str:
        (self.directory / program).write_text(text)
        (self.directory / program).chmod(0o755)
        environment = {**os.environ, "PATH": f"{self.directory}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(self.directory), "TEST_AIO_MIRROR": "http://x",
                       "CALLED": str(self.directory / "called")}
        scripts = " ".join(f". {ROOT}/servers/{name};" for name in ("lib.sh", "apt.sh", "enter.sh", "compiled.sh", "stock.sh"))
        done = subprocess.run(["bash", "-euc", f"{scripts} mkdir -p $cache/log; {commands}"], env=environment, cwd=self.directory, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout + done.stderr

    def test_a_server_that_is_missing(self) -> None:
        said = self.run_script("mmdebstrap", MMDEBSTRAP, "provide_stock; for name in 18-stock 19-stock; do is_provided $name && echo has $name || why_not_provided $name; done")
        self.assertEqual([("-19," in line) for line in (self.directory / "called").read_text().splitlines()], [True, True, False])
        self.assertEqual((self.directory / "test_aio/stock/.test_aio").read_text().splitlines()[1:], ["18-stock 18.9-1", "19-stock "])
        self.assertIn("has 18-stock\nDebian's archive did not have it on ", said)
        self.assertIn("servers/provide --again 19-stock; or name a server of your own: PG_CONFIG=", said)

    def test_a_source_that_has_moved(self) -> None:
        self.run_script("apt-get", APT_GET, "provide_source_release 18 sid; test -x $(source_release_dir 18)/configure")
        calls = (self.directory / "called").read_text().splitlines()
        self.assertEqual(calls[-4:], ["testing update", "testing source"] * 2)
        self.assertEqual(calls[0], "sid update")


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
