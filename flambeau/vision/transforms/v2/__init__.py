"""Transforms of images, videos, masks, boxes and points, in whatever containers they come.

Plain tensors and PIL images are images. What a transform does not know passes as it is: numbers, strings, labels.
"""

from __future__ import annotations

from ....core import late as _late
from ... import transforms as _classic
from .._kernels.augmentation import AutoAugmentPolicy
from .._kernels.modes import InterpolationMode
from . import _augment, _auto_augment, _color, _container, _geometry, _misc, _transform, _utils, functional
from ._augment import *
from ._auto_augment import *
from ._color import *
from ._container import *
from ._geometry import *
from ._misc import *
from ._transform import *
from ._utils import *

_late.adopt(__name__)

_modules = (_augment, _auto_augment, _color, _container, _geometry, _misc, _transform, _utils)
__all__ = sorted(["AutoAugmentPolicy", "InterpolationMode", "functional", *[name for module in _modules for name in module.__all__]])

# The draws of a random transform by themselves are those of its classic form.
for _name in __all__:
    if hasattr(getattr(_classic, _name, None), "get_params"):
        globals()[_name].get_params = staticmethod(getattr(_classic, _name).get_params)
