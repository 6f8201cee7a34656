"""Rules beyond the table of signatures: calls of ours that are others, or several, in PyTorch's terms; and the way back."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..autograd.function import Function
from ..core.calls.dispatch import IN_PLACE, dispatch
from ..core.calls.promotion import common_dtype
from ..core.calls.registry import primitive, resolve
from ..core.device import device
from ..core.layout import contiguous_format
from ..core.shape import wrap_dim
from ..core.state import modes, thread
from ..core.tensor import Tensor
from ..ops import indexing, masks
from ..ops.indexing import Indices
from .calls import COMPOSED, FROM_DATA, IMPLEMENTED, LEAVES, PREPARED, overload_named, pruned
from .derivatives import call, is_handled, kernel, torch

_END = sys.maxsize


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, complex)) and not isinstance(value, Tensor)


# -- arithmetic ------------------------------------------------------------------------------------------------------------------------
def _commuted(name: str) -> Callable[..., Any]:
    def prepared(input: Any, other: Any, *rest: Any) -> Any:
        return (f"{name}.Tensor", (other, input), {}) if _is_number(input) and isinstance(other, Tensor) and rest in ((), (1,)) else None

    return prepared


def _subtracted(input: Any, other: Any, alpha: Any = 1) -> Any:
    if not _is_number(input):
        return None
    return "rsub.Scalar", (other, input) if alpha == 1 else (other, input, alpha), {}


PREPARED.update({"add": _commuted("add"), "mul": _commuted("mul"), "sub": _subtracted})
IMPLEMENTED["rsub.Scalar"] = lambda self, other, alpha=1: torch("rsub", self, other, alpha=alpha)


def _divided(input: Any, other: Any, rounding_mode: Any = None) -> Any:
    if not _is_number(input) or rounding_mode is not None:
        return NotImplemented
    return torch("reciprocal", other) * input


def _product(input: Any, other: Any) -> Any:
    """``matmul`` as PyTorch makes it of ``mm``, ``bmm``, ``mv`` and ``dot``."""
    a, b = input.dim(), other.dim()
    if not a or not b:
        return NotImplemented
    if a == b == 1:
        return torch("dot", input, other)
    if a == 2 and b == 1:
        return torch("mv", input, other)
    if a == 1 and b == 2:
        return torch("mm", input.unsqueeze(0), other).squeeze(0)
    if a == b == 2:
        return torch("mm", input, other)
    if b <= 2 and a >= 3:
        rows = input.reshape(math.prod(input.shape[:-1]), input.shape[-1])
        product = torch("mm", rows, other) if b == 2 else torch("mv", rows, other)
        return call("_unsafe_view", product, [*input.shape[:-1], *other.shape[1:]])
    if a == 1:
        return _product(input.unsqueeze(0), other).squeeze(-2)
    if a == 2:
        return _product(other.transpose(-2, -1), input.t()).transpose(-2, -1)
    lead = torch("broadcast_shapes", tuple(input.shape[:-2]), tuple(other.shape[:-2]))
    count = math.prod(lead)
    left = input.expand(*lead, *input.shape[-2:]).reshape(count, *input.shape[-2:])
    right = other.expand(*lead, *other.shape[-2:]).reshape(count, *other.shape[-2:])
    return call("_unsafe_view", torch("bmm", left, right), [*lead, input.shape[-2], other.shape[-1]])


def _linear(input: Any, weight: Any, bias: Any = None) -> Any:
    if bias is None:
        return torch("matmul", input, weight.t())
    if input.dim() == 2:
        return torch("addmm", bias, input, weight.t())
    if input.dim() >= 3 and input.is_contiguous():
        rows = torch("addmm", bias, input.reshape(math.prod(input.shape[:-1]), input.shape[-1]), weight.t())
        return rows.view(*input.shape[:-1], weight.shape[0])
    return torch("matmul", input, weight.t()) + bias


def _in_dtype(name: str) -> Callable[..., Any]:
    """Softmax with another dtype converts first."""

    def composed(input: Any, dim: int, dtype: Any = None) -> Any:
        return NotImplemented if dtype is None or dtype is input.dtype else torch(name, input.to(dtype), dim)

    return composed


COMPOSED.update(
    {
        "div": _divided,
        "matmul": _product,
        "nn.functional.linear": _linear,
        "square": lambda input: torch("pow", input, 2),
        "outer": lambda input, vec2: input.reshape(-1, 1) * vec2,
        "softmax": _in_dtype("softmax"),
        "log_softmax": _in_dtype("log_softmax"),
        "nn.functional._cross_entropy": lambda input, target, weight, reduction, ignore_index: primitive(
            "_nll_loss", "nn.functional"
        ).wrapper(torch("log_softmax", input, 1 if input.dim() > 1 else 0), target, weight, reduction, ignore_index),
    }
)
PREPARED["_divide_rounded"] = lambda input, other, rounding_mode=None: (
    None if _is_number(input) else ("div.Tensor_mode", (input, other), {"rounding_mode": rounding_mode})
)
IMPLEMENTED["div.Tensor_mode"] = IMPLEMENTED["div.Scalar_mode"] = lambda self, other, *, rounding_mode: torch(
    "div", self, other, rounding_mode=rounding_mode
)
PREPARED["softmax"] = lambda input, dim, dtype=None: ("_softmax", (input, dim, False), {})
PREPARED["log_softmax"] = lambda input, dim, dtype=None: ("_log_softmax", (input, dim, False), {})
IMPLEMENTED["_softmax"] = lambda self, dim, half_to_float=False: torch("softmax", self, dim)
IMPLEMENTED["_log_softmax"] = lambda self, dim, half_to_float=False: torch("log_softmax", self, dim)
IMPLEMENTED["linear"] = lambda input, weight, bias=None: resolve("nn.functional", "linear")(input, weight, bias)
for _name in ("add", "sub", "mul", "div"):
    kernel(f"{_name}.Scalar")(lambda self, other, alpha=1, name=_name: torch(name, self, other if alpha == 1 else other * alpha))


# -- shapes ----------------------------------------------------------------------------------------------------------------------------
def _reshaped(input: Any, shape: Any) -> Any:
    return call("_unsafe_view", call("clone", input, memory_format=contiguous_format), list(shape))


COMPOSED["_reshaped_copy"] = _reshaped
IMPLEMENTED["view.default"] = IMPLEMENTED["view"] = lambda self, size: primitive("_view").wrapper(self, size)
IMPLEMENTED["view.dtype"] = lambda self, dtype: self.view(dtype)
IMPLEMENTED["expand"] = lambda self, size, *, implicit=False: self.expand(size)
IMPLEMENTED["alias"] = lambda self: primitive("_alias").wrapper(self)
IMPLEMENTED["permute"] = lambda self, dims: torch("permute", self, dims)
IMPLEMENTED["repeat"] = lambda self, repeats: self.repeat(repeats)
PREPARED["_expand"] = lambda input, size, implicit=False: ("expand", (input, list(size)), {})


# -- parts -----------------------------------------------------------------------------------------------------------------------------
def steps_of(key: Any, ndim: int) -> list[tuple[str, tuple[Any, ...]]]:
    """A key of ints, slices, None and an ellipsis as calls, each with its arguments after the tensor."""
    parts = list(key) if isinstance(key, tuple) else [key]
    used = sum(part is not None and part is not Ellipsis for part in parts)
    place = next((k for k, part in enumerate(parts) if part is Ellipsis), len(parts))
    parts[place : place + 1] = [slice(None)] * (ndim - used)
    steps: list[tuple[str, tuple[Any, ...]]] = []
    dim = 0
    for part in parts:
        if part is None:
            steps.append(("unsqueeze", (dim,)))
            dim += 1
        elif isinstance(part, slice):
            if part != slice(None):
                step = (part.step,) if part.step not in (None, 1) else ()
                steps.append(("slice.Tensor", (dim, part.start or 0, _END if part.stop is None else part.stop, *step)))
            dim += 1
        else:
            steps.append(("select.int", (dim, part)))
    return steps


def _one_part(input: Any, key: Any) -> Any:
    steps = steps_of(key, input.dim())
    if not steps:
        return "alias", (input,), {}
    return (steps[0][0], (input, *steps[0][1]), {}) if len(steps) == 1 else None


def _several_parts(input: Any, key: Any) -> Any:
    steps = steps_of(key, input.dim())
    if len(steps) < 2:
        return NotImplemented
    for name, args in steps:
        input = call(name, input, *args)
    return input


for _name in ("_select", "_slice", "_exact_select", "_exact_slice", "_index_unsqueeze"):
    PREPARED[_name] = _one_part
    COMPOSED[_name] = _several_parts


def _slice(self: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    dim = wrap_dim(dim, self.dim())
    return primitive("_slice").wrapper(self, (*(slice(None),) * dim, slice(start, None if end == _END else end, step), ...))


IMPLEMENTED["slice.Tensor"] = _slice
IMPLEMENTED["select.int"] = lambda self, dim, index: torch("select", self, dim, index)


def _dim_of(key: Any) -> int:
    """The dimension that a key of whole slices and one other part takes from."""
    return next((k for k, part in enumerate(key) if part is not Ellipsis and part != slice(None)), 0)


def _pieces(input: Any, keys: Any) -> Any:
    dim = _dim_of(keys[0]) if keys else 0
    sizes = [key[dim].stop - key[dim].start for key in keys]
    args = (input, sizes[0]) if all(size == sizes[0] for size in sizes[:-1]) and sizes[-1] <= sizes[0] else (input, sizes)
    return ("split.Tensor" if len(sizes) and args[1] is not sizes else "split_with_sizes"), (*args, *((dim,) if dim else ())), {}


def _sizes_given(input: Any, keys: Any) -> Any:
    dim = _dim_of(keys[0]) if keys else 0
    return "split_with_sizes", (input, [key[dim].stop - key[dim].start for key in keys], *((dim,) if dim else ())), {}


PREPARED["_split"] = _pieces
PREPARED["_split_with_sizes"] = _sizes_given
PREPARED["_unbind"] = lambda input, keys: ("unbind.int", (input, *((dim,) if (dim := _dim_of(keys[0]) if keys else 0) else ())), {})
IMPLEMENTED["split.Tensor"] = lambda self, split_size, dim=0: torch("split", self, split_size, dim)
IMPLEMENTED["split_with_sizes"] = lambda self, split_sizes, dim=0: torch("split", self, list(split_sizes), dim)
IMPLEMENTED["unbind.int"] = lambda self, dim=0: torch("unbind", self, dim)


# -- indexing --------------------------------------------------------------------------------------------------------------------------
def _split_key(tensor: Any, key: Any) -> tuple[Any, list[Any]]:
    """The view that the basic part of a key gives, and tensors of indices by dimension (None for a whole one)."""
    parts = list(key) if isinstance(key, tuple) or indexing._is_tuple_like(key) else [key]
    used = sum(part.dim() if _is_mask(part) else part is not None and part is not Ellipsis and part.__class__ is not bool for part in parts)
    place = next((k for k, part in enumerate(parts) if part is Ellipsis), len(parts))
    if used > tensor.dim():
        raise IndexError(f"too many indices for tensor of dimension {tensor.dim()}")
    parts[place : place + 1] = [slice(None)] * (tensor.dim() - used)
    indices: list[Any] = []
    dim = 0
    for part in parts:
        if part is None or part.__class__ is bool:
            tensor = tensor.unsqueeze(dim)
            indices.append(None if part is None else torch("tensor", [part], device=tensor.device))
        elif isinstance(part, slice):
            (step,) = steps_of((*(slice(None),) * dim, part), tensor.dim()) or [("", ())]
            tensor = call(step[0], tensor, *step[1]) if step[0] else tensor
            indices.append(None)
        elif isinstance(part, Tensor):
            indices.append(part)
            dim += (part.dim() if _is_mask(part) else 1) - 1
        elif isinstance(part, (list, tuple, range, np.ndarray)):
            indices.append(torch("as_tensor", np.asarray(part)))
        else:
            size = tensor.shape[dim]
            index = part.__index__()
            if not -size <= index < size:
                raise IndexError(f"index {index} is out of bounds for dimension {dim} with size {size}")
            tensor = torch("select", tensor, dim, index)
            continue
        dim += 1
    while indices and indices[-1] is None:
        indices.pop()
    return tensor, indices


def _is_mask(part: Any) -> bool:
    return isinstance(part, Tensor) and part._array.dtype.kind == "b"


def getitem(self: Any, key: Any) -> Any:
    """``self[key]`` where a mode or a class takes calls."""
    view, indices = _split_key(self, key)
    if not indices:
        return view if view is not self else call("alias", self)
    return primitive("_index").wrapper(view, Indices(indices, indices))


def setitem(self: Any, key: Any, value: Any) -> None:
    """``self[key] = value`` where a mode or a class takes calls."""
    if _is_number(value):
        value = torch("tensor", value, dtype=self.dtype, device=self.device)
    view, indices = _split_key(self, key)
    if not indices:
        if isinstance(value, Tensor) and not value.dim() and view.dim() and not value.requires_grad:
            view.fill_(value)
        else:
            indexing._assign(view, value)
        return
    if not isinstance(value, Tensor):
        value = torch("tensor", value, dtype=view.dtype, device=view.device)
    dispatch(primitive("_index_put"), (view, Indices(indices, indices), value, False), None, IN_PLACE)


def _key(indices: Any) -> tuple[Any, ...]:
    return tuple([slice(None) if index is None else index for index in indices])


def _index(self: Any, indices: Any) -> Any:
    if is_handled(self, list(indices)):
        return primitive("_index").wrapper(self, Indices(list(indices), [index for index in indices if index is not None]))
    return self[_key(indices)]


def _index_put(self: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    if is_handled(self, list(indices), values):
        return dispatch(primitive("_index_put"), (self, Indices(list(indices), list(indices)), values, accumulate))
    return torch("index_put", self, tuple(indices), values, accumulate)


def _index_put_(self: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    if is_handled(self, list(indices), values):
        return dispatch(primitive("_index_put"), (self, Indices(list(indices), list(indices)), values, accumulate), None, IN_PLACE)
    if all(index is not None for index in indices):
        return self.index_put_(tuple(indices), values, accumulate)
    self[_key(indices)] = (self[_key(indices)] + values) if accumulate else values
    return self


IMPLEMENTED.update({"index.Tensor": _index, "index_put": _index_put, "index_put_": _index_put_})
LEAVES["index_put_"] = lambda input, indices, values, accumulate=False: _index_put_(input, indices, values, accumulate)
LEAVES["index_put"] = lambda input, indices, values, accumulate=False: _index_put(input, indices, values, accumulate)


# -- conversions -----------------------------------------------------------------------------------------------------------------------
def _copied(input: Any, dtype: Any, memory_format: Any = None) -> Any:
    kwargs = {} if dtype is None or dtype is input.dtype else {"dtype": dtype}
    if memory_format is not None and memory_format.name != "preserve_format":
        kwargs["memory_format"] = memory_format
    return "_to_copy", (input,), kwargs


def _to_copy(self: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, **options: Any) -> Any:
    form = options.get("memory_format")
    if is_handled(self):
        given = {"dtype": dtype, "layout": layout, "device": device, **options}
        found = overload_named("_to_copy")
        return modes.below.ask(found, *pruned(found, (self,), {name: value for name, value in given.items() if value is not None}))
    if device is None or same_device(device, self.device):
        return primitive("_to_copy").wrapper(self, self.dtype if dtype is None else dtype, form)
    return self.to(device, dtype, options.get("non_blocking", False), True, **({} if form is None else {"memory_format": form}))


def same_device(a: Any, b: Any) -> bool:
    a, b = device(a), device(b)
    return a.type == b.type and (a.index or 0) == (b.index or 0)


class ToDevice(Function):
    """``Tensor.to`` with a device."""

    @staticmethod
    def forward(ctx: Any, input: Any, where: Any, dtype: Any, form: Any, non_blocking: bool) -> Any:
        ctx.source, ctx.dtype = input.device, input.dtype
        kwargs = {"dtype": dtype} if dtype is not None and dtype is not input.dtype else {}
        kwargs.update({"non_blocking": True} if non_blocking else {})
        kwargs.update({} if form is None or form.name == "preserve_format" else {"memory_format": form})
        return call("_to_copy", input, device=where, **kwargs)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad.to(ctx.source, ctx.dtype), None, None, None, None


def moved(input: Any, where: Any, dtype: Any = None, copy: bool = False, form: Any = None, non_blocking: bool = False) -> Any:
    """``Tensor.to`` where a mode or a class takes calls: on any device of theirs."""
    if where is None or same_device(where, input.device):
        if dtype is None or dtype is input.dtype:
            if form is not None and form.name != "preserve_format" and not input.is_contiguous(memory_format=form):
                return torch("clone", input, memory_format=form)
            return primitive("_to_copy").wrapper(input, input.dtype, form) if copy else input
        return primitive("_to_copy").wrapper(input, dtype, form)
    return ToDevice.apply(input, device(where), dtype, form, non_blocking)


PREPARED["_to_copy"] = _copied
PREPARED["_to_device"] = lambda input, where, source: ("_to_copy", (input,), {"device": where})
IMPLEMENTED["_to_copy"] = _to_copy
LEAVES["Tensor.cpu"] = lambda input, memory_format=None: moved(input, "cpu", form=memory_format)
LEAVES["Tensor.cuda"] = lambda input, where=None, non_blocking=False, memory_format=None: moved(
    input, device("cuda", 0) if where is None else device("cuda", where) if isinstance(where, int) else where, non_blocking=non_blocking
)
IMPLEMENTED["clone"] = lambda self, *, memory_format=None: torch("clone", self, memory_format=memory_format)
IMPLEMENTED["detach"] = lambda self: self.detach()
IMPLEMENTED["lift_fresh"] = lambda self: self
IMPLEMENTED["copy_"] = lambda self, src, non_blocking=False: self.copy_(src, non_blocking)


def number_of(tensor: Any) -> Any:
    """``tensor.item()`` where a mode or a class takes calls."""
    if tensor._array.size != 1:
        raise RuntimeError(f"a Tensor with {tensor._array.size} elements cannot be converted to Scalar")
    return modes.below.ask(overload_named("_local_scalar_dense"), (tensor,), {})


def _local_scalar_dense(self: Any) -> Any:
    return number_of(self) if is_handled(self) else self.item()


IMPLEMENTED["_local_scalar_dense"] = _local_scalar_dense


def _from_data(call: Any) -> Any:
    """``torch.tensor(data)``: made on the CPU as usual, shown by ``lift_fresh``, and moved."""
    names, values = list(call.op.names), list(call.values)
    where = thread.creation_device
    if "device" in names and values[names.index("device")] is not None:
        where = values[names.index("device")]
    with modes.below.without_modes() as stack:
        if "device" in names:
            values[names.index("device")] = "cpu"
        result = call.form.run(call.with_values(tuple(values)))
    if not stack or any(result is value for value in call.values):
        return result if where is None else result.to(where)
    requires_grad = result.requires_grad
    shown = modes.below.ask(overload_named("lift_fresh"), (result.detach() if requires_grad else result,), {})
    if where is not None and not same_device(where, shown.device):
        shown = shown.to(where)
    return shown.requires_grad_() if requires_grad else shown


for _name in ("tensor", "as_tensor", "asarray", "Tensor.new_tensor"):
    FROM_DATA[_name] = _from_data


# -- composites that are kernels in PyTorch --------------------------------------------------------------------------------------------
def _as_they_are(name: str, key: str | None = None) -> None:
    """A composite without derivative that is one kernel: the same arguments, trailing defaults left out."""
    from ..core.calls.registry import TABLES

    namespace, _, short = (key or name).rpartition(".")

    def leaf(*values: Any) -> Any:
        entry = TABLES[namespace or "torch"][short]
        found = overload_named(name)
        args, kwargs = [], {}
        for param, value in zip(entry.params, values, strict=True):
            if param.keyword_only:
                kwargs[param.name] = value
            else:
                args.append(value)
        result = modes.below.ask(found, *pruned(found, args, kwargs))
        return values[0] if name.partition(".")[0].endswith("_") else result

    LEAVES[key or name] = leaf


for _name in ("normal_", "exponential_", "geometric_", "log_normal_", "cauchy_"):
    _as_they_are(f"{_name}.default", f"Tensor.{_name}")
    IMPLEMENTED[_name] = lambda self, *args, name=_name, **kwargs: getattr(self, name)(*args, **kwargs)
for _name in ("multinomial", "equal"):
    _as_they_are(_name)
LEAVES["nonzero"] = lambda input, out=None, as_tuple=False: (
    masks.nonzero_rows(input).unbind(1) if as_tuple and input.dim() else NotImplemented
)


def _bernoulli(input: Any, p: Any = None, generator: Any = None, out: Any = None) -> Any:
    if out is not None:
        return NotImplemented
    found = overload_named("bernoulli" if p is None else "bernoulli.p")
    return modes.below.ask(found, (input,) if p is None else (input, p), {} if generator is None else {"generator": generator})


LEAVES["bernoulli"] = _bernoulli
IMPLEMENTED["bernoulli"] = IMPLEMENTED["bernoulli.p"] = lambda self, p=None, *, generator=None: torch(
    "bernoulli", self, p, generator=generator
)


def _write_random(name: str, input: Any, args: tuple[Any, ...], generator: Any) -> Any:
    modes.below.ask(overload_named(name), (input, *args), {} if generator is None else {"generator": generator})
    return input


def _bernoulli_(input: Any, p: Any = 0.5, generator: Any = None) -> Any:
    overload = "Tensor" if isinstance(p, Tensor) else "float"
    return _write_random(f"bernoulli_.{overload}", input, () if p.__class__ is float and p == 0.5 else (p,), generator)


def resized(input: Any, shape: Any, memory_format: Any) -> Any:
    """``Tensor.resize_`` where a mode or a class takes calls."""
    options = {} if memory_format is None else {"memory_format": memory_format}
    modes.below.ask(overload_named("resize_"), (input, list(shape)), options)
    return input


def _where(condition: Any, input: Any = None, other: Any = None, out: Any = None) -> Any:
    """A number is a tensor of the condition's device in PyTorch."""
    numbers = [_is_number(value) for value in (input, other)]
    if not any(numbers) or out is not None:
        return NotImplemented
    dtype = common_dtype((input, other))
    made = [
        torch("scalar_tensor", value, dtype=dtype, device=condition.device) if is_number else value
        for value, is_number in zip((input, other), numbers, strict=True)
    ]
    return torch("where", condition, *made)


def _repeat_by_counts(input: Any, repeats: Any, dim: Any, output_size: Any) -> Any:
    if dim is None:
        input, dim = input.flatten(), 0
    if not input.dim() or (repeats.dim() and repeats.shape[0] != input.shape[dim]):
        return NotImplemented  # the composite complains, or makes more of it
    if not repeats.dim():
        repeats = repeats.expand(input.shape[dim])
    return torch("index_select", input, dim, call("repeat_interleave.Tensor", repeats, output_size=output_size))


def _repeat_interleave(input: Any, repeats: Any, dim: Any, output_size: Any = None) -> Any:
    """As often for each slice: a view with a further dimension, copied."""
    if repeats is None:
        return call("repeat_interleave.Tensor", input, output_size=output_size)
    if isinstance(repeats, Tensor):
        return _repeat_by_counts(input, repeats, dim, output_size)
    if repeats.__class__ is not int or repeats < 0 or not input.dim():
        return NotImplemented
    if dim is None:
        input, dim = input.flatten(), 0
    dim = wrap_dim(dim, input.dim())
    sizes = list(input.shape)
    wide = input.unsqueeze(dim + 1).expand(*sizes[: dim + 1], repeats, *sizes[dim + 1 :])
    return torch("clone", wide, memory_format=contiguous_format).flatten(dim, dim + 1)


LEAVES["where"] = _where
LEAVES["repeat_interleave"] = lambda *values: _repeat_interleave(*values[:4])
kernel("repeat_interleave.Tensor")(lambda repeats, *, output_size=None: torch("repeat_interleave", repeats, output_size=output_size))
for _name in ("nonzero_static", "segment_reduce"):
    kernel(_name)(lambda *args, name=_name, **kwargs: torch(name, *args, **kwargs))
LEAVES["nonzero_static"] = lambda input, size, fill_value=-1: call("nonzero_static", input, size=size, fill_value=fill_value)
LEAVES["segment_reduce"] = lambda data, reduce, *values: call(
    "segment_reduce", data, reduce, **dict(zip("lengths indices offsets axis unsafe initial".split(), values, strict=True))
)
IMPLEMENTED["resize_"] = lambda self, size, *, memory_format=None: self.resize_(size, memory_format=memory_format)
LEAVES["Tensor.bernoulli_"] = _bernoulli_
for _name in ("bernoulli_.float", "bernoulli_.Tensor"):
    IMPLEMENTED[_name] = lambda self, p=0.5, *, generator=None: self.bernoulli_(p, generator=generator)
IMPLEMENTED["uniform_"] = lambda self, low=0.0, high=1.0, *, generator=None, **named: self.uniform_(
    named.get("from", low), named.get("to", high), generator=generator
)
IMPLEMENTED["random_"] = IMPLEMENTED["random_.to"] = IMPLEMENTED["random_.from"] = lambda self, *bounds, generator=None: self.random_(
    *bounds, generator=generator
)


def shown_random(name: str, input: Any, bounds: tuple[Any, ...], generator: Any, named: dict[str, Any]) -> Any:
    """``uniform_`` and ``random_``, whose bounds may come as ``from`` and ``to``."""
    bounds = (*bounds, *[named[word] for word in ("from", "to") if word in named])
    if name == "uniform_":
        return _write_random("uniform_", input, () if bounds == (0, 1) else tuple(map(float, bounds)), generator)
    return _write_random(f"random_.{('default', 'to', 'from')[len(bounds)]}", input, bounds, generator)
