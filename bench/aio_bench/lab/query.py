"""The case of a user's own query, without a case file."""

import re
from pathlib import Path

from ..project import Problem
from . import casefile
from .casefile import Case

# A semicolon within these ends no statement: strings, names, dollar quotes, comments.
_WHOLE = re.compile(r"""'(?:[^']|'')*'|"[^"]*"|(\$\w*\$).*?\1|--[^\n]*|/\*.*?\*/|;|.""", re.DOTALL)


def statements(sql: str) -> list[str]:
    """Returns the statements of a script, without the comments between them."""
    found = [""]
    for token in _WHOLE.finditer(sql):
        if token[0] == ";":
            found.append("")
        elif not token[0].startswith(("--", "/*")):
            found[-1] += token[0]
    return [each.strip() for each in found if each.strip()]


def _read(path: Path) -> list[str]:
    try:
        found = statements(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(f"{path}: {error}") from error
    if meta := next((each for each in found if each.startswith("\\")), None):
        raise Problem(f"{path}: {meta.split()[0]} is psql's; the lab knows SQL only")
    return found


def case_of(query: Path, setup: Path | None, device: str) -> Case:
    """Returns the case of a file whose last statement is measured, and of a file that prepares the database.  Raises
    Problem."""
    found = _read(query)
    if not found:
        raise Problem(f"{query}: no statement")
    explain = re.match(r"(SELECT|WITH|VALUES|TABLE|INSERT|UPDATE|DELETE|MERGE)\b", found[-1], re.IGNORECASE)
    return casefile.from_data(query.stem, {
        "id": query.name,
        "title": " ".join(found[-1].split())[:60],
        "known": "Your query, no expected result.",
        "vary": {"io_method": ["worker", "io_uring"], "device": device.split(","), "cache": ["cold server"]},
        # the server's own defaults
        "settings": {"shared_buffers": "128MB", "max_parallel_workers_per_gather": 2},
        "setup": {"direct_io": True, "sql": [*(_read(setup) if setup else []), "VACUUM (ANALYZE)"]},
        "run": {"explain": bool(explain), "statement": found, "also": ["read_blocks", "ios", "mean_blocks"]},
    }, str(query))
