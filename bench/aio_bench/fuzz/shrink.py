"""Makes a failing script shorter: fewer steps, sessions, settings and faults, as long as it fails in the same way."""

import re
import time
from collections.abc import Callable, Iterator

from .configuration import FIXED
from .script import OWNERS, Script

Fails = Callable[[Script], str | None]


def kind(why: str) -> str:
    """Returns what two failures of the same kind have in common."""
    return re.sub(r"\d+", "N", re.sub(r"^s\d [^\n]*?: (?=ERROR|connection|warning|\d)", "", why))[:30]


def smaller(script: Script) -> Iterator[Script]:
    """Yields scripts with something left out, the largest parts first."""
    for session in range(-1, OWNERS):
        yield script.but(steps=tuple(step for step in script.steps if step.session != session or step.kind in ("check", "probe")))
    size = len(script.steps) // 2
    while size:
        for start in range(0, len(script.steps), size):
            yield script.but(steps=script.steps[:start] + script.steps[start + size:])
        size //= 2
    for name in script.settings.keys() - FIXED.keys() - {"io_method"}:
        yield script.but(settings={key: value for key, value in script.settings.items() if key != name})


def shrink(script: Script, why: str, fails: Fails, seconds: float) -> Script:
    deadline = time.monotonic() + seconds
    wanted = kind(why)
    progress = True
    while progress:
        progress = False
        for candidate in smaller(script):
            if time.monotonic() > deadline:
                return script
            if len(candidate.steps) + len(candidate.settings) < len(script.steps) + len(script.settings) and (found := fails(candidate)) and kind(found) == wanted:
                script, progress = candidate, True
                # what was left out stays out; goes on with what is left
                break
    return script
