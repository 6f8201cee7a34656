"""``Timer``: how long a statement takes."""

from __future__ import annotations

import enum
import sys
import textwrap
import timeit
from collections.abc import Callable
from timeit import default_timer
from typing import Any, NoReturn

from ...accelerator import is_available, synchronize
from .measurement import Measurement, TaskSpec, set_torch_threads


class Language(enum.Enum):
    """The languages of statements.

    Source: torch.utils.benchmark.Language.
    Example:
        >>> [language.name for language in Language]
        ['PYTHON', 'CPP']
    """

    PYTHON = 0
    CPP = 1


def timer() -> float:
    """The time in seconds, once the devices have done all their work.

    Returns: a float; only differences mean anything.
    Source: torch.utils.benchmark.timer.
    Example:
        >>> before = timer()
        >>> timer() >= before
        True
    """
    if is_available():
        synchronize()
    return default_timer()


class Timer:
    """Measures a statement, as ``timeit.Timer`` does, on as many threads as is said, and after a warm-up.

    Args:
        stmt: the statement.
        setup: runs once before it.
        global_setup: code at the top of a program in C++, which there is none of here.
        timer: gives the time in seconds.
        globals: names that the statement knows besides ``torch``.
        label, sub_label: what it is called in tables; ``sub_label`` tells rows apart.
        description: tells columns apart.
        env: tells where it ran.
        num_threads: threads of the kernels while it runs.
        language: Python only.
    Raises:
        ValueError: ``stmt`` is no string, or ``global_setup`` is given.
        NotImplementedError: C++.

    Example:
        >>> measured = torch.utils.benchmark.Timer("x + x", globals={"x": torch.ones(4)}).timeit(100)
        >>> measured.number_per_run, len(measured.times)
        (100, 1)

    Source: torch.utils.benchmark.Timer.
    """

    _timer_cls: type[timeit.Timer] = timeit.Timer

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Language | str = Language.PYTHON,
    ) -> None:
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        if language not in (Language.PYTHON, "py", "python"):
            if language in (Language.CPP, "cpp", "c++"):
                raise NotImplementedError("torch.utils.benchmark.Timer: statements in C++ are not supported, there is no compiler here")
            raise ValueError(f"Invalid language `{language}`.")
        if global_setup:
            raise ValueError(f"global_setup is C++ only, got `{global_setup}`. Most likely this code can simply be moved to `setup`.")
        self._globals = dict(globals or {})
        self._globals.setdefault("torch", sys.modules[__name__.partition(".")[0]])
        stmt, setup = textwrap.dedent(stmt).strip(), textwrap.dedent(setup).strip()
        self._clock = timer
        self._timer = self._timer_cls(stmt=stmt, setup=setup, timer=timer, globals=self._globals)
        self._task_spec = TaskSpec(stmt, setup, "", label, sub_label, description, env, num_threads)

    def _time(self, number: int) -> float:
        return max(self._timer.timeit(number), 1e-9)  # a clock may stand still

    def _measurement(self, number: int, times: list[float]) -> Measurement:
        return Measurement(number_per_run=number, raw_times=times, task_spec=self._task_spec)

    def timeit(self, number: int = 1000000) -> Measurement:
        """One time of ``number`` runs, after a warm-up.

        Source: torch.utils.benchmark.Timer.timeit.
        """
        with set_torch_threads(self._task_spec.num_threads):
            self._time(max(number // 100, 2))
            return self._measurement(number, [self._time(number)])

    def repeat(self, repeat: int = -1, number: int = -1) -> NoReturn:
        """``timeit.Timer`` has it, and PyTorch does not either.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Callable[[int, float], NoReturn] | None = None) -> NoReturn:
        """``timeit.Timer`` has it, and PyTorch does not either.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def blocked_autorange(self, callback: Callable[[int, float], NoReturn] | None = None, min_run_time: float = 0.2) -> Measurement:
        """Times of blocks of runs, each so long that reading the clock hardly counts, until ``min_run_time`` seconds are over.

        Args:
            callback: is given each block's number of runs and time.
            min_run_time: seconds of all blocks together.
        Source: torch.utils.benchmark.Timer.blocked_autorange.
        """
        with set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(min_run_time)
            times: list[float] = []
            while not times or sum(times) < min_run_time:
                times.append(self._time(number))
                if callback is not None:
                    callback(number, times[-1])
        return self._measurement(number, times)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], NoReturn] | None = None,
    ) -> Measurement:
        """As ``blocked_autorange``, until the quartiles lie within ``threshold`` of the median.

        Args:
            threshold: as a share of the median.
            min_run_time, max_run_time: seconds between which it ends.
            callback: is given each block's number of runs and time.
        Source: torch.utils.benchmark.Timer.adaptive_autorange.
        """
        with set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(0.05)
            times: list[float] = []
            while True:
                times.append(self._time(number))
                if callback is not None:
                    callback(number, times[-1])
                total = sum(times)
                steady = len(times) > 3 and self._measurement(number, times).meets_confidence(threshold)
                if (total >= min_run_time and steady) or total >= max_run_time:
                    return self._measurement(number, times)

    def _block_size(self, min_run_time: float) -> int:
        """Runs of a block: reading the clock takes less than a thousandth of it, and it takes a thousandth of ``min_run_time``."""
        overhead = sorted(self._timer_cls("pass", timer=self._clock).timeit(0) for _ in range(5))[2]
        self._time(2)  # what is made at a first use
        number = 1
        while True:
            taken = self._time(number)
            if overhead <= taken * 1e-4 and taken >= min_run_time / 1000:
                return number
            if taken > min_run_time:
                return number
            number *= 10

    def collect_callgrind(
        self, number: int = 100, *, repeats: int | None = None, collect_baseline: bool = True, retain_out_file: bool = False
    ) -> NoReturn:
        """Counts of instructions under Valgrind.

        Raises:
            NotImplementedError: always; Valgrind cannot follow kernels that are generated at run time.
        """
        raise NotImplementedError("torch.utils.benchmark.Timer.collect_callgrind is not supported")
