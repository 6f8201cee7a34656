"""``torch.library.opcheck``: whether an operation was registered as its schema says. Source: torch.library.opcheck."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.tensor import Tensor
from ...utils import _pytree
from .. import overloads
from . import definitions

DEFAULT_TEST_UTILS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
ALL_TEST_UTILS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_static", "test_aot_dispatch_dynamic")


class OpCheckError(Exception):
    """A test of ``opcheck`` that failed. Source: torch.testing._internal.optests.generate_tests.OpCheckError."""


class MetadataMismatchError(Exception):
    """The fake kernel gives other shapes, strides or dtypes than the kernel."""

    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason

    def __repr__(self) -> str:
        return f"MetadataMismatchError(reason={self.reason!r})"


def opcheck(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = DEFAULT_TEST_UTILS,
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, Any]:
    """Call an operation in the ways that its registrations have to stand, and compare.

    - ``test_schema``: arguments are written to, and results share memory with them, exactly where the schema says so.
    - ``test_autograd_registration``: results that require grad come from a kernel for autograd.
    - ``test_faketensor``: the fake kernel gives the shapes, strides and dtypes that the kernel gives.
    - ``test_aot_dispatch_dynamic``, ``test_aot_dispatch_static``: results and gradients are those of a second call on copies, and
      derivatives can be computed. There is no compiler here whose trace would be compared.

    Args:
        op: an overload, a packet with one, or what ``custom_op`` returned.
        args, kwargs: of one call.
        test_utils: which tests.
        raise_exception: whether the first failure is raised.
        atol, rtol: how far results and gradients may be apart.
    Returns:
        'SUCCESS' or the exception, by test.
    Raises:
        OpCheckError: a test failed. ValueError: no operation, or no such test.
    Source: torch.library.opcheck.
    Example:
        >>> torch.library.opcheck(torch.ops.aten.sin.default, (torch.ones(2),), test_utils="test_schema")
        {'test_schema': 'SUCCESS'}
    """
    if hasattr(op, "_opoverload"):
        op = op._opoverload
    if isinstance(op, overloads.OpOverloadPacket):
        op = getattr(op, op.overloads()[0])
    if not isinstance(op, overloads.OpOverload):
        raise ValueError(f"opcheck(op, ...): op must be instance of torch._ops.OpOverload, e.g. torch.ops.aten.sin.default, got {type(op)}")
    names = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    if not set(names) <= set(ALL_TEST_UTILS):
        raise ValueError(f"opcheck(op, ..., test_utils={names}), expected test_utils to be subset of {ALL_TEST_UTILS} but it was not")
    results: dict[str, Any] = {}
    for name in names:
        try:
            _TESTS[name](op, args, kwargs or {}, atol, rtol)
        except Exception as error:
            if raise_exception:
                raise OpCheckError(f"opcheck(op, ...): {name} failed with {error} (scroll up for stack trace)") from error
            results[name] = error
        else:
            results[name] = "SUCCESS"
    return results


def _copied(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Copies of the arguments, with their strides; those that require grad are leaves."""

    def copy(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        made = value.detach().clone()
        return made.requires_grad_() if value.requires_grad else made

    return _pytree.tree_map(copy, (args, kwargs))


def _detached(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return _pytree.tree_map(lambda value: value.detach() if isinstance(value, Tensor) else value, _copied(args, kwargs))


def _memory(tensor: Tensor) -> tuple[int, int]:
    """The first byte of a tensor's storage, and the one behind its last."""
    storage = tensor.untyped_storage()
    start = storage.data_ptr()
    return start, start + storage.nbytes()


def _share(one: Tensor, other: Tensor) -> bool:
    (a, b), (c, d) = _memory(one), _memory(other)
    return max(a, c) < min(b, d)


def _test_schema(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], atol: Any, rtol: Any) -> None:
    """Writes and shared memory against the schema."""
    args, kwargs = _detached(args, kwargs)
    values = op._schema.bind(args, kwargs)
    before = [[tensor.clone() for tensor in overloads.tensors_in([value])] for value in values]
    result = op(*args, **kwargs)
    outputs = overloads.tensors_in([result])
    for argument, value, copies in zip(op._schema.arguments, values, before, strict=True):
        tensors = overloads.tensors_in([value])
        if not argument.is_write and any(not _same(tensor, copy) for tensor, copy in zip(tensors, copies, strict=True)):
            raise RuntimeError(f"Argument {argument.name} is not defined as mutable but was mutated")
        aliases = argument.alias_info is not None
        if not aliases and any(_share(tensor, made) for tensor in tensors for made in outputs if tensor.numel()):
            raise RuntimeError(f"Argument {argument.name} is not defined to alias output but was aliasing")
    named = any(True for returned in op._schema.returns for _ in returned.real_type.aliases())
    if not named and any(_share(a, b) for i, a in enumerate(outputs) for b in outputs[:i] if a.numel()):
        raise RuntimeError("Outputs 0 and 1 alias unexpectedly")


def _same(one: Tensor, other: Tensor) -> bool:
    if one.device.type == "meta":
        return True
    a, b = np.asarray(one.cpu()._array), np.asarray(other.cpu()._array)
    return bool(np.array_equal(a, b) or ((a == b) | ((a != a) & (b != b))).all())


def _test_autograd_registration(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], atol: Any, rtol: Any) -> None:
    """A result that requires grad needs a kernel for autograd."""
    operation = op._op
    if not isinstance(operation, definitions.Operation) or not any(
        isinstance(value, Tensor) and value.requires_grad for value in _pytree.tree_leaves((args, kwargs))
    ):
        return
    if operation.formula is not None or any(key.startswith("Autograd") or key == "CompositeImplicitAutograd" for key in operation.kernels):
        return
    args, kwargs = _copied(args, kwargs)
    if any(tensor.requires_grad for tensor in overloads.tensors_in([op(*args, **kwargs)])):
        raise AssertionError(
            f"{op._name}: at least one output of this operator has requires_grad=True but the operator does not have an autograd kernel "
            "defined at an autograd key (e.g. DispatchKey::Autograd). This could mean that you have incorrectly registered an autograd "
            "kernel to a non-Autograd DispatchKey, which may lead to silently incorrect results. If your operator consists of regular "
            "PyTorch operations, consider not using an operator at all or registering your operator as CompositeImplicitAutograd. If you "
            "have an autograd.Function registered to a backend (CPU/CUDA/XPU) key, the correct location for it is the Autograd key."
        )


def _test_faketensor(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], atol: Any, rtol: Any) -> None:
    """Shapes, strides and dtypes on ``meta`` tensors against the kernel's."""
    args, kwargs = _detached(args, kwargs)
    op._schema.bind(args, kwargs)
    hollow = _pytree.tree_map(lambda value: value.to("meta") if isinstance(value, Tensor) else value, (args, kwargs))
    fakes = overloads.tensors_in([op(*hollow[0], **hollow[1])])
    found = overloads.tensors_in([op(*args, **kwargs)])
    where = f"When comparing the output of {op} on FakeTensor and concrete Tensors, found mismatched tensor metadata"
    if len(fakes) != len(found):
        raise MetadataMismatchError(f"{where}: {len(found)} and {len(fakes)} tensors")
    for fake, real in zip(fakes, found, strict=True):
        if real.shape != fake.shape:
            raise MetadataMismatchError(f"{where}: Shapes {real.shape} and {fake.shape} are not equal!")
        if real.dtype is not fake.dtype:
            raise MetadataMismatchError(f"{where}: Dtypes {real.dtype} and {fake.dtype} are not equal!")
        for place, (a, b) in enumerate(zip(real.stride(), fake.stride(), strict=True)):
            if a != b and real.shape[place] > 1 and real.numel():
                raise MetadataMismatchError(
                    f"{where}: Stride mismatch! Strides are {real.stride()} and {fake.stride()} (mismatched at {place})!"
                )


def _test_aot_dispatch(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], atol: Any, rtol: Any) -> None:
    """Results and gradients of two calls; the second one's arguments are in other memory."""
    from ...autograd.api import grad
    from ...testing import assert_close

    def called() -> tuple[list[Any], list[Any]]:
        given = _copied(args, kwargs)
        leaves = [value for value in _pytree.tree_leaves(given) if isinstance(value, Tensor) and value.requires_grad]
        found = overloads.tensors_in([op(*given[0], **given[1])])
        moving = [made for made in found if made.requires_grad]
        seeds = [made.new_ones(made.shape) for made in moving]
        return found, list(grad(moving, leaves, seeds, allow_unused=True)) if moving and leaves else []

    tolerances: dict[str, Any] = {} if atol is None and rtol is None else {"atol": atol or 0.0, "rtol": rtol or 0.0}
    first, second = called(), called()
    if isinstance(op._op, definitions.Operation):
        _require_fake(op)
    if not op.tags or not any(tag.name.startswith("nondeterministic") for tag in op.tags):
        for ours, theirs in zip(first, second, strict=True):
            assert_close(ours, theirs, equal_nan=True, **tolerances)


def _require_fake(op: Any) -> None:
    operation = op._op
    if operation.no_fake is not None and "Meta" not in operation.kernels:
        raise operation.no_fake()


_TESTS: dict[str, Callable[..., None]] = {
    "test_schema": _test_schema,
    "test_autograd_registration": _test_autograd_registration,
    "test_faketensor": _test_faketensor,
    "test_aot_dispatch_static": _test_aot_dispatch,
    "test_aot_dispatch_dynamic": _test_aot_dispatch,
}
