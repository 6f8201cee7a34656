"""``torch.distributed.elastic.multiprocessing``: worker processes, their output and their errors."""

from ....core import late as _late
from . import errors as errors
from .errors import ProcessFailure as ProcessFailure
from .logs import DefaultLogsSpecs as DefaultLogsSpecs, LogsDest as LogsDest, LogsSpecs as LogsSpecs, Std as Std, to_map as to_map
from .processes import (
    MultiprocessContext as MultiprocessContext,
    PContext as PContext,
    RunProcsResult as RunProcsResult,
    SignalException as SignalException,
    SubprocessContext as SubprocessContext,
    start_processes as start_processes,
)

_late.adopt(__name__)
