"""Names of our operations in a profile: PyTorch's names of kernels, and how much arithmetic they do. Arguments: ``event_arguments``.

A primitive has the name of the kernel that it is. What is one kernel here and several in PyTorch, one within another, has all their names
(``linear`` is ``aten::linear`` around ``aten::addmm``). A composite has a name where PyTorch makes it without Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..core.calls.dispatch import COMPOSITE, FACTORY, FUNCTION, IN_PLACE, IN_PLACE_VIEW, Call
from ..core.calls.operation import Op
from ..core.tensor import Tensor
from . import rules  # noqa: F401  # it fills tables of ``calls``
from .calls import kernels
from .event_arguments import arguments_of as arguments_of, schema_of as schema_of, seen as seen
from .overloads import aten_schemas

F = "nn.functional"

# Operations of ours -> the kernels that they are in PyTorch, the outer ones first; what these depend on stands in ``_CHOSEN``.
_KERNELS: dict[str, str] = {
    "convolution": "convolution _convolution",
    "_channel_sums": "sum",
    "_exact_select": "select",
    "_exact_slice": "slice",
    "_reshaped_copy": "reshape clone",
    "_to_copy": "to _to_copy",
    "_convolution_weight": "convolution_backward",
    "_sum_to_size": "sum",
    "_to_device": "_to_copy",
    "norm": "linalg_vector_norm",
    "tensor": "lift_fresh",
    "unique": "_unique2",
    "Tensor.cpu": "to",
    "Tensor.cuda": "to",
    "Tensor.type": "to",
    f"{F}._attention": "_scaled_dot_product_flash_attention_for_cpu",
    f"{F}._attention_backward": "_scaled_dot_product_flash_attention_for_cpu_backward",
    f"{F}._batch_norm": "_batch_norm_impl_index native_batch_norm",
    f"{F}._max_pool_backward": "max_pool2d_with_indices_backward",
    f"{F}.affine_grid": "affine_grid_generator",
    f"{F}.cross_entropy": "cross_entropy_loss",
    f"{F}.fold": "col2im",
    f"{F}.grid_sample": "grid_sampler",
    f"{F}.logsigmoid": "log_sigmoid",
    f"{F}.nll_loss": "nll_loss_nd",
    f"{F}.unfold": "im2col",
    **{f"{F}._max_pool{rank}d": f"max_pool{rank}d_with_indices" for rank in (1, 2, 3)},
    **{f"{F}._max_pool{rank}d_with_places": f"max_pool{rank}d_with_indices" for rank in (1, 2, 3)},
    **{f"{F}.adaptive_max_pool{rank}d_with_indices": f"adaptive_max_pool{rank}d" for rank in (1, 2, 3)},
    **{f"{F}.dropout{rank}d": "feature_dropout" for rank in (1, 2, 3)},
}
_PREFIXES = {"linalg": "linalg_", "fft": "fft_", "special": "special_", "sparse": "sparse_"}
_ATTRIBUTES = frozenset("is_complex is_conj is_floating_point is_inference is_neg is_nonzero is_signed is_storage is_tensor numel".split())


def prepare() -> None:
    """Make the tables that the first call would make."""
    aten_schemas(), kernels()


def names_of(op: Any, form: Any) -> tuple[str, ...]:
    """Names of the ranges of a call; none for a composite that PyTorch has in Python."""
    if op.key in _CHOSEN or op.key in _KERNELS:
        return tuple([f"aten::{name}" for name in _KERNELS.get(op.key, op.name).split()])
    ending = "_" if form is IN_PLACE or form is IN_PLACE_VIEW else ""
    known, prefix = aten_schemas(), _PREFIXES.get(op.namespace, "")
    if isinstance(op, Op) and (found := kernels().get(op.key)):
        name = found[0].partition(".")[0]
        around = (f"aten::{op.name}",) if name == f"_{op.name}" and op.name in known else ()
        return (*around, f"aten::{name}{ending}")
    for name in (prefix + op.name, prefix + op.name.lstrip("_")):
        if name + ending in known and name not in _ATTRIBUTES:
            return (f"aten::{name}{ending}",)
    return () if form is COMPOSITE or form is FACTORY else (f"flambeau::{op.name}{ending}",)


def chosen_by(op: Any) -> Callable[..., tuple[str, ...]] | None:
    """A function of an operation's arguments that gives the names where they depend on these; else None."""
    return _CHOSEN.get(op.key)


def usual_of(op: Any, form: Any) -> tuple[Callable[..., Any], int, tuple[str, ...]] | None:
    """The public function of a primitive with a fast path, how many of its arguments are by position, and the others' names; else None."""
    if not isinstance(op, Op) or (op.fast is None and op.ufunc is None):
        return None
    split = len(op.params) - len(op.keyword_names)
    if form is FUNCTION:
        return op.wrapper, split, op.keyword_names
    return (op.inplace_wrapper, split, op.keyword_names) if form is IN_PLACE and op.public_inplace is None else None


def _linear(input: Any, weight: Any, bias: Any = None, *rest: Any) -> tuple[str, ...]:
    return ("aten::linear", "aten::addmm") if bias is not None else ("aten::linear", "aten::matmul", "aten::mm")


def _matmul(input: Any, other: Any) -> tuple[str, ...]:
    ranks = input.dim(), other.dim()
    inner = {(1, 1): "dot", (2, 1): "mv", (1, 2): "mm", (2, 2): "mm"}.get(ranks)
    return "aten::matmul", f"aten::{inner or ('bmm' if min(ranks) > 2 else 'mm')}"


def _interpolate(input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", *rest: Any) -> tuple[str, ...]:
    name = {"bilinear": "bilinear2d", "trilinear": "trilinear3d", "bicubic": "bicubic2d", "linear": "linear1d"}.get(mode)
    rank = input.dim() - 2
    return ("aten::adaptive_avg_pool" + f"{rank}d" if mode == "area" else f"aten::upsample_{name or mode.replace('-', '_') + f'{rank}d'}",)


_CHOSEN: dict[str, Callable[..., tuple[str, ...]]] = {"matmul": _matmul, f"{F}.linear": _linear, f"{F}.interpolate": _interpolate}


# -- arithmetic ---------------------------------------------------------------------------------------------------------------------------
def flops_of(call: Call) -> int:
    """Floating-point operations of a product, a convolution, a sum or a product of elements; 0 of anything else."""
    count = _FLOPS.get(call.op.key)
    return 0 if count is None or call.form not in (FUNCTION, COMPOSITE) else count(*call.values)


def _product(input: Any, other: Any, *rest: Any) -> int:
    """``(*, n, k)`` by ``(*, k, m)``; of ``matmul``, what it broadcasts to."""
    columns = other._array.shape[-1] if other.dim() > 1 else 1
    batch = max(math.prod(input._array.shape[:-1]), math.prod(input._array.shape[-2:-1]) * math.prod(other._array.shape[:-2]))
    return 2 * batch * input._array.shape[-1] * columns


def _convolved(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> int:
    rank = weight.dim() - 2

    def each(value: Any) -> tuple[int, ...]:
        given = tuple(value) if isinstance(value, (tuple, list)) else (value,)
        return given if len(given) == rank else given * rank

    sizes = input._array.shape[-rank:]
    if padding != "same":
        margins = each(0 if padding == "valid" else padding)
        kernel = weight._array.shape[2:]
        steps = zip(sizes, kernel, each(stride), margins, each(dilation), strict=True)
        sizes = tuple([(n + 2 * pad - spread * (k - 1) - 1) // step + 1 for n, k, step, pad, spread in steps])
    batch = input._array.shape[0] if input.dim() == rank + 2 else 1
    return 2 * batch * math.prod(sizes) * weight._array.size


def _elements(input: Any, *rest: Any) -> int:
    return int(input._array.size) if isinstance(input, Tensor) else 0


_FLOPS: dict[str, Callable[..., int]] = {
    "add": _elements,
    "mul": _elements,
    "mm": _product,
    "bmm": _product,
    "matmul": _product,
    "addmm": lambda input, mat1, mat2, *rest: _product(mat1, mat2),
    "baddbmm": lambda input, batch1, batch2, *rest: _product(batch1, batch2),
    f"{F}.linear": lambda input, weight, *rest: 2 * input._array.size * weight._array.shape[0] if weight.dim() == 2 else 0,
    **{f"{F}.conv{rank}d": _convolved for rank in (1, 2, 3)},
}
