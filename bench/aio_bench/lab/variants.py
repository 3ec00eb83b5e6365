"""What a case varies: server settings, and names of the lab's own."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from . import devices

# Names in [vary] that are not the server's settings, and their values (None: any).
OWN = {
    # direct: debug_io_direct = data
    "io": ("direct", "buffered"),
    # which cache holds the relation; see pagecache.py
    "cache": ("cold server", "cold kernel", "warm"),
    # test_aio's simulated device: a name or a latency (devices.py), or "none"
    "device": None,
    # the number of I/O workers, which 18 and 19 set differently
    "workers": None,
    # whether test_aio is preloaded, and whether it has a filter for a relation that nobody reads
    "gate": ("without", "with", "filter"),
}


def for_server(settings: dict[str, Any], version_num: int) -> dict[str, str]:
    """Returns the settings of all servers, and those of the newest major version that is not newer than the server."""
    common = {name: value for name, value in settings.items() if not isinstance(value, dict)}
    known = [name for name in settings if name not in common and int(name) <= version_num // 10000]
    return {name: str(value) for name, value in (common | settings.get(max(known, key=int, default=""), {})).items()}


@dataclass(frozen=True)
class Variant:
    """One combination of all that is varied."""

    values: tuple[tuple[str, str], ...]
    #: names with the same value in all variants, which labels leave out
    constant: frozenset[str] = frozenset()

    @property
    def label(self) -> str:
        return ", ".join(value for name, value in self.values if name not in self.constant)

    def value_of(self, name: str) -> str | None:
        return dict(self.values).get(name)

    def settings(self, parameters: Iterable[str], version_num: int) -> dict[str, str]:
        """Returns the settings with which the server must be started."""
        settings = {name: value for name, value in self.values if name not in OWN and name not in parameters}
        if io := self.value_of("io"):
            settings["debug_io_direct"] = "data" if io == "direct" and not self.has_device else ""
        if self.value_of("device"):
            # single-block reads, as in an index scan, are synchronous, and must take as long
            settings |= {"shared_preload_libraries": "test_aio", "test_aio.reach_synchronous_reads": "on"}
        if gate := self.value_of("gate"):
            settings["shared_preload_libraries"] = "" if gate == "without" else "test_aio"
        if workers := self.value_of("workers"):
            if version_num < 190000:
                settings["io_workers"] = workers
            else:
                settings |= {"io_min_workers": workers, "io_max_workers": workers}
        return settings

    @property
    def has_device(self) -> bool:
        return self.value_of("device") not in (None, devices.NONE)

    def matches(self, words: str) -> bool:
        """Returns whether the variant has all of these values, which commas separate."""
        own = {value for _, value in self.values}
        return {word.strip() for word in words.split(",")} <= own


def combinations(vary: dict[str, list[Any]]) -> tuple[Variant, ...]:
    constant = frozenset(name for name, values in vary.items() if len(values) == 1)
    if len(constant) == len(vary):
        # a single variant needs a label
        constant = frozenset(list(vary)[1:])
    return tuple(Variant(tuple(zip(vary, map(str, values))), constant) for values in itertools.product(*vary.values()))
