"""Whether results of the two libraries are the same: tensors, numbers, and lists, tuples and dicts of them."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
from oracle import pytorch

import flambeau

# Relative to the element, and to the largest one: sums are added up in another order, and functions differ in their last bits.
TOLERANCE = {"float64": 1e-12, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2, "complex128": 1e-12, "complex64": 1e-5}
PLAIN = (bool, int, str, bytes, type(None))
Found = tuple[str, str, str]  # kind, what flambeau has, what PyTorch has


def compare_results(ours: Any, theirs: Any, *, strides: bool = True, tolerance: dict[str, float] = TOLERANCE) -> Found | None:
    """What differs first, or None. Objects that are neither tensors nor plain are the same where their classes have one name."""
    if isinstance(ours, flambeau.Tensor) and isinstance(theirs, pytorch().Tensor):
        return compare_tensors(ours, theirs, strides=strides, tolerance=tolerance)
    if type(ours).__name__ != type(theirs).__name__:
        return "type", type(ours).__name__, type(theirs).__name__
    if isinstance(theirs, (list, tuple)):
        if len(ours) != len(theirs):
            return "length", str(len(ours)), str(len(theirs))
        pairs = zip(ours, theirs, strict=True)
        return next(filter(None, (compare_results(a, b, strides=strides, tolerance=tolerance) for a, b in pairs)), None)
    if isinstance(theirs, dict):
        if list(map(str, ours)) != list(map(str, theirs)):
            return "keys", str(list(ours)), str(list(theirs))
        values = zip(ours.values(), theirs.values(), strict=True)
        return next(filter(None, (compare_results(a, b, strides=strides, tolerance=tolerance) for a, b in values)), None)
    if isinstance(theirs, (float, complex)):
        near = tolerance["float32"]  # what it was computed from is not known
        return None if close(np.asarray(ours), np.asarray(theirs), near) else ("values", repr(ours), repr(theirs))
    if isinstance(theirs, (np.ndarray, np.generic)):
        a, b = np.asarray(ours), np.asarray(theirs)
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return "dtype", f"{a.dtype}{a.shape}", f"{b.dtype}{b.shape}"
        return None if close(a, b, tolerance.get(b.dtype.name, 0)) else ("values", str(a), str(b))
    if isinstance(theirs, (*PLAIN, pytorch().dtype, pytorch().device, pytorch().layout, pytorch().memory_format)):
        return None if str(ours) == str(theirs) else ("values", repr(ours), repr(theirs))
    return None


def compare_tensors(ours: Any, theirs: Any, *, strides: bool = True, tolerance: dict[str, float] = TOLERANCE) -> Found | None:
    """Dtype, shape, layout, ``requires_grad``, strides where they say something, and values."""
    for fact in ("dtype", "shape", "layout", "requires_grad"):
        a, b = str(tuple_of(getattr(ours, fact))), str(tuple_of(getattr(theirs, fact)))
        if a != b:
            return fact, a, b
    if str(theirs.layout) != "torch.strided":
        return compare_sparse(ours, theirs, tolerance)
    if strides and theirs.numel() and ours.stride() != theirs.stride():
        return "strides", f"{ours.stride()} of {tuple(ours.shape)}", f"{theirs.stride()} of {tuple(theirs.shape)}"
    if theirs.device.type == "meta":
        return None if ours.device.type == "meta" else ("device", str(ours.device), str(theirs.device))
    a, b = values_of(ours), values_of(theirs)
    near = tolerance.get(str(theirs.dtype).removeprefix("torch."), 0)
    return None if close(a, b, near) else ("values", *first_difference(a, b, near))


def compare_sparse(ours: Any, theirs: Any, tolerance: dict[str, float]) -> Found | None:
    """The parts of tensors that are not strided, by the methods that give them."""
    parts = {
        "torch.sparse_coo": ("_indices", "_values"),
        "torch.sparse_csr": ("crow_indices", "col_indices", "values"),
        "torch.sparse_bsr": ("crow_indices", "col_indices", "values"),
        "torch.sparse_csc": ("ccol_indices", "row_indices", "values"),
        "torch.sparse_bsc": ("ccol_indices", "row_indices", "values"),
    }[str(theirs.layout)]
    if "_indices" in parts and ours.is_coalesced() != theirs.is_coalesced():
        return "is_coalesced", str(ours.is_coalesced()), str(theirs.is_coalesced())
    for part in parts:  # of copies: what NumPy has seen PyTorch does not resize
        a, b = (getattr(tensor.detach(), part)().clone() for tensor in (ours, theirs))
        found = compare_tensors(a, b, strides=False, tolerance=tolerance)
        if found is not None:
            return f"{part} {found[0]}", found[1], found[2]
    return None


def tuple_of(fact: Any) -> Any:
    return tuple(fact) if isinstance(fact, tuple) else fact


def values_of(tensor: Any) -> np.ndarray:
    """A tensor's values as NumPy's; dtypes that NumPy has not, as float32, which holds them all."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    if tensor.is_floating_point() and tensor.dtype.itemsize < 4:
        tensor = tensor.float()
    if str(tensor.dtype) == "torch.complex32":
        tensor = tensor.to(sys.modules[type(tensor).__module__.partition(".")[0]].complex64)
    return np.asarray(tensor.numpy(force=True))


def close(a: np.ndarray, b: np.ndarray, near: float) -> bool:
    return a.shape == b.shape and bool(np.all(is_close(a, b, near)))


def is_close(a: np.ndarray, b: np.ndarray, near: float) -> np.ndarray:
    """Elements that are equal, both NaN, or apart by no more than ``near`` of themselves and of the largest."""
    equal = np.asarray(a == b)
    if b.dtype.kind not in "fc":
        return equal
    with np.errstate(all="ignore"):
        finite = np.abs(b[np.isfinite(b)])
        largest = float(finite.max()) if finite.size else 0.0
        bound = near * np.maximum(np.abs(b), largest if math.isfinite(largest) else 0.0)
        return equal | (np.isnan(a) & np.isnan(b)) | (np.isfinite(b) & (np.abs(a - b) <= bound))


def first_difference(a: np.ndarray, b: np.ndarray, near: float) -> tuple[str, str]:
    """Both results, the whole of small ones, the first elements that differ of large ones."""
    if b.size <= 20:
        return str(a.tolist()), str(b.tolist())
    wrong = np.argwhere(~is_close(a, b, near))
    place = tuple(int(i) for i in wrong[0])
    return f"{a[place]} at {place}, and {len(wrong) - 1} more of {b.size}", str(b[place])
