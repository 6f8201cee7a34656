"""Models of optical flow: ``torchvision.models.optical_flow``."""

from __future__ import annotations

from .raft import *
