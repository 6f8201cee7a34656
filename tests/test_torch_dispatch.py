"""``__torch_dispatch__`` of modes and of subclasses, against PyTorch: what arrives, and what comes out."""

from __future__ import annotations

import copy
import importlib
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau


def module(library: Any, name: str) -> Any:
    return importlib.import_module(f"{library.__name__}.{name}")


def logging_mode(library: Any) -> Any:
    """A mode that keeps what arrives: names, shapes of tensors, other arguments."""
    tensor = library.Tensor

    def shown(value: Any) -> Any:
        if isinstance(value, tensor):
            return tuple(value.shape)
        return [shown(item) for item in value] if isinstance(value, (list, tuple)) else str(value)

    class Log(module(library, "utils._python_dispatch").TorchDispatchMode):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.calls: list[Any] = []

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if not str(func).startswith(("aten.detach", "profiler.")):
                name = str(func).replace("_unsafe_view", "view")
                self.calls.append((name, shown(args), {name: shown(value) for name, value in sorted((kwargs or {}).items())}))
            return func(*args, **(kwargs or {}))

    return Log()


def calls(library: Any, program: Callable[[Any], Any]) -> list[Any]:
    library.manual_seed(0)
    with logging_mode(library) as log:
        program(library)
    return log.calls


def x(library: Any) -> Any:
    return library.linspace(-1, 1, 6, requires_grad=True).reshape(2, 3).detach().requires_grad_()


# What arrives is PyTorch's, argument for argument.
EQUAL: dict[str, Callable[[Any], Any]] = {
    "arithmetic": lambda t: (
        x(t) + 1,
        x(t) * 2,
        x(t) / 3,
        x(t) ** 2,
        1 - x(t),
        2 / x(t),
        x(t) > 0,
        x(t) == x(t),
        -x(t),
        2 + x(t),
        3 * x(t),
    ),
    "reductions": lambda t: (x(t).sum(), x(t).sum(0), x(t).mean(), x(t).mean(1, True), x(t).max(), x(t).max(1), x(t).all(), x(t).argmax()),
    "activations": lambda t: (x(t).relu(), x(t).softmax(1), t.log_softmax(x(t), 0), t.nn.functional.gelu(x(t)), x(t).sigmoid().tanh()),
    "views": lambda t: (
        x(t).t(),
        x(t).view(3, 2),
        x(t).permute(1, 0),
        x(t).unsqueeze(0),
        x(t).squeeze(),
        x(t).expand(4, 2, 3),
        x(t).split(1),
    ),
    "parts": lambda t: (x(t)[0], x(t)[:, 1:], x(t)[None], x(t)[..., 0], x(t)[0, 1], x(t)[1:, 0], x(t)[x(t) > 0], x(t).unbind(1)),
    "factories": lambda t: (t.zeros(2), t.ones(2, 3), t.empty(2), t.full((2,), 1.0), t.randn(2), t.arange(3), t.arange(1, 3), t.eye(2)),
    "more factories": lambda t: (
        t.randint(3, (2,)),
        t.randperm(3),
        t.zeros_like(x(t)),
        x(t).new_zeros(2),
        t.full_like(x(t), 2),
        t.tensor([1.0]),
    ),
    "in place": lambda t: in_place(t),
    "products": lambda t: (
        t.randn(2, 3, 4) @ t.randn(4),
        t.randn(3) @ t.randn(3),
        t.randn(2, 3) @ t.randn(3),
        t.addmm(x(t), t.eye(2), x(t)),
    ),
    "conversions": lambda t: (x(t).double(), x(t).to(t.int32), x(t).detach().sum().item(), bool((x(t) > 0).all())),
    "joined": lambda t: (t.cat([x(t), x(t)], 1), t.stack([x(t), x(t)]), t.where(x(t) > 0, x(t), x(t)), x(t).masked_fill(x(t) > 0, 1.0)),
    "out": lambda t: t.add(x(t).detach(), 1, out=t.zeros(2, 3)),
    "gradient of a reduction": lambda t: (x(t) * x(t)).sum(1).sum().backward(),
    "gradient of a product": lambda t: (x(t) * x(t)).sum().backward(),
    "losses": lambda t: t.nn.functional.nll_loss(x(t).log_softmax(1), t.tensor([0, 2])).backward(),
    "squares": lambda t: t.nn.functional.mse_loss(x(t), t.zeros(2, 3)).backward(),
    "layer norm": lambda t: t.nn.functional.layer_norm(x(t), (3,)).sum().backward(),
}


def in_place(t: Any) -> None:
    y = t.zeros(2, 3)
    for write in (
        lambda: y.add_(1),
        lambda: y.mul_(y),
        lambda: y.zero_(),
        lambda: y.fill_(2),
        lambda: y.normal_(),
        lambda: y.uniform_(0, 2),
    ):
        write()
    y.clamp_(0).relu_().bernoulli_(0.5).copy_(t.ones(2, 3))
    y[:, 1] = y[:, 0]
    y[y > 3] = t.zeros(())
    y.t_()
    y.masked_fill_(y > 0, 1)


@pytest.mark.parametrize("name", EQUAL)
def test_what_arrives_is_pytorchs(name: str, oracle: Any) -> None:
    ours, theirs = calls(flambeau, EQUAL[name]), calls(oracle, EQUAL[name])
    assert [(func, args) for func, args, _ in ours] == [(func, args) for func, args, _ in theirs]
    relevant = ("memory_format", "pin_memory")
    without = [[{k: v for k, v in kwargs.items() if k not in relevant} for _, _, kwargs in log] for log in (ours, theirs)]
    assert str(without[0]).replace("flambeau", "torch") == str(without[1])


FORMS = """
y.pow_(2); y.pow_(y); y.floor_divide_(2); y.div_(2); y.transpose_(0, 1); y.swapaxes_(0, 1); y.lt_(x)
y.remainder_(2); y.eq_(1); y.xlogy_(2); y.bernoulli_(); torch.bernoulli(y.clamp(0, 1)); torch.lt(x, x, out=m); torch.lt(x, 1, out=m)
torch.sum(x, 0, out=y); torch.mean(x, 0, out=y); torch.any(m, 0, out=m.clone()); torch.add(x, 1, out=y); torch.pow(x, 2, out=y)
torch.sort(x, out=(y, i)); torch.topk(x, 1, out=(y, i)); torch.zeros(2, out=y); torch.arange(3, out=y); torch.eye(3, out=y)
torch.arange(1, 3, out=y); torch.full((2,), 1.0, out=y); torch.linspace(0, 1, 3, out=y); torch.ones(2, out=y); torch.clamp(x, 0, out=y)
torch.gather(x, 0, i, out=y); torch.cumsum(x, 0, out=y); torch.maximum(x, x, out=y); x.detach(); y.detach().add_(1)
"""


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
def test_in_place_forms_and_out_are_overloads_of_pytorchs(oracle: Any) -> None:
    found = []
    for library in (flambeau, oracle):
        results = {}
        for call in FORMS.replace("\n", ";").split(";"):
            x, y, i = library.ones(2, 2), library.full((2, 2), 0.5), library.zeros(2, 2, dtype=library.int64)
            space = {"torch": library, "x": x, "y": y, "i": i, "m": x > 0}
            shown: list[Any] = []
            names = [func for func, _, _ in calls(library, lambda t: shown.append(eval(call.strip() or "0", space)))]  # noqa: B023
            value = shown[0][0] if isinstance(shown[0], tuple) else shown[0]
            results[call] = names, getattr(value, "tolist", int)()
        found.append(results)
    assert found[0] == found[1]


DRAWN = """
torch.rand(2, generator=g); torch.randn(2, generator=g); torch.randint(5, (9,), generator=g); torch.randint(2, 5, (9,), generator=g)
torch.randperm(9, generator=g); torch.normal(0.0, 1.0, (3,), generator=g); torch.normal(x, 1.0); torch.normal(2.0, x); torch.normal(x, x)
torch.bernoulli(x, generator=g); torch.rand(2, generator=g, out=torch.empty(2))
torch.repeat_interleave(x, 2, 0); torch.where(x > 0.4, x, 0.0)
"""


@pytest.mark.oracle
def test_random_numbers_come_from_the_same_streams_below_a_mode(oracle: Any) -> None:
    found = []
    for library in (flambeau, oracle):
        results = {}
        for call in DRAWN.replace("\n", ";").split(";"):
            for seen in (True, False):
                library.manual_seed(0)
                space = {"torch": library, "x": library.full((2, 2), 0.5), "g": library.Generator().manual_seed(5)}
                shown: list[Any] = []
                names = calls(library, lambda t: shown.append(eval(call.strip() or "0", space))) if seen else ()  # noqa: B023
                value = shown[0] if seen else eval(call.strip() or "0", space)
                results[call, seen] = getattr(value, "tolist", int)(), [name for name, _, _ in names if "out" not in name]
        found.append(results)
        assert all(results[call, True][0] == results[call, False][0] for call, _ in results)
    values = [{key: value for key, (value, _) in results.items()} for results in found]
    assert values[0].keys() == values[1].keys()
    for key, value in values[0].items():
        assert np.allclose(value, values[1][key])
    names = [{key: names for key, (_, names) in results.items() if "out=" not in key[0]} for results in found]
    assert names[0] == names[1]


def network(t: Any) -> Any:
    nn = t.nn
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 8), nn.ReLU(), nn.Linear(8, 2)
    )


def names(library: Any, program: Callable[[Any], Any]) -> list[str]:
    """Names that arrive, without transpositions, of which the library needs fewer."""
    return [func for func, _, _ in calls(library, program) if func not in ("aten.t.default", "aten.empty.memory_format")]


def test_a_network_calls_the_same_kernels_forward_and_backward(oracle: Any) -> None:
    def program(model: Any, images: Any, target: Any) -> Callable[[Any], Any]:
        return lambda t: t.nn.functional.cross_entropy(model(images), target).backward()

    found = []
    for library in (flambeau, oracle):
        found.append(names(library, program(network(library), library.ones(2, 3, 8, 8), library.tensor([0, 1]))))
    backward = [name for name in found[0] if "_backward" in name]
    assert found[0][: found[0].index("aten.ones_like.default")] == found[1][: found[1].index("aten.ones_like.default")]
    assert sorted(found[0]) == sorted(found[1]) and backward == [name for name in found[1] if "_backward" in name]
    assert "aten.convolution_backward.default" in backward and len(backward) == 7


def test_gradients_are_the_same_with_a_mode_as_without() -> None:
    results = []
    for log in (None, logging_mode(flambeau)):
        flambeau.manual_seed(3)
        model = network(flambeau)
        inputs = flambeau.randn(2, 3, 8, 8)
        if log is not None:
            log.__enter__()
        try:
            model(inputs).pow(2).sum().backward()
        finally:
            if log is not None:
                log.__exit__(None, None, None)
        results.append([p.grad for p in model.parameters()] + list(model.buffers()))
    for plain, seen in zip(*results, strict=True):
        flambeau.testing.assert_close(seen, plain, rtol=1e-4, atol=1e-5)


# -- modes ---------------------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_binary_cross_entropy_has_a_gradient_for_its_target_below_a_mode(reduction: str, oracle: Any) -> None:
    def program(library: Any) -> list[Any]:
        scores, aims = library.tensor([0.25, 0.5, 0.0], requires_grad=True), library.tensor([0.75, 0.0, 1.0], requires_grad=True)
        for weight in (None, library.tensor([1.0, 2.0, 3.0])):
            library.nn.functional.binary_cross_entropy(scores, aims, weight, reduction=reduction).sum().backward()
        return [scores.grad, aims.grad]

    found: dict[Any, Any] = {}
    for library in (flambeau, oracle):
        names = [name for name, *_ in calls(library, lambda library: found.update({library: program(library)})) if "expand" not in name]
        found[library] = names, [grad.tolist() for grad in found[library]]
    (names, grads), (their_names, their_grads) = found[flambeau], found[oracle]
    assert names == their_names and names.count("aten.logit.default") == 2
    assert np.allclose(grads, their_grads, rtol=1e-6)
    assert np.allclose(grads, [grad.tolist() for grad in program(flambeau)], rtol=1e-6)


def test_modes_nest_and_do_not_see_themselves() -> None:
    from flambeau.utils import _python_dispatch as dispatch

    order = []

    class Named(dispatch.TorchDispatchMode):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            order.append(self.name)
            flambeau.ones(1) if self.name == "inner" else None
            return func(*args, **(kwargs or {}))

    outer, inner = Named("outer"), Named("inner")
    with outer:
        with inner:
            assert dispatch._get_current_dispatch_mode() is inner and dispatch._get_current_dispatch_mode_stack() == [outer, inner]
            flambeau.zeros(1)
            with dispatch._disable_current_modes() as disabled:
                flambeau.zeros(1)
            assert disabled == [outer, inner]
        assert order == ["inner", "outer", "outer"] and dispatch.is_in_torch_dispatch_mode()
    assert dispatch._get_current_dispatch_mode() is None and not dispatch.is_in_torch_dispatch_mode()


def test_a_mode_changes_results_and_gradients_flow_through_what_it_returns() -> None:
    from flambeau.utils._python_dispatch import TorchDispatchMode

    class Doubling(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            return result * 2 if func is flambeau.ops.aten.sin.default else result

    leaf = flambeau.ones(2, requires_grad=True)
    with Doubling():
        result = leaf.sin()
    assert result.tolist() == (flambeau.ones(2).sin() * 2).tolist()
    result.sum().backward()  # the derivative is that of sin, as PyTorch's
    assert leaf.grad.tolist() == flambeau.ones(2).cos().tolist()


def test_an_error_in_a_mode_leaves_nothing_behind() -> None:
    from flambeau.core.state import active, interposed, thread

    class Failing(module(flambeau, "utils._python_dispatch").TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise ValueError(str(func))

    before = len(active), len(interposed), thread.modes
    leaf = flambeau.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match=r"aten\.mul\.Tensor"), Failing():
        leaf * 2
    assert (len(active), len(interposed), thread.modes) == before and thread.dispatch_modes == ()
    assert flambeau.is_grad_enabled() and (leaf * 2).requires_grad


def test_results_of_views_keep_their_history_below_a_mode(oracle: Any) -> None:
    def program(library: Any) -> Any:
        leaf = library.ones(4, requires_grad=True)
        with logging_mode(library):
            y = leaf * 1
            part = y[1:3]
            part.mul_(3)
            y[0].add_(1)
            (y * y).sum().backward()
        return leaf.grad.tolist(), y.tolist(), part._is_view()

    assert program(flambeau) == program(oracle)


# -- overloads -----------------------------------------------------------------------------------------------------------------------------
def test_overloads_are_objects_with_signatures(oracle: Any) -> None:
    for library in (flambeau, oracle):
        aten = library.ops.aten
        add = aten.add.Tensor
        assert add is aten.add.Tensor and add.overloadpacket is aten.add and hash(add) == hash(aten.add.Tensor)
        assert (str(add), add.name(), repr(add)) == (
            "aten.add.Tensor",
            "aten::add.Tensor",
            "<OpOverload(op='aten.add', overload='Tensor')>",
        )
        assert add.namespace == "aten" and add.__name__ == "add.Tensor" and "Tensor" in aten.add.overloads()
        assert add(library.ones(2), 1).tolist() == [2, 2] and aten.add(library.ones(2), 1).tolist() == [2, 2]
        assert str(aten.mul_.Tensor._schema) == "aten::mul_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)"
        assert aten.mul_.Tensor._schema.is_mutable and not add._schema.is_mutable and aten.t.default.is_view and not add.is_view
        assert [argument.name for argument in aten.sum.dim_IntList._schema.arguments] == ["self", "dim", "keepdim", "dtype"]
        with pytest.raises(AttributeError):
            _ = aten.add.Nothing
        with pytest.raises(AttributeError):
            _ = aten.no_such_kernel
    assert pickle.loads(pickle.dumps(flambeau.ops.aten.add.Tensor)) is flambeau.ops.aten.add.Tensor


def test_what_the_table_names_is_there(oracle: Any) -> None:
    calls = importlib.import_module("flambeau.aten.calls")
    importlib.import_module("flambeau.aten.below")
    prepared = {*calls.PREPARED, *calls.COMPOSED}
    for key, names in calls.kernels().items():
        for name in names:
            overload = calls.overload_named(name)
            assert str(overload._schema) == str(calls.overload_named(name)._schema)
            assert key in prepared or calls._places(calls.entry_of(key), overload._schema) is not None, name
    for name in calls.IMPLEMENTED:
        assert hasattr(flambeau.ops.aten, name.partition(".")[0]) and hasattr(oracle.ops.aten, name.partition(".")[0]), name


def test_kernels_can_be_called_with_pytorchs_arguments() -> None:
    aten, ones = flambeau.ops.aten, flambeau.ones
    assert aten._softmax.default(ones(2, 2), 1, False).tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert aten.slice.Tensor(ones(4), 0, 1, 3).shape == (2,) and aten.select.int(ones(2, 3), 1, 0).shape == (2,)
    assert aten.view.default(ones(4), [2, 2]).shape == (2, 2) and aten.expand.default(ones(1), [3]).shape == (3,)
    assert aten.sum.dim_IntList(ones(2, 3), [1], True).tolist() == [[3], [3]] and aten.split.Tensor(ones(4), 2)[1].shape == (2,)
    assert aten.convolution.default(ones(1, 1, 3, 3), ones(1, 1, 2, 2), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1).shape == (
        1,
        1,
        2,
        2,
    )
    assert aten.add.out(ones(2), ones(2), out=flambeau.zeros(2)).tolist() == [2, 2] and aten.elu.default(ones(2)).tolist() == [1, 1]
    assert aten.zeros.default([2], dtype=flambeau.int64).dtype is flambeau.int64
    assert aten.elu.default(ones(2), 1.0, 2).tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="missing value for argument .other."):
        aten.mul.Tensor(ones(2))


# -- subclasses ----------------------------------------------------------------------------------------------------------------------------
def logging_tensor(library: Any) -> Any:
    """The class of PyTorch's documentation: a tensor around another one that keeps what its calls are."""
    tree_map = module(library, "utils._pytree").tree_map

    class LoggingTensor(library.Tensor):  # type: ignore[misc, name-defined]
        log: list[str] = []
        __torch_function__ = library._C._disabled_torch_function_impl

        @staticmethod
        def __new__(cls: Any, elem: Any, requires_grad: bool = False) -> Any:
            tensor = library.Tensor._make_wrapper_subclass(
                cls, elem.size(), strides=elem.stride(), dtype=elem.dtype, device=elem.device, requires_grad=requires_grad
            )
            tensor.elem = elem
            return tensor

        def __repr__(self, **options: Any) -> str:
            return f"LoggingTensor({self.elem})"

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            assert all(issubclass(kind, cls) for kind in types)

            def unwrap(value: Any) -> Any:
                return value.elem if isinstance(value, cls) else value

            result = func(*tree_map(unwrap, args), **tree_map(unwrap, kwargs or {}))
            if "detach" not in str(func):
                cls.log.append(str(func))
            return tree_map(lambda value: cls(value) if isinstance(value, library.Tensor) else value, result)

    return LoggingTensor


def numbers(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [numbers(item) for item in value]
    if hasattr(value, "elem"):
        flat = [float(f"{number:.5g}") for number in value.elem.flatten().tolist()]
        return [type(value).__name__, tuple(value.elem.shape), flat]
    return value


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "a product": lambda t, a: t.autograd.grad((a * 2).sum(), a),
    "saved results": lambda t, a: t.autograd.grad(a.relu().exp().sigmoid().sum(), a),
    "matrices": lambda t, a: t.autograd.grad((a @ a.t()).softmax(1)[0].sum(), a),
    "parts": lambda t, a: (
        a[0],
        a[:, 1],
        a.reshape(4),
        a[a > 2],
        a[t.tensor([1])],
        a.t().stride(),
        a.unbind(),
        a.split(1),
        a[..., None].shape,
    ),
    "writes": lambda t, a: writes(a),
    "writes through views": lambda t, a: recorded_writes(t, a),
    "data": lambda t, a: (a.double(), a.detach(), a.data, a.clone(), a.contiguous() is a, a.detach().requires_grad, a.sum().item()),
    "losses": lambda t, a: t.autograd.grad(t.nn.functional.cross_entropy(a, t.tensor([0, 1])), a),
    "norms": lambda t, a: t.autograd.grad(t.nn.functional.layer_norm(a, (2,)).pow(3).sum(), a),
    "joined": lambda t, a: (t.cat([a, a]), t.stack([a, a]), t.where(a > 1, a, a * 0)),
    "factories": lambda t, a: (t.zeros_like(a), a.new_ones(2), a.new_zeros(2).fill_(3)),
    "second derivative": lambda t, a: t.autograd.grad(t.autograd.grad((a**3).sum(), a, create_graph=True)[0].sum(), a),
    "accumulated": lambda t, a: ((a * 2).sum().backward(), (a * 3).sum().backward(), a.grad),
    "plain beside it": lambda t, a: t.autograd.grad((t.ones(2, 2) @ a + t.ones(2)).sum(), a),
}


def writes(a: Any) -> Any:
    y = a.detach() * 1
    y.add_(1)
    y.mul_(y)
    y[0] = 3.0
    flat = y.view(4)
    flat.add_(1)
    return y, flat


def recorded_writes(t: Any, a: Any) -> Any:
    y = a.clone()
    y.view(4).mul_(2)
    y[0].add_(1)
    return t.autograd.grad((y * y).sum(), a)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_logging_tensor_is_pytorchs(name: str, oracle: Any) -> None:
    found = []
    for library in (flambeau, oracle):
        cls = logging_tensor(library)
        leaf = cls(library.tensor([[1.0, 2.0], [3.0, 4.0]]), requires_grad=True)
        found.append(numbers(PROGRAMS[name](library, leaf)))
        assert cls.log
    assert str(found[0]) == str(found[1])


def test_what_a_class_returns_is_the_result_itself() -> None:
    cls = logging_tensor(flambeau)
    made = []

    class Keeping(cls):  # type: ignore[misc, valid-type]
        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = super().__torch_dispatch__(func, types, args, kwargs)
            made.append(result)
            return result

    leaf = Keeping(flambeau.ones(2), requires_grad=True)
    result = leaf * 2
    assert result is made[-1] and result.grad_fn is not None and leaf.is_leaf and not leaf.elem.requires_grad


def test_a_parameter_of_a_class_trains(oracle: Any) -> None:
    found = []
    for library in (flambeau, oracle):
        cls = logging_tensor(library)
        model = library.nn.Linear(2, 3)
        library.nn.init.ones_(model.bias)
        model.weight = library.nn.Parameter(cls(library.ones(3, 2)))
        assert isinstance(model.weight, library.nn.Parameter) and isinstance(model.weight, cls)
        steps = []
        for optimizer in (library.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), library.optim.AdamW(model.parameters(), lr=0.1)):
            for _ in range(2):
                optimizer.zero_grad()
                model(library.ones(4, 2)).pow(2).mean().backward()
                optimizer.step()
            assert type(model.weight.grad) is cls
            steps.append(
                [model.weight.elem.flatten().tolist(), model.bias.elem.tolist() if hasattr(model.bias, "elem") else model.bias.tolist()]
            )
        found.append(steps)
    flambeau.testing.assert_close(flambeau.tensor(found[0][1][0]), flambeau.tensor(found[1][1][0]), rtol=1e-4, atol=1e-5)
    flambeau.testing.assert_close(flambeau.tensor(found[0][0][1]), flambeau.tensor(found[1][0][1]), rtol=1e-4, atol=1e-5)


def two_tensor(library: Any) -> Any:
    """Two tensors that go through every call side by side."""
    tree_map = module(library, "utils._pytree").tree_map
    dispatch = module(library, "utils._python_dispatch")

    class TwoTensor(library.Tensor):  # type: ignore[misc, name-defined]
        @staticmethod
        def __new__(cls: Any, a: Any, b: Any) -> Any:
            return library.Tensor._make_wrapper_subclass(cls, a.shape, strides=a.stride(), dtype=a.dtype, requires_grad=a.requires_grad)

        def __init__(self, a: Any, b: Any) -> None:
            self.a, self.b = a, b

        def __repr__(self, **options: Any) -> str:
            return f"TwoTensor({self.a}, {self.b})"

        def __tensor_flatten__(self) -> Any:
            return ["a", "b"], None

        @staticmethod
        def __tensor_unflatten__(parts: Any, meta: Any, size: Any, stride: Any) -> Any:
            return TwoTensor(parts["a"], parts["b"])

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            sides = [
                func(
                    *tree_map(lambda v, side=side: getattr(v, side) if isinstance(v, cls) else v, args),
                    **tree_map(lambda v, side=side: getattr(v, side) if isinstance(v, cls) else v, kwargs or {}),
                )
                for side in ("a", "b")
            ]
            flat, spec = module(library, "utils._pytree").tree_flatten(sides[0])
            other = module(library, "utils._pytree").tree_flatten(sides[1])[0]
            out = [cls(p, q) if isinstance(p, library.Tensor) else p for p, q in zip(flat, other, strict=True)]
            result = module(library, "utils._pytree").tree_unflatten(out, spec)
            return dispatch.return_and_correct_aliasing(func, args, kwargs, result)

    return TwoTensor


def test_two_tensors_side_by_side(oracle: Any) -> None:
    found = []
    for library in (flambeau, oracle):
        cls = two_tensor(library)
        dispatch = module(library, "utils._python_dispatch")
        pair = cls(library.arange(4.0), library.arange(4.0) * 10).requires_grad_()
        result = (pair.view(2, 2) @ pair.view(2, 2).t()).relu().sum()
        result.backward()
        written = cls(library.zeros(4), library.ones(4))
        same = written.add_(1) is written and written.view(2, 2).mul_(3) is not written
        doubled = dispatch.transform_subclass(pair, lambda name, part: part * 2)
        assert dispatch.is_traceable_wrapper_subclass(pair) and not dispatch.is_traceable_wrapper_subclass(library.ones(2))
        found.append(
            (
                pair.grad.a.tolist(),
                pair.grad.b.tolist(),
                same,
                written.a.tolist(),
                written.b.tolist(),
                doubled.b.tolist(),
                type(doubled).__name__,
            )
        )
    assert found[0] == found[1]


def test_saved_tensor_hooks_get_tensors_of_the_class(oracle: Any) -> None:
    found = []
    for library in (flambeau, oracle):
        cls = logging_tensor(library)
        seen: list[str] = []

        def pack(tensor: Any, seen: list[str] = seen) -> Any:
            seen.append(type(tensor).__name__)
            return tensor

        leaf = cls(library.ones(2, 2), requires_grad=True)
        with library.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            result = (leaf.exp() * leaf).sum()
        result.backward()
        with library.autograd.graph.save_on_cpu():
            again = library.autograd.grad((leaf * leaf).sum(), leaf)[0]
        found.append((sorted(seen), numbers(leaf.grad), type(again).__name__, again.elem.tolist()))
    assert found[0] == found[1]


def test_make_subclass_shows_the_memory() -> None:
    class Plain(flambeau.Tensor):
        pass

    data = flambeau.ones(3)
    shown = flambeau.Tensor._make_subclass(Plain, data, True)
    data.add_(1)
    assert type(shown) is Plain and shown.requires_grad and shown.tolist() == [2, 2, 2]
    with pytest.raises(TypeError, match="must define __torch_dispatch__"):
        flambeau.Tensor._make_wrapper_subclass(Plain, (2,))


def test_a_class_that_refuses() -> None:
    class Refusing(flambeau.Tensor):
        __torch_function__ = flambeau._C._disabled_torch_function_impl

        @staticmethod
        def __new__(cls: Any) -> Any:
            return flambeau.Tensor._make_wrapper_subclass(cls, (2,), storage_offset=3, device="cuda:1")

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return NotImplemented

    tensor = Refusing()
    assert tensor.device == flambeau.device("cuda:1") and tensor.is_cuda and tensor.storage_offset() == 3 and tensor.shape == (2,)
    with pytest.raises(TypeError, match=r"Multiple dispatch failed for 'aten\.add\.Tensor'"):
        tensor + 1


@pytest.mark.oracle
def test_tensors_around_others_are_copied_pickled_and_refuse_to_be_arrays(oracle: Any) -> None:
    found = []
    for library in (flambeau, oracle):
        cls = pair_class(library)
        x = cls(library.ones(2, 3), library.zeros(2, 3))
        x.note = ["kept"]
        copied, deep = copy.copy(x), copy.deepcopy(x)
        results: list[Any] = [type(copied) is cls, copied.a is x.a, copied.note is x.note, str(copied.device), copied.stride()]
        results += [type(deep) is cls, deep.a is x.a, deep.note == x.note, deep.note is x.note, str(deep.device), deep.a.tolist()]
        results += [type(x.new_tensor([1.0])) is library.Tensor, tuple(x.amax().shape), x.amax().a.item()]
        results.append(library.bucketize(x, library.tensor([0.5])).a.tolist())
        for call in (x.numpy, x.tolist):
            with pytest.raises(RuntimeError, match="not supported for tensor subclasses"):
                call()
        found.append(results)
    assert found[0] == found[1]


def pair_class(library: Any) -> Any:
    """A class of two tensors, without a ``__torch_function__`` of its own."""
    tree_map_only = __import__(f"{library.__name__}.utils._pytree", fromlist=["tree_map_only"]).tree_map_only

    class Pair(library.Tensor):  # type: ignore[misc, name-defined]
        @staticmethod
        def __new__(cls: Any, a: Any, b: Any) -> Any:
            made = library.Tensor._make_wrapper_subclass(cls, a.size(), dtype=a.dtype)
            made.a, made.b = a, b
            return made

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            one, two = [func(*tree_map_only(cls, lambda x, n=name: getattr(x, n), args), **(kwargs or {})) for name in "ab"]
            return cls(one, two) if isinstance(one, library.Tensor) else one

    return Pair


@pytest.mark.oracle
def test_reductions_over_no_dimension_reduce_all(oracle: Any) -> None:
    found = []
    for library in (flambeau, oracle):
        x, aten = library.arange(6.0).reshape(2, 3), library.ops.aten
        calls = [x.amax(dim=[]), x.amin(dim=[]), aten.amax.default(x), aten.amin.default(x, []), aten.var.correction(x, [])]
        calls += [aten.std.correction(x), aten.sum.dim_IntList(x, []), aten.mean.dim(x, None)]
        found.append([call.tolist() for call in calls])
    assert found[0] == pytest.approx(found[1])
