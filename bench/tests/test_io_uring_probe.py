"""The probe names the reason why io_uring cannot be used.

The reasons are made one by one for a single process.  kernel.io_uring_disabled
is the whole machine's, so no test touches it.
"""

import ctypes
import errno
import os
import resource
import struct
import subprocess
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path

PROBE = Path(__file__).absolute().parents[2] / "servers" / "io_uring_probe"
PG_CONFIG = os.environ.get("PG_CONFIG", "")

PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
SECCOMP_RET_ALLOW = 0x7FFF0000
SECCOMP_RET_ERRNO = 0x00050000
SECCOMP_RET_KILL_PROCESS = 0x80000000
SYS_IO_URING_SETUP = 425
SYS_IO_URING_ENTER = 426
SYS_IO_URING_REGISTER = 427


def refuse(call: int, action: int) -> None:
    """Installs a seccomp filter like those of containers and of systemd."""

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]

    code = b"".join(
        struct.pack("HBBI", *instruction)
        for instruction in (
            (0x20, 0, 0, 0),  # load the number of the system call
            (0x15, 0, 1, call),  # is it that one?
            (0x06, 0, 0, action),
            (0x06, 0, 0, SECCOMP_RET_ALLOW),
        )
    )
    program = Program(4, code)
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program)):
        raise OSError(ctypes.get_errno(), "prctl")


def refusal(call: int, error: int) -> Callable[[], None]:
    return lambda: refuse(call, SECCOMP_RET_ERRNO | error)


def death(call: int) -> Callable[[], None]:
    return lambda: refuse(call, SECCOMP_RET_KILL_PROCESS)


def files(number: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (number, number))


def run(*arguments: str | Path, before: Callable[[], object] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROBE, *arguments], preexec_fn=before, capture_output=True, text=True)


def probe(before: Callable[[], object] | None = None, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run("--brief", *arguments, PG_CONFIG, before=before)


@unittest.skipUnless(PG_CONFIG, "PG_CONFIG is not set: no server to probe")
class Reasons(unittest.TestCase):
    def setUp(self) -> None:
        plain = probe()
        if plain.returncode != 0:
            self.skipTest(f"io_uring cannot be used here anyway: {plain.stdout}{plain.stderr}")
        self.directory = self.enterContext(tempfile.TemporaryDirectory())

    def write(self, name: str, text: str = "") -> None:
        Path(self.directory, name).write_text(text)

    def check_refusal(self, said: subprocess.CompletedProcess[str], start: str) -> None:
        self.assertEqual(said.returncode, 1, said.stderr)
        self.assertTrue(said.stdout.startswith(start), said.stdout)
        self.assertEqual(said.stdout.count("\n"), 1, "exactly one line")
        self.assertEqual(said.stderr, "")

    def test_usable(self) -> None:
        few = ("--max-connections=3", "-c", "max_worker_processes=0", "-c", "max_wal_senders=0", "-c", "autovacuum_worker_slots=1")
        self.assertEqual(probe().stdout, "usable\n")
        self.assertEqual(probe(files(90), *few).stdout, "usable\n", "fewer rings need fewer files")
        # servers 18 and 19 never call io_uring_register
        self.assertEqual(probe(refusal(SYS_IO_URING_REGISTER, errno.EPERM)).stdout, "usable\n")
        self.assertEqual(probe(death(SYS_IO_URING_REGISTER)).stdout, "usable\n")

    def test_open_files(self) -> None:
        """For rings, for the rest of the server, and for more connections than files."""
        for number, arguments, told in ((60, (), " 60,"), (60, ("--max-connections", "8"), " 60, a server with 50 rings needs"),
                                        (500, ("--max-connections=1000",), " 500, a server with 1042 rings needs at least 1106")):
            with self.subTest(told):
                self.check_refusal(probe(files(number), *arguments), f'open-file limit: "ulimit -n" is{told}')

    def test_data_directory(self) -> None:
        """The rings follow from the settings of a data directory, and the probe says what it assumed."""
        os.chmod(self.directory, 0o755)
        self.write("postgresql.conf", "max_connections = 10\nmax_wal_senders = 0\n")
        said = run("-c", "max_worker_processes=1", self.directory, PG_CONFIG)
        lines = said.stdout.splitlines()
        self.assertEqual(lines[0], "usable", said.stderr)
        self.assertEqual(lines[1], "35 rings: 10 max_connections + 16 autovacuum_worker_slots + 1 max_worker_processes"
                         " + 0 max_wal_senders + 2 special workers + 6 auxiliary processes")
        self.assertRegex(lines[2], "^a restart after a crash .* the limits allow (any number|[0-9]+) by open files, (any number|[0-9]+) by locked memory")
        self.assertEqual(lines[3], f"assumed: the server starts with the settings of {self.directory} and max_worker_processes=1")
        self.assertRegex(lines[4], "^assumed: it runs as (this user, |.*, as which root tried it, )")

    def test_data_directory_of_another_server(self) -> None:
        self.assertRegex(run(self.directory, PG_CONFIG).stderr, "there is no postgresql.conf in .*: name the directory that has it")
        self.assertRegex(run("/bin/true").stderr, "/bin/true is no pg_config of PostgreSQL")
        self.write("postgresql.conf")
        self.write("PG_VERSION", "17\n")
        said = run(self.directory, PG_CONFIG)
        self.assertEqual(said.returncode, 2)
        self.assertIn(f"{self.directory} is of PostgreSQL 17, ", said.stderr)

    @unittest.skipIf(os.geteuid() == 0, "root can read every directory")
    def test_data_directory_that_cannot_be_read(self) -> None:
        os.chmod(self.directory, 0)
        self.addCleanup(os.chmod, self.directory, 0o700)
        self.assertIn(": Permission denied: run the probe as its owner", run(self.directory, PG_CONFIG).stderr)

    @unittest.skipUnless(os.geteuid() == 0, "only root can become another user")
    def test_root_becomes_the_owner(self) -> None:
        self.write("postgresql.conf")
        os.chown(self.directory, 54321, 54321)
        said = run(self.directory, PG_CONFIG)
        self.assertIn("assumed: it runs as 54321, as which root tried it,", said.stdout, said.stderr)

    def test_as_many_rings_as_the_server(self) -> None:
        """The server counts the same processes for its semaphores, and those of I/O workers besides."""
        program, cluster = self.cluster()
        counted = subprocess.run([program, "-C", "num_os_semaphores", "-D", cluster], capture_output=True, text=True).stdout
        said = run(cluster, PG_CONFIG).stdout.splitlines()
        # 32: MAX_IO_WORKERS
        self.assertEqual(int(said[1].split()[0]) + 32, int(counted), said)

    def cluster(self) -> tuple[Path, Path]:
        """Returns the server's program, and the data directory of a new cluster."""
        program = Path(subprocess.run([PG_CONFIG, "--bindir"], capture_output=True, text=True).stdout.strip(), "postgres")
        cluster = Path(self.directory, "data")
        subprocess.run([program.with_name("initdb"), "-D", cluster, "-A", "trust", "--no-sync"], capture_output=True, check=True)
        return program, cluster

    def test_running_server(self) -> None:
        """Of a server that runs, the probe counts the rings, knows the command line, and judges by its limits."""
        program, cluster = self.cluster()
        pg_ctl = [str(program.with_name("pg_ctl")), "-D", str(cluster), "-l", f"{self.directory}/log", "-w"]
        for number, answer, status in ((1000, "usable: server [0-9]+ runs with io_uring", 0), (285, "usable until a crash: .* limits are too low .*", 1)):
            options = f"-c io_method=io_uring -N 102 --max-wal-senders=8 -k {self.directory} -c listen_addresses="
            started = subprocess.run([*pg_ctl, "-o", options, "start"], preexec_fn=files(number), capture_output=True)
            log = Path(self.directory, "log").read_text()
            if started.returncode and "Cannot allocate memory" in log:
                self.skipTest("other processes of this user have the locked memory that the rings need")
            self.assertEqual(started.returncode, 0, log)
            try:
                said = run("--explain", cluster, PG_CONFIG)
            finally:
                subprocess.run([*pg_ctl, "-m", "immediate", "stop"], stdout=subprocess.DEVNULL, check=True)
            lines = said.stdout.splitlines()
            self.assertRegex(lines[0], f"^{answer}$", said.stderr)
            self.assertEqual(said.returncode, status)
            self.assertIn(f'("ulimit -n" is {number})', said.stdout)
            self.assertEqual(["LimitNOFILE=" in said.stdout, "LimitMEMLOCK=" in said.stdout], [status == 1, False])
            self.assertRegex(lines[1], "^process [0-9]+ has 142 rings with [0-9]+ kB; the settings ask for 142 rings: 102 max_connections")

    def test_seccomp_refuses(self) -> None:
        for name, call in (("io_uring_setup", SYS_IO_URING_SETUP), ("io_uring_enter", SYS_IO_URING_ENTER)):
            with self.subTest(name):
                self.check_refusal(probe(refusal(call, errno.EPERM)), f"seccomp: a filter refuses {name} ")
                self.check_refusal(probe(refusal(call, errno.ENOSYS)), f"seccomp: a filter hides {name} ")
                self.check_refusal(probe(death(call)), f"seccomp: a filter kills processes that call {name},")


class NotCompiledIn(unittest.TestCase):
    """With what takes the place of a server, as no other says no."""

    def probe_server_saying(self, *lines: str) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory() as directory:
            for name, said in (("pg_config", [directory]), ("postgres", lines)):
                script = Path(directory, name)
                status = 0 if name == "pg_config" else 1
                text = "\n".join(said)
                script.write_text(f"#!/bin/sh\ncat >&{status + 1} <<'END'\n{text}\nEND\nexit {status}\n")
                script.chmod(0o755)
            return run(Path(directory, "pg_config"))

    def test_what_the_server_says(self) -> None:
        unknown = 'FATAL:  invalid value for parameter "io_method": "io_uring"', "HINT:  Available values: sync, worker."
        for said, status, told in (
            (unknown, 1, r"not compiled in: the server was built without --with-liburing \(Available values: sync, worker\)\n"),
            (('FATAL:  unrecognized configuration parameter "io_method"',), 1,
             r"too old: .*/postgres belongs to .*, and io_method came with 18: name another server's pg_config\n"),
            (("FATAL:  out of luck",), 2, ""),
        ):
            with self.subTest(told):
                answer = self.probe_server_saying(*said)
                self.assertEqual(answer.returncode, status)
                self.assertRegex(answer.stdout, f"^{told}$")

    def test_no_server(self) -> None:
        said = run("/nonexistent/pg_config")
        self.assertEqual((said.returncode, said.stdout), (2, ""))
