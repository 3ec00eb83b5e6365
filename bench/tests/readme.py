#!/usr/bin/env python3
"""The shell commands that README.md shows with their output.

As a command it runs one of them as it stands there, and fails unless the lines that
README shows are printed in this order:

    bench/tests/readme.py 'make demo'

Numbers may differ, and so may blanks; "…" in README stands for lines that are left out.
--write puts the new lines of all commands into README.md.
POSTGRES names the source tree that README calls /path/to/postgres; without it the
commands with that path are left out.  The probe's answer is that of "ulimit -n 100", with
the pg_config of 18 or later first in PATH.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).absolute().parents[2]


def shown() -> dict[str, list[str]]:
    """Returns README's commands whose output follows directly, with the lines of the output."""
    text = (ROOT / "README.md").read_text()
    return {command: output.splitlines() for command, output in re.findall(r"^```sh\n([^\n]*)\n```\n```text\n(.*?)^```$", text, re.M | re.S)}


def output_of(start: str) -> list[str]:
    """Returns the output of the command that begins so."""
    found = [lines for command, lines in shown().items() if command.startswith(start)]
    assert len(found) == 1, f"README shows {start} {len(found)} times"
    return found[0]


def without_numbers(line: str) -> str:
    """Returns what of a line is the same on all machines and servers: no number or
    version, and no width of a column."""
    return re.sub(r"\s+|(?<=─)─+", " ", re.sub(r"\d+([.,]\d+)*(~?(rc|beta)\d+|devel)?", "#", line)).strip()


def not_printed(lines: Iterable[str], printed: Iterable[str]) -> str | None:
    """Returns the first of the lines that does not come in what was printed, behind those before it."""
    rest = iter([without_numbers(line) for line in printed])
    return next((line for line in lines if line != "…" and without_numbers(line) not in rest), None)


def renewed(lines: Iterable[str], printed: Iterable[str]) -> list[str]:
    """Returns the lines as they were printed now."""
    rest = iter(printed)
    return [line if line == "…" else next((new.rstrip() for new in rest if without_numbers(new) == without_numbers(line)), line) for line in lines]


def run(command: str) -> tuple[int, list[str]]:
    """Returns the exit status of a command and what it has printed, which is also shown."""
    printed = []
    with subprocess.Popen(["sh", "-c", command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "COLUMNS": "80"}) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            printed.append(line)
    return process.returncode, printed


def write() -> int:
    failed = 0
    for command, lines in shown().items():
        if "/path/to" in command and "POSTGRES" not in os.environ:
            print(f"left out: {command}", file=sys.stderr)
            continue
        _, printed = run(command.replace("/path/to/postgres", os.environ.get("POSTGRES", "")))
        if (missing := not_printed(lines, printed)) is not None:
            print(f'"{command}" does not print this line any more:\n{missing}', file=sys.stderr)
            failed = 1
            continue
        readme = ROOT / "README.md"
        old, new = ("\n".join([f"```sh\n{command}\n```\n```text", *each, "```"]) for each in (lines, renewed(lines, printed)))
        readme.write_text(readme.read_text().replace(old, new))
        print(f"renewed: {command}")
    return failed


def main(command: str) -> int:
    if command in ("-h", "--help"):
        print(__doc__)
        return 0
    if command == "--write":
        return write()
    lines = output_of(command)
    status, printed = run(command)
    if status != 0:
        return 1
    missing = not_printed(lines, printed)
    if missing is not None:
        print(f'README shows this line of "{command}", which was not printed there:\n{missing}', file=sys.stderr)
    return 0 if missing is None else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
