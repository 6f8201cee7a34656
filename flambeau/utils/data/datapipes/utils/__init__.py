"""Helpers of pipes."""

from .....core import late as _late
from . import common as common

_late.adopt(__name__)
