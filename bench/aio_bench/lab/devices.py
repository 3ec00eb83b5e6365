"""Simulated devices: presets, or any latency.  Standard library only."""

import re
from dataclasses import dataclass

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

    def call(self) -> str:
        """Returns the statement that makes the device, for all relations."""
        return f"SELECT io_device(NULL, '{self.latency}', {self.queue_depth}, {self.jitter}, {self.bytes_per_second or 'NULL'}, everybody => true)"

    def told(self) -> str:
        bandwidth = f", {self.bytes_per_second / 1e6:,.0f} MB/s" if self.bytes_per_second else ""
        jitter = f" ± {self.jitter:.0%}" if self.jitter else ""
        return f"{self.latency}{jitter} a read, {self.queue_depth} at once{bandwidth}" + (f" ({self.source})" if self.source else "")


# queue_depth is the number of reads a second, as the source states it, times the latency.  A parameter that no source
# states is left out: jitter, or a limit of the bandwidth.
PRESETS = {
    # the baseline of a volume: 3,000 IOPS, 125 MiB/s and "single-digit millisecond" latency, of which 1 ms is the least
    "gp3": Device("1ms", 3, 0, 131_072_000, "https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html"),
    # the most of an io2 Block Express volume: 256,000 IOPS and 4,000 MiB/s, for 16 KiB below 500 us on average
    "io2": Device("500us", 128, 0, 4_194_304_000, "https://docs.aws.amazon.com/ebs/latest/userguide/provisioned-iops.html"),
    # an SSD for servers, Micron 9200, from a copy of its data sheet
    "nvme": Device("92us", 77, 0, 3_500_000_000,
                   "https://vdocument.in/9200-nvme-ssds-2-steady-state-as-defined-by-snia-solid-state-storage-performance.html"),
    # a disk of 7,200 rpm, Ultrastar DC HC310: 7.4 ms for a seek, and 0 to 8.33 ms for the rotation; every read pays for
    # both, as a simulated device does not know that two reads are neighbours
    "hdd": Device("11560us", 1, 0.36, None, "https://manualshive.com/en/manual/western-digital/ultrastar-dc-hc310/961649?page=23"),
}


def named(name: str) -> Device | None:
    """Returns a preset, a device with this latency, such as 1ms, or None for "none".  Raises ValueError."""
    if name == NONE:
        return None
    if name not in PRESETS and not re.fullmatch(r"\d+(\.\d+)? ?(us|ms|s)", name):
        raise ValueError(f"{name!r}: no device; known: {NONE}, {', '.join(PRESETS)}, or a latency such as 1ms")
    return PRESETS.get(name) or Device(name)
