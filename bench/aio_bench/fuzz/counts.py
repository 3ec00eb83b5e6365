"""Conservation: what several counters count must be the same number."""

from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .driver import Driver


def probe(driver: "Driver", seed: int) -> None:
    Random(seed)
