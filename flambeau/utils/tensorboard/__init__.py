"""Event files for TensorBoard, by the ``tensorboard`` package's own writer and messages (``pip install flambeau[tensorboard]``).

Source: torch.utils.tensorboard.
"""

from __future__ import annotations

try:
    from tensorboard.summary.writer.record_writer import RecordWriter
except ModuleNotFoundError as error:
    if error.name != "tensorboard":
        raise
    raise ImportError(
        "flambeau.utils.tensorboard writes by the tensorboard package, which is not installed: pip install flambeau[tensorboard]",
        name="tensorboard",
    ) from error

from ...core import late as _late
from .writer import FileWriter, SummaryWriter

_late.adopt(__name__)

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]
