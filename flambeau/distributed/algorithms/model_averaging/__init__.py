"""Averages of models over processes. Source: torch.distributed.algorithms.model_averaging."""

from __future__ import annotations

from ....core import late as _late
from . import averagers as averagers, hierarchical_model_averager as hierarchical_model_averager, utils as utils

_late.adopt(__name__)
