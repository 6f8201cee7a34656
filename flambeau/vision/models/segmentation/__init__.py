"""Models that classify pixels: ``torchvision.models.segmentation``."""

from __future__ import annotations

from .deeplabv3 import *
from .fcn import *
from .lraspp import *
