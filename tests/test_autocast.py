"""Autocast: regions, casts, the cache of parameters, threads, backward passes. ``tests.programs.autocast_dtypes`` has the lists."""

from __future__ import annotations

import gc
import threading
import warnings
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from oracle import pytorch

import flambeau as torch
from flambeau import nn
from flambeau.core import state
from flambeau.core.calls import autocast, dispatch as dispatching
from flambeau.utils.checkpoint import checkpoint

F = nn.functional


@pytest.fixture(autouse=True)
def left_as_found() -> Any:
    yield
    assert not (state.autocasting or state.autocasting_cpu or state.autocasting_others)
    assert torch.autocast_increment_nesting() == 1 and torch.autocast_decrement_nesting() == 0
    assert state.thread.autocast is None and not torch.amp.autocast_mode.regions.kept.casts


# -- against PyTorch ------------------------------------------------------------------------------------------------------------------
def outcome(function: Callable[[], Any]) -> str:
    try:
        return str(function()).removeprefix("flambeau.")
    except Exception as error:
        return type(error).__name__


def calls(library: Any) -> list[str]:
    """Dtypes of calls that are listed, and of those that only look so: ``out=``, in place, float64, integers, other devices."""
    x = library.ones(3, 3)
    d, h, b = x.double(), x.half(), x.bfloat16()
    meta, functional = x.to("meta"), library.nn.functional
    cases: list[Callable[[], Any]] = [
        lambda: library.cat([x, x]),
        lambda: library.cat([d, d]),
        lambda: library.cat([d, x]),
        lambda: library.stack([h, h]),
        lambda: library.stack([h, x]),
        lambda: library.stack([b, x]),
        lambda: library.cat([x.long(), x.long()]),
        lambda: library.mm(d, d),
        lambda: library.mm(d, x),
        lambda: library.mm(x.long(), x.long()),
        lambda: library.mm(x, x, out=library.empty(3, 3)),
        lambda: library.addmm(x, b, h),
        lambda: x @ h,
        lambda: x.matmul(b),
        lambda: x.clone().addmm_(x, x),
        lambda: x.clone().index_copy_(0, library.tensor([0]), b[:1]),
        lambda: functional.mse_loss(h, b),
        lambda: functional.mse_loss(d, b),
        lambda: functional.cross_entropy(h, h.softmax(1)),
        lambda: functional.pad(b, (1, 1), mode="reflect"),
        lambda: functional.pad(b, (1, 1), mode="circular"),
        lambda: functional.conv2d(x[None, None], x[None, None], h[0, :1]),
        lambda: functional.scaled_dot_product_attention(x, h, b),
        lambda: meta.mm(meta),
        lambda: library.linalg.inv(b + library.eye(3)),
        lambda: library.eye(3).to_sparse().mm(x),
        lambda: h + b,
        lambda: b.softmax(0),
    ]
    results = []
    for dtype in (library.bfloat16, library.float16):
        with library.autocast("cpu", dtype):
            results += [outcome(lambda case=case: case().dtype) for case in cases]
    return results


def regions(library: Any) -> list[Any]:
    """What regions and settings do to each other."""
    x = library.ones(2, 2)
    seen: list[Any] = []

    def look() -> None:
        kinds = [library.is_autocast_enabled(kind) for kind in ("cpu", "cuda", "xpu")]
        seen.append((kinds, str(library.get_autocast_dtype("cpu")), library.is_autocast_cache_enabled(), str((x @ x).dtype)))

    look()
    with library.autocast("cpu", library.float16):
        look()
        with library.autocast("cpu", enabled=False, cache_enabled=False):
            look()
            with library.autocast("cpu", library.bfloat16):
                look()
        with library.autocast("xpu"):
            look()
        library.set_autocast_enabled("cpu", False)
        look()
        library.set_autocast_dtype("cpu", library.bfloat16)
        library.set_autocast_enabled("cpu", True)
        library.set_autocast_cache_enabled(False)
        look()
    look()
    library.set_autocast_enabled(True)
    look()
    library.set_autocast_enabled("cuda", False)
    seen += [library.autocast_increment_nesting(), library.autocast_increment_nesting()]
    seen += [library.autocast_decrement_nesting(), library.autocast_decrement_nesting()]
    thread = threading.Thread(target=look)
    with library.autocast("cpu", library.float16):
        thread.start()
        thread.join()
        try:
            with library.autocast("cpu", enabled=False):
                raise KeyError
        except KeyError:
            look()
    seen.append(str(library.autocast("cpu")(lambda: x @ x)().dtype))
    mode = library.amp.autocast_mode._enter_autocast("cpu", None, True, None)
    look()
    library.amp.autocast_mode._exit_autocast(mode)
    look()
    return seen


def refusals(library: Any) -> list[Any]:
    """Types of errors and texts of warnings."""
    cases: list[Callable[[], Any]] = [
        *(lambda kind=kind: library.autocast(kind) for kind in ("cpu", "cuda", "meta", "nonsense", 3, "privateuseone")),
        *(lambda kind=kind: library.amp.is_autocast_available(kind) for kind in ("cpu", "cuda", "meta", "vulkan", "mtia", "nonsense", 3)),
        *(lambda kind=kind: library.get_autocast_dtype(kind) for kind in ("cpu", "cuda", "meta", "xla", "maia", 3)),
        *(lambda kind=kind: library.is_autocast_enabled(kind) for kind in ("cpu", "meta", 3)),
        lambda: library.autocast("cpu", library.float32),
        lambda: library.autocast("cpu", library.float64, enabled=False),
        lambda: library.autocast("cuda", library.bfloat16, enabled=False).fast_dtype,
        lambda: library.autocast("xpu", "x"),
        lambda: library.set_autocast_enabled("cpu", 1),
        lambda: library.set_autocast_enabled("cpu"),
        lambda: library.set_autocast_enabled("meta", True),
        lambda: library.set_autocast_dtype("cpu", 3),
        lambda: library.set_autocast_dtype("meta", library.float16),
        lambda: library.amp.custom_fwd(device_type=3),
        lambda: library.amp.custom_bwd(device_type=3),
        library.is_autocast_cpu_enabled,
        library.get_autocast_cpu_dtype,
        library.get_autocast_gpu_dtype,
        lambda: library.set_autocast_cpu_enabled(False),
        lambda: library.set_autocast_cpu_dtype(library.bfloat16),
        lambda: library.set_autocast_gpu_dtype(library.float16),
    ]
    results = []
    for case in cases:
        with warnings.catch_warnings(record=True) as records:
            warnings.simplefilter("always")
            result = outcome(case)
        texts = [(record.category.__name__, str(record.message).partition(" (Triggered")[0]) for record in records]
        results.append(("" if " object at " in result else result, texts))
    return results


def custom_functions(library: Any) -> list[Any]:
    """What ``forward`` and ``backward`` of a user's Function see, with ``custom_fwd`` and without."""
    seen: list[Any] = []

    def look(ctx: Any, *tensors: Any) -> None:
        seen.append(([str(t.dtype) for t in tensors], library.is_autocast_enabled("cpu"), str(library.get_autocast_dtype("cpu"))))

    def function(forward: Callable[..., Any], backward: Callable[..., Any]) -> Any:
        return type("Square", (library.autograd.Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})

    def forward(ctx: Any, x: Any, others: Any) -> Any:
        look(ctx, x, others["a"][0], others["d"])
        return x @ x

    def backward(ctx: Any, grad: Any) -> Any:
        look(ctx, grad, grad @ grad)
        return grad, None

    given = library.amp.custom_fwd, library.amp.custom_bwd
    functions = [
        function(forward, backward),
        function(given[0](forward, device_type="cpu"), given[1](backward, device_type="cpu")),
        function(given[0](device_type="cpu", cast_inputs=library.float32)(forward), given[1](device_type="cpu")(backward)),
    ]
    x = library.ones(2, 2, requires_grad=True)
    others = {"a": [x.detach().half()], "d": x.detach().double()}
    for each in functions:
        for inside in (False, True):
            with library.autocast("cpu", library.float16):
                y = each.apply(x.bfloat16(), others)
                if inside:
                    y.float().sum().backward()
            if not inside:
                y.float().sum().backward()
        each.apply(x, others).sum().backward()
    return seen


def recurrent(library: Any) -> list[Any]:
    """Dtypes of layers' results and states: PyTorch has one kernel for an LSTM over padded sequences, in bfloat16."""
    nn, x = library.nn, library.ones(4, 2, 3)
    packed = nn.utils.rnn.pack_padded_sequence(x, [4, 2])
    state = library.zeros(1, 2, 5)
    lstm, gru, rnn = nn.LSTM(3, 5), nn.GRU(3, 5), nn.RNN(3, 5)
    deep = nn.LSTM(3, 5, 2, bias=False, bidirectional=True)
    seen = []
    with library.autocast("cpu", library.bfloat16):
        for layer, *given in [(lstm, x), (lstm, x, (state, state)), (lstm, packed), (deep, x), (lstm, x[:, :0]), (gru, x, state), (rnn, x)]:
            result, states = layer(*given)
            seen.append([str(t.dtype).rpartition(".")[2] for t in (result[0], *(states if isinstance(states, tuple) else (states,)))])
    return seen


@pytest.mark.oracle
@pytest.mark.parametrize("program", [calls, regions, refusals, custom_functions, recurrent])
def test_a_program_does_as_in_pytorch(oracle: ModuleType, program: Callable[[Any], list[Any]]) -> None:
    ours, theirs = program(torch), program(oracle)
    assert [str(item) for item in ours] == [str(item) for item in theirs]


@pytest.mark.oracle
def test_lists_are_pytorchs() -> None:
    """Dtypes of products, and of some of the others; ``python -m tests.programs.autocast_dtypes`` takes every operation."""
    pytorch()
    pytest.importorskip("expecttest")
    from autocast_dtypes import FUNCTIONS, GAPS, differences

    from flambeau.core.calls.registry import entries

    listed = {entry.name: entry.autocast["cpu"] for entry in entries() if "cpu" in entry.autocast}
    names = [
        name for name in FUNCTIONS if name.partition("nn.functional.")[2].partition(".")[0] in listed or name.rpartition(".")[2] in listed
    ]
    assert len(names) > 80
    products = {name for name, policy in listed.items() if policy in ("narrow", "widest")}
    names = [name for k, name in enumerate(names) if k % 4 == 0 or name.rpartition(".")[2] in products]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {name: found for name in names if name not in GAPS and (found := list(differences(name, 1, ("float32",), ("bfloat16",))))}
    assert not found


# -- casts -----------------------------------------------------------------------------------------------------------------------------
def test_gradients_come_back_through_the_casts() -> None:
    layer, x = nn.Linear(3, 2), torch.randn(4, 3, requires_grad=True)
    with torch.autocast("cpu"):
        y = layer(x)
        loss = F.mse_loss(y, torch.zeros(4, 2))
    loss.backward()
    assert (y.dtype, loss.dtype, x.grad.dtype, layer.weight.grad.dtype) == (torch.bfloat16, torch.float32, torch.float32, torch.float32)
    expected = 2 / 8 * y.detach().float().t() @ x.detach()
    assert torch.allclose(layer.weight.grad, expected, rtol=0.02, atol=0.02)
    (second,) = torch.autograd.grad(torch.autograd.grad(loss_of(layer, x), x, create_graph=True)[0].square().sum(), layer.weight)
    assert second.dtype is torch.float32 and second.abs().sum() > 0


def loss_of(layer: nn.Module, x: Any) -> Any:
    with torch.autocast("cpu"):
        return layer(x).float().square().sum()


def casts_of(function: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> int:
    """How many casts a function makes."""
    count = 0
    copy = autocast._to_copy()

    def counted(*args: Any) -> Any:
        nonlocal count
        count += 1
        return copy(*args)

    with monkeypatch.context() as patch:
        patch.setattr(autocast, "_to_copy", lambda: counted)
        function()
    return count


def test_a_parameter_is_cast_once_in_the_outermost_region(monkeypatch: pytest.MonkeyPatch) -> None:
    w, x = nn.Parameter(torch.randn(2, 2)), torch.ones(2, 2).bfloat16()

    def products(cache: bool) -> Callable[[], None]:
        def run() -> None:
            with torch.autocast("cpu", cache_enabled=cache):
                x @ w
                with torch.autocast("cpu", enabled=False):
                    pass
                x @ w
                with torch.no_grad():
                    x @ w

        return run

    assert casts_of(products(True), monkeypatch) == 1
    assert casts_of(products(False), monkeypatch) == 3
    view = w.view(2, 2)
    with torch.autocast("cpu"):
        assert casts_of(lambda: (x @ view, x @ view, x @ w.detach()), monkeypatch) == 3


@pytest.mark.parametrize("switch", [torch.no_grad, torch.inference_mode])
def test_a_cast_without_recording_is_not_used_with_it(switch: Any) -> None:
    w, x = nn.Parameter(torch.ones(2, 2)), torch.ones(2, 2)
    with torch.autocast("cpu"):
        with switch():
            first = x @ w
        y = x @ w
        again = x @ w
    y.sum().backward()
    again.sum().backward()  # through the same cast once more
    assert not first.requires_grad and w.grad.tolist() == [[4, 4], [4, 4]]


def test_a_parameter_changed_inside_shows_its_old_values_until_the_cache_is_cleared() -> None:
    w, x = nn.Parameter(torch.ones(2, 2)), torch.ones(1, 2)
    with torch.autocast("cpu"):
        before = x @ w
        with torch.no_grad():
            w.mul_(2)
        assert torch.equal(x @ w, before)
        torch.clear_autocast_cache()
        assert torch.equal(x @ w, 2 * before)
        with torch.no_grad():
            w.mul_(2)
    with torch.autocast("cpu"):
        assert torch.equal(x @ w, 4 * before)


def test_the_cache_keeps_one_cast_for_each_dtype_and_nothing_afterwards() -> None:
    w, x = nn.Parameter(torch.ones(2, 2)), torch.ones(2, 2)
    with torch.autocast("cpu", torch.bfloat16):
        assert (x @ w).dtype is torch.bfloat16
        with torch.autocast("cpu", torch.float16):
            assert (x @ w).dtype is torch.float16
        assert (x @ w).dtype is torch.bfloat16
    watched = weakref.ref(w)
    del w
    gc.collect()
    assert watched() is None


# -- what does not pay -----------------------------------------------------------------------------------------------------------------
def slow_calls(function: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The operations that ``function`` sends the slow path."""
    seen: set[str] = set()
    proceed = dispatching.Call.proceed

    def noted(call: Any) -> Any:
        seen.add(call.op.name)
        return proceed(call)

    with monkeypatch.context() as patch:
        patch.setattr(dispatching.Call, "proceed", noted)
        function()
    return seen


def test_other_operations_keep_their_fast_path_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    x, index = torch.randn(3, 4), torch.tensor([0, 1])

    def program() -> None:
        y = (x + x) * 2 - x.sin()
        y.relu().softmax(-1).sum()
        y.view(4, 3).t().mul_(2)
        y[0], y[index], y.exp().log(), y.mean(0), F.layer_norm(y, (4,)), torch.where(y > 0, y, x)

    for _ in range(2):
        program()
        with torch.autocast("cpu"):
            assert slow_calls(program, monkeypatch) <= {"_index"}
    with torch.autocast("cpu"):
        assert slow_calls(lambda: x @ x.t(), monkeypatch) == {"matmul"}


def test_a_thread_that_autocasts_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    x, begun, done = torch.ones(2, 2), threading.Event(), threading.Event()

    def other() -> None:
        with torch.autocast("cpu"):
            begun.set()
            done.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    begun.wait(10)
    try:
        assert (x @ x).dtype is torch.float32 and not torch.is_autocast_enabled("cpu")
        assert not slow_calls(lambda: (x @ x, F.linear(x, x), x.prod()), monkeypatch)
    finally:
        done.set()
        thread.join()


# -- neighbours ------------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_runs_again_as_it_ran(reentrant: bool) -> None:
    layer, x = nn.Linear(4, 4), torch.randn(2, 4, requires_grad=True)
    seen: list[Any] = []

    def part(x: Any) -> Any:
        y = layer(x)
        seen.append((y.dtype, torch.is_autocast_enabled("cpu")))
        return y.relu()

    with torch.autocast("cpu", torch.float16):
        loss = checkpoint(part, x, use_reentrant=reentrant).float().sum()
    loss.backward()
    assert seen == [(torch.float16, True)] * 2
    got = layer.weight.grad.clone()
    layer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        part(x).float().sum().backward()
    assert torch.equal(got, layer.weight.grad)


def test_a_backward_pass_inside_computes_as_outside() -> None:
    """PyTorch would cast the products of derivatives here; they stay in the dtype of the forward pass."""
    w = torch.randn(3, 3, requires_grad=True)
    loss = (w @ w).square().sum()
    (expected,) = torch.autograd.grad(loss, w, retain_graph=True)
    with torch.autocast("cpu"):
        (got,) = torch.autograd.grad(loss, w)
    assert torch.equal(got, expected)


def test_replicas_autocast_as_their_caller_does() -> None:
    modules = [nn.Linear(2, 2), nn.Linear(2, 2)]
    with torch.autocast("cpu"):
        results = nn.parallel.parallel_apply(modules, [torch.ones(1, 2)] * 2)
    assert [result.dtype for result in results] == [torch.bfloat16] * 2


def test_subclasses_and_modes_see_the_call_and_not_the_casts() -> None:
    seen: list[str] = []

    class Seen(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    class Named(torch.Tensor):
        pass

    x = torch.ones(2, 2)
    with torch.autocast("cpu"), Seen():
        y = F.linear(x, x)
    assert seen == ["linear"] and y.dtype is torch.bfloat16
    with torch.autocast("cpu"):
        named = torch.mm(x.as_subclass(Named), x)
    assert type(named) is Named and named.dtype is torch.bfloat16


def test_one_region_may_be_entered_again() -> None:
    region, x = torch.autocast("cpu"), torch.ones(2, 2)
    with region:
        with region:
            assert (x @ x).dtype is torch.bfloat16
        assert (x @ x).dtype is torch.bfloat16
    assert (x @ x).dtype is torch.float32


class Recurrent(nn.Module):
    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.layer = kind(3, 4, batch_first=True)

    def forward(self, x: Any) -> Any:
        return self.layer(x)[0]


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "convolution": lambda: nn.Conv1d(5, 2, 2),
    "attention": lambda: nn.TransformerEncoderLayer(3, 1, 8, dropout=0.0, batch_first=True),
    "batch norm": lambda: nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(5)),
    "lstm": lambda: Recurrent(nn.LSTM),
    "gru": lambda: Recurrent(nn.GRU),
    "rnn": lambda: Recurrent(nn.RNN),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_train_inside(name: str) -> None:
    torch.manual_seed(0)
    layer = LAYERS[name]()
    x = torch.randn(2, 5, 3)
    loss = layer(x).square().mean()
    loss.backward()
    gradients = [p.grad for p in layer.parameters()]
    layer.zero_grad()
    with torch.autocast("cpu"):
        narrow = layer(x).float().square().mean()
    narrow.backward()
    assert torch.allclose(narrow, loss, rtol=0.03)
    for p, gradient in zip(layer.parameters(), gradients, strict=True):
        assert p.grad.dtype is torch.float32 and torch.allclose(p.grad, gradient, rtol=0.1, atol=0.02)


def test_words_of_autocast() -> None:
    from flambeau.core.calls.registry import entries, op

    listed = [entry for entry in entries() if entry.autocast]
    assert len(listed) > 150 and all(entry.autocast.keys() <= {"cpu", "cuda"} for entry in listed)
    for entry in listed:
        if "result" in entry.autocast.values():
            assert "dtype" in [param.name for param in entry.params]
    with pytest.raises(TypeError, match="autocast='narow'; the words are narrow, "):
        op(grad=None, autocast="narow")(lambda input: input)


@pytest.mark.filterwarnings("ignore:The PyTorch API of")
def test_tensors_around_tensors_are_cast_as_their_values_are() -> None:
    """And answer for their own properties, whoever asks."""
    nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)], layout=torch.jagged)
    hidden = torch.masked.masked_tensor(torch.ones(2, 2), torch.tensor([[True, False], [True, True]]))
    assert (nested @ torch.ones(3, 3)).dtype is torch.float32 and hidden.dtype is torch.float32
    with torch.autocast("cpu"):
        assert (nested @ torch.ones(3, 3)).dtype is torch.bfloat16 and nested.is_leaf and hidden.sum().dtype is torch.float32
