"""Simulated devices: the presets of devices.toml, or any latency.  Standard library only."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass

from . import project

NONE = "none"


@dataclass(frozen=True)
class Device:
    """The arguments of io_device()."""

    latency: str
    #: the default, for a latency alone, is more than any stream here has under way
    queue_depth: int = 64
    jitter: float = 0
    bytes_per_second: int | None = None
    source: str = ""

    def call(self, relation: str) -> str:
        """Returns the statement that makes the device for a relation, or for all relations if it is empty."""
        arguments = [f"'{self.latency}'", str(self.queue_depth), str(self.jitter), str(self.bytes_per_second or "NULL")]
        return f"SELECT io_device({', '.join(arguments)}{_of(relation)})"

    def told(self) -> str:
        bandwidth = f", {self.bytes_per_second / 1e6:,.0f} MB/s" if self.bytes_per_second else ""
        jitter = f" ± {self.jitter:.0%}" if self.jitter else ""
        return f"{self.latency}{jitter} a read, {self.queue_depth} at once{bandwidth}" + (f" ({self.source})" if self.source else "")


def _of(relation: str) -> str:
    return f", rel => '{relation}'" if relation else ""


def end(relation: str) -> str:
    return f"SELECT io_device_end({_of(relation).lstrip(', ')})"


PRESETS = {name: Device(**values) for name, values in tomllib.loads((project.ROOT / "bench" / "devices.toml").read_text()).items()}


def named(name: str) -> Device | None:
    """Returns a preset, a device with this latency, such as 1ms, or None for "none".  Raises ValueError."""
    if name == NONE:
        return None
    if name not in PRESETS and not re.fullmatch(r"\d+(\.\d+)? ?(us|ms|s)", name):
        raise ValueError(f"{name!r}: no device; known: {NONE}, {', '.join(PRESETS)}, or a latency such as 1ms")
    return PRESETS.get(name) or Device(name)
