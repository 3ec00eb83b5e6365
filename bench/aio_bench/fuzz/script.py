"""What a run does: settings and steps, all drawn from a seed before it begins.  A script can be kept, read and made shorter."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

#: sessions; each writes rows of its own: those whose id has its number as remainder
OWNERS = 4
#: ids of rows are below this
IDS = 1000


@dataclass(frozen=True)
class Step:
    """A statement of a session, or what the driver does itself."""

    #: the session, or -1: the driver
    session: int
    #: what the step is: "sql", or the name of one of the driver's actions
    kind: str
    sql: str = ""
    #: what the statement does to the model, or what it must return: a name and its arguments
    effect: tuple[Any, ...] = ()
    #: "tx" or "no tx": the step is left out unless the session is so
    needs: str = ""
    #: the next step comes so many milliseconds later; -1: when the statement has ended
    pause: int = 0

    def __str__(self) -> str:
        who = f"s{self.session}" if self.session >= 0 else "--"
        return f"{who} {self.sql or ' '.join(map(str, (self.kind, *self.effect)))}"


@dataclass(frozen=True)
class Script:
    seed: int
    method: str
    settings: dict[str, str]
    #: of the cluster and of the tables; not settings of the server
    shape: dict[str, Any]
    setup: tuple[str, ...]
    steps: tuple[Step, ...]

    def but(self, **changes: Any) -> Self:
        return replace(self, **changes)

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=None) + "\n")

    @classmethod
    def load(cls, path: Path) -> Self:
        found = json.loads(path.read_text())
        steps = tuple(Step(**(step | {"effect": _tuples(step["effect"])})) for step in found.pop("steps"))
        return cls(**found | {"setup": tuple(found["setup"]), "steps": steps})

    def text(self) -> str:
        """Returns what a person reads."""
        lines = [f"-- io_method = {self.method}, {', '.join(f'{name} = {value}' for name, value in self.shape.items())}"]
        lines += [f"-- {name} = '{value}'" for name, value in self.settings.items()]
        return "\n".join([*lines, *(f"-- setup: {sql}" for sql in self.setup), *map(str, self.steps)])


def _tuples(value: Any) -> Any:
    return tuple(_tuples(each) for each in value) if isinstance(value, list) else value
