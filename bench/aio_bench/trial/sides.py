"""The two servers of a trial, each with a build for the suite and one for the lab.  Standard library only."""

from dataclasses import dataclass
from pathlib import Path

from ..servers import ServerError, is_tree, server_name

ROLES = ("before", "after")


@dataclass(frozen=True)
class Side:
    #: one of ROLES
    role: str
    #: what servers/run calls the servers
    suite: str
    lab: str


def side(role: str, text: str) -> Side:
    """Returns the side that a text names.  source:PATH[@REVISION] is compiled twice, for the suite and for the lab.
    Of two servers with a comma between them the first is for the suite.  Raises ServerError."""
    if is_tree(text):
        # with its revision, if it has one
        tree = Path(text.partition(":")[2]).absolute()
        return Side(role, f"source:{tree}", f"source-optimised:{tree}")
    suite, comma, lab = text.partition(",")
    if not suite or (comma and not lab):
        raise ServerError(f"{text!r}: a server, or two with a comma between them")
    return Side(role, server_name(suite), server_name(lab or suite))
