"""Sparse arrays: what a sparse tensor's ``_array`` is, and the kind that runs operations on them.

    COO               indices (sparse dims, nnz)                                  values (nnz, *dense dims)
    CSR, BSR          compressed (*batch, rows + 1), plain (*batch, nnz)          values (*batch, nnz, *block, *dense dims)
    CSC, BSC          compressed (*batch, columns + 1), plain (*batch, nnz)       the same

All parts are NumPy arrays.  An operation on a sparse operand is a rule of ``rules``, which hangs on the operation; what has no rule raises
PyTorch's NotImplementedError, so that nothing is computed on the wrong elements.  NumPy's functions refuse these arrays, by which the fast
paths hand them to the slow one.  ``flambeau.ops.sparse`` has the rules and is imported when the first sparse tensor is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np

from ..calls.casting import cast_array
from ..calls.operation import Op
from ..calls.tables import Rules
from ..device import cpu, device
from ..dtype import BY_NUM, dtype
from ..layout import layout, sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from . import native
from .copies import other_sums
from .kinds import KINDS, Kind

_FLAGS = SimpleNamespace(c_contiguous=False, f_contiguous=True, writeable=True)  # f_contiguous: no element overlaps another
_new = object.__new__
BACKENDS = {sparse_coo: "Sparse", sparse_csr: "SparseCsr", sparse_csc: "SparseCsc", sparse_bsr: "SparseBsr", sparse_bsc: "SparseBsc"}
BY_ROW, BLOCKED = frozenset((sparse_csr, sparse_bsr)), frozenset((sparse_bsr, sparse_bsc))


class SparseArray:
    """A sparse array; see this module's docstring. In-place operations exchange its parts.

    Attributes:
        layout: one of PyTorch's sparse layouts.
        shape: of the whole.
        parts: the indices: one array for COO, two for the others.
        values: the specified elements.
        coalesced: whether COO indices are sorted and distinct.
    """

    __slots__ = ("__weakref__", "coalesced", "layout", "parts", "shape", "values")
    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 100
    layout: layout
    shape: tuple[int, ...]
    parts: tuple[np.ndarray, ...]
    values: np.ndarray
    coalesced: bool

    dtype = property(lambda self: self.values.dtype)
    itemsize = property(lambda self: self.values.itemsize)
    ndim = property(lambda self: len(self.shape))
    flags = _FLAGS
    base = None

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        if self.layout is sparse_coo:
            raise RuntimeError(
                "nbytes is not defined for sparse tensors.  If you want the size of the constituent tensors, add the nbytes of the indices "
                "and values.  If you want the size of the  equivalent dense tensor, multiply numel() by element_size()"
            )
        return self.itemsize * self.size

    @property
    def strides(self) -> tuple[int, ...]:
        if self.layout is not sparse_coo:
            raise RuntimeError(f"Sparse {self.layout.name[-3:].upper()} tensors do not have strides")
        return (0,) * self.ndim

    @property
    def nnz(self) -> int:
        return self.parts[-1].shape[-1]

    @property
    def sparse_dim(self) -> int:
        return self.parts[0].shape[0] if self.layout is sparse_coo else 2

    @property
    def batch_dim(self) -> int:
        return 0 if self.layout is sparse_coo else self.parts[0].ndim - 1

    @property
    def dense_dim(self) -> int:
        return self.ndim - self.sparse_dim - self.batch_dim

    @property
    def block(self) -> tuple[int, int]:
        """Rows and columns of a block; (1, 1) where there are none."""
        if self.layout not in BLOCKED:
            return (1, 1)
        place = self.batch_dim + 1
        rows, columns = self.values.shape[place : place + 2]
        return rows, columns

    @property
    def T(self) -> Any:  # NumPy's name
        return unsupported("transpose", self)

    # -- copies and writes --------------------------------------------------------------------------------------------------------
    def with_values(self, values: np.ndarray, coalesced: bool | None = None) -> SparseArray:
        """Other values at the same places."""
        return sparse_array(self.layout, self.shape, self.parts, values, self.coalesced if coalesced is None else coalesced)

    def copy(self, order: str = "C") -> SparseArray:
        return sparse_array(self.layout, self.shape, tuple([part.copy() for part in self.parts]), self.values.copy(), self.coalesced)

    def astype(self, kind: Any, **options: Any) -> SparseArray:
        return self.with_values(cast_array(self.values, BY_NUM[np.dtype(kind).num]))

    def adopt(self, other: SparseArray) -> SparseArray:
        """Take the parts of another array."""
        self.layout, self.shape, self.coalesced = other.layout, other.shape, other.coalesced
        self.parts, self.values = other.parts, other.values
        return self

    def fill(self, value: Any) -> None:
        """Write one value to every specified element of a compressed array."""
        if self.layout is sparse_coo:
            unsupported("fill_.Scalar", self)
        self.values.fill(value)

    def emptied(self) -> SparseArray:
        """The same without elements."""
        count = 0
        parts = self.parts[:-1] + (self.parts[-1][..., :0].copy(),)
        if self.layout is not sparse_coo:
            parts = (np.zeros_like(parts[0]), parts[1])
            count = self.batch_dim
        values = np.zeros((*self.values.shape[:count], 0, *self.values.shape[count + 1 :]), self.dtype)
        return sparse_array(self.layout, self.shape, parts, values, True)

    def item(self) -> Any:
        """The only element of a COO array."""
        return dense_from(self).item() if self.layout is sparse_coo else unsupported("_local_scalar_dense", self)

    def __setitem__(self, key: Any, value: Any) -> None:
        if key is not Ellipsis or value.__class__ is not SparseArray:
            raise NotImplementedError("sparse tensors cannot be written to by index")
        if value.layout is not self.layout:
            raise RuntimeError(f"expected a result of layout {self.layout} to be written in place, got {value.layout}")
        self.adopt(value.copy())

    # -- what NumPy's functions are told ------------------------------------------------------------------------------------------
    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(f"can't convert {BACKENDS[self.layout]} layout tensor to numpy. Use Tensor.to_dense() first.")

    __array_ufunc__ = None

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return NotImplemented

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotImplementedError(f"'{name}' is not supported for tensors of layout {self.layout}")

    def _compare(self, other: Any) -> NoReturn:
        unsupported("eq.Tensor", self, other)

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _compare

    def __repr__(self) -> str:
        return f"SparseArray({self.layout}, shape={self.shape}, nnz={self.nnz}, dtype={self.dtype})"

    def __getitem__(self, key: Any) -> Any:
        raise NotImplementedError(f"indexing is not supported for tensors of layout {self.layout}")

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Any:
        raise TypeError("sparse arrays are not iterable")


def sparse_array(form: layout, shape: Any, parts: tuple[np.ndarray, ...], values: np.ndarray, coalesced: bool = False) -> SparseArray:
    """A sparse array of these parts, unchecked."""
    array = _new(SparseArray)
    array.layout, array.shape, array.parts, array.values, array.coalesced = form, tuple(shape), parts, values, coalesced
    return array


def coo(indices: np.ndarray, values: np.ndarray, shape: Any, coalesced: bool = False) -> SparseArray:
    """A COO array, unchecked; fewer than two elements are sorted and distinct in any case."""
    return sparse_array(sparse_coo, shape, (indices,), values, coalesced or indices.shape[1] < 2)


def backend_of(arrays: Any) -> str:
    """PyTorch's name of the backend that the first sparse operand belongs to, or of the dense one."""
    layouts = [array.layout for array in arrays if array.__class__ is SparseArray]
    return "CPU" if not layouts else "SparseCPU" if layouts[0] is sparse_coo else "SparseCsrCPU"


def unsupported(name: str, *arrays: Any) -> NoReturn:
    """Complain about an operation that sparse operands do not have."""
    raise NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the '{backend_of(arrays)}' backend: the operation has no sparse form; "
        "convert the operands by to_dense()."
    )


def total_of(a: Any, b: Any, out: Any = None) -> Any:
    """The sum of two gradients of one shape, at least one of them sparse: sparse if both are.

    Args:
        out: where to write it, if it has that layout.
    """
    total = rules["add"](b, a, 1) if b.__class__ is np.ndarray else rules["add"](a, b, 1)
    if out is None or out.__class__ is not total.__class__ or getattr(out, "layout", None) is not getattr(total, "layout", None):
        return total
    out[...] = total
    return out


other_sums.append(total_of)


rules = Rules("sparse")  # functions over arrays, arguments in the signature's order
bodies: dict[Any, Callable[..., Any]] = {}  # by the function of a composite (or of its checks): what is called for sparse operands


class SparseKind(Kind):
    """Arrays without strides, in the host's memory; see this module's docstring."""

    name, array_class, xp, has_views = "sparse", SparseArray, np, False
    rule_at_zero: Callable[[str], Callable[..., Any]]  # the rule of a function of that name that is 0 at 0; ``ops.sparse`` has it

    def device_of(self, array: Any) -> device:
        return cpu

    def address(self, array: Any) -> int:
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

    def check_storage(self, array: Any) -> None:
        raise NotImplementedError(f"Cannot access storage of {'SparseTensorImpl' if array.layout is sparse_coo else 'SparseCsrTensorImpl'}")

    def fitted(self, array: Any, target: Any) -> Any:
        if target.__class__ is np.ndarray:
            return dense_from(array) if array.__class__ is SparseArray else array
        if array.__class__ is not SparseArray:
            raise RuntimeError(f"expected a result of layout {target.layout} to be written in place, got torch.strided")
        return array

    def to_host(self, array: Any) -> np.ndarray:
        return array.__array__()

    def from_host(self, array: np.ndarray, where: device) -> Any:
        raise NotImplementedError("a dense array does not become a sparse one by a copy; use to_sparse()")

    def bound(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return bodies.get(function, function)

    def run(self, op: Op, values: list[Any], compute: dtype | None, result: dtype | None) -> Any:
        """Result of the rule of ``op`` for operands of which at least one is sparse."""
        rule = rules.of(op)
        if rule is None:
            if not op.keeps_zero:
                unsupported(op.name, *_arrays_in(values))
            rule = self.rule_at_zero(op.name)
        if getattr(rule, "takes_op", False):
            return rule(op, values, compute, result)
        if compute is not None:
            values = [_cast(value, compute) for value in values]
        return rule(*values)


def _arrays_in(values: Any) -> list[Any]:
    flat: list[Any] = []
    for value in values:
        flat += value if value.__class__ is list else [value]
    return flat


def _cast(value: Any, wanted: dtype) -> Any:
    if value.__class__ is list:
        return [_cast(item, wanted) for item in value]
    if value.__class__ is np.ndarray:
        return cast_array(value, wanted)
    return value if value.__class__ is not SparseArray or value.dtype == wanted.numpy else value.astype(wanted.numpy)


sparse = SparseKind()
KINDS[SparseArray] = sparse
native.foreign.add(SparseArray)


# -- places -----------------------------------------------------------------------------------------------------------------------------
def keys_of(indices: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    """One number for each column of ``indices``, ordered as the columns are."""
    keys = np.zeros(indices.shape[1], np.int64)
    if math.prod([max(n, 1) for n in sizes]) > 2**62:  # then the numbers are ranks
        return np.unique(indices, axis=1, return_inverse=True)[1].reshape(-1)
    for row, n in zip(indices, sizes, strict=True):
        keys *= n
        keys += row
    return keys


@native.part("_order_along")
def stable_order(numbers: np.ndarray) -> np.ndarray:
    """Indices that sort whole numbers; equal ones stay in their order."""
    return numbers.argsort(kind="stable")


def coalesced(array: SparseArray) -> SparseArray:
    """A COO array with sorted, distinct indices; itself where it is so."""
    if array.coalesced:
        return array
    (indices,), values = array.parts, array.values
    if indices.shape[1] < 2:
        return coo(indices, values, array.shape, True)
    keys = keys_of(indices, array.shape[: indices.shape[0]])
    order = None
    if not (keys[1:] > keys[:-1]).all():
        order = stable_order(keys)
        keys = keys[order]
    firsts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    if order is not None:
        indices, values = indices[:, order], values[order]
    if firsts.size < keys.size:
        indices = indices[:, firsts]
        values = added_at(values, firsts)
    return coo(np.ascontiguousarray(indices), values, array.shape, True)


def added_at(values: np.ndarray, firsts: np.ndarray) -> np.ndarray:
    """Sums of the runs of ``values`` that begin at ``firsts``; of bools whether one is true."""
    if values.dtype.kind == "V" or values.dtype == np.float16:
        return np.add.reduceat(values.astype(np.float32), firsts, axis=0).astype(values.dtype)
    return np.add.reduceat(values, firsts, axis=0, dtype=values.dtype)


def rows_of_compressed(compressed: np.ndarray) -> np.ndarray:
    """The compressed index of each entry: ``[0, 2, 3]`` gives ``[0, 0, 1]``; batches in front."""
    counts = np.diff(compressed, axis=-1)
    lead, n = counts.shape[:-1], counts.shape[-1]
    places = np.repeat(np.broadcast_to(np.arange(n), counts.shape).reshape(-1), counts.reshape(-1))
    return places.reshape(*lead, -1) if lead and places.size else places.reshape(*lead, compressed[..., -1:].max(initial=0))


def compressed_from(sorted_rows: np.ndarray, count: int) -> np.ndarray:
    """The other way: where each of ``count`` rows begins among the sorted indices of entries."""
    return np.concatenate(([0], np.bincount(sorted_rows, minlength=count).cumsum())).astype(np.int64)


# -- from one layout to another ---------------------------------------------------------------------------------------------------------
def places_of(array: SparseArray) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns (of blocks) of the entries of a compressed array."""
    compressed, plain = array.parts
    across = rows_of_compressed(compressed)
    return (across, plain) if array.layout in BY_ROW else (plain, across)


def dense_from(array: SparseArray) -> np.ndarray:
    """The array with zeros where nothing is specified."""
    if array.layout is sparse_coo:
        array = coalesced(array)
        whole = np.zeros(array.shape, array.dtype)
        if array.sparse_dim:
            whole[tuple(array.parts[0])] = array.values
        elif array.nnz:
            whole[...] = array.values[0]
        return whole
    batch, (high, wide) = array.shape[: array.batch_dim], array.block
    rows, columns, *dense = array.shape[array.batch_dim :]
    count = math.prod(batch)
    row, column = [np.broadcast_to(place, array.parts[1].shape).reshape(count, array.parts[1].shape[-1]) for place in places_of(array)]
    whole = np.zeros((count, rows // high if high else 0, columns // wide if wide else 0, high, wide, *dense), array.dtype)
    values = array.values.reshape(count, array.nnz, high, wide, *dense)
    key = (np.arange(count)[:, None], row, column)
    if _distinct(array):
        whole[key] = values
    else:
        np.add.at(whole, key, values)
    return whole.swapaxes(2, 3).reshape(array.shape)


def _distinct(array: SparseArray) -> bool:
    """Whether no place of a compressed array is given twice, as far as a look at neighbours tells."""
    across = rows_of_compressed(array.parts[0])
    plain = array.parts[1]
    return bool(((np.diff(plain, axis=-1) > 0) | (np.diff(across, axis=-1) > 0)).all())


def coo_from(array: SparseArray) -> SparseArray:
    """A COO array of any other; blocks are taken apart, batches become sparse dimensions. What lies by columns keeps that order."""
    if array.layout is sparse_coo:
        return array
    batch, (high, wide) = array.shape[: array.batch_dim], array.block
    row, column = places_of(array)
    dense = array.shape[array.batch_dim + 2 :]
    values = array.values
    lead = [np.broadcast_to(place.reshape(*place.shape, 1), array.parts[1].shape) for place in np.indices(batch)] if batch else []
    if array.layout in BLOCKED:
        row = row[..., None, None] * high + np.arange(high)[:, None]
        column = column[..., None, None] * wide + np.arange(wide)
        row, column = np.broadcast_arrays(row, column)
        lead = [np.broadcast_to(place[..., None, None], row.shape) for place in lead]
    indices = np.stack([np.asarray(place, np.int64).reshape(-1) for place in (*lead, row, column)])
    found = coo(indices, values.reshape(indices.shape[1], *dense), array.shape)
    if array.layout is sparse_csr or (array.layout is sparse_bsr and high == 1 and not batch):
        return coalesced(found)
    found.coalesced = array.nnz == 1 or not array.size  # more is in order, but PyTorch does not say so
    return found


def compressed_of(array: SparseArray, form: layout, block: tuple[int, int] = (1, 1)) -> SparseArray:
    """A COO array of two sparse dimensions in a compressed layout."""
    array = coalesced(array)
    (row, column), shape = array.parts[0], array.shape
    high, wide = block
    by_row = form in BY_ROW
    across, along = (row // high, column // wide) if by_row else (column // wide, row // high)
    count = shape[0] // high if by_row else shape[1] // wide
    other = shape[1] // wide if by_row else shape[0] // high
    values = array.values
    if form in BLOCKED:
        keys, inverse = np.unique(across * other + along, return_inverse=True)
        blocks = np.zeros((keys.size, high, wide, *values.shape[1:]), values.dtype)
        blocks[inverse.reshape(-1), row % high, column % wide] = values
        across, along, values = keys // max(other, 1), keys % max(other, 1), blocks
    elif not by_row:
        order = stable_order(across)
        across, along, values = across[order], along[order], values[order]
    return sparse_array(form, shape, (compressed_from(across, count), np.ascontiguousarray(along)), values)


def transposed(array: SparseArray) -> SparseArray:
    """A matrix with rows and columns exchanged: a compressed one changes its layout and nothing else."""
    if array.layout is sparse_coo:
        return coo(np.ascontiguousarray(array.parts[0][::-1]), array.values, array.shape[::-1], False)
    place = array.batch_dim
    shape = list(array.shape)
    shape[place], shape[place + 1] = shape[place + 1], shape[place]
    values = array.values.swapaxes(place + 1, place + 2) if array.layout in BLOCKED else array.values
    return sparse_array(_TURNED[array.layout], shape, array.parts, np.ascontiguousarray(values))


_TURNED = {sparse_csr: sparse_csc, sparse_csc: sparse_csr, sparse_bsr: sparse_bsc, sparse_bsc: sparse_bsr}


# -- elements at given places -----------------------------------------------------------------------------------------------------------
def indices_of(mask: SparseArray) -> np.ndarray:
    """The indices of a mask's entries in its order, as of COO; the mask has neither blocks nor batches."""
    return mask.parts[0] if mask.layout is sparse_coo else np.stack(places_of(mask))


def entries_at(array: Any, mask: Any) -> np.ndarray:
    """The elements of an array at the places of a mask, 0 where nothing is specified; shaped as the mask's values.

    Raises:
        RuntimeError: different shapes.
    """
    if array.shape != mask.shape:
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(array.shape)} but mask has size {list(mask.shape)}"
        )
    if array.__class__ is SparseArray:
        if same_places(array, mask):
            return array.values
        if (
            mask.layout in BLOCKED
            or mask.batch_dim
            or array.batch_dim
            or (array.layout is sparse_coo and array.sparse_dim != mask.sparse_dim)
        ):
            return entries_at(dense_from(array), mask)
        return _found(coalesced(coo_from(array)), indices_of(mask))
    if mask.layout is sparse_coo:
        return array[tuple(mask.parts[0])] if mask.sparse_dim else np.repeat(array[None], mask.nnz, 0)
    batch, (high, wide) = mask.shape[: mask.batch_dim], mask.block
    rows, columns, *dense = mask.shape[mask.batch_dim :]
    count = math.prod(batch)
    row, column = [place.reshape(count, place.shape[-1]) for place in places_of(mask)]
    blocks = array.reshape(count, rows // high, high, columns // wide, wide, *dense).swapaxes(2, 3)
    return blocks[np.arange(count)[:, None], row, column].reshape(mask.values.shape)


def same_places(array: SparseArray, other: SparseArray) -> bool:
    """Whether two arrays of one shape specify the same elements in the same order."""
    if array is other:
        return True
    if array.layout is not other.layout or array.values.shape != other.values.shape:
        return False
    pairs = list(zip(array.parts, other.parts, strict=True))
    return all(a is b for a, b in pairs) or all(a.shape == b.shape and bool((a == b).all()) for a, b in pairs)


def _found(array: SparseArray, indices: np.ndarray) -> np.ndarray:
    """The values of a coalesced COO array at indices."""
    count = array.nnz
    if not count:
        return np.zeros((indices.shape[1], *array.values.shape[1:]), array.dtype)
    keys = keys_of(np.concatenate((array.parts[0], indices), axis=1), array.shape[: array.sparse_dim])
    have, wanted = keys[:count], keys[count:]
    at = np.minimum(have.searchsorted(wanted), count - 1)
    values = array.values[at]
    values[have[at] != wanted] = 0
    return values
