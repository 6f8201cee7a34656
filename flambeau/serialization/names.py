"""Names in PyTorch's files with their meaning here, and names that our files use: one explicit table, read in both directions.

A file says ``torch._utils _rebuild_tensor_v2``; it must never decide by itself what gets imported. Names of data are looked up in ``DATA``.
Names of modules, optimizers and so on, which only an unrestricted load may ask for, are the matter of ``homes``.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Any

from ..core import dtype as dtypes, layout as layouts, quantizer
from ..core.device import device
from ..core.protocols import quantized, rebuild
from ..core.shape import Size
from ..core.storage import UntypedStorage
from ..core.tensor import Parameter, Tensor

PACKAGE = __name__.partition(".")[0]


class StorageType:
    """The meaning of a class of storages, such as ``torch.FloatStorage``, in a file: the dtype of the elements.

    Args:
        name: the class's name without its module.
    Attributes:
        dtype: the element type.
    Source: torch.serialization.StorageType.
    Example:
        >>> torch.serialization.StorageType("FloatStorage").dtype
        torch.float32
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._dtype = STORAGE_DTYPES[name]

    @property
    def dtype(self) -> dtypes.dtype:
        return self._dtype

    def __reduce__(self) -> tuple[Any, ...]:
        return StorageType, (self.name,)

    def __str__(self) -> str:
        return f"StorageType(dtype={self.dtype})"


STORAGE_DTYPES: dict[str, dtypes.dtype] = {
    f"{dtype.legacy}Storage": dtype for dtype in dtypes.ALL.values() if dtype not in rebuild.WITHOUT_STORAGE_CLASS
}
STORAGE_TYPES: dict[dtypes.dtype, StorageType] = {dtype: StorageType(name) for name, dtype in STORAGE_DTYPES.items()}


LAYOUTS: dict[str, layouts.layout] = {str(layout): layout for layout in vars(layouts).values() if isinstance(layout, layouts.layout)}


def _get_layout(name: str) -> layouts.layout:
    """The layout whose text is ``name``."""
    if type(name) is not str or name not in LAYOUTS:
        raise ValueError(f"expected one of the layouts {', '.join(LAYOUTS)}, got {rebuild.shown(name)}")
    return LAYOUTS[name]


def encode_bytes(text: str, encoding: str) -> bytes:
    """``bytes``, which pickle's protocol 2 spells as latin-1 text; every other codec is refused."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise RuntimeError(f"load: expected bytes spelled as latin1 text, got {type(text).__name__} in {rebuild.shown(encoding)}")
    return text.encode("latin-1")


def make_bytes(*args: Any) -> bytes:
    """Empty ``bytes``, which protocol 2 spells as a call of the type."""
    if args:
        raise RuntimeError(f"load: expected no arguments for empty bytes, got {len(args)}")
    return b""


def make_bytearray(*args: Any) -> bytearray:
    """``bytearray`` of given bytes; not of a number, which would only set memory aside."""
    if args and not (len(args) == 1 and isinstance(args[0], bytes)) and not (len(args) == 2 and isinstance(args[0], str)):
        raise RuntimeError(f"load: expected a bytearray's bytes, got {len(args)} argument(s) that are not")
    return bytearray(encode_bytes(*args) if len(args) == 2 else args[0]) if args else bytearray()


def _unsupported(name: str) -> Any:
    def rebuild_unsupported(*args: Any) -> None:
        raise NotImplementedError(f"load: the file holds a kind of tensor that is not supported ({name})")

    return rebuild_unsupported


# Called with arguments from the file. Each is harmless whatever the arguments are.
CALLABLE: dict[str, Any] = {
    "collections.OrderedDict": OrderedDict,
    "collections.Counter": Counter,
    "builtins.set": set,
    "builtins.complex": complex,
    "builtins.bytearray": make_bytearray,
    "builtins.bytes": make_bytes,
    "_codecs.encode": encode_bytes,
    "torch.Size": Size,
    "torch.device": device,
    "torch.serialization._get_layout": _get_layout,
    **{
        f"torch._utils._rebuild_{what}": getattr(rebuild, f"_rebuild_{what}")
        for what in (
            "tensor tensor_v2 tensor_v3 meta_tensor_no_storage wrapper_subclass sparse_tensor parameter parameter_with_state"
        ).split()
    },
    "torch._utils._rebuild_qtensor": quantized._rebuild_qtensor,
    "torch._tensor._rebuild_from_type_v2": rebuild._rebuild_from_type_v2,
}
CALLABLE.update(
    (f"torch._utils.{name}", _unsupported(name))
    for name in ("_rebuild_nested_tensor", "_rebuild_device_tensor_from_numpy", "_rebuild_device_tensor_from_cpu_tensor")
)

# Only handed on as values: a dtype, the element type of a storage, the type of a tensor.
VALUES: dict[str, Any] = {
    "torch.Tensor": Tensor,
    "torch.nn.parameter.Parameter": Parameter,
    "torch.storage.UntypedStorage": UntypedStorage,
    "torch.UntypedStorage": UntypedStorage,
}
VALUES.update((repr(scheme), scheme) for scheme in quantizer.SCHEMES)
VALUES.update((repr(dtype), dtype) for dtype in dtypes.ALL.values())
VALUES.update((repr(layout), layout) for layout in vars(layouts).values() if isinstance(layout, layouts.memory_format))
VALUES.update((f"{module}.{kind.name}", kind) for kind in STORAGE_TYPES.values() for module in ("torch", "torch.cuda", "torch.storage"))

DATA: dict[str, Any] = {**CALLABLE, **VALUES}
OWN_DATA: dict[str, Any] = {
    f"{value.__module__}.{getattr(value, '__qualname__', None) or value.__reduce__()}": value
    for name, value in DATA.items()
    if name.startswith("torch.") and getattr(value, "__module__", "").startswith(f"{PACKAGE}.core.")
}
OWN_DATA.update({f"{PACKAGE}.core.tensor.{kind.__name__}": kind for kind in (Tensor, Parameter)})  # an alias renames these two

# First spelling wins: torch.FloatStorage rather than torch.cuda.FloatStorage.
DATA_NAMES: dict[int, tuple[str, str]] = {}
for _name, _object in DATA.items():
    if _name.startswith("torch."):
        DATA_NAMES.setdefault(id(_object), (_name.rpartition(".")[0], _name.rpartition(".")[2]))
DATA_NAMES[id(UntypedStorage)] = ("torch.storage", "UntypedStorage")
