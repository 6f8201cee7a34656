"""Old constructors of COO tensors: ``torch.sparse.FloatTensor(indices, values, size)`` and the like."""

from __future__ import annotations

from typing import Any

from ..core import dtype as dtypes
from ..core.layout import sparse_coo
from ..core.shape import Size
from ..core.tensor import Tensor
from ..ops.sparse.construction import sparse_coo_tensor


class _SparseTypeMeta(type):
    """Makes ``isinstance(t, torch.sparse.FloatTensor)`` ask for the layout and the dtype."""

    dtype: dtypes.dtype

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.layout is sparse_coo and instance.dtype is cls.dtype


def _constructor(dtype: dtypes.dtype) -> Any:
    def make(cls: Any, *args: Any) -> Tensor:
        if not args:
            return sparse_coo_tensor((0,), dtype=dtype)
        if len(args) == 1 and isinstance(args[0], (Size, tuple, list)):
            return sparse_coo_tensor(tuple(args[0]), dtype=dtype)
        if all(hasattr(arg, "__index__") and not isinstance(arg, Tensor) for arg in args):
            return sparse_coo_tensor(args, dtype=dtype)
        if len(args) in (2, 3) and isinstance(args[0], Tensor) and isinstance(args[1], Tensor):
            if args[1].dtype is not dtype:
                raise TypeError(f"expected torch.{dtype.legacy}Tensor (got torch.{args[1].dtype.legacy}Tensor)")
            return sparse_coo_tensor(*args)
        raise TypeError(f"torch.sparse.{dtype.legacy}Tensor: expected sizes, or indices, values and a size")

    body = {"__new__": make, "dtype": dtype, "__module__": "torch.sparse"}
    body["__doc__"] = (
        f"Old constructor of COO tensors of {dtype}: sizes, or indices, values and a size. Source: torch.sparse.{dtype.legacy}Tensor."
    )
    return _SparseTypeMeta(f"{dtype.legacy}Tensor", (), body)


CONSTRUCTORS = {
    f"{d.legacy}Tensor": _constructor(d)
    for d in dtypes.ALL.values()
    if d.legacy in {"Byte", "Char", "Short", "Int", "Long", "Half", "BFloat16", "Float", "Double"}
}
