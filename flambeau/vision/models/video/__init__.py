"""Models that classify videos: ``torchvision.models.video``."""

from __future__ import annotations

from ....core import late as _late
from .mvit import *
from .resnet import *
from .s3d import *
from .swin_transformer import *

_late.adopt(__name__)
