"""What packages ask for beside the public names: checks, futures, schedules, what they tell compilers, ``torch._C``."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import sys
import threading
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, get_args

import pytest
from oracle import pytorch

import flambeau as torch
from tools import stubs


def shown(function: Callable[[Any], Any], library: Any) -> str:
    """The result's ``repr``, or the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = function(library)
        except Exception as error:
            result = type(error).__name__, str(error)
    return repr(result)


def module(library: Any, name: str) -> Any:
    return importlib.import_module(f"{library.__name__}.{name}")


def masks(library: Any, name: str) -> list[Any]:
    """What the steps of a masked operation give."""
    ops, function = module(library, "masked._ops"), getattr(library.masked, name)
    x, mask = library.arange(6.0).reshape(2, 3), library.tensor([[True, False, True], [False, False, False]])
    order = (2.0,) if name == "norm" else ()
    found = [ops._output_mask(function, x, *order, 1, mask=mask).tolist(), ops._canonical_dim(None, 2), ops._canonical_dim((1, -3), 3)]
    if name not in ("mean", "var", "std", "softmax"):
        found += [str(ops._combine_input_and_mask(function, x, mask, *order)), str(ops._reduction_identity(name, x, *order))]
    return found


def weak_dictionary(library: Any) -> list[Any]:
    weak = module(library, "utils.weak")
    a, b = library.ones(2), library.ones(2)
    entries = weak.WeakTensorKeyDictionary({a: 1})
    entries[b] = 2
    found = [len(entries), a in entries, library.ones(2) in entries, entries[a], entries[b], entries.get(library.ones(2)), 3 in entries]
    found += [
        weak.WeakIdRef(a) == weak.WeakIdRef(a),
        weak.WeakIdRef(a) == weak.WeakIdRef(b),
        entries == entries.copy(),
        sorted(entries.values()),
    ]
    reference = weak.TensorWeakRef(a)
    del b
    found += [reference() is a, len(entries), list(entries.values())]
    del a
    return [*found, reference(), len(entries), list(entries.items())]


def flattened(library: Any) -> list[Any]:
    utils = module(library, "_utils")
    tensors = [library.ones(2, 3), library.arange(4.0), library.zeros(0, 2), library.tensor(7.0)]
    flat = utils._flatten_dense_tensors(tensors)
    groups = utils._take_tensors([library.ones(2), library.arange(3), library.ones(5), library.zeros(1), library.arange(2)], 20)
    ordered = utils._reorder_tensors_as(
        [library.ones(2), library.ones(5), library.arange(3)], [library.arange(2), library.ones(1), library.ones(1)]
    )
    sparse = [library.eye(2).to_sparse(), library.eye(3).to_sparse()]
    parts = utils._flatten_sparse_tensors(sparse)
    return [
        flat.tolist(),
        [part.tolist() for part in utils._unflatten_dense_tensors(flat, tensors)],
        [[tuple(tensor.shape) for tensor in group] for group in groups],
        [tensor.tolist() for tensor in ordered],
        [part.tolist() for part in parts],
        [tensor.to_dense().tolist() for tensor in utils._unflatten_sparse_tensors(parts, sparse)],
    ]


def checkpoint_helpers(library: Any) -> list[Any]:
    helpers = module(library, "utils.checkpoint")
    runs = []

    def function(x: Any) -> Any:
        runs.append(None)
        return (x.sin() * x).exp()

    x = library.ones(3, requires_grad=True)
    result = helpers.checkpoint(function, x, use_reentrant=False)
    with helpers.GraphExecGroup():
        library.autograd.grad(result.sum(), x, retain_graph=True)
        try:
            library.autograd.grad(result.sum(), x, retain_graph=True)
        except helpers.CheckpointError:
            runs.append("asked twice")
    library.autograd.grad(result.sum(), x, retain_graph=True)
    library.autograd.grad(result.sum(), x)
    detached, number = helpers.detach_variable((x, 1))
    return [runs, detached.requires_grad, detached.is_leaf, number, helpers.get_device_states(x, [x]), sorted(helpers.__all__)]


def scaler_states(library: Any) -> list[Any]:
    scaling = module(library, "amp.grad_scaler")
    scaler = library.amp.GradScaler("cpu")
    parameter = library.nn.Parameter(library.ones(2))
    optimizer = library.optim.SGD([parameter], 0.1)
    scaler.scale((parameter * 2).sum()).backward()
    found = [[str(state) for state in scaling.OptState], scaling._refresh_per_optimizer_state(), dict(scaler._per_optimizer_states)]
    scaler.unscale_(optimizer)
    found.append(
        [
            {**state, "found_inf_per_device": [*map(float, state["found_inf_per_device"].values())]}
            for state in scaler._per_optimizer_states.values()
        ]
    )
    scaler.step(optimizer)
    scaler.update()
    return [*found, dict(scaler._per_optimizer_states), parameter.tolist(), scaler.get_scale()]


@pytest.mark.oracle
@pytest.mark.parametrize(
    "function",
    [
        *[partial(masks, name=name) for name in "sum prod amax amin mean norm var std median logsumexp softmax argmax".split()],
        weak_dictionary,
        flattened,
        checkpoint_helpers,
        scaler_states,
        lambda torch: get_args(torch.nn.common_types._size_2_t),
        lambda torch: torch._dynamo.eval_frame.innermost_fn(len) is len,
        lambda torch: torch.torch is torch,
        lambda torch: torch._check(False),
        lambda torch: torch._check(False, lambda: "text"),
        lambda torch: torch._check(False, "text"),
        lambda torch: torch._check(3),
        lambda torch: torch._check(True, "text"),
        lambda torch: torch._check_index(False, lambda: "text"),
        lambda torch: torch._check_value(False),
        lambda torch: torch._check_type(False),
        lambda torch: torch._check_not_implemented(False),
        lambda torch: torch._check_is_size(-1),
        lambda torch: torch._check_is_size(3),
        lambda torch: torch._check_with(KeyError, False, lambda: "key"),
        lambda torch: torch._check_tensor_all(torch.tensor([True, False])),
        lambda torch: torch._check_tensor_all(torch.tensor([1, 2])),
        lambda torch: torch._check_tensor_all_with(KeyError, torch.tensor([True, False]), lambda: "key"),
        lambda torch: torch._assert(torch.tensor(0), "text"),
        lambda torch: torch._assert(True, "text"),
        lambda torch: torch._assert_async(torch.tensor(0)),
        lambda torch: torch._assert_async(torch.tensor(1), "text"),
        lambda torch: [torch.sym_int(value) for value in (4, 2.7, -2.7)],
        lambda torch: torch.sym_int("a"),
        lambda torch: (torch.sym_float(4), torch.sym_not(0), torch.sym_sqrt(4), torch.sym_sum([1, 2, 3])),
        lambda torch: torch.sym_sqrt(-1),
        lambda torch: [choose(a, b) for choose in (torch.sym_max, torch.sym_min) for a in (1, 3) for b in (2, 2.0)],
        lambda torch: torch.sym_ite(True, 1, 2),
        lambda torch: torch.sym_ite(1, 1, 2),
        lambda torch: torch.sym_ite(True, 1, 2.0),
        lambda torch: isinstance(3, torch.SymInt),
    ],
)
def test_checks_and_numbers(oracle, function):
    assert shown(function, torch) == shown(function, oracle)


@pytest.mark.oracle
@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (7, 3), (3, 5), (2, 2, 2), (3,), (2, 3, 3), (0, 0)], ids=str)
@pytest.mark.parametrize("wrap", [False, True])
def test_fill_diagonal(oracle, shape, wrap):
    def filled(library: Any) -> Any:
        x = library.ones(shape, requires_grad=True)
        y = (2 * x).fill_diagonal_(5, wrap)
        y.sum().backward()
        whole = library.zeros(shape, dtype=library.int64).fill_diagonal_(library.tensor(2), wrap=wrap)
        return y.tolist(), x.grad.tolist(), whole.tolist()

    assert shown(filled, torch) == shown(filled, oracle)


def test_fill_diagonal_of_views():
    assert torch.zeros(4, 4)[::2, ::2].fill_diagonal_(1).tolist() == [[1, 0], [0, 1]]
    assert torch.zeros(2, 6).T[::2].fill_diagonal_(1).tolist() == [[1, 0], [0, 1], [0, 0]]
    with pytest.raises(RuntimeError, match="leaf"):
        torch.ones(2, 2, requires_grad=True).fill_diagonal_(0)


@pytest.mark.oracle
def test_schedules_of_profilers(oracle):
    profiler = pytorch("torch.profiler")
    for wait, warmup, active, repeat, first, first_wait in itertools.product((0, 2), (0, 1), (1, 2), (0, 2), (0, 3), (0, 1)):
        options = {"wait": wait, "warmup": warmup, "active": active, "repeat": repeat, "skip_first": first, "skip_first_wait": first_wait}
        ours, theirs = (
            shown(lambda library, options=options: [library.schedule(**options)(step).name for step in range(20)], library)
            for library in (torch.profiler, profiler)
        )
        assert ours == theirs, options
    assert shown(lambda library: library.schedule(wait=-1, warmup=0, active=1), torch.profiler) == shown(
        lambda library: library.schedule(wait=-1, warmup=0, active=1), profiler
    )
    for enumeration in ("ProfilerAction", "ProfilerActivity"):
        assert list(getattr(torch.profiler, enumeration).__members__) == list(getattr(profiler, enumeration).__members__)


@pytest.mark.oracle
def test_futures(oracle):
    def told(futures: Any) -> Any:
        seen: list[Any] = []
        first, second = futures.Future(), futures.Future()
        following = first.then(lambda done: done.value() + 1)
        failing = following.then(lambda done: 1 // 0)
        every = futures.collect_all([first, second])
        first.add_done_callback(lambda done: seen.append(done.value()))
        seen += [first.done(), every.done()]
        first.set_result(3)
        second.set_result(4)
        first.add_done_callback(lambda done: seen.append("late"))
        seen += [following.wait(), every.done(), [future.wait() for future in every.wait()], futures.wait_all([first, following])]
        wrong = futures.Future()
        wrong.set_exception(ValueError("wrong"))
        for function in (wrong.wait, lambda: first.set_result(1), lambda: wrong.set_exception(3), failing.wait):
            try:
                function()
            except Exception as error:
                seen.append(type(error).__name__)
        return seen

    assert told(torch.futures) == told(pytorch("torch.futures"))


def test_a_future_is_awaited_from_another_thread():
    future = torch.futures.Future()
    threading.Timer(0.05, future.set_result, [7]).start()
    assert future.wait() == 7


def test_scripting_can_be_switched_off_by_the_environment(monkeypatch):
    monkeypatch.setenv("PYTORCH_JIT", "0")
    layer = torch.nn.Linear(1, 1)
    assert torch.jit.script(layer) is layer and torch.jit.trace(layer, torch.ones(1, 1)) is layer
    monkeypatch.delenv("PYTORCH_JIT")
    assert torch.jit.script(layer) is not layer


def test_settings_of_the_compiler_are_kept():
    config = torch._dynamo.config
    with config.patch(cache_size_limit=64), config.patch("verbose", True), config.patch({"suppress_errors": True}):
        assert config.cache_size_limit == 64 and config.verbose and config.suppress_errors
    assert config.cache_size_limit == 8 and not config.verbose and not config.suppress_errors
    with pytest.raises(AttributeError), config.patch(no_such_setting=1):
        pass
    assert not torch._dynamo.is_compiling()


def test_modes_and_subclasses_as_torch_c_tells_them():
    class Own(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    assert type(torch.ones(2).as_subclass(Own) + 1) is torch.Tensor
    assert torch._C._is_torch_function_enabled() and not torch._C._is_torch_function_mode_enabled()
    with torch._C.DisableTorchFunctionSubclass():
        assert not torch._C._is_torch_function_enabled()
    with Mode():
        assert torch._C._is_torch_function_mode_enabled() and torch._C._len_torch_function_stack() == 1
    assert torch._C._nn._parse_to("cpu", torch.float64, True) == (torch.device("cpu"), torch.float64, True, None)
    assert torch._C._get_tracing_state() is None and torch._C._log_api_usage_once("an event") is None


@pytest.mark.parametrize(
    "module",
    [
        "_C",
        "_dynamo",
    ],
)
def test_what_waits_for_its_system_says_its_name(module):
    namespace = vars(importlib.import_module(f"flambeau.{module}"))
    waiting = {name: value for name, value in namespace.items() if getattr(value, "is_unsupported", False)}
    assert waiting
    for name, value in waiting.items():
        with pytest.raises(NotImplementedError, match=rf"torch\.{module}\.{name} is not supported yet"):
            value()


def test_a_storage_says_its_size_in_memory():
    small, large = (sys.getsizeof(torch.zeros(n).untyped_storage()) for n in (100, 1100))
    assert large - small == 4000 and small > 400


@pytest.mark.oracle
def test_operations_of_a_programs_own(oracle):
    def told(library: Any) -> Any:
        custom = importlib.import_module(f"{library.__name__}.library")

        def power(x, exponent, *, scale=1.0):
            return library.from_numpy(scale * x.detach().numpy() ** exponent)

        power.__annotations__ = {"x": library.Tensor, "exponent": float, "scale": float, "return": library.Tensor}
        operation = custom.custom_op("tests::power", power, mutates_args=())

        def setup_context(ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Any) -> None:
            ctx.save_for_backward(inputs[0])
            ctx.exponent, ctx.scale = inputs[1], keyword_only_inputs["scale"]

        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad * ctx.scale * ctx.exponent * x ** (ctx.exponent - 1), None

        x = library.tensor([1.0, 2.0, 3.0], requires_grad=True)
        seen = [operation(x.detach(), 2.0).tolist()]
        try:
            operation(x, 3.0).sum().backward()
        except RuntimeError as error:
            seen.append(str(error).partition(" Please")[0])
        custom.register_autograd("tests::power", backward, setup_context=setup_context)
        library.ops.tests.power(x, 3.0, scale=2.0).sum().backward()
        custom.register_fake(operation, lambda x, exponent, *, scale=1.0: library.empty_like(x))
        empty = operation(library.empty(4, 5, device="meta"), 2.0)
        with library.no_grad():
            inside = operation(x, 2.0).requires_grad
        return [*seen, x.grad.tolist(), tuple(empty.shape), empty.device.type, inside]

    assert told(torch) == told(oracle)


def test_type_checkers_are_told_of_modules_that_are_only_names() -> None:
    assert {path: path.read_text() for path in sorted(stubs.FOLDER.rglob("*.*"))} == stubs.files(), "run `python -m tools.stubs`"
