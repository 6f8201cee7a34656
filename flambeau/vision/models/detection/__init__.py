"""Detectors: ``torchvision.models.detection``."""

from __future__ import annotations

from .faster_rcnn import *
from .fcos import *
from .keypoint_rcnn import *
from .mask_rcnn import *
from .retinanet import *
from .ssd import *
from .ssdlite import *
