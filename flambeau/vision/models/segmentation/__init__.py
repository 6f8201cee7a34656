"""Models that classify pixels: ``torchvision.models.segmentation``."""

from __future__ import annotations

from ....core import late as _late
from .deeplabv3 import *
from .fcn import *
from .lraspp import *

_late.adopt(__name__)
