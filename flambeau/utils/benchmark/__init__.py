"""Measuring short programs: ``Timer``, what it measured, and tables of it. Source: torch.utils.benchmark."""

from ...core import late as _late
from ...facades import unsupported as _unsupported
from .compare import Colorize, Compare
from .fuzzer import FuzzedParameter, FuzzedTensor, Fuzzer, ParameterAlias
from .measurement import Measurement, TaskSpec, ordered_unique, select_unit, set_torch_threads, trim_sigfig, unit_to_english
from .timer import Language, Timer, timer

_late.adopt(__name__)
globals().update(  # what counts instructions under Valgrind, and tensors of few elements for ``Fuzzer``
    _unsupported.names("utils.benchmark", "", "CallgrindStats CopyIfCallgrind FunctionCount FunctionCounts FuzzedSparseTensor")
)

__all__ = [
    "Colorize", "Compare", "FuzzedParameter", "FuzzedTensor", "Fuzzer", "Language", "Measurement", "ParameterAlias", "TaskSpec", "Timer",
    "ordered_unique", "select_unit", "set_torch_threads", "timer", "trim_sigfig", "unit_to_english",
]  # fmt: skip
