"""``torch.distributed.elastic.multiprocessing``: errors of worker processes."""

from ....core import late as _late
from . import errors as errors

_late.adopt(__name__)
