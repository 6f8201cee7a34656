"""Models for images: ``torchvision.models``. Official files of weights load; nothing is downloaded unless weights are requested."""

from __future__ import annotations

from typing import Any

from ...core import late as _late
from ._api import SUBPACKAGES, Weights, WeightsEnum, get_model, get_model_builder, get_model_weights, get_weight, list_models
from .alexnet import *
from .convnext import *
from .densenet import *
from .efficientnet import *
from .googlenet import *
from .inception import *
from .maxvit import *
from .mnasnet import *
from .mobilenet import *
from .regnet import *
from .resnet import *
from .shufflenetv2 import *
from .squeezenet import *
from .swin_transformer import *
from .vgg import *
from .vision_transformer import *

_late.adopt(__name__)


def __getattr__(name: str) -> Any:
    return _late.submodule(__name__, name, SUBPACKAGES)


def __dir__() -> list[str]:
    return sorted({*globals(), *SUBPACKAGES})
