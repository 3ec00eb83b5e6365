"""The list of seeded server bugs: mutants/*.toml, one edit of one function each."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Mutant:
    name: str
    file: str
    function: str
    find: str
    replace: str
    bug: str
    unseen: str = ""  # why it cannot be seen from outside, if so
    servers: tuple[int, ...] = (18,)  # the major versions whose source the edit fits

    def apply(self, source: Path) -> str:
        """The mutated text of the file; an error unless the edit fits exactly once."""
        text = (source / self.file).read_text()
        pattern = rf"^{re.escape(self.function)}\([^;]*?\)\n\{{.*?^\}}"
        bodies = list(re.finditer(pattern, text, re.MULTILINE | re.DOTALL))
        if len(bodies) != 1 or bodies[0].group().count(self.find) != 1:
            raise ValueError(f"{self.name}: the edit does not fit {self.function}() in {self.file}")
        body = bodies[0].group().replace(self.find, self.replace)
        return text[: bodies[0].start()] + body + text[bodies[0].end() :]


def load(major: int) -> list[Mutant]:
    """The mutants of a major version of the server."""
    entries = [
        entry
        for path in sorted(HERE.glob("*.toml"))
        for entry in tomllib.loads(path.read_text())["mutant"]
        if major in entry.get("servers", [18])
    ]
    mutants = [Mutant(**entry) for entry in entries]
    names = [mutant.name for mutant in mutants]
    doubles = {name for name in names if names.count(name) > 1}
    if doubles:
        raise ValueError(f"names used twice: {', '.join(sorted(doubles))}")
    return mutants


def misfits(mutants: list[Mutant], source: Path) -> list[str]:
    """What is wrong with the edits that do not apply to this source."""
    found = []
    for mutant in mutants:
        try:
            mutant.apply(source)
        except (OSError, ValueError) as error:
            found.append(str(error))
    return found


def major_of(source: Path) -> int:
    """The major version of an unpacked source."""
    found = re.search(r"^PACKAGE_VERSION='(\d+)", (source / "configure").read_text(), re.MULTILINE)
    if not found:
        raise ValueError(f"{source}/configure does not name a version")
    return int(found.group(1))
