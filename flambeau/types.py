"""Names for annotations. Source: torch.types."""

from __future__ import annotations

import builtins
import os
from typing import IO, TypeAlias

from .core.device import device as _device
from .core.dtype import dtype as _dtype  # noqa: F401 - PyTorch's name for annotations
from .core.layout import layout as _layout  # noqa: F401 - PyTorch's name for annotations
from .core.shape import Size
from .core.storage import TypedStorage, UntypedStorage
from .core.tensor import Tensor

__all__ = ["Device", "FileLike", "Number", "Size", "Storage", "Tensor"]

_int, _float, _bool, _str, _bytes, _complex = builtins.int, builtins.float, builtins.bool, builtins.str, builtins.bytes, builtins.complex
_size: TypeAlias = Size | list[int] | tuple[int, ...]
Number: TypeAlias = int | float | bool
_Number = (int, float, bool)
Device: TypeAlias = _device | str | int | None
Storage: TypeAlias = UntypedStorage | TypedStorage
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
_TensorOrTensors: TypeAlias = Tensor | tuple[Tensor, ...]
_TensorOrOptionalTensors: TypeAlias = Tensor | tuple[Tensor | None, ...]
IntLikeType: TypeAlias = int
FloatLikeType: TypeAlias = float
BoolLikeType: TypeAlias = bool
