"""Detectors: ``torchvision.models.detection``."""

from __future__ import annotations

from ....core import late as _late
from .faster_rcnn import *
from .fcos import *
from .keypoint_rcnn import *
from .mask_rcnn import *
from .retinanet import *
from .ssd import *
from .ssdlite import *

_late.adopt(__name__)
