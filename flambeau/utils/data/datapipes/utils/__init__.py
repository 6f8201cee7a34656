"""Helpers of pipes."""

from . import common as common
