"""``torch.distributed.elastic.multiprocessing``: errors of worker processes."""

from . import errors as errors
