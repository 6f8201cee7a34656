"""Calls of PyTorch's kernels on spread tensors.

    call      where each operand lies
    choose    for each dimension of the mesh the rule's choice (``_rules``) that moves the fewest bytes
    move      operands to where the choice wants them
    run       the kernel on this process's parts
    wrap      results around what it gave

A decision depends on shapes and placements alone and is kept, so that the next call of its kind only moves and runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ... import ops
from ...core.tensor import Tensor
from ._redistribute import redistributed
from ._spec import DTensorSpec, local_part, spec_of
from .placement_types import Partial, Placement, Replicate, Shard

Places = tuple[Placement | None, ...]


class Choice(NamedTuple):
    """Placements on one dimension of the mesh with which a kernel may run on parts: of its results, and of its operands."""

    outputs: Places
    inputs: tuple[Placement, ...]


class SpreadCall:
    """A call, as rules look at it: ``operands`` are the specs of the spread tensors among the arguments, in their order."""

    def __init__(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], operands: list[DTensorSpec]) -> None:
        self.func, self.args, self.kwargs, self.operands = func, args, kwargs, operands
        self.name: str = func._overloadpacket.__name__
        self.count, self.mesh_dim = 1, 0
        self.results: list[Any] = []

    def placement(self, operand: int) -> Placement:
        """An operand's placement on the dimension of the mesh that is being decided."""
        return self.operands[operand].placements[self.mesh_dim]

    def argument(self, index: int, name: str, default: Any = None) -> Any:
        return self.args[index] if len(self.args) > index else self.kwargs.get(name, default)

    def divides(self, operand: int, dim: int) -> bool:
        """Whether a dimension is worth dividing, or is divided already."""
        return self.operands[operand].shape[dim] >= self.count or self.placement(operand) == Shard(dim)


Rule = Callable[[SpreadCall], Iterable[Choice]]


class Implicit(threading.local):
    """Whether this thread takes plain tensors among spread ones for whole ones."""

    is_on = False


implicit = Implicit()
RULES: dict[str, Rule] = {}  # by name of a kernel
GENERAL: list[Callable[[Any], Rule | None]] = []  # give the rule of a kernel that has none by name
DECOMPOSED: dict[str, Callable[..., Any]] = {}  # kernels that are computed by other calls on the spread tensors; None where they are not
LOCAL: dict[str, Callable[..., Any]] = {}  # what runs instead of a kernel: (call, decision, args, kwargs)


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Declare the choices of kernels."""

    def declare(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return declare


# -- arguments -------------------------------------------------------------------------------------------------------------------
def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """``function`` of everything in nested lists, tuples and dictionaries."""
    if isinstance(tree, (list, tuple)) and type(tree) in (list, tuple):
        return type(tree)([mapped(function, part) for part in tree])
    if isinstance(tree, dict):
        return {name: mapped(function, part) for name, part in tree.items()}
    return function(tree)


@dataclass(slots=True)
class Decision:
    """Placements that operands must have, and specs of the results."""

    targets: list[tuple[Placement, ...]]
    outputs: list[DTensorSpec | None]
    is_sequence: bool
    replaced: dict[int, Any]  # arguments that are sizes: those of this process's part


_KNOWN: dict[Any, Decision] = {}


def _key(func: Any, mesh: Any, operands: list[DTensorSpec], values: list[Any]) -> Any:
    """A key of all that a decision depends on; None where it cannot be looked up."""
    key = (func, mesh, tuple([spec.key for spec in operands]), tuple([(value.__class__, value) for value in values]))
    try:
        hash(key)
    except TypeError:
        return None
    return key


def call_kernel(kind: type, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call with spread tensors (of class ``kind``) among its arguments.

    Raises:
        NotImplementedError: the kernel has no rule.
        RuntimeError: plain tensors with dimensions among the arguments, or two meshes.
    """
    name = func._overloadpacket.__name__
    if name in DECOMPOSED:
        result = DECOMPOSED[name](*args, **kwargs)
        if result is not NotImplemented:
            return result
    if implicit.is_on:
        args, kwargs = _replicated(kind, args, kwargs)
    spread, values = _operands(kind, func, args, kwargs)
    specs = [tensor._spec for tensor in spread]
    key = _key(func, specs[0].mesh, specs, values)
    decision = _KNOWN.get(key) if key is not None else None
    if decision is None:
        decision = _decided(SpreadCall(func, args, kwargs, specs))
        if key is not None:
            if len(_KNOWN) > 10_000:
                _KNOWN.clear()
            _KNOWN[key] = decision
    return _run(kind, func, args, kwargs, spread, decision)


def _replicated(kind: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments with plain tensors as spread ones that are whole everywhere."""
    meshes: list[Any] = []
    mapped(lambda value: meshes.append(value._spec.mesh) if isinstance(value, kind) else None, (*args, *kwargs.values()))
    whole = (Replicate(),) * meshes[0].ndim

    def around(value: Any) -> Any:
        if not isinstance(value, Tensor) or isinstance(value, kind) or not value.dim():
            return value
        return kind._around(value, spec_of(meshes[0], whole, value.shape, value.dtype, value.stride()))

    return tuple(mapped(around, args)), mapped(around, kwargs)


def _operands(kind: type, func: Any, args: Any, kwargs: Any) -> tuple[list[Any], list[Any]]:
    """The spread tensors, and all other arguments."""
    spread: list[Any] = []
    values: list[Any] = []

    def look(value: Any) -> None:
        if isinstance(value, kind):
            if spread and value._spec.mesh != spread[0]._spec.mesh:  # type: ignore[attr-defined]
                raise RuntimeError(f"{func}: expected tensors on one mesh, got {spread[0]._spec.mesh} and {value._spec.mesh}")  # type: ignore[attr-defined]
            spread.append(value)
            values.append(None)
        elif isinstance(value, Tensor):
            if value.dim():
                raise RuntimeError(
                    f"{func}: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before calling "
                    "distributed operators!"
                )
            values.append((value.dtype, "0-d"))
        elif isinstance(value, slice):
            values.append((value.start, value.stop, value.step))
        else:
            values.append(value)

    def walk(tree: Any) -> None:
        if isinstance(tree, (list, tuple)):
            values.append(len(tree))
            for part in tree:
                walk(part)
        else:
            look(tree)

    walk(args)
    for name, value in kwargs.items():
        values.append(name)
        walk(value)
    return spread, values


# -- decisions -------------------------------------------------------------------------------------------------------------------
def _decided(call: SpreadCall) -> Decision:
    found = _rule_of(call)
    results, is_sequence = _results_as_a_whole(call)
    call.results = results
    mesh = call.operands[0].mesh
    is_written = call.func._schema.is_mutable
    chosen: list[Choice] = []
    for index in range(mesh.ndim):
        call.mesh_dim, call.count = index, mesh.size(index)
        choices = [Choice((Replicate(),) * len(results), (Replicate(),) * len(call.operands)), *found(call)]
        if is_written:
            choices = [choice for choice in choices if choice.inputs[0] == call.placement(0)]
        if not choices:
            raise NotImplementedError(f"{call.func}: in-place operations that require placement changes are not supported")
        chosen.append(min(choices, key=lambda choice: _cost(call, choice)))
    targets = [tuple([choice.inputs[i] for choice in chosen]) for i in range(len(call.operands))]
    outputs: list[DTensorSpec | None] = []
    for i, result in enumerate(results):
        if not isinstance(result, Tensor):
            outputs.append(None)
            continue
        places = tuple([choice.outputs[min(i, len(choice.outputs) - 1)] or Replicate() for choice in chosen])
        outputs.append(spec_of(mesh, places, result.shape, result.dtype, result.stride()))
    return Decision(targets, outputs, is_sequence, _own_sizes(call, outputs))


_SIZES = {
    "view": 1, "_unsafe_view": 1, "reshape": 1, "expand": 1, "new_empty": 1, "new_zeros": 1, "new_ones": 1, "new_full": 1,
    "new_empty_strided": 1, "slice_backward": 1, "select_backward": 1,
}  # fmt: skip


def _own_sizes(call: SpreadCall, outputs: list[DTensorSpec | None]) -> dict[int, Any]:
    """Arguments that are the size of the result, as they are for this process's part."""
    if call.name not in _SIZES or outputs[0] is None:
        return {}
    spec = outputs[0]
    if spec.mesh.get_coordinate() is None:
        return {}
    shape, _ = local_part(spec.shape, spec.mesh, spec.placements, spec.mesh.get_coordinate())
    replaced: dict[int, Any] = {_SIZES[call.name]: list(shape)}
    if call.name == "new_empty_strided":
        order = sorted(range(len(shape)), key=lambda dim: spec.stride[dim])
        strides, step = [1] * len(shape), 1
        for dim in order:
            strides[dim], step = step, step * max(shape[dim], 1)
        replaced[2] = strides
    return replaced


def _results_as_a_whole(call: SpreadCall) -> tuple[list[Any], bool]:
    """Results with the shapes that they have as a whole: the kernel's on the meta device."""
    specs = iter(call.operands)

    def whole(value: Any) -> Any:
        if isinstance(value, Tensor):
            if not hasattr(value, "_spec"):
                return ops.empty((), dtype=value.dtype, device="meta")
            spec = next(specs)
            return ops.empty_strided(spec.shape, spec.stride, dtype=spec.dtype, device="meta")
        return value

    if call.name in ("_local_scalar_dense", "equal"):
        return [None], False
    args, kwargs = mapped(whole, call.args), mapped(whole, {**call.kwargs})
    result = call.func(*args, **{name: value for name, value in kwargs.items() if name not in ("device", "pin_memory")})
    is_sequence = isinstance(result, (list, tuple))
    return (list(result) if is_sequence else [result]), is_sequence


def _rule_of(call: SpreadCall) -> Rule:
    found = RULES.get(call.name) or RULES.get(call.name.removesuffix("_"))
    if found is None:
        found = next((general for ask in GENERAL if (general := ask(call.func)) is not None), None)
    if found is None:
        raise NotImplementedError(f"{call.func}: a DTensor has no rule for this operation yet")
    return found


def _cost(call: SpreadCall, choice: Choice) -> float:
    """Bytes that are sent, about: a reduction is sent and comes back."""
    total = 0.0
    for i, wanted in enumerate(choice.inputs):
        have, spec = call.placement(i), call.operands[i]
        if have != wanted:
            size = spec.dtype.itemsize
            for n in spec.shape:
                size *= n
            total += 1 + size * _COSTS[_kind(have)][_kind(wanted)]
    return total


def _kind(placement: Placement) -> int:
    return 0 if isinstance(placement, Replicate) else 1 if isinstance(placement, Shard) else 2


# From a whole, a part, a term (rows) to a whole, a part, a term. Copying a part of a whole sends nothing but takes time.
_COSTS = ((0.0, 0.1, 0.1), (1.0, 0.5, 1.2), (2.0, 1.0, 2.1))


# -- running ---------------------------------------------------------------------------------------------------------------------
def _run(kind: Any, func: Any, args: Any, kwargs: Any, spread: list[Any], decision: Decision) -> Any:
    locals_ = iter(
        [
            tensor._local_tensor if tensor._spec.placements == target else redistributed(tensor._local_tensor, tensor._spec, target)
            for tensor, target in zip(spread, decision.targets, strict=True)
        ]
    )

    def local(value: Any) -> Any:
        return next(locals_) if isinstance(value, kind) else value

    own_args = list(mapped(local, args))
    own_kwargs = mapped(local, kwargs)
    for index, value in decision.replaced.items():
        own_args[index] = value
    name = func._overloadpacket.__name__
    if name in LOCAL:
        result = LOCAL[name](func, spread, decision, own_args, own_kwargs)
    else:
        result = func(*own_args, **own_kwargs)
    if func._schema.is_mutable and spread and spread[0] is args[0]:
        return args[0]
    if not decision.is_sequence:
        spec = decision.outputs[0]
        return result if spec is None else kind._around(result, spec)
    made = [part if spec is None else kind._around(part, spec) for part, spec in zip(result, decision.outputs, strict=True)]
    return tuple(made) if isinstance(result, tuple) else made


def partial_sum(placement: Placement) -> bool:
    """Whether terms add up, so that linear operations may be done on each."""
    return isinstance(placement, Partial) and placement.reduce_op in ("sum", "avg")


__all__: Sequence[str] = ["Choice", "SpreadCall", "call_kernel", "rule"]
