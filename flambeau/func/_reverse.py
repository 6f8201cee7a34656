"""Reverse mode: ``grad``, ``vjp`` and what they stand on, fresh variables on the one tape and gradients level by level.

Reverse mode needs no interpreter. A fresh alias of an argument is its level: what is computed from it is recorded beside whatever else
is, and a backward pass that asks for this variable's gradient is the transform.

    x ----> alias ----> f ----> value

Over a ``Batch`` the variable is spread over the examples first; then the gradient of the values' sum is every example's gradient. Over a
``Dual`` there are two passes: the gradient of the value, and the gradient of its tangent.

What the transform returns is cut off the tape, unless somebody else's variable was met: the argument's own history, or a variable that the
function closes over. A walk from the value to the variables tells (``Recording``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..autograd.engine import run_backward
from ..core.state import grad_enabled, set_inference, thread, unwound
from ..core.tape.history import alias_leaf, is_differentiable, make_view
from ..core.tape.node import VARIABLE, Node, Output, edge_of
from ..core.tensor import Tensor, ViewMeta, root_of
from ..ops import conversion
from ..utils._pytree import TreeSpec, tree_flatten, tree_map, tree_unflatten, treespec_pprint
from ._batch import Batch
from ._levels import Hook, Wrapped, below, core_of, highest, needs_grad


# -- variables --------------------------------------------------------------------------------------------------------------------------
def alias(tensor: Any, connected: bool = True) -> Any:
    """``tensor`` as a new variable, at all levels.

    Args:
        connected: whether it stays connected to what it was computed from; a leaf otherwise, as it is where that is nothing.
    Raises:
        RuntimeError: integers.
    """
    if tensor.__class__ is Wrapped:
        made = tensor._owner.wrap(alias(tensor._inner, connected), tensor._tangent)
        made._is_repeated = tensor._is_repeated
        return made
    if not is_differentiable(tensor._array):
        raise RuntimeError("only Tensors of floating point dtype can require gradients")
    if connected and tensor.requires_grad:
        made = make_view(tensor._array, tensor)
        made._view_of = ViewMeta(root_of(tensor), "variable")
        alias_leaf(tensor, made)
        return made
    made = conversion.detach(tensor)
    made._requires_grad = VARIABLE
    return made


def batches_in(tensors: Iterable[Any]) -> list[Any]:
    """The batches that tensors belong to, at any level and in tangents too; the lowest level first."""
    found: set[Any] = set()
    waiting = [each for each in tensors if each.__class__ is Wrapped]
    for each in waiting:  # grows meanwhile
        if each._owner.__class__ is Batch:
            found.add(each._owner)
        waiting += [part for part in (each._inner, each._tangent) if part.__class__ is Wrapped]
    return sorted(found, key=lambda batch: batch.level)


def batches_below(owner: Any) -> list[Any]:
    """The batches that run below a level, the lowest first."""
    return [each for each in thread.levels if each.__class__ is Batch and each.level < owner.level]


def spread(tensor: Any, batches: Sequence[Any] | None = None, under: int = 1 << 30) -> Any:
    """``tensor`` over ``batches`` (all that are running when None), so that every example has a gradient of its own; each at its level."""
    own = 0
    if batches is None:
        batches = [each for each in thread.levels if each.__class__ is Batch]
    if tensor.__class__ is Wrapped:
        own, is_repeated = tensor._owner.level, tensor._is_repeated
        tensor = tensor._owner.wrap(spread(tensor._inner, batches, own), tensor._tangent)
        tensor._is_repeated = is_repeated
    for each in batches:
        if own < each.level < under:
            tensor = each.repeated(tensor)
    return tensor


def over_batches_of(value: Any, tangent: Any) -> Any:
    """``tangent`` over the batches that ``value`` is over, so that it can be written to where the value can."""
    if value.__class__ is not Wrapped:
        return tangent
    there = batches_in([tangent])
    missing = [each for each in batches_in([value]) if each not in there]
    return spread(tangent, missing).clone() if missing else tangent


def zeros_of(tensor: Any) -> Any:
    """Zeros at all levels of batching, so that each example has its own."""
    if tensor.__class__ is not Wrapped:
        return tensor.new_zeros(tensor._array.shape)
    return tensor._owner.wrap(zeros_of(tensor._inner), None)  # a Dual without a tangent is the value itself


def _plain(tensor: Any) -> list[Any]:
    """The plain tensors that a tensor consists of, at the bottom of all levels."""
    found, waiting = [], [tensor]
    for each in waiting:  # grows meanwhile
        if each.__class__ is Wrapped:
            waiting += [each._inner, each._tangent]
        elif each is not None:
            found.append(each)
    return found


class Recording:
    """Inside this ``with`` block a transformed function runs: calls are recorded, whatever was on outside.

    Attributes:
        kept: whether results may be recorded for others, which ``no_grad`` around the transform says.
    """

    __slots__ = ("_own", "_was", "kept")

    def __enter__(self) -> Recording:
        self._was = thread.inference, thread.grad_mode
        self.kept = grad_enabled()
        self._own: list[Tensor] = []
        thread.variables += 1
        set_inference(False, True)
        return self

    def __exit__(self, *exc_info: object) -> None:
        thread.variables -= 1
        set_inference(*self._was)
        for each in self._own:
            each._requires_grad = VARIABLE

    def variable(self, tensor: Any) -> Any:
        """An argument as the function gets it."""
        if not isinstance(tensor, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(tensor)}")
        made = alias(spread(tensor) if thread.levels else tensor, self.kept)
        leaf = core_of(made)
        if leaf._node is None:
            leaf._requires_grad = True  # while the function runs, so that transforms inside of it see that they meet a variable
            self._own.append(leaf)
        return made

    # -- when the function has run -------------------------------------------------------------------------------------------------
    def is_connected(self, tensor: Any) -> bool:
        """Whether a tensor was computed from somebody else's variables."""
        if self.kept:
            for each in _plain(tensor):
                if each.requires_grad and _has_variables(each):
                    return True
        return False

    def result(self, tensor: Any) -> Any:
        """A tensor as the transform returns it."""
        if tensor.__class__ is Wrapped:
            return tensor._owner.rewrapped(tensor, self.result)
        return conversion.detach(tensor) if tensor.requires_grad and not self.is_connected(tensor) else tensor

    def aux(self, tree: Any) -> Any:
        """Auxiliary output of a function, as the transform returns it.

        Raises:
            RuntimeError: something that is no tensor.
        """
        return tree_map(self._aux, tree)

    def _aux(self, each: Any) -> Any:
        if not isinstance(each, Tensor):
            raise RuntimeError(f"Expected tensors, got unsupported type {type(each)}")
        return self.result(each)


def _has_variables(tensor: Tensor) -> bool:
    """Whether a way through the tape leads to a leaf that requires grad; variables of transforms that have run do not count."""
    edges = [edge_of(tensor)]
    seen = set()
    while edges:
        edge = edges.pop()
        node = edge.node if edge.__class__ is Output else edge
        if isinstance(node, Node):
            if node not in seen:
                seen.add(node)
                edges += node.edges
        elif node is not None and node._requires_grad is True:
            return True
    return False


# -- gradients through levels -----------------------------------------------------------------------------------------------------------
def gradients(outs: Sequence[Any], inputs: Sequence[Any], seeds: Sequence[Any], record: bool, keep: bool = True) -> list[Any]:
    """Gradients of ``outs`` at ``inputs``; each level of wrapping is taken off, and put around the result again.

    Args:
        seeds: the vectors of the product; None for ones.
        record: whether the gradients are to be differentiated. keep: whether the graph is used again.
    """
    for level in thread.levels:
        keep = keep or level.records  # what is recorded runs through these graphs again
    owner = highest([*outs, *inputs])
    recorder = _recorder_in(seeds) if owner is None or not owner.records else owner
    if recorder is not None and (owner is None or owner.level <= recorder.level):
        return recorder.gradients(outs, inputs, seeds)
    if owner is None:
        pairs = [(o, o.new_ones(o._array.shape) if seed is None else seed) for o, seed in zip(outs, seeds, strict=True) if o.requires_grad]
        if not pairs:
            return [None] * len(inputs)
        used, ones = map(list, zip(*pairs, strict=True))
        return run_backward(used, ones, keep, record, inputs, accumulates=False)
    with below(owner):
        if owner.__class__ is Batch:
            inner = [_without(owner, each) for each in outs]
            plain = [each._inner if owner.has(each) else each for each in inputs]
            found = gradients(inner, plain, [None if each is None else _without(owner, each) for each in seeds], record, keep)
            return [None if g is None else wrapped_at(owner, g) if owner.has(x) else g for g, x in zip(found, inputs, strict=True)]
        values = [_parts(owner, each) for each in outs]
        plain = [owner.primal(each) for each in inputs]
        vectors = [(None, None) if each is None else _parts(owner, each) for each in seeds]
        pairs = [(t, s) for (_, t), (s, _) in zip(values, vectors, strict=True) if t is not None and needs_grad(t)]
        pairs += [(v, t) for (v, _), (_, t) in zip(values, vectors, strict=True) if t is not None]
        found = gradients([v for v, _ in values], plain, [s for s, _ in vectors], record, keep or bool(pairs))
        second = gradients([t for t, _ in pairs], plain, [s for _, s in pairs], record, keep) if pairs else [None] * len(inputs)
        results = []
        for g, t in zip(found, second, strict=True):
            if g is None and t is not None:
                g = zeros_of(t)
            results.append(g if t is None else wrapped_at(owner, g, t))
        return results


def _recorder_in(tensors: Iterable[Any]) -> Any:
    """The level that notes what is done with some of ``tensors``; None where there is none."""
    waiting = [each for each in tensors if each.__class__ is Wrapped]
    for each in waiting:  # grows meanwhile
        if each._owner.records:
            return each._owner
        waiting += [part for part in (each._inner, each._tangent) if part.__class__ is Wrapped]
    return None


def _without(batch: Batch, tensor: Any) -> Any:
    """A tensor with the batch in front, in place of its level; what is wrapped around that level stays."""
    if tensor.__class__ is not Wrapped or tensor._owner.level <= batch.level:
        return batch.inside(tensor)
    above = tensor._owner
    if above.__class__ is Batch:
        return above.wrap(_without(batch, tensor._inner).transpose(0, 1))
    return above.wrap(_without(batch, tensor._inner), _without(batch, tensor._tangent))


def _parts(dual: Any, tensor: Any) -> tuple[Any, Any]:
    """A tensor's value and tangent (or None) at a level; both keep what is wrapped around that level."""
    if tensor.__class__ is not Wrapped or tensor._owner.level <= dual.level:
        return dual.primal(tensor), dual.tangent(tensor)
    above = tensor._owner
    value, tangent = _parts(dual, tensor._inner)
    if above.__class__ is Batch:
        return above.wrap(value), None if tangent is None else above.wrap(tangent)
    slope, bend = _parts(dual, tensor._tangent)
    if tangent is None and bend is None:
        return above.wrap(value, slope), None
    return above.wrap(value, slope), above.wrap(zeros_of(value) if tangent is None else tangent, bend)


def wrapped_at(owner: Any, inner: Any, tangent: Any = None) -> Any:
    """``inner`` wrapped by ``owner``, below the wrappings of higher levels that it has already (cotangents can be of a later vmap)."""
    above = highest([inner, tangent])
    if above is None or above.level < owner.level:
        return owner.wrap(inner, tangent)
    if above.__class__ is Batch:
        value = above.inside(inner)
        if owner.__class__ is Batch:
            made = above.wrap(wrapped_at(owner, value.movedim(1, 0)))
        else:
            made = above.wrap(wrapped_at(owner, value, None if tangent is None else above.inside(tangent)))
        return above.marked(made) if above.are_repeated([inner, tangent]) else made
    (value, slope), (bend, twist) = [
        (None, None) if each is None else (above.primal(each), above.tangent(each)) for each in (inner, tangent)
    ]
    if slope is None and twist is None:
        return wrapped_at(owner, value, bend)
    return above.wrap(wrapped_at(owner, value, bend), wrapped_at(owner, zeros_of(value) if slope is None else slope, twist))


# -- arguments ----------------------------------------------------------------------------------------------------------------------------
def numbers_of(argnums: Any, count: int) -> tuple[int, ...]:
    """The positions that ``argnums`` chooses among ``count`` arguments.

    Raises:
        RuntimeError: no such argument, the same twice, or neither an integer nor a tuple of integers.
    """
    if isinstance(argnums, int):
        return (_number(argnums, count),)
    if not isinstance(argnums, tuple):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    if not argnums:
        raise RuntimeError("argnums must be non-empty")
    numbers = tuple([_number(each, count) for each in argnums])
    if len(set(numbers)) != len(numbers):
        raise RuntimeError(f"argnums elements must be unique, got {numbers}")
    return numbers


def _number(argnum: Any, count: int) -> int:
    if not isinstance(argnum, int):
        raise RuntimeError(f"argnum must be int, got: {type(argnum)}")
    if not -count <= argnum < count:
        raise RuntimeError(f"Got argnum={argnum}, but only {count} positional inputs")
    return argnum % count


class Chosen:
    """The arguments that a transform differentiates with respect to, as leaves, among all; ``argnums`` of None chooses all."""

    __slots__ = ("_args", "_numbers", "_spec", "leaves")

    def __init__(self, argnums: Any, args: tuple[Any, ...]):
        self._args = args
        numbers = range(len(args)) if argnums is None else numbers_of(argnums, len(args))
        self._numbers: Any = numbers[0] if isinstance(argnums, int) else numbers
        chosen = args[numbers[0]] if isinstance(argnums, int) else tuple([args[i] for i in numbers])
        self._spec: TreeSpec | None = None  # of a single tensor
        self.leaves = [chosen]
        if chosen.__class__ is not Tensor and chosen.__class__ is not Wrapped:
            self.leaves, self._spec = tree_flatten(chosen)

    def tree(self, leaves: Sequence[Any]) -> Any:
        """These leaves' arguments, with other leaves."""
        return leaves[0] if self._spec is None else tree_unflatten(leaves, self._spec)

    def all(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """All arguments, with other leaves."""
        tree, args = self.tree(leaves), list(self._args)
        if isinstance(self._numbers, int):
            args[self._numbers] = tree
        else:
            for i, each in zip(self._numbers, tree, strict=True):
                args[i] = each
        return args


def with_aux(made: Any, has_aux: bool, words: str) -> tuple[Any, Any]:
    """A function's value, and what it returned beside it.

    Raises:
        RuntimeError: no pair, although there should be one.
    """
    if not has_aux:
        return made, None
    if not (isinstance(made, tuple) and len(made) == 2):
        raise RuntimeError(f"{words}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return made


def tensors_of(made: Any, words: str) -> tuple[list[Any], TreeSpec | None]:
    """The tensors that a function returned, and the tree of them; None for a single one.

    Raises:
        RuntimeError: something else, or nothing.
    """
    if made.__class__ is Tensor or made.__class__ is Wrapped:
        return [made], None
    leaves, spec = tree_flatten(made)
    if not leaves or leaves == [None]:
        raise RuntimeError(f"{words}: Expected f to be a function that has non-empty output (got output = {leaves})")
    for each in leaves:
        if not isinstance(each, Tensor):
            raise RuntimeError(f"{words}: expected f(*primals) to return only tensors, got unsupported type {type(each)}")
    return leaves, spec


# -- grad ---------------------------------------------------------------------------------------------------------------------------------
def grad_and_value(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., tuple[Any, Any]]:
    """A function that returns the gradient of ``func``, and its value.

    Args:
        func: returns one number, a 0-d tensor.
        argnums: which positional arguments to differentiate with respect to: trees of floating point tensors.
        has_aux: whether ``func`` returns a pair of the number and a tree of tensors that are not differentiated.
    Returns:
        A function of the same arguments that returns ``(gradient, value)``, with ``has_aux`` ``(gradient, (value, aux))``. The gradient is
        a tree like the argument; for a tuple of argnums a tuple.
    Raises:
        RuntimeError: when called: another result than one number, or no such arguments.
        ValueError: when called: a leaf of the arguments is no tensor.
    Example:
        >>> torch.func.grad_and_value(lambda x: (x**3).sum())(torch.tensor([1.0, 2.0]))
        (tensor([ 3., 12.]), tensor(9.))

    Source: torch.func.grad_and_value.
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        return _gradient_and_value(func, argnums, has_aux, args, kwargs)

    return wrapper


@unwound
def _gradient_and_value(func: Any, argnums: Any, has_aux: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    chosen = Chosen(argnums, args)
    with Recording() as recording:
        fresh = [recording.variable(each) for each in chosen.leaves]
        value, aux = with_aux(func(*chosen.all(fresh), **kwargs), has_aux, "grad_and_value(f)(*args)")
    _check_number(value)
    record = recording.is_connected(value)
    found = gradients([value], fresh, [None], record, record)
    gradient = chosen.tree([zeros_of(x) if g is None else g for g, x in zip(found, fresh, strict=True)])
    value = recording.result(value) if record else _detached(value)
    return gradient, (value, recording.aux(aux)) if has_aux else value


def _detached(tensor: Any) -> Any:
    return tensor._owner.rewrapped(tensor, _detached) if tensor.__class__ is Wrapped else conversion.detach(tensor)


def grad(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the gradient of ``func``; with ``has_aux`` ``(gradient, aux)``.

    Args:
        func, argnums, has_aux: as in ``grad_and_value``.
    Returns: a function with the arguments of ``func``; gradients have the shapes of the arguments ``argnums``.
    Raises:
        RuntimeError, ValueError: as ``grad_and_value``.
    Source: torch.func.grad.
    Example:
        >>> torch.func.grad(torch.sin)(torch.tensor(0.0))
        tensor(1.)
        >>> torch.func.grad(torch.func.grad(lambda x: x**3))(torch.tensor(2.0))
        tensor(12.)
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        found, value = _gradient_and_value(func, argnums, has_aux, args, kwargs)
        return (found, value[1]) if has_aux else found

    return wrapper


def _check_number(value: Any) -> None:
    if not isinstance(value, Tensor):
        raise RuntimeError(f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(value)}")
    if value._array.ndim:
        raise RuntimeError(
            f"grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with {value._array.ndim} dims. Maybe you "
            "wanted to use the vjp or jacrev APIs instead?"
        )
    if value._array.dtype.kind == "c":
        raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {value.dtype}")


# -- vjp ----------------------------------------------------------------------------------------------------------------------------------
class Pullback:
    """A function that was run once on fresh variables, and is ready to be differentiated any number of times.

    Attributes:
        outs, spec: the tensors that it returned, on the tape, and their tree (None for a single one). output: the tree, as others get it.
        aux: what it returned beside. chosen: the arguments.
    """

    @unwound
    def __init__(self, func: Callable[..., Any], args: tuple[Any, ...], argnums: Any, has_aux: bool, kwargs: dict[str, Any]):
        self.chosen = chosen = Chosen(argnums, args)
        with Recording() as recording:
            self.fresh = [recording.variable(each) for each in chosen.leaves]
            made = func(*chosen.all(self.fresh), **kwargs)
        made, aux = with_aux(made, has_aux, "vjp(f, *primals)")
        self.outs, self.spec = tensors_of(made, "vjp(f, *primals)")
        self._connected = any(recording.is_connected(each) for each in self.outs)
        results = [recording.result(each) for each in self.outs]
        self.output = results[0] if self.spec is None else tree_unflatten(results, self.spec)
        self.aux = recording.aux(aux) if has_aux else None

    def gradients(self, seeds: Sequence[Any], keep: bool = True, record: bool | None = None) -> list[Any]:
        """One for each leaf of the chosen arguments."""
        found = gradients(self.outs, self.fresh, seeds, self.recorded(seeds) if record is None else record, keep)
        return [zeros_of(x) if g is None else g for g, x in zip(found, self.fresh, strict=True)]

    def recorded(self, vectors: Sequence[Any]) -> bool:
        """Whether products with ``vectors`` are to be recorded for others."""
        return grad_enabled() and (self._connected or any(needs_grad(each) for each in vectors))

    def __call__(self, cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        """The arguments' gradients for the outputs' ``cotangents``, a tree like the output."""
        spec = self.spec
        seeds, given = ([cotangents], None) if cotangents.__class__ is Tensor else tree_flatten(cotangents)
        if given != spec and not all(each is None or each.is_leaf() for each in (given, spec)):
            words = ["*" if each is None else treespec_pprint(each) for each in (given, spec)]
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function. "
                f"cotangents: {words[0]}, primal output: {words[1]}"
            )
        for seed, out in zip(seeds, self.outs, strict=True):
            _check_cotangent(seed, out)
        return self.chosen.tree(self.gradients(seeds, retain_graph, create_graph))


def _check_cotangent(seed: Any, out: Any) -> None:
    if not is_differentiable(out._array):
        raise RuntimeError(f"vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor with dtype {out.dtype}")
    if seed is None:
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    if not isinstance(seed, Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(seed).__name__}")
    if seed._array.shape != out._array.shape:
        raise RuntimeError(f"Mismatch in shape: grad_output[0] has a shape of {seed.shape} and output[0] has a shape of {out.shape}.")


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of ``func`` at ``primals``, and a function that multiplies vectors with its Jacobian from the left.

    Args:
        func: takes trees of tensors and returns a tree of tensors.
        primals: its arguments.
        has_aux: whether ``func`` returns a pair of its output and a tree of tensors that are not differentiated.
    Returns:
        ``(output, vjp_fn)``, with ``has_aux`` ``(output, vjp_fn, aux)``. ``vjp_fn`` takes a tree like the output, may be called often,
        and returns a tuple with a tree for each of ``primals``.
    Raises:
        RuntimeError: outputs that are no tensors; from ``vjp_fn``: another tree or another shape.
        ValueError: a leaf of the arguments is no tensor.
    Example:
        >>> value, back = torch.func.vjp(lambda x: x**2, torch.tensor([1.0, 2.0]))
        >>> back(torch.tensor([1.0, 10.0]))
        (tensor([ 2., 40.]),)

    Source: torch.func.vjp.
    """
    pull = Pullback(func, primals, None, has_aux, {})

    def back(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        return pull(cotangents, retain_graph, create_graph)

    return (pull.output, back, pull.aux) if has_aux else (pull.output, back)


def gradients_at_levels(outs: Sequence[Any], inputs: Sequence[Any], seeds: Sequence[Any], keep: bool, record: bool) -> list[Any]:
    """Gradients as ``torch.autograd.grad`` returns them inside of transforms, where tensors have levels."""
    return gradients(outs, inputs, seeds, record, keep)


Hook.gradients = staticmethod(gradients_at_levels)  # type: ignore[attr-defined]
