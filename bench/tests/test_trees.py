"""Servers of source trees: only what has changed is compiled again, and some files can be compiled otherwise.  The tree
is a few lines that look like PostgreSQL's to servers/provide."""

import os
import subprocess
import tempfile
import unittest
from collections import Counter
from pathlib import Path
from unittest import mock

from aio_bench import project

TREE = {
    "configure": """#!/bin/sh
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p src/backend contrib/amcheck
echo configure >>done
echo "enable_injection_points = no" >src/Makefile.global
echo "top = $here" >top
touch config.status
for part in src/backend contrib/amcheck; do ln -sf "$here/$part/Makefile" $part/Makefile; done
printf 'install-local:\n' >src/Makefile
""",
    "src/backend/Makefile": """include ../../top
VPATH = $(top)/src/backend
CFLAGS += $(COPT)
all: postgres
postgres: main.o other.o
	gcc $(CFLAGS) -o $@ $^
%.o: %.c
	gcc -c $(CFLAGS) -I$(top)/src/include -MMD -MP -o $@ $<
	echo $@ >>../../done
-include main.d other.d
generated-headers:
install: postgres
	mkdir -p $(DESTDIR)/test_aio/bin && install postgres $(DESTDIR)/test_aio/bin/postgres
""",
    "contrib/amcheck/Makefile": """include ../../top
VPATH = $(top)/contrib/amcheck
all: m.so
m.so: m.c
	gcc -shared -fPIC -o $@ $<
	echo $@ >>../../done
install: m.so
	mkdir -p $(DESTDIR)/test_aio/lib && install m.so $(DESTDIR)/test_aio/lib/m.so
""",
    "src/backend/main.c": """#include <stdio.h>
#include "h.h"
int other(void);
int main(void) { printf("postgres (PostgreSQL) 20devel%d%d\\n", other(), H); return 0; }
""",
    "src/backend/other.c": "int other(void) { return 1; }\n",
    "src/include/h.h": "#define H 1\n",
    "contrib/amcheck/m.c": "int m(void) { return 1; }\n",
}


class Trees(unittest.TestCase):
    def setUp(self) -> None:
        self.directory = Path(self.enterContext(tempfile.TemporaryDirectory(dir="/var/tmp")))
        self.directory.chmod(0o755)
        self.tree, self.cache = self.directory / "tree", self.directory / "cache"
        self.cache.mkdir()
        project.write_files(self.tree, TREE)
        (self.tree / "configure").chmod(0o755)
        for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "1"]):
            subprocess.run(["git", "-C", self.tree, *command], check=True)

    def run_script(self, script: str, *arguments: str | Path) -> str:
        done = subprocess.run([project.ROOT / "servers" / script, *arguments], capture_output=True, text=True, env={**os.environ, "XDG_CACHE_HOME": str(self.cache)})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def made(self, **changed: str) -> list[str]:
        """Provides the server of the tree after an edit.  Returns what was done for it."""
        files = {"main": "src/backend/main.c", "other": "src/backend/other.c", "h": "src/include/h.h", "m": "contrib/amcheck/m.c", "readme": "README"}
        project.write_files(self.tree, {files[name]: text for name, text in changed.items()})
        before = self.log()
        self.run_script("provide", f"source:{self.tree}")
        return sorted((Counter(self.log()) - Counter(before)).elements())

    def log(self) -> list[str]:
        return [line for path in self.cache.glob("test_aio/build/*/objects/done") for line in path.read_text().split()]

    def version(self, where: str) -> str:
        newest = max(self.directory.glob(f"{where}/bin/postgres"), key=lambda path: path.stat().st_mtime_ns)
        return subprocess.check_output([newest], text=True).split("devel")[1].strip()

    def test_only_what_has_changed_is_compiled(self) -> None:
        everything = ["m.so", "main.o", "other.o"]
        self.assertEqual(self.made(), ["configure", *everything])
        self.assertEqual(self.made(other="int other(void) { return 2; }\n"), ["other.o"])
        self.assertEqual(self.version("cache/test_aio/source-*"), "21")
        self.assertEqual(self.made(m="int m(void) { return 2; }\n"), ["m.so"])
        self.assertEqual(self.made(readme="words\n"), [])
        self.assertEqual(self.made(h="#define H 2\n"), ["main.o"])
        self.assertEqual(self.version("cache/test_aio/source-*"), "22")
        # other flags are another directory
        with mock.patch.dict(os.environ, TEST_AIO_CONFIGURE="--another"):
            self.assertEqual(self.made(), ["configure", *everything])

    def test_files_compiled_otherwise_leave_nothing_behind(self) -> None:
        project.write_files(self.directory / "text", {"src/backend/other.c": '#include "switch.h"\nint other(void) { return SWITCH; }\n',
                                                      "src/include/switch.h": "#define SWITCH 7\n"})
        server = f"source:{self.tree}"
        out = self.run_script("variant", "--text", self.directory / "text", server, self.directory / "a", "-w", "src/backend/other.c", "src/backend/none.c")
        self.assertEqual((out, self.version("a/server")), ("src/backend/none.c\n", "71"))
        self.run_script("variant", server, self.directory / "b", "--coverage", "src/backend/other.c")
        self.assertTrue((self.directory / "b/notes/src/backend/other.gcno").exists())
        self.assertIn(b".gcda", (self.directory / "b/server/bin/postgres").read_bytes())
        self.run_script("variant", server, self.directory / "c", "--coverage", "src/backend/main.c")
        self.assertNotIn(b"other.gcda", (self.directory / "c/server/bin/postgres").read_bytes())
        self.assertEqual(self.made(main=TREE["src/backend/main.c"] + "\n"), ["main.o"])
        self.assertEqual(self.version("cache/test_aio/source-*"), "11")
        self.assertNotIn(b".gcda", max(self.directory.glob("cache/test_aio/source-*/bin/postgres"), key=lambda path: path.stat().st_mtime_ns).read_bytes())
