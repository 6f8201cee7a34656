"""Measurements: the times that tasks took, and how they are printed."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import textwrap
from collections.abc import Hashable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np

from ...ops.inspection import get_num_threads, set_num_threads

MAX_SIGNIFICANT_FIGURES = 4
RESOLUTION = 25e-9  # seconds; no clock is trusted further
UNITS = {"ns": ("nanosecond", 1e-9), "us": ("microsecond", 1e-6), "ms": ("millisecond", 1e-3), "s": ("second", 1.0)}

_Key = TypeVar("_Key", bound=Hashable)


@dataclasses.dataclass(init=True, repr=False, eq=True, frozen=True)
class TaskSpec:
    """The description of a measured task: the arguments of a ``Timer``.

    Args: the attributes.
    Attributes:
        stmt, setup, global_setup: the statement and what runs before it.
        label, sub_label, description, env: its names in tables.
        num_threads: threads of the kernels while it ran.
    Source: torch.utils.benchmark.TaskSpec.
    Example:
        >>> TaskSpec("x + x", "x = 1", label="sums").title
        'sums'
    """

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """Label and sub-label, or the statement."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        if "\n" not in self.stmt:
            return self.stmt + (f": {self.sub_label}" if self.sub_label else "")
        return (f"stmt:{f' ({self.sub_label})' if self.sub_label else ''}\n" + textwrap.indent(self.stmt, "  ")).rstrip()

    def setup_str(self) -> str:
        """The setup as it is printed; empty for none."""
        if self.setup == "pass" or not self.setup:
            return ""
        return f"setup:\n{textwrap.indent(self.setup, '  ')}" if "\n" in self.setup else f"setup: {self.setup}"

    def summarize(self) -> str:
        """Title, description and setup."""
        sections = [part for part in (self.title, self.description or "", self.setup_str()) if part]
        return "\n".join(f"{part}\n" if "\n" in part else part for part in sections)


@dataclasses.dataclass(init=True, repr=False)
class Measurement:
    """The times that one task took.

    Args:
        number_per_run: how often the statement ran for each time.
        raw_times: seconds for that many runs.
        task_spec: what ran.
        metadata: whatever belongs to it.
    Attributes:
        times: seconds of one run.
        mean, median, iqr: of ``times``; ``iqr`` is the distance of the quartiles.
        significant_figures: how many digits of the median mean something.
        has_warnings: whether the quartiles lie further apart than a tenth of the median.
    Source: torch.utils.benchmark.Measurement.
    Example:
        >>> measured = Measurement(10, [1e-5, 2e-5, 3e-5], TaskSpec("x + x", "pass"))
        >>> measured.median, measured.meets_confidence(0.1)
        (2.0000000000000003e-06, False)
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    @property
    def times(self) -> list[float]:
        return [time / self.number_per_run for time in self.raw_times]

    def _quantile(self, q: float) -> float:
        return float(np.quantile(self.times, q)) if self.raw_times else -1.0

    @property
    def median(self) -> float:
        return self._quantile(0.5)

    @property
    def mean(self) -> float:
        return float(np.mean(self.times)) if self.raw_times else -1.0

    @property
    def iqr(self) -> float:
        return self._quantile(0.75) - self._quantile(0.25)

    @property
    def significant_figures(self) -> int:
        # 90% of a normal distribution lie within 1.645 deviations; outliers are left out by taking the middle half.
        times = sorted(self.times)
        middle = times[len(times) // 4 : math.ceil(3 * len(times) / 4)]
        if not middle:
            return 1
        interval = max(1.645 * float(np.std(middle)) / math.sqrt(len(middle)), RESOLUTION)
        return min(max(math.floor(math.log10(self.median / interval)), 1), MAX_SIGNIFICANT_FIGURES)

    @property
    def has_warnings(self) -> bool:
        return bool(self.raw_times) and not self.meets_confidence()

    def meets_confidence(self, threshold: float = 0.1) -> bool:
        """Whether the quartiles lie within ``threshold`` of the median."""
        return self.iqr / self.median < threshold

    @property
    def title(self) -> str:
        return self.task_spec.title

    @property
    def as_row_name(self) -> str:
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    def __getattr__(self, name: str) -> Any:
        if name in TaskSpec.__dataclass_fields__:  # what ran can be asked of the measurement
            return getattr(self.task_spec, name)
        raise AttributeError(f"'Measurement' object has no attribute '{name}'")

    def __repr__(self) -> str:
        count = len(self.raw_times)
        unit, scale = select_unit(self.median)
        lines = [f"<torch.utils.benchmark.utils.common.Measurement object at {hex(id(self))}>", self.task_spec.summarize()]
        lines.append(f"  {'Median: ' if count > 1 else ''}{self.median / scale:.2f} {unit}")
        if count >= 4:
            low, high = self._quantile(0.25) / scale, self._quantile(0.75) / scale
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({low:.2f} to {high:.2f})")
        threads = f"{self.task_spec.num_threads} thread{'s' if self.task_spec.num_threads > 1 else ''}"
        plural, per = ("s", "per measurement") if count > 1 else ("", "")
        lines.append(f"  {count} measurement{plural}, {self.number_per_run} runs {per}, {threads}")
        if self.has_warnings:
            cause = "could indicate system fluctuation" if self.meets_confidence(0.25) else "suggests significant environmental influence"
            lines.append(f"  WARNING: Interquartile range is {100 * self.iqr / self.median:.1f}% of the median measurement.")
            lines.append(f"           This {cause}.")
        return "\n".join(lines)

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """One measurement for each task, of all its times.

        Source: torch.utils.benchmark.Measurement.merge.
        """
        grouped: dict[TaskSpec, list[Measurement]] = {}
        for measurement in measurements:
            grouped.setdefault(measurement.task_spec, []).append(measurement)
        return [Measurement(1, [time for one in group for time in one.times], spec) for spec, group in grouped.items()]


def select_unit(t: float) -> tuple[str, float]:
    """The unit in which a time of ``t`` seconds is read best, and its seconds.

    Args:
        t: seconds.
    Returns: the unit's name and its length in seconds.
    Source: torch.utils.benchmark.select_unit.
    Example:
        >>> select_unit(0.002)
        ('ms', 0.001)
    """
    for unit in ("s", "ms", "us"):
        if t >= UNITS[unit][1]:
            return unit, UNITS[unit][1]
    return "ns", UNITS["ns"][1]


def unit_to_english(u: str) -> str:
    """``us`` in words: microsecond.

    Args:
        u: 'ns', 'us', 'ms' or 's'.
    Returns: a string.
    Source: torch.utils.benchmark.unit_to_english.
    Example:
        >>> unit_to_english("us")
        'microsecond'
    """
    return UNITS[u][0]


def trim_sigfig(x: float, n: int) -> float:
    """``x`` rounded to ``n`` significant digits.

    Args:
        x: the number.
        n: how many digits.
    Returns: a float.
    Source: torch.utils.benchmark.trim_sigfig.
    Example:
        >>> trim_sigfig(123456.0, 2)
        120000.0
    """
    if not x:
        return x
    scale = 10.0 ** (math.floor(math.log10(abs(x))) + 1 - n)
    return round(x / scale) * scale


def ordered_unique(elements: Iterable[_Key]) -> list[_Key]:
    """Each element once, in the order in which they came.

    Args:
        elements: anything that can be hashed.
    Returns: a list.
    Source: torch.utils.benchmark.ordered_unique.
    Example:
        >>> ordered_unique([3, 1, 3])
        [3, 1]
    """
    return list(dict.fromkeys(elements))


@contextlib.contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """Context in which the kernels have another number of threads.

    Args:
        n: the number.
    Returns: the context.
    Source: torch.utils.benchmark.set_torch_threads.
    Example:
        >>> with set_torch_threads(1):
        ...     torch.get_num_threads()
        1
    """
    before = get_num_threads()
    try:
        set_num_threads(n)
        yield
    finally:
        set_num_threads(before)
