"""Models of optical flow: ``torchvision.models.optical_flow``."""

from __future__ import annotations

from ....core import late as _late
from .raft import *

_late.adopt(__name__)
