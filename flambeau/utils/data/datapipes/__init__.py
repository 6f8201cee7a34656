"""Pipes of data: datasets made by chaining small operations, as streams (``iter``) or by index (``map``)."""

from ....core import late as _late
from . import iter as iter, map as map

_late.adopt(__name__)
