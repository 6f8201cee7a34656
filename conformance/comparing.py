"""When two libraries' results, errors and warnings are the same."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from libraries import OURS, expected_type, flat, relevant_strides

import flambeau

from .database import SPARSE, Unsupported, array_of, parts_of

# Of memory that nobody has written there is nothing to compare but its shape.
UNDETERMINED = frozenset(
    "empty empty_like empty_permuted empty_strided new_empty new_empty_strided resize_ resize_as_ nn.functional.rrelu".split()
)

# Results whose values are determined, by position, where some are not: which of several equal elements is meant.
VALUES_OF: dict[str, tuple[int, ...]] = dict.fromkeys(("sort", "topk", "kthvalue", "median.reduction_with_dim", "mode"), (0,))
VALUES_OF["argsort"] = ()
# Eigenvectors and singular vectors are unique up to signs or phases, which depend on the LAPACK.
VALUES_OF |= {"linalg.eig": (0,), "linalg.eigh": (0,), "linalg.svd": (1,), "svd": (1,), "svd_lowrank": (1,), "pca_lowrank": (1,)}

# (relative, absolute) tolerances by dtype; of float64 the second is of the largest element or 1: sums may cancel.
TOLERANCE = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-12, 1e-12),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-12, 1e-12),
}
# Where those are too strict, as for sums of many products in another order.
_SUMS = {"float32": (1e-4, 1e-4), "complex64": (1e-4, 1e-4)}
LOOSE: dict[str, dict[str, tuple[float, float]]] = {
    **{f"nn.functional.conv{kind}{rank}d": _SUMS for kind in ("", "_transpose") for rank in (1, 2, 3)},
    "linalg.cond": {"float32": (1e-5, 1e-5), "complex64": (1e-5, 1e-5)},  # the least singular value has an error of the largest one's size
    "addbmm": _SUMS,
    "matmul": _SUMS,
    "__rmatmul__": _SUMS,
    "nn.functional.scaled_dot_product_attention": _SUMS,  # PyTorch's own float32 results are 2e-5 off those of float64
    "_upsample_bilinear2d_aa": {"float32": (1e-4, 1e-4)},  # PyTorch finds positions in float32, flambeau in float64
    "matrix_exp": {"float32": (1e-5, 1e-3), "complex64": (1e-5, 1e-3)},  # PyTorch's error for entries of 1e5
    **{f"polygamma.polygamma_n_{n}": {"float32": (5e-5, 1e-4)} for n in range(5)},  # PyTorch's trigamma has 4 digits near its poles
    "special.polygamma.special_polygamma_n_0": {"float32": (5e-5, 1e-4)},
    # PyTorch's float64 results are 5e-7 off SciPy's
    **{f"special.bessel_{name}": {"float64": (1e-6, 1e-6)} for name in ("j0", "j1", "y0", "y1")},
    # second derivatives change by 1e-7 where an operand changes by 1e-15
    **{f"{name}_lowrank": {"float64": (2e-6, 2e-6), "complex128": (2e-6, 2e-6)} for name in ("svd", "pca")},
    "nn.functional.hardsigmoid": {"float64": (1e-7, 1e-7)},  # PyTorch's slope is float32's sixth
    **{f"mvlgamma.mvlgamma_p_{p}": {"float64": (1e-9, 1e-9)} for p in (1, 3, 5)},  # PyTorch's trigamma has 9 digits
    "special.airy_ai": {"float64": (1e-9, 1e-9)},  # so has its Airy function
    "nn.functional.binary_cross_entropy": {"float64": (1e-10, 1e-10)},  # PyTorch's second derivative has 1e-12 added below
    "linalg.householder_product": {"complex128": (1e-11, 1e-11)},  # of 1e5, by products of reflections
    "special.hermite_polynomial_he": {"float32": (1e-5, 1e-4)},
}


class Differs(Exception):
    """A comparison found a difference."""


class ValuesDiffer(Differs):
    """Results are alike but for their values."""


def attempt(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, Exception | None]:
    """(result, None) or (None, exception), without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return attempt_loudly(function, *args, **kwargs)


def attempt_loudly(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, Exception | None]:
    """As ``attempt``, with warnings."""
    with np.errstate(all="ignore"):
        try:
            return function(*args, **kwargs), None
        except Differs:
            raise
        except Exception as error:
            return None, error


def short(value: Any) -> str:
    if hasattr(value, "stride") and hasattr(value, "dtype"):
        if str(value.layout) != "torch.strided":
            return f"{str(value.layout).removeprefix('torch.')} {str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
        plain = value.is_contiguous()
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}{'' if plain else f'/{list(value.stride())}'}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(short, value))}]"
    return repr(value)[:60]


def describe(name: str, args: Any, kwargs: Any) -> str:
    return f"{name}({', '.join([short(arg) for arg in args] + [f'{key}={short(value)}' for key, value in kwargs.items()])})"


def first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0][:200]


def check_close(got: np.ndarray, want: np.ndarray, name: str, dtype: str) -> None:
    rtol, atol = LOOSE.get(name, {}).get(dtype, TOLERANCE.get(dtype, (0, 0)))
    kind = np.complex128 if "c" in (got.dtype.kind, want.dtype.kind) else np.float64
    if got.dtype.kind in "biu" and want.dtype.kind in "biu":
        kind = np.int64
    got, want = np.asarray(got).astype(kind), np.asarray(want).astype(kind)
    if dtype in ("float64", "complex128"):
        atol *= np.abs(want[np.isfinite(want)]).max(initial=1)
    with np.errstate(all="ignore"):
        close = np.isclose(got, want, rtol=rtol, atol=atol, equal_nan=True)
    if not close.all():
        k = tuple(int(i) for i in np.argwhere(~close)[0])
        raise ValuesDiffer(
            f"values differ at {(~close).sum()} of {close.size} places, first {list(k)}: {got[k]!r}, PyTorch has {want[k]!r}"
        )


def check_results(got: Any, want: Any, name: str, values: bool = True) -> None:
    got, want = flat(got), flat(want)
    if len(got) != len(want):
        raise Differs(f"{len(got)} results, PyTorch has {len(want)}")
    for k, (a, b) in enumerate(zip(got, want, strict=True)):
        if not isinstance(b, torch.Tensor):
            same = type(a).__name__ == type(b).__name__ and (str(a) == str(b) or a == b)
            if not same and not (isinstance(a, float) and isinstance(b, float) and np.isclose(a, b, rtol=1e-5)):
                raise Differs(f"result {k} is {a!r}, PyTorch has {b!r}")
            continue
        if b.layout in SPARSE and isinstance(a, flambeau.Tensor):
            if str(a.layout) != str(b.layout) or tuple(a.shape) != tuple(b.shape):
                raise Differs(f"result {k} is {a.layout} of {tuple(a.shape)}, PyTorch has {b.layout} of {tuple(b.shape)}")
            both = [parts_of(tensor.detach().coalesce() if tensor.is_sparse else tensor.detach()) for tensor in (a, b)]
            check_results(*both, name, values)
            continue
        if b.layout is not torch.strided:
            raise Unsupported(f"a result of layout {b.layout}")
        if not isinstance(a, flambeau.Tensor):
            raise Differs(f"result {k} is a {type(a).__name__}, no tensor")
        if str(a.dtype) != str(b.dtype):
            raise Differs(f"dtype of result {k}: {a.dtype}, PyTorch has {b.dtype}")
        if tuple(a.shape) != tuple(b.shape):
            raise Differs(f"shape of result {k}: {tuple(a.shape)}, PyTorch has {tuple(b.shape)}")
        if relevant_strides(a) != relevant_strides(b):
            raise Differs(f"strides of result {k}: {a.stride()}, PyTorch has {b.stride()}")
        if values and k in VALUES_OF.get(name, (k,)):
            check_close(OURS.array(a), array_of(b), name, str(b.dtype).removeprefix("torch."))


def shared(results: Any, inputs: Any) -> list[tuple[int, int]]:
    """Which results share memory with which inputs."""

    def places(values: Any) -> list[int]:
        tensors = [item for item in flat(values) if hasattr(item, "untyped_storage") and item.layout in (torch.strided, flambeau.strided)]
        return [item.untyped_storage().data_ptr() if item.numel() else 0 for item in tensors]

    return [(i, j) for i, a in enumerate(places(results)) for j, b in enumerate(places(inputs)) if a == b != 0]


def compare_outcomes(ours: Any, oracle: Any, name: str, values: bool = True) -> bool:
    """Both succeed alike, or both fail alike.  Returns whether they succeed."""
    (got, error), (want, expected) = ours, oracle
    if expected is not None:
        if error is None:
            raise Differs(f"accepted, PyTorch raises {type(expected).__name__}: {first_line(expected)}")
        if not isinstance(error, expected_type(expected)) and not isinstance(error, NotImplementedError):
            raise Differs(
                f"raises {type(error).__name__}: {first_line(error)}; PyTorch raises {type(expected).__name__}: {first_line(expected)}"
            )
        return False
    if error is not None:
        raise Differs(f"{type(error).__name__}: {first_line(error)}")
    check_results(got, want, name, values)
    return True


def cotangent(rng: np.random.Generator, tensor: Any) -> Any:
    """A cotangent for a PyTorch tensor."""
    if tensor.layout is not torch.strided:
        weight = tensor.detach().clone()
        weight.values().copy_(cotangent(rng, weight.values()))
        return weight
    values = np.asarray(rng.uniform(0.5, 1.5, tuple(tensor.shape)))
    if tensor.is_complex():
        values = values + 1j * rng.uniform(0.5, 1.5, tuple(tensor.shape))
    return torch.from_numpy(np.asarray(values)).to(tensor.dtype)
