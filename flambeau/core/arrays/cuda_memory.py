"""Statistics of a device's memory; needs no CuPy."""

from __future__ import annotations


class DeviceMemory:
    """State of one device's memory beyond the counts of CuPy's pool.

    Attributes:
        peak, reserved_peak: most bytes in use, and taken from the device, since the last reset.
        allocations: number of requested blocks. failures: number of those for which there was no memory.
    """

    __slots__ = ("allocations", "failures", "peak", "reserved_peak")

    def __init__(self) -> None:
        self.peak = self.reserved_peak = self.allocations = self.failures = 0


def shown(size: int) -> str:
    """A number of bytes as messages show it."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.2f} {name}"
    return f"{size} bytes"
