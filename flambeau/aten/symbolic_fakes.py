"""Fake tensors with symbolic sizes: a kernel is run, without values, at a few sizes, and its result's sizes are found from what came.

FakeTensor        _sizes    (s0, 3, 8)            what programs see
                  _array    (4, 3, 8)             the example: the first world
                  _worlds   (7, 3, 8), (11, 3, 8) tensors of the device meta, for the other worlds
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.arrays.hollow import filled
from ..core.arrays.meta_array import empty
from ..core.calls.override import DisableTorchFunction
from ..core.expressions import as_expr
from ..core.shape import Size
from ..core.symbolic import ConstraintViolationError, Relation, SymbolicBool, SymbolicFloat, SymbolicInt, expression_of
from ..core.tensor import Tensor, share, storage_of, wrap
from ..utils._pytree import tree_leaves, tree_map
from . import below
from .fake_tensor import FakeTensor
from .size_inference import infer
from .size_relations import Needed, needed

_SYMBOLIC = (SymbolicInt, SymbolicFloat, SymbolicBool)


def concerns(args: Any, kwargs: Any) -> bool:
    """Whether there is a symbolic number, or a tensor with a symbolic size, among arguments."""
    return any(
        isinstance(leaf, _SYMBOLIC) or (isinstance(leaf, FakeTensor) and leaf._sizes is not None) for leaf in tree_leaves((args, kwargs))
    )


def symbolize(fake: FakeTensor, sizes: Any) -> FakeTensor:
    """Give a fake symbolic sizes, and what stands for it in the other worlds.

    Args:
        fake: a fake that nothing was done with yet; it gets the example's sizes.
        sizes: symbolic integers and plain ones.
    """
    if not any(isinstance(size, SymbolicInt) for size in sizes):
        return fake
    env = fake.fake_mode.shape_env
    shapes = [tuple([env.in_world(size, k) for size in sizes]) for k in range(len(env.worlds))]
    if shapes[0] != tuple(fake._array.shape):
        made = wrap(empty(shapes[0], fake._array.dtype))
        other = FakeTensor(fake.fake_mode, made, fake._array._where)
        other._requires_grad = fake._requires_grad
        fake = other
    fake._sizes = tuple.__new__(Size, sizes)
    fake._worlds = [wrap(empty(shape, fake._array.dtype)) for shape in shapes[1:]]
    return fake


def dispatch(mode: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """Do a call in all worlds, and say of the results what their sizes are.

    Raises:
        ConstraintViolationError: it can be done for the example, and not, or not alike, for other sizes.
    """

    env = mode.shape_env
    candidates = _sizes_among(args, kwargs)
    check: Any = _CHECKS.get(func.name())
    if check is not None:
        check(*args)
    shown = tree_map(lambda leaf: env.in_world(leaf, 0) if isinstance(leaf, _SYMBOLIC) else leaf, (args, kwargs))
    known = {id(leaf): leaf for leaf in tree_leaves(shown) if isinstance(leaf, FakeTensor)}
    result = _at_example(mode, func, *shown)
    parts = [leaf for leaf in tree_leaves(result) if isinstance(leaf, FakeTensor)]
    others = []
    for k in range(1, len(env.worlds)):
        try:
            others.append(_in_world(mode, func, args, kwargs, k))
        except _FAILURES as error:
            sizes = ", ".join(f"{name} = {size}" for name, size in env.worlds[k].items())
            relations = _needed(mode, func, args, kwargs, k)
            violation = ConstraintViolationError(
                f"{func} can be done for the example, and not for other sizes ({sizes}): {error}", relations.fixed, relations.equal
            )
            violation.sums = relations.sums
            raise violation from error
    for other in others:
        if len(other) != len(parts):
            raise ConstraintViolationError(
                f"{func} returns {len(parts)} tensors for the example and {len(other)} for other sizes",
                {name for expr in candidates for name in expr.symbols},
            )
    for place, fake in enumerate(parts):
        if id(fake) not in known or fake._sizes is None or fake._sizes.__class__ is not Size or _reshapes(func):
            _find_sizes(env, func, fake, [other[place] for other in others], candidates)
    return result


_FAILURES = (RuntimeError, IndexError, ValueError, TypeError)


def _needed(mode: Any, func: Any, args: Any, kwargs: Any, world: int) -> Needed:
    """The relations of symbols without which a call cannot be done that failed in a world."""
    env = mode.shape_env
    names = sorted({name for expr in _sizes_among(args, kwargs) for name in expr.symbols})

    def can_be(changed: dict[str, int]) -> bool:
        env.worlds.append({**env.hints, **changed})
        env.known.clear()
        try:
            _in_world(mode, func, args, kwargs, len(env.worlds) - 1)
        except _FAILURES:
            return False
        finally:
            env.worlds.pop()
            env.known.clear()
        return True

    return needed(names, env.hints, env.worlds[world], can_be)


def _reshapes(func: Any) -> bool:
    return func.name().rpartition(".")[0] in ("aten::t_", "aten::transpose_", "aten::squeeze_", "aten::unsqueeze_", "aten::resize_")


def _at_example(mode: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """The call for the example, by the mode as it is without symbols."""
    env, mode.shape_env = mode.shape_env, None
    try:
        return mode.dispatch(func, args, kwargs)
    finally:
        mode.shape_env = env


def _in_world(mode: Any, func: Any, args: Any, kwargs: Any, world: int) -> list[Any]:
    """The tensors that a call returns in another world."""
    env = mode.shape_env

    def plain(leaf: Any) -> Any:
        if isinstance(leaf, _SYMBOLIC):
            return env.in_world(leaf, world)
        return at_world(mode, leaf, world) if isinstance(leaf, Tensor) else leaf

    if "device" in kwargs:
        kwargs = {**kwargs, "device": "meta", **({"pin_memory": False} if "pin_memory" in kwargs else {})}
        if func.name() == "aten::_to_copy":
            kwargs = {key: value for key, value in kwargs.items() if key not in ("device", "pin_memory", "non_blocking")}
    elif not any(isinstance(leaf, Tensor) for leaf in tree_leaves((args, kwargs))):
        if "device" in [argument.name for argument in func._schema.arguments]:
            kwargs = {**kwargs, "device": "meta"}
    name = func.name()
    if name in ("aten::to.device", "aten::to.dtype_layout", "aten::to.other"):
        return [at_world(mode, args[0], world)]
    if name.startswith("aten::index_put"):
        return [at_world(mode, args[0], world)]
    with below.without_modes(), DisableTorchFunction():
        result = func(*tree_map(plain, args), **tree_map(plain, kwargs))
    return [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]


def at_world(mode: Any, tensor: Any, world: int) -> Tensor:
    """The stand-in for a tensor in another world."""
    fake = tensor if isinstance(tensor, FakeTensor) else mode.from_tensor(tensor, static_shapes=True)
    if fake._worlds is not None and world > len(fake._worlds):  # one that is tried out
        return wrap(empty(tuple([mode.shape_env.in_world(size, world) for size in fake._sizes]), fake._array.dtype))
    if fake._worlds is not None:
        found: Tensor = fake._worlds[world - 1]
        return found
    return share(filled(fake._array), storage_of(fake))


def _find_sizes(env: Any, func: Any, fake: Any, others: list[Tensor], candidates: list[Any]) -> None:

    shapes = [tuple(fake._array.shape), *[tuple(other._array.shape) for other in others]]
    if any(len(shape) != len(shapes[0]) for shape in shapes):
        raise ConstraintViolationError(f"{func} returns tensors of {[len(shape) for shape in shapes]} dimensions for different sizes")
    sizes = []
    for values in zip(*shapes, strict=True):
        expr = infer(env, values, candidates)
        if expr is None:
            shown = ", ".join(map(str, candidates))
            raise NotImplementedError(f"{func}: a size of its result, {values} for different sizes, is no known function of {shown}")
        sizes.append(env.number(expr))
    if any(isinstance(size, SymbolicInt) for size in sizes):
        fake._sizes, fake._worlds = tuple.__new__(Size, sizes), others
    else:
        fake._sizes = fake._worlds = None


def _sizes_among(args: Any, kwargs: Any) -> list[Any]:
    """The symbolic sizes among arguments and of tensors among them, each once."""
    found: dict[Any, None] = {}
    for leaf in tree_leaves((args, kwargs)):
        numbers = leaf._sizes or () if isinstance(leaf, FakeTensor) else (leaf,)
        for number in numbers:
            if isinstance(number, SymbolicInt):
                found.setdefault(number.expr)
    return list(found)


# ---- what depends on values
def of_values(mode: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """The result of a kernel that needs values: numbers and sizes of which nothing is known; NotImplemented for others."""
    env, x, name = mode.shape_env, args[0], func.name()
    if name in _OF_UNKNOWN_LENGTH:
        bound = {argument.name: argument.default_value for argument in func._schema.arguments}
        bound |= {argument.name: value for argument, value in zip(func._schema.arguments, args, strict=False)} | kwargs
        return _OF_UNKNOWN_LENGTH[name](mode, x, bound)
    if name in ("aten::_local_scalar_dense", "aten::item"):
        if "_number" in x.__dict__:
            return x.__dict__["_number"]
        if x._array.dtype.kind == "f":
            return env.create_unbacked_symfloat()
        number = env.create_unbacked_symint()
        return number if x._array.dtype.kind != "b" else SymbolicBool(Relation("!=", number.expr, 0), env)
    if name == "aten::index.Tensor":
        used = [(d, index) for d, index in enumerate(args[1]) if index is not None]
        if len(used) == 1:
            (dim, mask), *_ = used
            shape = tuple(x.shape)
            return _of_unknown_length(mode, x, shape[:dim], shape[dim + mask._array.ndim :], x._array.dtype)
    return NotImplemented


def _counts(mode: Any, x: Any, bound: dict[str, Any]) -> Any:
    made = _of_unknown_length(mode, x, (), (), np.dtype(np.int64 if bound["weights"] is None else np.float64))
    mode.shape_env.assume(Relation(">=", made._sizes[0].expr, bound["minlength"]))
    return made


def _classes(mode: Any, x: Any, bound: dict[str, Any]) -> Any:
    if bound["num_classes"] >= 0:
        return NotImplemented
    return _of_unknown_length(mode, x, tuple(x.shape), (), x._array.dtype)


def _repeated(mode: Any, x: Any, bound: dict[str, Any]) -> Any:
    return NotImplemented if bound["output_size"] is not None else _of_unknown_length(mode, x, (), (), x._array.dtype)


def _repeated_parts(mode: Any, x: Any, bound: dict[str, Any]) -> Any:
    if bound["output_size"] is not None:
        return NotImplemented
    shape, dim = tuple(x.shape) if bound["dim"] is not None else (0,), bound["dim"] or 0
    return _of_unknown_length(mode, x, shape[: dim % len(shape)], shape[dim % len(shape) + 1 :], x._array.dtype)


def _distinct(mode: Any, x: Any, bound: dict[str, Any]) -> tuple[Any, ...]:
    """Distinct elements or slices, which of them each one is, and how many there are; empty ones of what is not asked for."""
    shape, dim = tuple(x.shape), bound.get("dim")
    before, behind = ((), ()) if dim is None else (shape[: dim % len(shape)], shape[dim % len(shape) + 1 :])
    values = _of_unknown_length(mode, x, before, behind, x._array.dtype)
    count = values._sizes[len(before)]
    sizes = (
        (shape if dim is None else (shape[dim],)) if bound["return_inverse"] else (0,),
        (count,) if bound["return_counts"] else (0,),
    )
    return values, *[_of_sizes(mode, each, x.device, np.dtype(np.int64)) for each in sizes]


def _packed(mode: Any, x: Any, bound: dict[str, Any]) -> tuple[Any, Any]:
    """Packed rows, and how many sequences each step has, whose number is noted."""
    steps, batch = tuple(x.shape)[:2][:: -1 if bound["batch_first"] else 1]
    env, lengths = mode.shape_env, bound["lengths"]
    longest = env.create_unbacked_symint(0)
    for relation, limit in ((">=", 1), ("<=", expression_of(steps))):  # first: other numbers are chosen for what fakes stand for
        env.assume(Relation(relation, longest.expr, limit))
    data = _of_unknown_length(mode, x, (), tuple(x.shape)[2:], x._array.dtype)
    counts = _of_sizes(mode, (longest,), lengths.device, np.dtype(np.int64))
    counts.__dict__["_sequences"] = batch
    return data, counts


def _selected(mode: Any, x: Any, bound: dict[str, Any]) -> Any:
    """The first of such numbers is that of all sequences."""
    if "_sequences" not in x.__dict__ or bound["dim"] != 0 or bound["index"] != 0:
        return NotImplemented
    made = _of_sizes(mode, (), x.device, x._array.dtype)
    made.__dict__["_number"] = x.__dict__["_sequences"]
    return made


def _padded(mode: Any, x: Any, bound: dict[str, Any]) -> tuple[Any, Any]:
    counts, total = bound["batch_sizes"], bound["total_length"]
    batch = counts.__dict__.get("_sequences")
    batch = mode.shape_env.create_unbacked_symint(0) if batch is None else batch
    steps = total if isinstance(total, SymbolicInt) or total > 0 else counts.shape[0]
    lead = (batch, steps) if bound["batch_first"] else (steps, batch)
    return (
        _of_sizes(mode, (*lead, *tuple(x.shape)[1:]), x.device, x._array.dtype),
        _of_sizes(mode, (batch,), counts.device, np.dtype(np.int64)),
    )


def _of_packed_layers(mode: Any, x: Any, bound: dict[str, Any]) -> tuple[Any, ...]:
    """The rows of the last layer, and the last states, which have the shapes of the first ones."""
    hidden = bound["hx"]
    states = list(hidden) if isinstance(hidden, (tuple, list)) else [hidden]
    width = states[0].shape[-1] * (2 if bound["bidirectional"] else 1)
    rows = _of_sizes(mode, (x.shape[0], width), x.device, x._array.dtype)
    return rows, *[_of_sizes(mode, tuple(state.shape), state.device, state._array.dtype) for state in states]


_OF_UNKNOWN_LENGTH: dict[str, Any] = {
    "aten::_pack_padded_sequence": _packed,
    "aten::_pad_packed_sequence": _padded,
    "aten::select.int": _selected,
    **dict.fromkeys([f"aten::{name}.data" for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")], _of_packed_layers),
    "aten::bincount": _counts,
    "aten::one_hot": _classes,
    "aten::repeat_interleave.Tensor": _repeated,
    "aten::masked_select": lambda mode, x, bound: _of_unknown_length(mode, x, (), (), x._array.dtype),
    **dict.fromkeys(
        ("aten::argwhere", "aten::nonzero"),
        lambda mode, x, bound: _of_unknown_length(mode, x, (), (x._array.ndim,), np.dtype(np.int64)),
    ),
    "aten::repeat_interleave.self_Tensor": _repeated_parts,
    **dict.fromkeys(("aten::_unique2", "aten::unique_dim", "aten::unique_consecutive", "aten::unique_dim_consecutive"), _distinct),
}


def has_unknown_length(name: str) -> bool:
    """Whether a kernel's result has a size that depends on values."""
    return name in _OF_UNKNOWN_LENGTH


def _of_sizes(mode: Any, sizes: Any, device: Any, kind: np.dtype) -> Any:
    example = tuple([mode.shape_env.in_world(size, 0) for size in sizes])
    return symbolize(FakeTensor(mode, wrap(empty(example, kind)), device), sizes)


def _of_unknown_length(mode: Any, x: Any, before: Any, behind: Any, kind: np.dtype) -> Any:
    """A tensor with a dimension of which nothing is known."""
    return _of_sizes(mode, (*before, mode.shape_env.create_unbacked_symint(0), *behind), x.device, kind)


# ---- what kernels assume about sizes without failing
def _check_slice(input: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> None:
    """A slice stops at the dimension's end: for the example, and then for all sizes, or for none."""
    size = input.shape[dim]
    for bound in (start, end):
        if bound is None or (bound.__class__ is int and bound >= 2**62):
            continue
        relation = Relation("<=", expression_of(-bound if bound < 0 else bound), as_expr(expression_of(size)))
        env = getattr(size, "env", getattr(bound, "env", None))
        if env is not None:
            env.decide(relation)


def _check_select(input: Any, dim: int, index: Any) -> None:
    size = input.shape[dim]
    if isinstance(size, SymbolicInt):
        size.env.decide(Relation("<", expression_of(-index - 1 if index < 0 else index), size.expr))


_CHECKS = {"aten::slice.Tensor": _check_slice, "aten::select.int": _check_select}
