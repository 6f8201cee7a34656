"""Random numbers: tensors of them, in-place fills, and the state of the default generator.

The numbers come from ``core.random.samplers``: the same seed and the same calls give PyTorch's own numbers.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..core import dtype as dtypes
from ..core.arrays.kinds import kind_of, make_at, place_of, surely
from ..core.calls.annotations import Number, Tensor
from ..core.calls.creation import Creation, sizes_from
from ..core.calls.out import resize_out
from ..core.calls.registry import composite, factory, method
from ..core.device import cpu, device
from ..core.dtype import dtype as dtype_class
from ..core.random import rejection, samplers
from ..core.random.generator import (
    Generator,
    default_generator,
    followers,
    initial_seed as _initial_seed,
    manual_seed as _manual_seed,
    seed as _seed,
)
from ..core.shape import broadcast_shape
from ..core.state import grad_enabled, interposed, modes, run_ignoring_fp, thread
from ..core.tape.history import check_writable, rebase
from ..core.tape.node import Node, edge_of, new_node
from ..core.tensor import Tensor as TensorClass, storage_of, wrap
from .creation import array_like

# ---- the default generator


@composite(method=False)
def manual_seed(seed: Any) -> Generator:
    """Seed the default generator; the same seed gives the same numbers from here on.

    Args:
        seed: from -2**63 to 2**64 - 1, anything that ``int`` takes; negative seeds count down from 2**64.
    Returns:
        The default generator.
    Raises:
        ValueError: out of range.
    Source: torch.manual_seed.
    Example:
        >>> _ = torch.manual_seed(7)
        >>> first = torch.rand(3)
        >>> _ = torch.manual_seed(7)
        >>> torch.equal(torch.rand(3), first)
        True
    """
    return _manual_seed(seed)


@composite(method=False)
def seed() -> int:
    """Seed the default generator from the system's entropy.

    Returns:
        The seed, a number of 64 bits as a Python int.
    Raises:
        TypeError: any argument.
    Source: torch.seed.
    Example:
        >>> torch.seed() == torch.initial_seed()
        True
    """
    return _seed()


@composite(method=False)
def initial_seed() -> int:
    """The seed that the default generator started from.

    Returns:
        A number from 0 to 2**64 - 1, as a Python int.
    Raises:
        TypeError: any argument.
    Source: torch.initial_seed.
    Example:
        >>> _ = torch.manual_seed(7)
        >>> _ = torch.rand(3)
        >>> torch.initial_seed()
        7
    """
    return _initial_seed()


@composite(method=False)
def get_rng_state() -> Any:
    """The default generator's state: a copy, which later numbers do not change.

    Returns:
        ``(5056,)``, uint8.
    Raises:
        TypeError: any argument.
    Source: torch.get_rng_state. The layout is PyTorch's.
    Example:
        >>> torch.get_rng_state().shape
        torch.Size([5056])
    """
    return default_generator.get_state()


@composite(method=False)
def set_rng_state(new_state: Any) -> None:
    """Let the default generator continue from a state that ``get_rng_state`` gave, here or in PyTorch.

    Args:
        new_state: ``(5056,)``, uint8.
    Returns:
        None.
    Raises:
        TypeError: not a ``uint8`` tensor.
        RuntimeError: not a generator's state.
    Source: torch.set_rng_state.
    Example:
        >>> state = torch.get_rng_state()
        >>> first = torch.rand(3)
        >>> torch.set_rng_state(state)
        >>> torch.equal(torch.rand(3), first)
        True
    """
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(
    devices: Sequence[Any] | None = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str = "cuda",
) -> Iterator[None]:
    """Context after which the default generator continues where it was before.

    Args:
        devices: CUDA devices whose generators are kept too; all that are in use for None.
        enabled: whether to do anything.
        device_type: the devices' type.
    Returns: the context.
    Source: torch.random.fork_rng.
    Example:
        >>> with torch.random.fork_rng():
        ...     inside = torch.rand(2)
        >>> torch.equal(inside, torch.rand(2))
        True
    """
    if not enabled:
        yield
        return
    generators = [default_generator, *_generators_at(devices, device_type, _caller, _devices_kw)]
    states = [generator.state_bytes() for generator in generators]
    try:
        yield
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.load_state_bytes(state)


def _generators_at(devices: Sequence[Any] | None, device_type: str, caller: str, keyword: str) -> Sequence[Generator]:
    """The default generators of some devices; of all that are in use for None."""
    if devices is None:
        return followers
    if devices and device_type != "cuda":
        raise NotImplementedError(f"{caller}: only the CPU and CUDA devices have generators, got {keyword}={list(devices)}")
    where = [place_of(device("cuda", each) if isinstance(each, int) else each, caller) for each in devices]
    return [followers[place.index or 0] for place in where]


# ---- arguments


def _generator(given: Any, operation: str) -> Generator:
    if given is None:
        return default_generator
    if not isinstance(given, Generator):
        raise TypeError(f"{operation}(): argument 'generator' must be torch.Generator, not {type(given).__name__}")
    return given


def _int(value: Any, name: str, operation: str, position: int = 1) -> int:
    if isinstance(value, (bool, float, np.bool_)) or not hasattr(value, "__index__"):
        raise TypeError(f"{operation}(): argument '{name}' (position {position}) must be int, not {type(value).__name__}")
    number = value.__index__()
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"Overflow when unpacking long long: {operation} expected '{name}' in [-2**63, 2**63), got {number}")
    return number


def _float(value: Any, name: str, operation: str, position: int = 1) -> float:
    if (
        value.__class__ is float
        or isinstance(value, (numbers.Real, np.bool_))
        or (isinstance(value, TensorClass) and value.numel() == 1 and not value.requires_grad)
    ):
        return float(value)
    raise TypeError(f"{operation}(): argument '{name}' (position {position}) must be float, not {type(value).__name__}")


# ---- results


def _check_out(out: Any, operation: str) -> None:
    if not isinstance(out, TensorClass):
        raise TypeError(f"{operation}(): argument 'out' must be Tensor, not {type(out).__name__}")
    if out._requires_grad and grad_enabled():
        raise RuntimeError(
            f"{operation}(): functions with out=... arguments don't support automatic differentiation, but one of the arguments requires "
            "grad."
        )


def _fill_out(out: Any, shape: tuple[int, ...], fill: Callable[[np.ndarray], Any]) -> Any:
    """Fill ``out``, resized to ``shape``, in place."""
    if out._array.shape != shape:
        out.resize_(shape)
    return _fill(out, fill, None)


def _filled(new: Creation, shape: tuple[int, ...], fill: Callable[[np.ndarray], Any], default: dtype_class | None = None) -> Any:
    """A new array filled by ``fill``, or ``out`` filled by it."""
    if new.out is not None:
        _check_out(new.out, new.name)
        return _fill_out(new.out, shape, fill)
    return _filled_at(new.where, fill, np.empty, shape, (new.dtype or default or dtypes.get_default_dtype()).numpy)


def _filled_like(new: Creation, input: Any, fill: Callable[[np.ndarray], Any], memory_format: Any) -> Any:
    return _filled_at(new.where, fill, array_like, input._array, new.dtype_or_default().numpy, memory_format)


def _filled_at(where: Any, fill: Callable[[np.ndarray], Any], make: Callable[..., Any], *args: Any) -> Any:
    """An array that ``make`` makes on a device, filled."""
    if followers:
        _check_generator(fill, where)
    array = make_at(where, make, *args)
    run_ignoring_fp(fill, array) if where == cpu else fill_elsewhere(fill, array)
    if thread.recorder is not None:
        thread.recorder.draw(fill, array)
    return array


def _check_generator(fill: Callable[[np.ndarray], Any], where: Any) -> None:
    """Raise where the generator that ``fill`` draws from is another device's than the array to fill."""
    for cell in fill.__closure__ or ():
        drawn = cell.cell_contents
        if isinstance(drawn, Generator) and drawn is not default_generator and drawn.device.type != where.type:
            raise RuntimeError(f"Expected a '{where.type}' device type for generator but found '{drawn.device.type}'")


def fill_elsewhere(fill: Callable[[np.ndarray], Any], array: Any) -> None:
    """Fill an array of another device: streams of random numbers are the host's."""
    kind = kind_of(array)
    if not kind.has_values:
        return
    where = kind.device_of(array)
    values = kind.to_host(array)
    with kind.drawing(where), kind.on(where):
        run_ignoring_fp(fill, values)
        array[...] = kind.from_host(values, where)


# ---- the tape: random numbers do not depend on what was there before


class ZeroBackward(Node):
    """Gives every input a gradient of zeros."""

    __slots__ = ()

    def apply(self, grad: Any) -> Any:
        where = grad.device
        return tuple([None if e is None else wrap(make_at(where, np.zeros, *form)) for e, form in zip(self.edges, self.attrs, strict=True)])


class NotDifferentiable(Node):
    """History of a result whose derivative does not exist."""

    __slots__ = ()


_NODES: dict[tuple[str, type[Node]], type[Node]] = {}  # each kind of array has a base of its own


def _history(name: str, *inputs: Any, base: type[Node] = ZeroBackward) -> Node:
    kind = _NODES.get((name, base))
    if kind is None:
        kind = _NODES[name, base] = type(name, (base,), {"__slots__": (), "__module__": __name__})
    first = inputs[0]._array
    node = new_node(kind, tuple(edge_of(tensor) for tensor in inputs), (), None, first.shape, first.dtype)
    node.attrs = tuple((tensor._array.shape, tensor._array.dtype) for tensor in inputs)
    return node


def _recorded(result: Any, name: str, *inputs: Any, base: type[Node] = ZeroBackward) -> Any:
    """``result`` with its place on the tape, if one of the inputs requires grad."""
    inputs = tuple(tensor for tensor in inputs if isinstance(tensor, TensorClass))
    if grad_enabled() and any(tensor._requires_grad for tensor in inputs) and dtypes.of_array(result._array).category >= dtypes.FLOATING:
        node = _history(name, *inputs, base=base)
        node.shape, node.dtype = result._array.shape, result._array.dtype
        result._node, result._requires_grad = node, True
    return result


def _fill(input: Any, fill: Callable[[np.ndarray], Any], name: str | None) -> Any:
    """Fill a tensor in place; ``name`` is its node's, where it gets one."""
    recorded = grad_enabled() and input._requires_grad
    check_writable(input, recorded)
    node = _history(name, input) if recorded and name is not None else None
    if followers:
        _check_generator(fill, input.device)
    if input._array.__class__ is np.ndarray:
        run_ignoring_fp(fill, input._array)
        if thread.recorder is not None:
            thread.recorder.drew_into(fill, input._array)
    else:
        fill_elsewhere(fill, input._array)
    storage_of(input)._bump()
    if node is not None:
        rebase(input, node)
    return input


# ---- uniform and normal tensors

# The fast path of factories that take sizes one by one or as one sequence.
_SIZED = "samplers.{0}(_generator(generator, '{0}'), sizes_from(sizes, '{0}'), dtypes._default) if size is dtype is None else None"


@factory(out=True, fast=_SIZED.format("rand"), draws="numbers")
def rand(new: Creation, *sizes: Any, size: Any = None, generator: Generator | None = None) -> Any:
    """Uniform numbers in [0, 1).

    Args:
        *sizes: the shape, as numbers or as one sequence; also by the keyword ``size``.
        generator: where the numbers come from; the default generator when None.
        out: tensor to fill instead of a new one.
        dtype: floating point or complex; the default dtype when None.
        layout, device, pin_memory, requires_grad: as for ``torch.zeros``.
    Returns:
        The given shape and dtype.
    Raises:
        NotImplementedError: another dtype.
        RuntimeError: a negative size.
    Source: torch.rand. 24 random bits a number, 53 for float64.
    Example:
        >>> x = torch.rand(2, 3)
        >>> x.shape, bool((x >= 0).all() and (x < 1).all())
        (torch.Size([2, 3]), True)
    """
    stream = _generator(generator, "rand")
    return _filled(new, new.sizes(sizes, size), lambda a: samplers.fill_uniform(stream, a))


@factory(out=True, fast=_SIZED.format("randn"), draws="numbers")
def randn(new: Creation, *sizes: Any, size: Any = None, generator: Generator | None = None) -> Any:
    """Normal numbers of mean 0 and variance 1; complex ones have variance 1/2 in each part.

    Args:
        *sizes: the shape, as numbers or as one sequence; also by the keyword ``size``.
        generator: where the numbers come from; the default generator when None.
        out: tensor to fill instead of a new one.
        dtype: floating point or complex; the default dtype when None.
        layout, device, pin_memory, requires_grad: as for ``torch.zeros``.
    Returns:
        The given shape and dtype.
    Raises:
        NotImplementedError: another dtype.
        RuntimeError: a negative size.
    Source: torch.randn. Box and Muller 1958.
    Example:
        >>> x = torch.randn(10000)
        >>> x.mean().abs() < 0.1, x.std().sub(1).abs() < 0.1
        (tensor(True), tensor(True))
    """
    stream = _generator(generator, "randn")
    _check_normal(new)
    return _filled(new, new.sizes(sizes, size), lambda a: samplers.fill_normal(stream, a))


@factory(draws="numbers")
def rand_like(new: Creation, input: Tensor, *, generator: Generator | None = None, memory_format: Any = None) -> Any:
    """Uniform numbers in [0, 1), in ``input``'s shape.

    Args:
        input: any shape; its dtype and memory order count where none are given.
        generator: where the numbers come from; the default generator when None.
        memory_format: of the result; ``input``'s when None.
        dtype, layout, device, pin_memory, requires_grad: as for ``torch.rand``.
    Returns:
        ``input``'s shape; its dtype unless told.
    Raises:
        NotImplementedError: a dtype that is not floating point or complex.
    Source: torch.rand_like.
    Example:
        >>> torch.rand_like(torch.ones(2, 3, dtype=torch.float64)).dtype
        torch.float64
    """
    stream = _generator(generator, "rand_like")
    return _filled_like(new, input, lambda a: samplers.fill_uniform(stream, a), memory_format)


@factory(draws="numbers")
def randn_like(new: Creation, input: Tensor, *, generator: Generator | None = None, memory_format: Any = None) -> Any:
    """Normal numbers of mean 0 and variance 1, in ``input``'s shape.

    Args:
        input: any shape; its dtype and memory order count where none are given.
        generator: where the numbers come from; the default generator when None.
        memory_format: of the result; ``input``'s when None.
        dtype, layout, device, pin_memory, requires_grad: as for ``torch.randn``.
    Returns:
        ``input``'s shape; its dtype unless told.
    Raises:
        NotImplementedError: a dtype that is not floating point or complex.
    Source: torch.randn_like.
    Example:
        >>> torch.randn_like(torch.ones(2, 3, dtype=torch.int64), dtype=torch.float32).shape
        torch.Size([2, 3])
    """
    stream = _generator(generator, "randn_like")
    _check_normal(new, new.dtype_or_default())
    return _filled_like(new, input, lambda a: samplers.fill_normal(stream, a), memory_format)


@factory(out=True, follows="", draws="numbers")
def normal(
    new: Creation, mean: Number = None, std: Number = None, size: Any = None, *, generator: Generator | None = None, means: Number = None
) -> Any:
    """Normal numbers of given means and standard deviations.

    Args:
        mean, std: tensors that broadcast against each other, or numbers; ``std`` is 1 for a tensor ``mean`` when left out. ``means`` is an
            old spelling of ``mean``.
        size: the shape, where both are numbers.
        generator: where the numbers come from; the default generator when None.
        out: tensor to fill instead of a new one.
        dtype, layout, device, requires_grad, pin_memory: of the result, where both are numbers.
    Returns:
        The broadcast shape, or ``size``; ``mean``'s dtype, ``std``'s where only that is a tensor.
    Raises:
        RuntimeError: a negative or complex ``std``.
        TypeError: two numbers without ``size``.
    Gradient: zeros.
    Source: torch.normal.
    Example:
        >>> torch.normal(torch.tensor([5.0, -5.0]), 0.0)
        tensor([ 5., -5.])
        >>> torch.normal(0.0, 1.0, (2, 3)).shape
        torch.Size([2, 3])
    """
    if mean is None:
        if means is None:
            raise TypeError('normal() missing 1 required positional arguments: "mean"')
        mean = means
    stream = _generator(generator, "normal")
    if size is not None:
        m, s = _float(mean, "mean", "normal"), _float(std, "std", "normal", 2)
        _check_normal(new)
        shape = sizes_from((size,), "normal") if isinstance(size, (tuple, list)) else _bad_normal(mean, std, size)
        return _filled(new, shape, _normal_filler(stream, m, s))
    if not isinstance(mean, TensorClass) and not isinstance(std, TensorClass):
        _bad_normal(mean, std)
    if new.options:
        raise TypeError("normal(): dtype, layout, device, requires_grad and pin_memory need numbers for mean and std, and a size")
    return _normal_of_tensors(stream, mean, 1.0 if std is None else std, new.out)


def _bad_normal(*args: Any) -> Any:
    got = ", ".join(type(arg).__name__ for arg in args if arg is not None)
    raise TypeError(
        f"normal() received an invalid combination of arguments - got ({got}), but expected tensors for mean or std, or two numbers and a "
        "tuple of ints size"
    )


def _check_normal(new: Creation, kind: Any = None) -> None:
    """Raise where nothing will be drawn in a dtype that has no normal numbers."""
    kind = kind or new.dtype or dtypes.get_default_dtype()
    if new.where.type == "meta" and not (kind.is_floating_point or kind.is_complex):
        raise RuntimeError(f"expected a floating-point or complex dtype, but got dtype={kind}")


def _normal_filler(stream: Generator, mean: float, std: float) -> Callable[[np.ndarray], None]:
    return lambda array: samplers.fill_normal(stream, array, mean, std)


def _normal_of_tensors(stream: Generator, mean: Any, std: Any, out: Any) -> Any:
    """Standard (for a number ``std``: scaled) normals first, then ``* std`` and ``+ mean`` with a rounding each."""
    first = mean if isinstance(mean, TensorClass) else std
    if isinstance(std, TensorClass):
        if std._array.dtype.kind == "c":
            raise RuntimeError("normal expects standard deviation to be non-complex")
        if std._array.size and not surely((std >= 0).all()):
            raise RuntimeError("normal expects all elements of std >= 0.0")
        spread = 1.0
    else:
        spread = _float(std, "std", "normal", 2)
        if not spread >= 0.0:
            raise RuntimeError(f"normal expects std >= 0.0, but found std {spread:g}")
    shape = broadcast_shape(*[tensor._array.shape for tensor in (mean, std) if isinstance(tensor, TensorClass)])
    result: Any
    if out is None:
        result = wrap(_filled_at(first.device, _normal_filler(stream, 0.0, spread), np.empty, shape, first._array.dtype))
    else:
        _check_out(out, "normal")
        if isinstance(std, TensorClass):
            resize_out(out, shape)
        else:  # drawn in the shape that out has, whose elements the means are added to
            shape = broadcast_shape(out._array.shape, shape)
        result = _fill_out(out, out._array.shape, _normal_filler(stream, 0.0, spread))
        resize_out(out, shape)
    if isinstance(std, TensorClass):
        result.mul_(wrap(std._array))
    result.add_(wrap(mean._array) if isinstance(mean, TensorClass) else _float(mean, "mean", "normal"))
    name = "NormalBackward3" if isinstance(mean, TensorClass) and isinstance(std, TensorClass) else "NormalBackward1"
    return result if out is not None else _recorded(result, name if isinstance(mean, TensorClass) else "NormalBackward2", mean, std)


# ---- integers


def _int_bounds(bounds: tuple[Any, ...], low: Any, high: Any, operation: str) -> tuple[int, int]:
    """``(high)`` or ``(low, high)``, by position or by name."""
    values = [*([] if low is None else [low]), *bounds, *([] if high is None else [high])]
    if not 1 <= len(values) <= 2:
        raise TypeError(f"{operation}() received an invalid combination of arguments: expected high, or low and high, got {len(values)}")
    if len(values) == 1:
        return 0, _int(values[0], "high", operation)
    return _int(values[0], "low", operation), _int(values[1], "high", operation, 2)


def _checked_bounds(new: Creation, low: int, high: int) -> tuple[int, int]:
    """The bounds; where nothing will be drawn, they are checked here."""
    if low >= high and new.where != cpu:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    return low, high


def _small_integers(bounds: tuple[Any, ...], generator: Any) -> np.ndarray | None:
    """The usual call of ``randint``, kept short; None where the arguments are to be looked at."""
    low, high, size = bounds if len(bounds) == 3 else (0, *bounds)
    if size.__class__ is not tuple or not (low.__class__ is high.__class__ is int and -(1 << 63) <= low < high < 1 << 63):
        return None
    array = np.empty(sizes_from((size,), "randint"), np.int64)
    run_ignoring_fp(samplers.fill_random_range, _generator(generator, "randint"), array, low, high)
    return array


def _range_filler(stream: Generator, low: int, high: int | None) -> Callable[[np.ndarray], None]:
    return lambda array: samplers.fill_random_range(stream, array, low, high)


@factory(
    out=True,
    fast="_small_integers(bounds, generator) if low is high is size is dtype is None and 2 <= len(bounds) <= 3 else None",
    draws="numbers",
)
def randint(new: Creation, *bounds: Any, low: Any = None, high: Any = None, size: Any = None, generator: Generator | None = None) -> Any:
    """Integers from ``low`` to ``high - 1``, each as likely as the others: ``randint(low=0, high, size)``.

    Args:
        low: the least integer.
        high: one more than the largest.
        size: the shape, a sequence.
        generator: where the numbers come from; the default generator when None.
        out: tensor to fill instead of a new one.
        dtype: of the result; int64 when None.
        layout, device, pin_memory, requires_grad: as for ``torch.zeros``.
    Returns:
        Shape ``size``.
    Raises:
        RuntimeError: ``low >= high``, or bounds that the dtype cannot hold.
        TypeError: no ``size``, or bounds that are not integers.
    Source: torch.randint.
    Example:
        >>> dice = torch.randint(1, 7, (1000,))
        >>> dice.min(), dice.max()
        (tensor(1), tensor(6))
    """
    if size is None:
        if not bounds or not isinstance(bounds[-1], (tuple, list)):
            raise TypeError("randint() received an invalid combination of arguments: expected a tuple of ints as size")
        bounds, size = bounds[:-1], bounds[-1]
    if not isinstance(size, (tuple, list)):
        raise TypeError(f"randint(): argument 'size' must be tuple of ints, not {type(size).__name__}")
    fill = _range_filler(_generator(generator, "randint"), *_checked_bounds(new, *_int_bounds(bounds, low, high, "randint")))
    return _filled(new, sizes_from((size,), "randint"), fill, dtypes.int64)


@factory(draws="numbers")
def randint_like(
    new: Creation,
    input: Tensor,
    *bounds: Any,
    low: Any = None,
    high: Any = None,
    generator: Generator | None = None,
    memory_format: Any = None,
) -> Any:
    """Integers from ``low`` to ``high - 1`` in ``input``'s shape and dtype: ``randint_like(input, low=0, high)``.

    Args:
        input: any shape; its dtype counts where none is given.
        low: the least integer.
        high: one more than the largest.
        generator: where the numbers come from; the default generator when None.
        memory_format: of the result; ``input``'s when None.
        dtype, layout, device, pin_memory, requires_grad: as for ``torch.randint``.
    Returns:
        ``input``'s shape; its dtype unless told.
    Raises:
        RuntimeError: ``low >= high``, or bounds that the dtype cannot hold.
    Source: torch.randint_like.
    Example:
        >>> torch.randint_like(torch.zeros(2, 3), 5, 6)
        tensor([[5., 5., 5.],
                [5., 5., 5.]])
    """
    fill = _range_filler(_generator(generator, "randint_like"), *_checked_bounds(new, *_int_bounds(bounds, low, high, "randint_like")))
    return _filled_like(new, input, fill, memory_format)


@factory(
    out=True,
    fast="samplers.randperm(_generator(generator, 'randperm'), n) if n.__class__ is int and n >= 0 and dtype is None else None",
    draws="numbers",
)
def randperm(new: Creation, n: int, *, generator: Generator | None = None) -> Any:
    """A random permutation of the integers from 0 to ``n - 1``.

    Args:
        n: how many; 0 or more.
        generator: where the numbers come from; the default generator when None.
        out: tensor to fill instead of a new one.
        dtype: of the result; int64 when None.
        layout, device, pin_memory, requires_grad: as for ``torch.zeros``.
    Returns:
        ``(n,)``.
    Raises:
        RuntimeError: negative ``n``, or one that the dtype cannot count to.
        NotImplementedError: bool, complex numbers and unsigned integers wider than 8 bits; ``n`` above 2 * 10**8.
    Source: torch.randperm. Fisher and Yates' shuffle.
    Example:
        >>> order = torch.randperm(5)
        >>> order.sort().values
        tensor([0, 1, 2, 3, 4])
    """
    stream, count = _generator(generator, "randperm"), _int(n, "n", "randperm")
    if count < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {count}: [{count}]")
    _check_countable(count, new.dtype or dtypes.int64)

    def fill(array: np.ndarray) -> None:
        array[...] = samplers.randperm(stream, count)

    return _filled(new, (count,), fill, dtypes.int64)


_EXACT_COUNTS = {"float16": (1 << 11) + 1, "bfloat16": (1 << 8) + 1, "float32": (1 << 24) + 1, "float64": (1 << 53) + 1}


def _check_countable(count: int, of: dtype_class) -> None:
    if of.is_complex or of is dtypes.bool_ or of.name in ("uint16", "uint32", "uint64") or of.name.startswith("float8"):
        raise NotImplementedError(f"\"randperm\" not implemented for '{of.legacy}'")
    if of.is_floating_point:
        if count > _EXACT_COUNTS[of.name]:
            raise RuntimeError(f"n cannot be greater than {_EXACT_COUNTS[of.name]} for {of.legacy} type.")
    elif count > np.iinfo(of.numpy).max:
        raise RuntimeError(f"value cannot be converted to type {of.name}_t without overflow: randperm got n={count}")


# ---- distributions with one number a parameter


@composite(draws="numbers")
def bernoulli(input: Tensor, p: Any = None, *, generator: Generator | None = None, out: Tensor | None = None) -> Tensor:
    """Ones with probability ``input``, else zeros.

    Args:
        input: probabilities, any shape; with ``p`` only shape and dtype count.
        p: one probability for all elements.
        generator: where the numbers come from; the default generator when None.
        out: tensor to fill instead of a new one, of any dtype.
    Returns:
        ``input``'s shape and dtype.
    Raises:
        RuntimeError: a probability outside [0, 1].
        NotImplementedError: probabilities that are not floating point.
    Gradient: zeros.
    Source: torch.bernoulli.
    Example:
        >>> torch.bernoulli(torch.tensor([0.0, 1.0, 1.0]))
        tensor([0., 1., 1.])
    """
    stream = _generator(generator, "bernoulli")
    if isinstance(p, TensorClass) and p.numel() != 1:
        raise TypeError("bernoulli() received an invalid combination of arguments - got (Tensor, Tensor), but expected a float p")
    fill = _bernoulli_filler(stream, input if p is None else _float(p, "p", "bernoulli", 2))
    if out is not None:
        _check_out(out, "bernoulli")
        return _fill_out(out, input._array.shape, fill)
    result = wrap(np.empty(input._array.shape, input._array.dtype))
    run_ignoring_fp(fill, result._array)
    if thread.recorder is not None:
        _record_bernoulli(stream, input if p is None else p, result._array)
    name = "BernoulliBackward0" if p is None else "NotImplemented"
    return _recorded(result, name, input, base=ZeroBackward if p is None else NotDifferentiable)


def _bernoulli_filler(stream: Generator, p: Any) -> Callable[[np.ndarray], None]:
    if not isinstance(p, TensorClass):
        return lambda array: samplers.fill_bernoulli(stream, array, p)
    return lambda array: samplers.fill_bernoulli_each(stream, array, p._array)


def _record_bernoulli(stream: Generator, p: Any, made: np.ndarray) -> None:
    """Tell the recorder of numbers that were drawn with probabilities ``p``."""
    if isinstance(p, TensorClass):
        thread.recorder.draw(lambda array, chances: samplers.fill_bernoulli_each(stream, array, chances), made, p)
    else:
        thread.recorder.draw(lambda array: samplers.fill_bernoulli(stream, array, p), made)


@composite(draws="rows")
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None, out: Tensor | None = None
) -> Tensor:
    """Indices drawn with the probabilities that a row of ``input`` gives.

    Args:
        input: ``(categories,)`` or ``(rows, categories)``, floating point; rows need not sum to 1.
        num_samples: indices a row.
        replacement: whether an index may come more than once.
        generator: where the numbers come from; the default generator when None.
        out: int64 tensor to fill instead of a new one.
    Returns:
        ``(num_samples,)`` or ``(rows, num_samples)``, int64.
    Raises:
        RuntimeError: wrong shape or dtype, a negative, infinite or NaN entry, a row of zeros, more samples than categories.
    Source: torch.multinomial.
    Example:
        >>> torch.multinomial(torch.tensor([0.0, 3.0, 0.0, 1.0]), 2).sort().values
        tensor([1, 3])
        >>> torch.multinomial(torch.tensor([0.0, 1.0]), 3, replacement=True)
        tensor([1, 1, 1])
    """
    stream, count = _generator(generator, "multinomial"), _int(num_samples, "num_samples", "multinomial", 2)
    if out is not None:
        _check_out(out, "multinomial")
        if out.dtype is not dtypes.int64:
            raise RuntimeError(f"multinomial expects Long tensor out, got: {out.dtype.legacy}")
    drawn = run_ignoring_fp(samplers.multinomial, stream, input._array, count, bool(replacement))
    if thread.recorder is not None:
        thread.recorder.call(lambda array: samplers.multinomial(stream, array, count, bool(replacement)), (input,), (drawn,), random=True)
    if out is None:
        return wrap(drawn)

    def fill(array: np.ndarray) -> None:
        array[...] = drawn

    return _fill_out(out, drawn.shape, fill)


@composite(method=False, draws="numbers")
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Poisson numbers of rates ``input``.

    Args:
        input: rates, any shape, floating point, not negative.
        generator: where the numbers come from; the default generator when None.
    Returns:
        ``input``'s shape and dtype.
    Raises:
        RuntimeError: a negative rate.
    Gradient: zeros.
    Source: torch.poisson. Hoermann 1993.
    Example:
        >>> torch.poisson(torch.tensor([0.0, 0.0]))
        tensor([0., 0.])
        >>> counts = torch.poisson(torch.full((10000,), 4.0))
        >>> counts.mean().sub(4).abs() < 0.1, counts.var().sub(4).abs() < 0.2
        (tensor(True), tensor(True))
    """
    result = wrap(rejection.poisson(_generator(generator, "poisson"), input._array))
    return _recorded(result, "PoissonBackward0", input)


@composite(method=False, draws="numbers")
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Numbers of successes among ``count`` trials of probability ``prob``.

    Args:
        count, prob: float32 or float64, both the same; shapes that broadcast.
        generator: where the numbers come from; the default generator when None.
    Returns:
        The broadcast shape and ``count``'s dtype.
    Raises:
        ValueError: integers.
        RuntimeError: two different dtypes.
    Source: torch.binomial. Hoermann 1993.
    Example:
        >>> torch.binomial(torch.tensor([10.0, 10.0]), torch.tensor([0.0, 1.0]))
        tensor([ 0., 10.])
    """
    for name, tensor in (("count", count), ("prob", prob)):
        if not tensor.is_floating_point():
            raise ValueError(f"binomial only supports floating-point dtypes for {name}, got: {tensor.dtype.legacy}")
    if count.dtype is not prob.dtype:
        raise RuntimeError(f"Found dtype {prob.dtype.legacy} but expected {count.dtype.legacy}: binomial takes count and prob of one dtype")
    broadcast_shape(count._array.shape, prob._array.shape)
    n, p = np.broadcast_arrays(count._array, prob._array)
    result = wrap(rejection.binomial(_generator(generator, "binomial"), n, p))
    return _recorded(result, "NotImplemented", count, prob, base=NotDifferentiable)


# ---- in-place fills


@method(draws="numbers")
def uniform_(input: Tensor, *bounds: Any, generator: Generator | None = None, **named: Any) -> Tensor:
    """Fill with uniform numbers in [from, to): ``uniform_(from=0, to=1)``.

    Args:
        from, to: the bounds.
        generator: where the numbers come from; the default generator when None.
    Returns:
        The tensor itself.
    Raises:
        RuntimeError: ``from > to``, or bounds beyond the dtype's range.
        NotImplementedError: a dtype that is not floating point or complex.
    Gradient: zeros.
    Source: torch.Tensor.uniform_.
    Example:
        >>> x = torch.empty(1000).uniform_(2, 3)
        >>> bool((x >= 2).all() and (x < 3).all())
        True
    """
    if interposed and modes.below.is_handled((input,)):
        return modes.below.shown_random("uniform_", input, bounds, generator, named)
    low, high = _from_to(bounds, named, "uniform_", (0.0, 1.0))
    low, high = _float(low, "from", "uniform_"), _float(high, "to", "uniform_", 2)
    stream = _generator(generator, "uniform_")
    return _fill(input, lambda array: samplers.fill_uniform(stream, array, low, high), "UniformBackward0")


def _from_to(bounds: tuple[Any, ...], named: dict[str, Any], operation: str, defaults: tuple[Any, Any]) -> tuple[Any, Any]:
    """Arguments called ``from`` and ``to``: the first is a word of Python's, so it can only come through ``**named``."""
    values = dict(zip(("from", "to"), bounds, strict=False))
    if len(bounds) > 2:
        raise TypeError(f"{operation}() takes from 0 to 2 positional arguments but {len(bounds)} were given")
    for name, value in named.items():
        if name not in ("from", "to") or name in values:
            raise TypeError(f"{operation}() got an unexpected keyword argument '{name}'")
        values[name] = value
    return values.get("from", defaults[0]), values.get("to", defaults[1])


@method(draws="numbers")
def normal_(input: Tensor, mean: float = 0, std: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Fill with normal numbers.

    Args:
        mean, std: of the distribution; complex numbers get half of the variance in each part.
        generator: where the numbers come from; the default generator when None.
    Returns:
        The tensor itself.
    Raises:
        RuntimeError: a negative ``std``.
        NotImplementedError: a dtype that is not floating point or complex.
    Gradient: zeros.
    Source: torch.Tensor.normal_.
    Example:
        >>> torch.empty(3).normal_(5.0, 0.0)
        tensor([5., 5., 5.])
    """
    stream = _generator(generator, "normal_")
    return _fill(input, _normal_filler(stream, _float(mean, "mean", "normal_"), _float(std, "std", "normal_", 2)), "NormalBackward0")


@method(draws="numbers")
def random_(input: Tensor, *bounds: Any, generator: Generator | None = None, **named: Any) -> Tensor:
    """Fill with integers: ``random_()``, ``random_(to)`` or ``random_(from, to)``, ``to`` itself excluded.

    Args:
        from, to: the bounds; without ``to`` up to the dtype's largest integer, for floating point up to 2**(bits of the significand).
        generator: where the numbers come from; the default generator when None.
    Returns:
        The tensor itself.
    Raises:
        RuntimeError: ``from >= to``, or bounds that the dtype cannot hold.
    Gradient: zeros.
    Source: torch.Tensor.random_.
    Example:
        >>> x = torch.empty(100).random_(10, 12)
        >>> x.unique()
        tensor([10., 11.])
    """
    if interposed and modes.below.is_handled((input,)):
        return modes.below.shown_random("random_", input, bounds, generator, named)
    stream = _generator(generator, "random_")
    if len(bounds) == 1 and not named:
        named, bounds = {"to": bounds[0]}, ()
    low, high = _from_to(bounds, named, "random_", (None, None))
    if low is None and high is None:
        return _fill(input, lambda array: samplers.fill_random(stream, array), "RandomBackward2")
    if low is None:
        return _fill(input, _range_filler(stream, 0, _int(high, "to", "random_")), "RandomBackward1")
    bound = None if high is None else _int(high, "to", "random_", 2)
    return _fill(input, _range_filler(stream, _int(low, "from", "random_"), bound), "RandomBackward0")


@method(draws="numbers")
def bernoulli_(input: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fill with ones with probability ``p``, else zeros.

    Args:
        p: a number, or a floating-point tensor that broadcasts to ``input``.
        generator: where the numbers come from; the default generator when None.
    Returns:
        The tensor itself.
    Raises:
        RuntimeError: a probability outside [0, 1].
    Gradient: zeros.
    Source: torch.Tensor.bernoulli_.
    Example:
        >>> torch.empty(2, 2).bernoulli_(torch.tensor([0.0, 1.0]))
        tensor([[0., 1.],
                [0., 1.]])
    """
    stream = _generator(generator, "bernoulli_")
    is_tensor = isinstance(p, TensorClass)
    fill = _bernoulli_filler(stream, p if is_tensor else _float(p, "p", "bernoulli_"))
    return _fill(input, fill, "BernoulliBackward1" if is_tensor else "BernoulliBackward2")


@method(draws="numbers")
def exponential_(input: Tensor, lambd: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Fill with exponential numbers of rate ``lambd``.

    Args:
        lambd: the rate, in events per unit; the mean is its inverse.
        generator: where the numbers come from; the default generator when None.
    Returns:
        The tensor itself, of its shape and dtype.
    Raises:
        RuntimeError: ``lambd`` not positive, or a dtype that is not floating point.
    Gradient: zeros.
    Source: torch.Tensor.exponential_.
    Example:
        >>> x = torch.empty(10000).exponential_(2.0)
        >>> x.min() > 0, x.mean().sub(0.5).abs() < 0.02
        (tensor(True), tensor(True))
    """
    stream, rate = _generator(generator, "exponential_"), _float(lambd, "lambd", "exponential_")
    return _fill(input, lambda array: samplers.fill_exponential(stream, array, rate), "ExponentialBackward0")


@method(draws="numbers")
def geometric_(input: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers of trials up to the first success, of probability ``p``: 1, 2, ...

    Args:
        p: the probability, between 0 and 1, both excluded.
        generator: where the numbers come from; the default generator when None.
    Returns:
        The tensor itself, of its shape and dtype.
    Raises:
        RuntimeError: ``p`` outside (0, 1).
    Gradient: zeros.
    Source: torch.Tensor.geometric_.
    Example:
        >>> x = torch.empty(10000).geometric_(0.5)
        >>> x.min(), x.mean().sub(2).abs() < 0.1
        (tensor(1.), tensor(True))
    """
    stream, chance = _generator(generator, "geometric_"), _float(p, "p", "geometric_")
    return _fill(input, lambda array: samplers.fill_geometric(stream, array, chance), "GeometricBackward0")


@method(draws="numbers")
def log_normal_(input: Tensor, mean: float = 1, std: float = 2, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers whose logarithms are normal with the given mean and standard deviation.

    Args:
        mean, std: of the logarithms.
        generator: where the numbers come from; the default generator when None.
    Returns:
        The tensor itself, of its shape and dtype.
    Raises:
        RuntimeError: ``std`` not positive.
    Gradient: zeros.
    Source: torch.Tensor.log_normal_.
    Example:
        >>> x = torch.empty(10000).log_normal_(mean=1.0, std=0.5)
        >>> x.log().mean().sub(1).abs() < 0.02
        tensor(True)
    """
    stream = _generator(generator, "log_normal_")
    m, s = _float(mean, "mean", "log_normal_"), _float(std, "std", "log_normal_", 2)
    return _fill(input, lambda array: samplers.fill_log_normal(stream, array, m, s), "LogNormalBackward0")


@method(draws="numbers")
def cauchy_(input: Tensor, median: float = 0, sigma: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Fill with Cauchy numbers, which have a median but no mean.

    Args:
        median, sigma: centre, and half of the width at half the height of the density.
        generator: where the numbers come from; the default generator when None.
    Returns:
        The tensor itself, of its shape and dtype.
    Raises:
        RuntimeError: ``sigma`` not positive, or a dtype that is not floating point.
    Gradient: zeros.
    Source: torch.Tensor.cauchy_.
    Example:
        >>> x = torch.empty(10001).cauchy_(median=3.0)
        >>> x.median().sub(3).abs() < 0.1
        tensor(True)
    """
    stream = _generator(generator, "cauchy_")
    m, s = _float(median, "median", "cauchy_"), _float(sigma, "sigma", "cauchy_", 2)
    return _fill(input, lambda array: samplers.fill_cauchy(stream, array, m, s), "CauchyBackward0")
