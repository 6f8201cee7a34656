"""Learning rate schedules."""

from ...core import late as _late
from .annealing import CosineAnnealingLR, CosineAnnealingWarmRestarts
from .base import LRScheduler, _LRScheduler
from .composite import ChainedScheduler, SequentialLR
from .cycles import CyclicLR, OneCycleLR
from .factors import ConstantLR, ExponentialLR, LambdaLR, LinearLR, MultiplicativeLR, MultiStepLR, PolynomialLR, StepLR
from .plateau import ReduceLROnPlateau

_late.adopt(__name__)

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR", "LRScheduler",
    "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR",
    "_LRScheduler",
]  # fmt: skip
