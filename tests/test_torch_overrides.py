"""``torch.overrides``: what can be taken over, properties through ``__torch_function__``, and the stack of modes, as PyTorch has them."""

from __future__ import annotations

import contextlib
import functools
import inspect
from typing import Any

import pytest

import flambeau


def noting(library: Any, seen: list[str]) -> Any:
    """A class of tensors that notes the names of what it is asked about."""

    class Asked(library.Tensor):  # type: ignore[misc, name-defined]
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    return Asked


def names_seen(library: Any, program: Any) -> list[str]:
    seen = []

    class Names(library.overrides.TorchFunctionMode):  # type: ignore[misc, name-defined]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(library.overrides.resolve_name(func))
            return func(*args, **(kwargs or {}))

    with Names():
        program(library.ones(2, requires_grad=True))
    return [name for name in seen if name != "torch.ones"]


def properties(x: Any) -> Any:
    return x.shape, x.grad, x.dtype, x.device, x.requires_grad, x.is_leaf, x.data, x.grad_fn, x.ndim, x.layout, x.is_cuda


def test_modes_see_properties_as_pytorchs(oracle: Any) -> None:
    ours = names_seen(flambeau, properties)
    assert ours == names_seen(oracle, properties)
    assert ours[0] == "torch.Tensor.shape.__get__" and len(ours) == 11
    assert flambeau.ones(2).shape == (2,)  # outside nothing is asked


METHODS = """
x.size(); x.size(0); x.dim(); x.numel(); x.stride(); len(x); x.is_contiguous(); x.is_floating_point(); x.storage_offset(); x.element_size()
x.sum().item(); float(x[0, 0]); int(x[0, 0]); bool(x[0, 0]); x.tolist(); x.numpy(); x.detach(); x.double(); x.long(); x.to(torch.float64)
x.view(-1); x.view(torch.int32); x.reshape(4); x.expand(2, 2); x.repeat(2, 1); x.tile(2); x.flip(0); x.requires_grad_(); x.uniform_()
x[None]; x[0, 1]; x[:, 1]; x[..., None]; x.T; x.mT; (x * y).sum().backward(); y.register_hook(print); repr(x); f"{x[0, 0]}"; 2.0 in x
torch.einsum("ij,jk->ik", x, y); torch.einsum("ij->ji", [x]); torch.meshgrid(x[0], x[1], indexing="ij"); torch.broadcast_tensors(x, x[0])
torch.atleast_1d(x); torch.atleast_3d(x, x); torch.block_diag(x, x); torch.cartesian_prod(x[0], x[1]); torch.chain_matmul(x, x)
"""


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("by_mode", [True, False], ids=["mode", "class"])
def test_methods_that_are_no_operations_are_shown_by_their_names(by_mode: bool, oracle: Any) -> None:
    found = []
    for library in (flambeau, oracle):
        seen: list[str] = []

        Asked = noting(library, seen)

        class Names(library.overrides.TorchFunctionMode):  # type: ignore[misc, name-defined]
            def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None, seen: Any = seen) -> Any:
                seen.append(func.__name__)
                return func(*args, **(kwargs or {}))

        results = {}
        for call in METHODS.replace("\n", ";").split(";"):
            x, y = library.ones(2, 2), library.ones(2, 2, requires_grad=True)
            if not by_mode:
                x, y = x.as_subclass(Asked), y.as_subclass(Asked)
            del seen[:]
            with Names() if by_mode else contextlib.nullcontext():
                eval(call.strip() or "0", {"torch": library, "x": x, "y": y})
            results[call] = list(seen)
        found.append(results)
    assert found[0] == found[1]
    assert flambeau.ones(2).size() == (2,) and not flambeau.core.calls.getters._on


def test_a_handler_answers_for_a_method() -> None:
    class NoSynchronization(flambeau.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func in (flambeau.Tensor.item, flambeau.Tensor.__bool__, flambeau.Tensor.tolist):
                raise RuntimeError("synchronizes")
            return 7 if func is flambeau.Tensor.dim else func(*args, **(kwargs or {}))

    x = flambeau.ones(2)
    with NoSynchronization():
        assert x.dim() == 7 and x.ndim == 1
        for call in (x.sum().item, x.tolist, lambda: bool(x[0])):
            with pytest.raises(RuntimeError, match="synchronizes"):
                call()
        assert flambeau.nn.functional.layer_norm(x, (2,)).shape == (2,)  # the library itself asks nobody
    assert x.dim() == 1 and x.sum().item() == 2


def test_a_class_is_asked_about_properties(oracle: Any) -> None:
    found = []
    for library in (flambeau, oracle):
        seen: list[str] = []

        class Asked(library.Tensor):  # type: ignore[misc, name-defined]
            @classmethod
            def __torch_function__(
                cls, func: Any, types: Any, args: Any = (), kwargs: Any = None, seen: Any = seen, library: Any = library
            ) -> Any:
                seen.append(library.overrides.resolve_name(func))
                return super().__torch_function__(func, types, args, kwargs)

        x = library.ones(2).as_subclass(Asked)
        del seen[:]
        values = (tuple(x.shape), str(x.dtype).partition(".")[2], x.grad, x.is_leaf)
        x.requires_grad = True
        x.grad = None
        found.append((values, list(seen)))
    assert found[0] == found[1]


def test_a_property_can_be_answered_by_a_handler_known_before() -> None:
    reads_shape = flambeau.Tensor.shape.__get__  # type: ignore[attr-defined]

    class Claiming(flambeau.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return (7,) if func == reads_shape else super().__torch_function__(func, types, args, kwargs)

    class Mode(flambeau.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return (5,) if func == reads_shape else func(*args, **(kwargs or {}))

    x = flambeau.ones(2, 3)
    assert x.as_subclass(Claiming).shape == (7,) and (x.as_subclass(Claiming) + 1).sum().item() == 12
    with Mode(), Mode():
        assert x.shape == (5,) and x.sum().item() == 6
    assert x.shape == (2, 3) and flambeau.Tensor.shape.__get__ == reads_shape  # type: ignore[attr-defined]


def test_the_stack_of_modes() -> None:
    overrides = flambeau.overrides
    outer, inner = overrides.BaseTorchFunctionMode(), overrides.BaseTorchFunctionMode()
    assert overrides._get_current_function_mode() is None
    with outer, inner:
        assert overrides._get_current_function_mode() is inner and overrides._get_current_function_mode_stack() == [outer, inner]
        with overrides._pop_mode_temporarily() as popped:
            assert popped is inner and overrides._get_current_function_mode() is outer
        assert overrides._get_current_function_mode() is inner
    assert overrides._get_current_function_mode_stack() == []


def test_testing_overrides_have_the_functions_arguments(oracle: Any) -> None:
    tested = flambeau.overrides.get_testing_overrides()
    theirs = oracle.overrides.get_testing_overrides()
    assert tested[flambeau.add](1, 2) == -1 and "other" in inspect.signature(tested[flambeau.add]).parameters
    assert tested[flambeau.Tensor.shape.__get__](1) == -1  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        tested[flambeau.add]()
    known = {oracle.overrides.resolve_name(function) for function in theirs}
    found = {flambeau.overrides.resolve_name(function) for function in tested}
    spaces = ("torch.nn.functional.", "torch.linalg.", "torch.fft.", "torch.special.")
    for name in known - found:  # aliases are shown by one of their names, as ``special.expit`` by ``torch.sigmoid``
        if name and name.startswith(spaces) and "._" not in name:
            assert callable(functools.reduce(getattr, name.split(".")[1:], flambeau)), name


def test_names_of_operations(oracle: Any) -> None:
    for library in (flambeau, oracle):
        resolve, aten = library.overrides.resolve_name, library.ops.aten
        assert [resolve(f) for f in (library.add, library.nn.functional.relu, library.linalg.norm, aten.add.Tensor, aten.add, len)] == (
            ["torch.add", "torch.nn.functional.relu", "torch.linalg.norm", "aten.add.Tensor", "aten.add", None]
        )
        assert resolve(library.Tensor.grad.__set__) == "torch.Tensor.grad.__set__" or library is oracle
        assert library.Tensor.grad.__get__ in library.overrides.get_default_nowrap_functions()


def test_a_call_is_passed_on_without_asking_again(oracle: Any) -> None:
    found = []
    for library in (flambeau, oracle):
        seen: list[str] = []

        class Depth(library.Tensor):  # type: ignore[misc, name-defined]
            @classmethod
            def __torch_function__(
                cls, func: Any, types: Any, args: Any = (), kwargs: Any = None, seen: Any = seen, library: Any = library
            ) -> Any:
                seen.append(func.__name__)
                return library.overrides.redispatch_function(func, types, args, kwargs)

        def scaled(a: Any, b: Any, library: Any = library) -> Any:
            if library.overrides.has_torch_function((a, b)):
                return library.overrides.handle_torch_function(scaled, (a, b), a, b)
            return library.mul(a, b) + 1

        result = scaled(library.ones(2).as_subclass(Depth), library.ones(2).as_subclass(Depth))
        found.append((seen, type(result).__name__, result.tolist()))
    assert found[0] == found[1]


def test_a_device_as_a_context_and_a_decorator() -> None:
    from flambeau.utils import _device, _mode_utils

    with _device.DeviceContext("meta"):
        assert flambeau.ones(2).device.type == "meta" and _device.CURRENT_DEVICE == flambeau.device("meta")
        assert flambeau.ones(2, device="cpu").device.type == "cpu"
    assert _device.set_device("meta")(flambeau.zeros)(2).is_meta and not flambeau.zeros(2).is_meta
    assert flambeau.zeros in _device._device_constructors() and flambeau.zeros_like not in _device._device_constructors()
    with flambeau.utils.flop_counter.FlopCounterMode(display=False) as counter, _mode_utils.no_dispatch():
        flambeau.ones(2, 2) @ flambeau.ones(2, 2)
    assert counter.get_total_flops() == 0


def test_types_of_arguments_may_be_told_by_the_caller(oracle: Any) -> None:
    for library in (flambeau, oracle):

        class Base(library.Tensor):  # type: ignore[misc, name-defined]
            @classmethod
            def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                return NotImplemented

        class Derived(Base):
            pass

        chosen = library.overrides._get_overloaded_args((Base, 3, Derived, Base), lambda kind: kind if isinstance(kind, type) else int)
        assert chosen == [Derived, Base]


def test_leaving_a_mode_that_is_not_there_changes_nothing() -> None:
    from flambeau.utils._python_dispatch import TorchDispatchMode

    class Above(flambeau.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    class Below(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    seen: list[str] = []
    x = flambeau.ones(2)
    for mode in (Above(), Below()):
        with pytest.raises(RuntimeError, match="empty mode stack"):
            mode.__exit__(None, None, None)
    with Above(), Below():
        x + 1
    assert seen == ["add", "aten.add.Tensor"]
    outer, inner = Below(), Below()
    outer.__enter__()
    inner.__exit__(None, None, None)  # takes the innermost one off
    x + 1
    assert len(seen) == 2


def test_a_mode_that_declines_is_an_error() -> None:
    class Declining(flambeau.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return NotImplemented

    x = flambeau.ones(2)
    with Declining():
        for call in (lambda: flambeau.sort(x), lambda: x.add_(1), lambda: x + 1, x.size):
            with pytest.raises(TypeError, match="returned NotImplemented"):
                call()


@pytest.mark.oracle
def test_calls_inside_of_a_function_are_shown_and_not_the_function(oracle: Any) -> None:
    found = []
    for library in (flambeau, oracle):
        seen: list[str] = []

        Asked = noting(library, seen)

        class Double(library.autograd.Function):  # type: ignore[misc, name-defined]
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * 2

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                return grad * 2

        result = Double.apply(library.ones(2).as_subclass(Asked))
        found.append((seen, type(result).__name__))
    assert found[0] == found[1] == (["mul"], "Asked")


def classes_of_properties(library: Any) -> list[str]:
    class PassesOn(library.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return super().__torch_function__(func, types, args, kwargs)

    class AsItIs(library.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            with library._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))

    class Plain(library.Tensor):
        pass

    classes = []
    for kind in (PassesOn, AsItIs, Plain):
        x = library.ones(2, 2).as_subclass(kind)
        x.grad = library.zeros(2, 2)
        classes += [type(getattr(x, name)).__name__ for name in ("data", "T", "mT", "H", "real", "grad", "shape", "is_leaf")]
    return classes


@pytest.mark.oracle
def test_properties_are_of_the_class_that_passes_on(oracle: Any) -> None:
    assert classes_of_properties(flambeau) == classes_of_properties(oracle)


CALLS = """torch.vstack([x, s]);torch.tensordot(x, s, 1);F.mse_loss(x, s);F.cosine_similarity(x, s, 0);torch.dist(x, s);torch.allclose(x, s)
F.kl_div(x, s);F.bilinear(x, s, x);F.cross_entropy(x, s);torch.kron(x, s);F.embedding(x, s);F.conv1d(x, s);F.layer_norm(x, (3,), s)
torch.equal(x, s);torch.hstack((x, s));F.pairwise_distance(x, s);F.l1_loss(x, s);F.smooth_l1_loss(x, s);F.huber_loss(x, s)
F.triplet_margin_loss(x, x, s)
F.poisson_nll_loss(x, s);F.binary_cross_entropy(x, s);F.batch_norm(x, s, x);F.group_norm(x, 1, s);torch.searchsorted(x, s)
torch.bucketize(x, s);torch.isin(x, s);torch.take_along_dim(x, s, 0);torch.index_select(x, 0, s);x + s;x.add(s);x @ s;torch.bmm(x, s)
F.grid_sample(x, s);F.ctc_loss(x, s, s, s);F.scaled_dot_product_attention(x, s, x);torch.block_diag(x, s);torch.cartesian_prod(x, s)
x.type_as(s);x.expand_as(s);x.view_as(s);x.reshape_as(s);torch.stack([x, s]);torch.einsum('i,i->', x, s);torch.meshgrid(x, s)
F.multi_head_attention_forward(x, x, s, 3, 1, None, None, None, None, False, 0.0, x, x)""".replace("\n", ";").split(";")


@pytest.mark.oracle
@pytest.mark.parametrize("call", CALLS)
def test_classes_of_later_operands_are_asked_first(call: str, oracle: Any) -> None:
    """A composite is shown whole, by its own name, whichever operand's class has the method."""

    def asked(library: Any) -> str:
        class Asked(library.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                return function.__name__

        x = library.ones(3)
        return eval(call, {"torch": library, "F": library.nn.functional, "x": x, "s": library.ones(3).as_subclass(Asked)})

    assert asked(flambeau) == asked(oracle)
