"""The parts of the loader: collating, fetching, pinning, workers."""

from ....core import late as _late
from . import collate as collate
from . import fetch as fetch
from . import pin_memory as pin_memory
from . import worker as worker

_late.adopt(__name__)
