"""Derivatives of PyTorch's kernels of arithmetic, reductions, views, indexing and products, in the calls that PyTorch makes for them."""

from __future__ import annotations

import math
from typing import Any

from ..core.calls.registry import primitive
from ..core.dtype import bool_
from ..core.shape import wrap_dim
from ..core.state import thread
from ..core.tensor import Tensor
from ..ops.arithmetic import conj
from ..ops.reduction import _spread_arguments
from . import rules  # noqa: F401  # what is here comes on top
from .calls import COMPOSED, LEAVES
from .derivatives import RULES, call, kernel, torch


# -- arithmetic ------------------------------------------------------------------------------------------------------------------------
def over(number: Any, tensor: Any) -> Any:
    """A number over a tensor, made in place as PyTorch's own code does."""
    return torch("empty_like", tensor).fill_(number).div_(tensor)


def less(number: Any, tensor: Any) -> Any:
    """A number less a tensor, made in place as PyTorch's own code does."""
    return torch("empty_like", tensor).fill_(number).sub_(tensor)


def _is_number_first(input: Any, other: Any, *rest: Any) -> bool:
    return bool(thread.in_library) and not isinstance(input, Tensor) and isinstance(other, Tensor) and rest in ((), (1,), (None,))


def _number_first(name: str, composed: Any) -> None:
    """Have the library's own calls with a number in front made as PyTorch makes them."""
    before = COMPOSED[name] if name in COMPOSED else lambda *values: NotImplemented
    COMPOSED[name] = lambda input, other, *rest: (
        composed(input, other) if _is_number_first(input, other, *rest) else before(input, other, *rest)
    )


_number_first("sub", less)
COMPOSED["rsub"] = lambda input, other, alpha=1: less(other, input) if _is_number_first(other, input, alpha) else NotImplemented
_number_first("div", over)
for _name in ("add", "mul"):
    _number_first(_name, lambda number, tensor, name=_name: torch(name, tensor, number))


def zero_of(tensor: Any) -> Any:
    """A zero of a tensor's dtype, as ``where`` takes it."""
    return torch("scalar_tensor", 0.0, dtype=tensor.dtype, device=tensor.device)


def _kept(grad: Any, condition: Any) -> Any:
    """``grad`` where a condition holds, which is computed after the 0 was made."""
    zero = zero_of(grad)
    return torch("where", condition(), grad, zero)


def _times(grad: Any, other: Any) -> Any:
    return grad * conj(other) if isinstance(other, Tensor) else call("mul.Tensor", grad, conj(other))


def _divided(grad: Any, other: Any) -> Any:
    return grad / conj(other) if isinstance(other, Tensor) else call("div.Tensor", grad, conj(other))


def _of_divisor(grad: Any, self: Any, other: Any) -> Any:
    quotient = conj(self / other / other)
    return -grad * quotient


def _of_reciprocal(grad: Any, result: Any) -> Any:
    square = conj(result * result)
    return -grad * square


def _of_base(grad: Any, self: Any, exponent: Any) -> Any:
    if not isinstance(exponent, Tensor):
        return torch("zeros_like", self) if exponent == 0 else grad * conj(self.pow(exponent - 1) * exponent)
    slope = grad * conj(self.pow(exponent - 1) * exponent)
    zero = zero_of(slope)
    return torch("where", exponent == 0.0, zero, slope)


def _of_exponent(grad: Any, self: Any, exponent: Any, result: Any) -> Any:
    if exponent.is_complex():
        condition = (self == 0).logical_and(torch("real", exponent) >= 0)
    else:
        nonnegative = exponent >= 0
        condition = (self == 0).logical_and(nonnegative)
    slope = conj(result * self.log())
    zero = zero_of(slope)
    return grad * torch("where", condition, zero, slope)


def _of_angle(grad: Any, self: Any, other: Any, needs: Any) -> Any:
    squares = self * self + other * other
    share = squares.reciprocal()
    share = share.masked_fill(squares == 0, 0)
    return (grad * other * share if needs[0] else None), (grad * -self * share if needs[1] else None)


def _of_dividing(grad: Any, tensor1: Any, tensor2: Any, value: Any) -> Any:
    square = tensor2 * tensor2
    share = conj(tensor1 * value / square)
    return -grad * share


def _of_factor(grad: Any, self: Any, other: Any) -> Any:
    product = torch("xlogy", grad, other)
    negative = other <= 0.0
    return product.masked_fill(torch("bitwise_and", self == 0.0, negative), 0.0)


def _between(grad: Any, self: Any, min: Any, max: Any) -> Any:
    if min is None and max is None:
        return grad
    return _kept(grad, lambda: self >= min if max is None else self <= max if min is None else (self >= min).logical_and_(self <= max))


def _chosen(grad: Any, self: Any, other: Any, lost: str) -> Any:
    """``grad`` where one of two was taken, half of it where they are equal."""
    half = grad / 2
    return torch("where", self == other, half, grad).masked_fill_(torch(lost, self, other), 0)


RULES.update(
    {
        "mul": {"self": _times, "other": lambda grad, self: grad * conj(self)},
        "mul.Scalar": {"self": lambda grad, other: grad * conj(other)},
        "div.Tensor": {"self": _divided, "other": _of_divisor},
        "div.Scalar": {"self": lambda grad, other: grad / conj(other)},
        "pow.Tensor_Scalar": {"self": _of_base},
        "pow.Tensor_Tensor": {"self": _of_base, "exponent": _of_exponent},
        "reciprocal": {"self": _of_reciprocal},
        "rsqrt": {"self": lambda grad, result: conj(result.pow(3)) * (-0.5 * grad)},
        "erf": {"self": lambda grad, self: (-self.pow(2)).exp() * (2 / math.sqrt(math.pi)) * grad},
        "atan2": {"self, other": _of_angle},
        "hypot": {"self": lambda grad, self, result: grad * self / result, "other": lambda grad, other, result: grad * other / result},
        "lerp.Tensor": {
            "self": lambda grad, weight: grad * less(1, weight),
            "end": lambda grad, weight: grad * weight,
            "weight": lambda grad, self, end: grad * (end - self),
        },
        "addcmul": {
            "self": lambda grad: grad,
            "tensor1": lambda grad, tensor2, value: grad * (tensor2 * value),
            "tensor2": lambda grad, tensor1, value: grad * (tensor1 * value),
        },
        "addcdiv": {
            "self": lambda grad: grad,
            "tensor1": lambda grad, tensor2, value: grad * over(value, tensor2),
            "tensor2": _of_dividing,
        },
        "clamp": {"self": _between},
        "clamp_min": {"self": lambda grad, self, min: _kept(grad, lambda: self >= min)},
        "clamp_max": {"self": lambda grad, self, max: _kept(grad, lambda: self <= max)},
        "maximum": {
            "self": lambda grad, self, other: _chosen(grad, self, other, "lt"),
            "other": lambda grad, self, other: _chosen(grad, self, other, "gt"),
        },
        "minimum": {
            "self": lambda grad, self, other: _chosen(grad, self, other, "gt"),
            "other": lambda grad, self, other: _chosen(grad, self, other, "lt"),
        },
        "xlogy.Tensor": {
            "self": lambda grad, self, other: _of_factor(grad, self, other),
            "other": lambda grad, self, other: grad * self / other,
        },
        "where.self": {
            "self": lambda grad, condition: torch("where", condition, grad, zero_of(grad)),
            "other": lambda grad, condition: torch("where", condition, zero_of(grad), grad),
        },
    }
)
RULES["clamp.Tensor"] = RULES["clamp_min.Tensor"] = RULES["clamp_max.Tensor"] = {}


def _is_finite(input: Any) -> Any:
    if not (input.is_floating_point() or input.is_complex()):
        return torch("ones_like", input, dtype=bool_)
    finite = input.abs() != math.inf
    return (input == input) * finite


COMPOSED["isfinite"] = _is_finite


def _bounded(name: str, input: Any, bound: Any) -> Any:
    return NotImplemented if isinstance(bound, Tensor) else call(name, input, bound)


LEAVES["clamp_min"] = lambda input, min, out=None: NotImplemented if out is not None else _bounded("clamp_min", input, min)
LEAVES["clamp_max"] = lambda input, max, out=None: NotImplemented if out is not None else _bounded("clamp_max", input, max)
for _name in ("clamp_min_", "clamp_max_"):
    kernel(_name)(lambda self, bound, name=_name: getattr(self, name)(bound))
kernel("clamp_min")(lambda self, min: torch("clamp", self, min=min))
kernel("clamp_max")(lambda self, max: torch("clamp", self, max=max))


# -- reductions ------------------------------------------------------------------------------------------------------------------------
def _dims(dim: Any, ndim: int) -> list[int]:
    given = list(range(ndim)) if dim is None or dim == [] else dim if isinstance(dim, (list, tuple)) else [dim]
    return [wrap_dim(d, ndim) for d in given]


def restored(tensor: Any, dim: Any, keepdim: bool, ndim: int) -> Any:
    """A reduced tensor with its dimensions, of size 1, again."""
    if keepdim or not ndim or not isinstance(tensor, Tensor):
        return tensor
    for d in sorted(_dims(dim, ndim)):
        tensor = tensor.unsqueeze(d)
    return tensor


def _spread(grad: Any, sizes: Any, dim: Any, keepdim: bool) -> Any:
    return restored(grad, dim, keepdim, len(sizes)).expand(list(sizes))


def _count(sizes: Any, dim: Any) -> int:
    return math.prod([sizes[d] for d in _dims(dim, len(sizes))])


def _of_variance(grad: Any, self: Any, dim: Any, correction: Any, keepdim: bool) -> Any:
    correction = 1 if correction is None else correction
    count = self.numel() if dim is None or dim == [] else _count(self.shape, dim)
    if dim is None or dim == []:
        distance = self - self.mean()
    else:
        grad = restored(grad, dim, keepdim, self.dim())
        distance = self - self.mean(dim, True)
    if count <= correction:
        return torch("where", grad == 0, math.nan, math.inf) * distance
    return grad * (2.0 / (count - correction)) * distance


def _of_deviation(grad: Any, self: Any, dim: Any, correction: Any, keepdim: bool, result: Any) -> Any:
    slope = (grad / (result * 2)).masked_fill_(result == 0, 0)
    return _of_variance(slope, self, dim, correction, keepdim)


def _of_variance_and_mean(grads: Any, self: Any, dim: Any, correction: Any, keepdim: bool) -> Any:
    parts = []
    if grads[0] is not None:
        parts.append(_of_variance(grads[0], self, dim, correction, keepdim))
    if grads[1] is not None:
        parts.append(_spread(grads[1], self.shape, dim, keepdim) / _count(self.shape, dim))
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def _of_product_along(grad: Any, self: Any, dim: int) -> Any:
    """The product of all others along a dimension, from both ends."""
    size = self.shape[dim]
    if size == 1:
        return grad
    shape = [1 if d == dim else n for d, n in enumerate(self.shape)]
    ones = torch("ones", shape, dtype=grad.dtype, device=grad.device)
    before = torch("cat", [ones, self.narrow(dim, 0, size - 1)], dim).cumprod(dim)
    after = torch("cat", [ones, self.narrow(dim, 1, size - 1).flip(dim)], dim).cumprod(dim).flip(dim)
    return grad * conj(before * after)


def _of_product(grad: Any, self: Any) -> Any:
    return grad if not self.dim() else _of_product_along(grad, self.contiguous().view(-1), 0).view_as(self)


def _of_product_of_rows(grad: Any, self: Any, result: Any, dim: int, keepdim: bool) -> Any:
    if not self.dim():
        return grad
    dim = wrap_dim(dim, self.dim())
    if not keepdim:
        grad, result = grad.unsqueeze(dim), result.unsqueeze(dim)
    return _of_product_along(grad, self, dim)


def _shared(grad: Any, self: Any, result: Any, dim: Any, keepdim: bool) -> Any:
    """The gradient among equal extremes of a reduction."""
    if not self.dim():
        return grad
    shape = [1 if d in _dims(dim, self.dim()) else n for d, n in enumerate(self.shape)]
    same = (result if keepdim else result.view(shape)) == self
    grad = grad if keepdim else grad.view(shape)
    return grad / same.sum(_dims(dim, self.dim()), True) * same


def _shared_by_all(grad: Any, self: Any, result: Any) -> Any:
    both = torch("logical_and", self.isnan(), result.isnan())
    same = (self == result).logical_or_(both)
    return grad / same.sum() * same


def _of_chosen(grad: Any, self_shape: Any, result1: Any, dim: int, keepdim: bool) -> Any:
    """A gradient back to where the results were taken from."""
    if not self_shape:
        return grad
    if not keepdim:
        grad, result1 = grad.unsqueeze(dim), result1.unsqueeze(dim)
    return grad.new_zeros(list(self_shape)).scatter(dim, result1, grad)


def _of_sorted(grad: Any, self_shape: Any, result1: Any, dim: int) -> Any:
    return _of_chosen(grad, self_shape, result1, dim, True)


def _of_norm(grad: Any, self: Any, result: Any, p: Any, dim: Any, keepdim: bool) -> Any:
    """The derivative of a vector norm. PyTorch takes dimensions that are all of them for none."""
    p = 2.0 if p is None else float(p)
    if dim not in (None, []):
        grad, result = restored(grad, dim, keepdim, self.dim()), restored(result, dim, keepdim, self.dim())
    if p == 0:
        return torch("zeros_like", self)
    if p == 1:
        return self.sgn() * grad
    if p == 2:
        return (self / result).masked_fill_(result == 0, 0) * grad
    if math.isinf(p):
        size = self.abs()
        same = (size == result).logical_or_(torch("logical_and", result.isnan(), size.isnan()))
        count = same.sum(_dims(dim, self.dim()), True)
        return self.sgn() * (grad / count * same)
    if p < 1:
        scaled = self.sgn() * self.abs().pow_(p - 1).masked_fill_(self == 0, 0)
        return scaled * (grad * result.pow(1 - p))
    if p < 2:
        scaled = self.sgn() * self.abs().pow_(p - 1)
        return scaled * (grad / result.pow(p - 1)).masked_fill_(result == 0, 0)
    scaled = self * self.abs().pow_(p - 2)
    return scaled * (grad / result.pow(p - 1)).masked_fill_(result == 0, 0)


def _of_log_sum(grad: Any, self: Any, dim: Any, keepdim: bool, result: Any) -> Any:
    if not keepdim and self.dim():
        grad, result = restored(grad, dim, keepdim, self.dim()), restored(result, dim, keepdim, self.dim())
    return grad * conj((self - result).exp())


RULES.update(
    {
        "mean": {"self": lambda grad, self_shape: grad.expand(list(self_shape)) / math.prod(self_shape)},
        "mean.dim": {"self": lambda grad, self_shape, dim, keepdim: _spread(grad, self_shape, dim, keepdim) / _count(self_shape, dim)},
        "prod": {"self": _of_product},
        "prod.dim_int": {"self": _of_product_of_rows},
        "var.correction": {"self": _of_variance},
        "std.correction": {"self": _of_deviation},
        "var_mean.correction": {"self": _of_variance_and_mean},
        "amax": {"self": _shared},
        "amin": {"self": _shared},
        **{name: {"self": _shared_by_all} for name in ("max", "min", "median", "nanmedian")},
        **{f"{name}.dim": {"self": _of_chosen} for name in ("max", "min", "median", "nanmedian")},
        "kthvalue": {"self": _of_chosen},
        "mode": {"self": _of_chosen},
        "sort": {"self": _of_sorted},
        "topk": {"self": _of_sorted},
        "linalg_vector_norm": {
            "self": lambda grad, self, result, ord, dim, keepdim: _of_norm(grad, self, result, ord, dim, keepdim),
        },
        "norm.ScalarOpt_dim": {"self": _of_norm},
        "logsumexp": {"self": _of_log_sum},
    }
)
for _name in ("max.other", "max.unary_out", "min.other"):
    RULES[_name] = {}


def _spread_and_mean(name: str) -> None:
    """``var_mean`` and ``std_mean``, which are two operations here."""
    measure = name.partition("_")[0]

    def leaf(input: Any, dim: Any, unbiased: Any, keepdim: bool, correction: Any, out: Any = None) -> Any:
        dim, correction, keepdim = _spread_arguments(name, input, dim, unbiased, keepdim, correction)
        dims = dim if dim is None else list(dim) if isinstance(dim, (list, tuple)) else [dim]
        return call(f"{name}.correction", input, dims, correction=correction, keepdim=keepdim)

    LEAVES[name] = leaf
    kernel(f"{name}.correction")(
        lambda self, dim=None, *, correction=None, keepdim=False: (
            torch(measure, self, dim, correction=1 if correction is None else correction, keepdim=keepdim),
            torch("mean", self, *(() if dim is None else (dim, keepdim))),
        )
    )


_spread_and_mean("var_mean")
_spread_and_mean("std_mean")


for _name in ("sign", "floor", "ceil", "round", "round.decimals", "trunc", "zero_", "heaviside"):
    RULES[_name] = {"self": lambda grad: torch("zeros_like", grad)}
RULES["fill_.Scalar"] = {"self": lambda grad: torch("zeros_like", grad)}
RULES["fill_.Tensor"] = {"self": lambda grad: torch("zeros_like", grad), "value": lambda grad: grad.sum()}
RULES["copy_"] = {"self": lambda grad: torch("zeros_like", grad), "src": lambda grad: grad}


# -- views -----------------------------------------------------------------------------------------------------------------------------
def _squeezed(grad: Any, sizes: Any, dim: Any) -> Any:
    """A gradient with the dimensions of size 1 again that ``squeeze`` took."""
    dims = set(_dims(dim, len(sizes)))
    for d, size in enumerate(sizes):
        if size == 1 and d in dims:
            grad = grad.unsqueeze(d)
    return grad


def _joined(grads: Any, sizes: Any, parts: Any, dim: int) -> Any:
    given = next(grad for grad in grads if grad is not None)
    whole = [given.new_zeros(_resized(sizes, dim, n)) if grad is None else grad for grad, n in zip(grads, parts, strict=True)]
    return torch("cat", whole, dim)


def _resized(sizes: Any, dim: int, size: int) -> list[int]:
    return [size if d == dim else n for d, n in enumerate(sizes)]


def _of_pieces(grads: Any, self_shape: Any, split_size: int, dim: int) -> Any:
    dim = wrap_dim(dim, len(self_shape))
    total = self_shape[dim]
    sizes = [min(split_size, total - start) for start in range(0, total, split_size)] or [0]
    return _joined(grads, self_shape, sizes, dim)


def _of_slices(grads: Any, dim: int) -> Any:
    given = next(grad for grad in grads if grad is not None)
    return torch("stack", [torch("zeros_like", given) if grad is None else grad for grad in grads], dim)


RULES.update(
    {
        "unsqueeze": {"self": lambda grad, dim: grad.squeeze(dim)},
        "squeeze.dim": {"self": lambda grad, self_shape, dim: _squeezed(grad, self_shape, dim) if self_shape else grad},
        "squeeze": {"self": lambda grad, self_shape: _squeezed(grad, self_shape, None)},
        "squeeze.dims": {"self": lambda grad, self_shape, dim: _squeezed(grad, self_shape, dim)},
        "slice.Tensor": {
            "self": lambda grad, self_shape, dim, start, end, step: call(
                "slice_backward", grad, list(self_shape), dim, 0 if start is None else start, _END if end is None else end, step
            )
        },
        "select.int": {"self": "select_backward(grad, list(self_shape), dim, index)"},
        "diagonal": {"self": "diagonal_backward(grad, list(self_shape), offset, dim1, dim2)"},
        "unfold": {"self": "unfold_backward(grad, list(self_shape), dimension, size, step)"},
        "split.Tensor": {"self": _of_pieces},
        "split_with_sizes": {
            "self": lambda grads, self_shape, split_sizes, dim: _joined(grads, self_shape, split_sizes, wrap_dim(dim, len(self_shape)))
        },
        "unbind.int": {"self": _of_slices},
        "stack": {"tensors": lambda grad, tensors_shape, dim: [grad.select(dim, k) for k in range(len(tensors_shape))]},
        "_unsafe_view": {"self": lambda grad, self_shape: grad.reshape(list(self_shape))},
        "slice_backward": {"grad_output": "slice.Tensor(grad, dim, start, end, step)"},
        "select_backward": {"grad_output": "select.int(grad, dim, index)"},
        "diagonal_backward": {"grad_output": lambda grad, offset, dim1, dim2: grad.diagonal(offset, dim1, dim2)},
        "unfold_backward": {"grad_in": lambda grad, dim, size, step: grad.unfold(dim, size, step)},
    }
)
_END = (1 << 63) - 1
kernel("_unsafe_view")(lambda self, size: self.view(size))


@kernel("slice_backward")
def _slice_backward(grad_output: Any, input_sizes: Any, dim: int, start: int, end: int, step: int) -> Any:
    whole = grad_output.new_zeros(input_sizes)
    call("slice.Tensor", whole, dim, start, end, step).copy_(grad_output)
    return whole


@kernel("select_backward")
def _select_backward(grad_output: Any, input_sizes: Any, dim: int, index: int) -> Any:
    whole = grad_output.new_zeros(input_sizes)
    whole.select(dim, index).copy_(grad_output)
    return whole


@kernel("diagonal_backward")
def _diagonal_backward(grad_output: Any, input_sizes: Any, offset: int, dim1: int, dim2: int) -> Any:
    whole = grad_output.new_zeros(input_sizes)
    whole.diagonal(offset, dim1, dim2).copy_(grad_output)
    return whole


@kernel("unfold_backward")
def _unfold_backward(grad_in: Any, input_sizes: Any, dim: int, size: int, step: int) -> Any:
    return primitive("_unfold_backward").wrapper(grad_in, tuple(input_sizes), dim, size, step)


def _of_repeats(grad: Any, self_shape: Any, repeats: Any) -> Any:
    lead = len(repeats) - len(self_shape)
    if 0 in repeats:
        return grad.new_zeros(list(self_shape))
    if not self_shape:
        return grad.sum()
    sizes, dims = list(repeats[:lead]), list(range(lead))
    for count, size in zip(repeats[lead:], self_shape, strict=True):
        if count != 1:
            dims.append(len(sizes))
            sizes.append(count)
        sizes.append(size)
    return grad.reshape(sizes).sum(dims) if dims else grad


def _of_trace(grad: Any, self_shape: Any) -> Any:
    rows, columns = self_shape
    flat = torch("zeros", [rows * columns], dtype=grad.dtype, device=grad.device)
    places = torch("arange", 0, rows * columns, columns + 1, device=grad.device)
    return flat.index_fill(0, places[: min(rows, columns)] if rows > columns else places, grad).view([rows, columns])


# -- indexing --------------------------------------------------------------------------------------------------------------------------
RULES.update(
    {
        "index.Tensor": {"self": "index_put(grad.new_zeros(list(self_shape)), list(indices), grad, True)"},
        "index_put": {
            "self": lambda grad, indices, values_shape, values_dtype, accumulate: (
                grad
                if accumulate
                else call("index_put", grad, list(indices), torch("zeros", values_shape, dtype=values_dtype, device=grad.device))
            ),
            "values": "index.Tensor(grad, list(indices))",
        },
        "gather": {"self": lambda grad, self_shape, dim, index: grad.new_zeros(list(self_shape)).scatter_add(dim, index, grad)},
        "scatter.src": {
            "self": lambda grad, dim, index: grad.scatter(dim, index, 0),
            "src": lambda grad, dim, index: grad.gather(dim, index),
        },
        "scatter.value": {"self": lambda grad, dim, index: grad.scatter(dim, index, 0)},
        "scatter_add": {"self": lambda grad: grad, "src": lambda grad, dim, index: grad.gather(dim, index)},
        "index_select": {"self": lambda grad, self_shape, dim, index: grad.new_zeros(list(self_shape)).index_add(dim, index, grad)},
        "index_add": {
            "self": lambda grad: grad,
            "source": lambda grad, dim, index, source_shape, alpha: _of_added(grad, dim, index, source_shape, alpha),
        },
        "index_copy": {
            "self": lambda grad, dim, index: grad.index_fill(dim, index, 0),
            "source": lambda grad, dim, index, source_shape: _of_added(grad, dim, index, source_shape, 1),
        },
        "repeat": {"self": _of_repeats},
        "trace": {"self": _of_trace},
        "take": {"self": lambda grad, self, index: torch("zeros_like", self).put(index, grad, True)},
        "masked_select": {
            "self": lambda grad, self, mask: torch("zeros_like", self.expand(_common(self, mask))).masked_scatter(mask, grad)
        },
    }
)


def _of_added(grad: Any, dim: int, index: Any, sizes: Any, alpha: Any) -> Any:
    taken = grad.index_select(dim, index)
    taken = taken.expand(list(sizes)) if sizes else taken.squeeze(0) if taken.dim() else taken
    return taken if alpha == 1 else taken * alpha


def _common(self: Any, mask: Any) -> Any:
    return torch("broadcast_shapes", tuple(self.shape), tuple(mask.shape))


# -- products --------------------------------------------------------------------------------------------------------------------------
def _by_columns(shape: Any, strides: Any) -> bool:
    return strides[0] == 1 and strides[1] == shape[0]


def _of_first(grad: Any, shape: Any, strides: Any, other: Any, alpha: Any = 1) -> Any:
    """The gradient of the first of two matrices, laid out as the matrix is."""
    if _by_columns(shape, strides):
        product = torch("mm", conj(other), grad.t()).t()
    else:
        product = torch("mm", grad, conj(other.t()))
    return product if alpha == 1 else product * alpha


def _of_second(grad: Any, shape: Any, strides: Any, other: Any, alpha: Any = 1) -> Any:
    product = torch("mm", grad.t(), conj(other)).t() if _by_columns(shape, strides) else torch("mm", conj(other.t()), grad)
    return product if alpha == 1 else product * alpha


RULES.update(
    {
        "mm": {
            "self": lambda grad, self_shape, self_strides, mat2: _of_first(grad, self_shape, self_strides, mat2),
            "mat2": lambda grad, mat2_shape, mat2_strides, self: _of_second(grad, mat2_shape, mat2_strides, self),
        },
        "addmm": {
            "self": lambda grad, beta: grad if beta == 1 else grad * beta,
            "mat1": lambda grad, mat1_shape, mat1_strides, mat2, alpha: _of_first(grad, mat1_shape, mat1_strides, mat2, alpha),
            "mat2": lambda grad, mat2_shape, mat2_strides, mat1, alpha: _of_second(grad, mat2_shape, mat2_strides, mat1, alpha),
        },
    }
)


# -- Fourier transforms ----------------------------------------------------------------------------------------------------------------
def _of_real_input(grad: Any, self_shape: Any, dim: Any, normalization: int, onesided: bool) -> Any:
    if onesided:
        whole = grad.new_zeros(list(self_shape))
        call("slice.Tensor", whole, dim[-1], 0, grad.shape[dim[-1]]).copy_(grad)
        grad = whole
    return torch("real", call("_fft_c2c", grad, dim, normalization, False))


def _of_real_output(grad: Any, dim: Any, normalization: int) -> Any:
    found = call("_fft_r2c", grad, dim, normalization, True)
    doubled = grad.shape[dim[-1]] - found.shape[dim[-1]]
    if doubled > 0:
        found.narrow(dim[-1], 1, doubled).mul_(2)
    return found


RULES["_fft_r2c"] = {"self": _of_real_input}
RULES["_fft_c2r"] = {"self": _of_real_output}


# -- parts of complex numbers ----------------------------------------------------------------------------------------------------------
COMPOSED["_fft_r2c"] = lambda input, dim, normalization, onesided, forward=True: (
    NotImplemented if forward else call("_fft_r2c", input, dim, normalization, onesided).conj()
)
COMPOSED["_real"] = lambda input: torch("view_as_real", input).select(-1, 0) if input.is_complex() else NotImplemented
COMPOSED["_imag"] = lambda input: torch("view_as_real", input).select(-1, 1) if input.is_complex() else NotImplemented
