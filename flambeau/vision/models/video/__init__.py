"""Models that classify videos: ``torchvision.models.video``."""

from __future__ import annotations

from .mvit import *
from .resnet import *
from .s3d import *
from .swin_transformer import *
