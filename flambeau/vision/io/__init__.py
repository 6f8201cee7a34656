"""Images read from files and written to them, by Pillow. Source: torchvision.io."""

from ...core import late as _late
from ...facades.unsupported import names as _unsupported_names
from .image import *
from .image import __all__ as __all__

_late.adopt(__name__)

globals().update(_unsupported_names("vision.io", "read_video read_video_timestamps write_video", "VideoReader"))
