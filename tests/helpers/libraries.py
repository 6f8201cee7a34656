"""The same call in flambeau and in real PyTorch: tensors from arrays, functions by name, results side by side."""

from __future__ import annotations

import functools
import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import precision
from oracle import HAS_ORACLE as HAS_ORACLE, pytorch
from recording import Function, Kept, digest, outcome, recording
from records import RECORDS
from records.record import HALVES, Record, Sample, numpy_dtype

import flambeau
import flambeau.autograd
import flambeau.ops
from flambeau.core.calls.casting import widened
from flambeau.core.calls.registry import TABLES, resolve
from flambeau.core.dtype import PAIR
from flambeau.core.tensor import Tensor, storage_of, wrap


def split_name(name: str) -> tuple[str, str]:
    """'nn.functional.relu' -> ('nn.functional', 'relu'); 'add' -> ('torch', 'add')."""
    namespace, _, last = name.rpartition(".")
    return namespace or "torch", last


def entry_of(name: str) -> Any:
    """The registered operation behind a record's name."""
    namespace, last = split_name(name)
    return TABLES[namespace][last]


class Library:
    """One of the two libraries, with what the tests need of it."""

    def __init__(self, torch: Any, is_oracle: bool):
        self.torch, self.is_oracle = torch, is_oracle

    def function(self, name: str) -> Callable[..., Any]:
        namespace, last = split_name(name)
        if not self.is_oracle:
            if namespace == "Tensor":
                return getattr(Tensor, last)
            return resolve(namespace, last)
        attribute = self.torch
        for part in name.split("."):
            attribute = getattr(attribute, part, None)
        return getattr(self.torch.ops.aten, last) if attribute is None else attribute  # such as copy, which has public in-place forms only

    def tensor(self, array: np.ndarray) -> Any:
        """A tensor with the array's values and strides, in memory of its own."""
        array = private_copy(array)
        if not self.is_oracle:
            result = wrap(array)
            if array.size and any(n > 1 and not step for n, step in zip(array.shape, array.strides, strict=True)):
                return result.detach().expand(array.shape)  # a view: what overlaps itself must be noticed
            if not array.flags.c_contiguous:
                storage_of(result)
            return result
        if array.dtype == numpy_dtype("bfloat16"):
            return self.torch.from_numpy(array.view(np.int16)).view(self.torch.bfloat16)
        return self.torch.from_numpy(array)

    def arguments(self, value: Any) -> Any:
        """``value`` with its arrays as tensors and its dtype names as dtypes."""
        if isinstance(value, np.ndarray):
            return self.tensor(value)
        if isinstance(value, np.dtype):
            return getattr(self.torch, "bool" if value.kind == "b" else value.name)
        if isinstance(value, (list, tuple)):
            return type(value)([self.arguments(item) for item in value])
        if isinstance(value, dict):
            return {key: self.arguments(item) for key, item in value.items()}
        return value

    def array(self, tensor: Any) -> np.ndarray:
        """The tensor's values; strides are the tensor's."""
        if not self.is_oracle:
            return widened(tensor._array) if tensor._array.dtype == PAIR else tensor._array
        tensor = tensor.detach().resolve_conj().resolve_neg()
        if tensor.dtype is self.torch.bfloat16:
            return tensor.view(self.torch.int16).numpy().view(numpy_dtype("bfloat16"))
        return tensor.numpy(force=True)

    def seed(self) -> None:
        self.torch.manual_seed(0)

    def attempt(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, Exception | None]:
        """(result, None) or (None, exception); warnings are no concern of these tests."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return function(*args, **kwargs), None
            except Exception as error:
                return None, error


OURS = Library(flambeau, False)


def oracle_library() -> Library:
    """Real PyTorch, on one thread."""
    return Library(pytorch(), True)


class RecordedOracle(Library):
    """Real PyTorch, or what is recorded of its functions where it is not installed: arrays then stand for its tensors."""

    def __init__(self) -> None:
        super().__init__(pytorch() if HAS_ORACLE else types.SimpleNamespace(Tensor=Kept), True)

    def function(self, name: str) -> Function:
        return Function(name, super().function(name) if HAS_ORACLE else None)

    def arguments(self, value: Any) -> Any:
        return super().arguments(value) if HAS_ORACLE else value

    def array(self, tensor: Any) -> np.ndarray:
        return tensor.array if isinstance(tensor, Kept) else super().array(tensor)

    def seed(self) -> None:
        if HAS_ORACLE:
            super().seed()

    def attempt(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, Exception | None]:
        if not isinstance(function, Function):
            return super().attempt(function, *args, **kwargs)
        live = functools.partial(super().attempt, function, *args, **kwargs)
        return outcome("operations", digest(function.name, args, kwargs), live, exact=is_determined(function.name))

    def answers(self, record: Record, sample: Sample) -> bool:
        """Whether it is known what PyTorch makes of a call."""
        return HAS_ORACLE or digest(record.name, sample.args, sample.kwargs) in recording("operations").forms

    def gradients(self, function: Function, args: Any, kwargs: Any) -> Any:
        """As ``gradients``."""
        live = functools.partial(gradients, Library(self.torch, True), function, args, kwargs)
        return outcome("gradients", digest(function.name, args, kwargs), live, exact=is_determined(function.name))


def is_determined(name: str) -> bool:
    """Whether the values of an operation's results are the same on every processor, up to rounding."""
    return name in RECORDS and not (RECORDS[name].sign_free or RECORDS[name].random)


def private_copy(array: np.ndarray) -> np.ndarray:
    """A copy with the same strides, also where those skip or repeat elements."""
    if array.flags.c_contiguous or not array.size:
        return array.copy()
    extent = 1 + sum((n - 1) * s // array.itemsize for n, s in zip(array.shape, array.strides, strict=True))
    base = np.zeros(extent, array.dtype)
    copied = np.lib.stride_tricks.as_strided(base, array.shape, array.strides)
    copied[...] = array
    return copied


def transposed(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array.T).T


def stepped(array: np.ndarray) -> np.ndarray:
    if not array.ndim:
        return array
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[..., ::2] = array
    return wide[..., ::2]


def expanded(array: np.ndarray) -> np.ndarray:
    if not array.ndim:
        return array
    return np.lib.stride_tricks.as_strided(array[:1].copy(), array.shape, (0, *array.strides[1:]))


LAYOUTS = {"transposed": transposed, "stepped": stepped, "expanded": expanded}


def map_arrays(value: Any, function: Callable[[np.ndarray], np.ndarray]) -> Any:
    """``value`` with ``function`` applied to each array in it."""
    if isinstance(value, np.ndarray):
        return function(value)
    if isinstance(value, (list, tuple)):
        return type(value)([map_arrays(item, function) for item in value])
    return value


def widened_sample(sample: Sample) -> Sample:
    """The sample with its numbers in twice the precision that is enough, the values being the same."""

    def wide(array: np.ndarray) -> np.ndarray:
        if array.dtype.kind == "c":
            return array.astype(np.complex128)
        return array.astype(np.float64) if array.dtype.kind == "f" or array.dtype.name in HALVES else array

    return Sample(map_arrays(sample.args, wide), {key: map_arrays(value, wide) for key, value in sample.kwargs.items()})


def run(library: Library, record: Record, sample: Sample) -> tuple[Any, Exception | None]:
    """Call the record's operation."""
    args, kwargs = library.arguments(sample.args), library.arguments(sample.kwargs)
    if record.random:
        library.seed()
    return library.attempt(library.function(record.name), *args, **kwargs)


def flat(result: Any) -> list[Any]:
    """Results as a flat list."""
    if isinstance(result, (list, tuple)):
        return [item for part in result for item in flat(part)]
    return [result]


def assert_close(
    got: np.ndarray,
    want: np.ndarray,
    record: Record,
    where: str,
    *,
    against: str = precision.OURS,
    gradient: bool = False,
    least: float = 0,
) -> None:
    """Equal up to what ``precision`` allows; whole numbers and truth values exactly.

    Args:
        least: magnitude from which errors are measured where all elements are smaller.
    """
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want, err_msg=where)
        return
    bound, whole, floor = precision.allowed(record.name, got.dtype.name, against, gradient=gradient, elementwise=record.elementwise)
    found, place = precision.error(got, want, got.dtype.name, whole, max(least, floor))
    assert found <= bound, (
        f"{where}: {got[place]!r} at {list(place)}, {want[place]!r} is right: a relative error of {found:.3g}, {bound:.3g} is allowed"
    )


def assert_same(
    got: Any,
    want: Any,
    oracle: Library,
    record: Record,
    where: str,
    *,
    strides: bool = True,
    values: bool = True,
    exact: Callable[[], list[Any]] | None = None,
    least: float = 0,
) -> None:
    """flambeau's results equal PyTorch's: number, dtype, shape, strides, values.

    Args:
        exact: PyTorch's results of the same operands in float64. In half precision PyTorch's own may be several roundings off them, and one
            that is as near to them as it can be is as good.
        least: magnitude from which errors are measured where all elements are smaller.
        least: magnitude from which errors are measured where all elements are smaller.
    """
    got, want = flat(got), flat(want)
    assert len(got) == len(want), f"{where}: {len(got)} results, PyTorch has {len(want)}"
    for number, (ours, theirs) in enumerate(zip(got, want, strict=True)):
        if not isinstance(theirs, oracle.torch.Tensor):
            assert type(ours) is type(theirs) or str(ours) == str(theirs), where
            assert str(ours) == str(theirs) or ours == theirs, f"{where}: {ours!r}, PyTorch has {theirs!r}"
            continue
        assert isinstance(ours, Tensor), f"{where}: {type(ours)} is no tensor"
        assert str(ours.dtype) == str(theirs.dtype), f"{where}: {ours.dtype}, PyTorch has {theirs.dtype}"
        assert tuple(ours.shape) == tuple(theirs.shape), f"{where}: {ours.shape}, PyTorch has {theirs.shape}"
        if strides:
            assert relevant_strides(ours) == relevant_strides(theirs), f"{where}: strides {ours.stride()}, PyTorch has {theirs.stride()}"
        if values:
            size = np.abs if record.sign_free else np.asarray
            mine, other = size(OURS.array(ours)), size(oracle.array(theirs))
            try:
                assert_close(mine, other, record, where, against=precision.PYTORCH, least=least)
            except AssertionError:
                if exact is None or mine.dtype.name not in HALVES:
                    raise
                rounded = size(exact()[number]).astype(mine.dtype)
                assert_close(mine, rounded, record, f"{where}, rounded once", against=precision.PYTORCH, least=least)


def relevant_strides(tensor: Any) -> tuple[int, ...]:
    """Strides of dimensions that are stepped along; those of size 1, and of empty tensors, mean nothing."""
    if not tensor.numel():
        return ()
    return tuple(step for n, step in zip(tensor.shape, tensor.stride(), strict=True) if n != 1)


def assert_same_outcome(
    ours: tuple[Any, Exception | None], theirs: tuple[Any, Exception | None], oracle: Library, record: Record, where: str, **options: Any
) -> None:
    """Both succeed with the same results, or both fail with the same type of exception."""
    (got, error), (want, expected) = ours, theirs
    if expected is not None:
        assert error is not None, f"{where}: accepted, PyTorch raises {type(expected).__name__}: {str(expected)[:200]}"
        assert isinstance(error, expected_type(expected)), f"{where}: {error!r}, PyTorch raises {type(expected).__name__}: {expected}"
        return
    if error is not None:
        raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error
    assert_same(got, want, oracle, record, where, **options)


def expected_type(error: Exception) -> type[Exception]:
    # what real PyTorch has not implemented for a dtype or device is a RuntimeError to programs
    # and so are its own exception classes, all of which derive from it
    own = type(error).__module__.startswith("torch")
    return RuntimeError if isinstance(error, NotImplementedError) or (own and isinstance(error, RuntimeError)) else type(error)


def shares_memory(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(a.size and b.size and np.may_share_memory(a, b))


def arrays_in(value: Any) -> list[np.ndarray]:
    if isinstance(value, np.ndarray):
        return [value]
    return [array for item in value for array in arrays_in(item)] if isinstance(value, (list, tuple)) else []


def describe(record: Record, sample: Sample) -> str:
    """The call, with arrays as their dtypes and shapes."""
    shown = [_shown(arg) for arg in sample.args] + [f"{key}={_shown(value)}" for key, value in sample.kwargs.items()]
    return f"{record.name}({', '.join(shown)})"


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype.name}{list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_shown, value))}]"
    return repr(value)


def differentiable_inputs(value: Any) -> list[Any]:
    """The floating-point and complex tensors among arguments, lists included."""
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in differentiable_inputs(item)]
    if isinstance(value, dict):
        return differentiable_inputs(list(value.values()))
    has_dtype = hasattr(value, "requires_grad") and (value.dtype.is_floating_point or value.dtype.is_complex)
    return [value] if has_dtype else []


def gradients(library: Library, function: Callable[..., Any], args: Any, kwargs: Any, weights: Sequence[np.ndarray] | None = None) -> Any:
    """(gradients of all differentiable inputs for fixed cotangents, exception): one number array or None per input."""
    if isinstance(library, RecordedOracle):
        return library.gradients(function, args, kwargs)

    def compute() -> list[np.ndarray | None]:
        inputs = [tensor.requires_grad_() for tensor in differentiable_inputs([*args, kwargs])]
        outputs = [result for result in flat(function(*args, **kwargs)) if getattr(result, "requires_grad", False)]
        if not outputs:
            return []
        rng = np.random.default_rng(0)
        cotangents = []
        for out in outputs:
            values = rng.uniform(0.5, 1.5, tuple(out.shape))
            cotangents.append(library.tensor(np.asarray(values).astype(library.array(out).dtype)))
        grads = library.torch.autograd.grad(outputs, inputs, cotangents, allow_unused=True)
        return [None if gradient is None else library.array(gradient) for gradient in grads]

    return library.attempt(compute)
