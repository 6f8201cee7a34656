"""The parts of the loader: collating, fetching, pinning, workers."""

from ....core import late as _late
from . import collate as collate, fetch as fetch, pin_memory as pin_memory, worker as worker

_late.adopt(__name__)
