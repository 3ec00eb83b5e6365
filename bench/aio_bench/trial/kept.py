"""Results of a trial so far, in a directory, from which an interrupted trial resumes.  Standard library only."""

import json
import shutil
from pathlib import Path
from typing import Any

from .. import project

# files that results depend on, besides the servers
OF_THE_PROJECT = ("src", "sql", "expected", "t", "servers", "bench/cases", "bench/scenarios", "bench/aio_bench/servers.py", "bench/aio_bench/lab",
                  "bench/aio_bench/explorer", "bench/aio_bench/mutants/points.py", "bench/aio_bench/mutants/switches.py", "test_aio--1.0.sql", "test_aio.control")


def project_state() -> str:
    """Returns a digest of the files that results depend on, or nothing outside of git."""
    listed = project.git(project.ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *OF_THE_PROJECT)
    if not listed:
        return ""
    return project.digest(*(project.ROOT / name for name in sorted(set(filter(None, listed.split("\0"))))))[:12]


class Kept:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.lab = directory / "lab"
        #: the files that the patch touches
        self.source = directory / "source"

    def begin(self, key: dict[str, Any], again: bool) -> bool:
        """Returns whether there are results to resume from.  key is what results depend on.  Raises project.Problem."""
        self.locked = project.lock(self.directory, f"another trial is at work in {self.directory}")
        there = self.read("trial")
        if there and not again:
            if there != key:
                different = [name for name, value in key.items() if there.get(name) != value]
                raise project.Problem(f"{self.directory} holds another trial ({', '.join(different)} differ): --again begins anew, --output DIR takes another directory")
            return True
        if there:
            for each in self.directory.iterdir():
                if each.is_dir():
                    shutil.rmtree(each)
                elif each.name != ".lock":
                    each.unlink()
        self.lab.mkdir(parents=True, exist_ok=True)
        self.write("trial", key)
        return False

    def write(self, name: str, data: Any) -> None:
        """Writes a file in one step, so that it is whole if it is there."""
        path = self.directory / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(data, ensure_ascii=False, indent=1))
        temporary.replace(path)

    def read(self, name: str) -> Any:
        """Returns a file's data, or None if it is not there."""
        path = self.directory / f"{name}.json"
        return json.loads(path.read_text()) if path.exists() else None

    def logs(self, role: str, number: int) -> Path:
        """Returns where a run of the suite leaves its logs.  Run 0 is the whole suite."""
        return self.directory / "suite" / f"{role}-{number}"
