"""Factories go the one path of a call: modes see them as they were called, and device, dtype and ``out`` are looked at in one place."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from oracle import pytorch

import flambeau
from flambeau.core.calls import dispatch, registry
from flambeau.core.calls.registry import Factory

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "zeros": lambda torch, x: torch.zeros(2, 3, dtype=torch.int64),
    "zeros of a sequence": lambda torch, x: torch.zeros((2, 3)),
    "zeros by keyword": lambda torch, x: torch.zeros(size=(2,)),
    "ones": lambda torch, x: torch.ones(3, requires_grad=True),
    "empty": lambda torch, x: torch.empty(2, memory_format=torch.contiguous_format),
    "full": lambda torch, x: torch.full((2,), 1.0),
    "zeros_like": lambda torch, x: torch.zeros_like(x),
    "ones_like": lambda torch, x: torch.ones_like(x, dtype=torch.float64),
    "empty_like": lambda torch, x: torch.empty_like(x),
    "full_like": lambda torch, x: torch.full_like(x, 2),
    "empty_strided": lambda torch, x: torch.empty_strided((2,), (1,)),
    "empty_permuted": lambda torch, x: torch.empty_permuted((2,), (0,)),
    "new_zeros": lambda torch, x: x.new_zeros(3),
    "new_ones": lambda torch, x: x.new_ones((3, 2)),
    "new_empty": lambda torch, x: x.new_empty(3),
    "new_full": lambda torch, x: x.new_full((3,), 2.0),
    "new_empty_strided": lambda torch, x: x.new_empty_strided((2,), (1,)),
    "new_tensor": lambda torch, x: x.new_tensor([1.0]),
    "eye": lambda torch, x: torch.eye(3),
    "scalar_tensor": lambda torch, x: torch.scalar_tensor(3),
    "arange": lambda torch, x: torch.arange(1, 3),
    "arange by keyword": lambda torch, x: torch.arange(end=3),
    "range": lambda torch, x: torch.range(0, 3),
    "linspace": lambda torch, x: torch.linspace(0, 1, 4),
    "logspace": lambda torch, x: torch.logspace(0, 1, 2),
    "tensor": lambda torch, x: torch.tensor([1.0], requires_grad=True),
    "as_tensor": lambda torch, x: torch.as_tensor([1.0]),
    "asarray": lambda torch, x: torch.asarray([1.0]),
    "from_file": lambda torch, x: torch.from_file(__file__, False, 8, dtype=torch.uint8),
    "rand": lambda torch, x: torch.rand(2),
    "randn": lambda torch, x: torch.randn(2, dtype=torch.float64),
    "rand_like": lambda torch, x: torch.rand_like(x),
    "randn_like": lambda torch, x: torch.randn_like(x),
    "randint": lambda torch, x: torch.randint(3, (2,)),
    "randint by keyword": lambda torch, x: torch.randint(low=1, high=3, size=(2,)),
    "randint_like": lambda torch, x: torch.randint_like(x, 3),
    "randperm": lambda torch, x: torch.randperm(3),
    "normal": lambda torch, x: torch.normal(0.0, 1.0, (2,)),
    "normal of a tensor": lambda torch, x: torch.normal(x),
    "bartlett_window": lambda torch, x: torch.bartlett_window(3),
    "blackman_window": lambda torch, x: torch.blackman_window(3),
    "hamming_window": lambda torch, x: torch.hamming_window(3, False, 0.5),
    "hann_window": lambda torch, x: torch.hann_window(3, dtype=torch.float64),
    "kaiser_window": lambda torch, x: torch.kaiser_window(3),
    "fftfreq": lambda torch, x: torch.fft.fftfreq(4, 0.5),
    "rfftfreq": lambda torch, x: torch.fft.rfftfreq(5),
    "tril_indices": lambda torch, x: torch.tril_indices(2, 2),
    "triu_indices": lambda torch, x: torch.triu_indices(2, 3, 1),
}
TAKE_OUT = {
    "zeros": lambda torch, **options: torch.zeros(3, **options),
    "ones": lambda torch, **options: torch.ones(3, **options),
    "empty": lambda torch, **options: torch.empty(4, **options),
    "full": lambda torch, **options: torch.full((3,), 1.0, **options),
    "eye": lambda torch, **options: torch.eye(3, **options),
    "arange": lambda torch, **options: torch.arange(3, **options),
    "range": lambda torch, **options: torch.range(0, 3, **options),
    "linspace": lambda torch, **options: torch.linspace(0, 1, 3, **options),
    "logspace": lambda torch, **options: torch.logspace(0, 1, 3, **options),
    "rand": lambda torch, **options: torch.rand(3, **options),
    "randn": lambda torch, **options: torch.randn(3, **options),
    "randint": lambda torch, **options: torch.randint(3, (3,), **options),
    "randperm": lambda torch, **options: torch.randperm(3, **options),
    "normal": lambda torch, **options: torch.normal(0.0, 1.0, (3,), **options),
    "fftfreq": lambda torch, **options: torch.fft.fftfreq(4, **options),
    "rfftfreq": lambda torch, **options: torch.fft.rfftfreq(4, **options),
}
PLAIN = (
    "zeros",
    "zeros of a sequence",
    "ones",
    "full",
    "zeros_like",
    "empty_like",
    "new_zeros",
    "new_ones",
    "tensor",
    "rand",
    "randint",
    "randperm",
)
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
every_out = pytest.mark.parametrize("call", TAKE_OUT.values(), ids=TAKE_OUT.keys())
quiet = pytest.mark.filterwarnings("ignore:torch.range is deprecated")


def oracle() -> Any:
    return pytorch()


def seen(torch: Any, call: Callable[[Any, Any], Any]) -> list[tuple[str, list[Any], dict[str, Any]]]:
    """What a function mode is shown of a call: names, arguments, keywords; tensors by their word."""
    overrides = importlib.import_module(f"{torch.__name__}.overrides")
    shown = []

    class Noting(overrides.TorchFunctionMode):  # type: ignore[name-defined, misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            values = ["tensor" if isinstance(arg, torch.Tensor) else arg for arg in args]
            shown.append(
                (
                    func.__name__.removeprefix("fft_"),
                    values,
                    {name: str(value).rpartition(".")[2] for name, value in (kwargs or {}).items()},
                )
            )
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, 3)
    with Noting():
        call(torch, x)
    return shown


def test_every_factory_is_called_here() -> None:
    tested = {name.partition(" ")[0] for name in CALLS} | {"from_dlpack"}
    assert tested == {entry.name for entry in registry.entries() if isinstance(entry, Factory)}
    assert set(TAKE_OUT) == {entry.name for entry in registry.entries() if isinstance(entry, Factory) and entry.out}


@quiet
@every_call
def test_a_mode_sees_the_call_as_pytorchs_does(call: Callable[[Any, Any], Any]) -> None:
    if call is CALLS["range"]:
        pytest.skip("PyTorch does not ask for range")
    assert seen(flambeau, call) == seen(oracle(), call)


@quiet
@every_call
def test_a_mode_answers_the_call(call: Callable[[Any, Any], Any]) -> None:
    class Answering(flambeau.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return "the mode's"

    x = flambeau.ones(2, 3)
    with Answering():
        assert call(flambeau, x) == "the mode's"


@quiet
@every_out
def test_errors_of_out_are_pytorchs(call: Callable[..., Any]) -> None:
    def message(torch: Any, **options: Any) -> str:
        with pytest.raises(RuntimeError) as raised:
            call(torch, **options)
        if call in (TAKE_OUT["empty"], TAKE_OUT["randn"]) and "dtype" not in options:
            return "PyTorch tries to resize first"
        return f"{type(raised.value).__name__}: {str(raised.value).splitlines()[0].replace('aten::', '').replace('fft_', '')}"

    theirs = oracle()
    for options in (
        lambda torch: {"out": torch.empty(3, requires_grad=True)},
        lambda torch: {"out": torch.empty(3), "dtype": torch.float64},
    ):
        assert message(flambeau, **options(flambeau)) == message(theirs, **options(theirs))


@quiet
@every_out
def test_out_is_written_and_returned(call: Callable[..., Any]) -> None:
    flambeau.manual_seed(0)
    want = call(flambeau, dtype=flambeau.float64)
    out = flambeau.empty(0, dtype=flambeau.float64)
    flambeau.manual_seed(0)
    assert call(flambeau, out=out) is out and out.shape == want.shape and out.dtype == flambeau.float64
    if call is not TAKE_OUT["empty"]:
        assert flambeau.equal(out, want)


@pytest.mark.parametrize("name", PLAIN)
def test_plain_calls_take_the_fast_path(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    entry: Any = next(e for e in registry.entries() if isinstance(e, Factory) and e.name == name.partition(" ")[0])
    monkeypatch.setitem(entry.wrapper.__globals__, "dispatch", lambda *args: calls.append(args) or dispatch.dispatch(*args))
    x = flambeau.ones(2, 1)
    CALLS[name](flambeau, x)
    assert not calls
    with flambeau.device("cpu"), flambeau.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        CALLS[name](flambeau, x)
    assert calls


def test_a_subclass_gets_results_of_its_class() -> None:
    class Own(flambeau.Tensor):
        pass

    x = flambeau.ones(2).as_subclass(Own)
    for result in (x.new_zeros(2), flambeau.zeros_like(x), flambeau.rand_like(x), x.new_full((2,), 1), x.new_tensor([1.0])):
        assert type(result) is Own


def test_the_device_asked_for_comes_before_the_threads() -> None:
    with flambeau.device("meta"):
        assert flambeau.eye(2, device="cpu").device.type == "cpu" and flambeau.eye(2).device.type == "meta"
        assert flambeau.hann_window(3).device.type == flambeau.tril_indices(2, 2).device.type == "meta"
        assert flambeau.ones_like(flambeau.eye(2, device="cpu")).device.type == "cpu"


RANGES = {
    "arange": lambda torch, out: torch.arange(4, out=out),
    "range": lambda torch, out: torch.range(0, 3, out=out),
    "linspace": lambda torch, out: torch.linspace(0, 1, 4, out=out),
    "logspace": lambda torch, out: torch.logspace(0, 1, 4, out=out),
}


@pytest.mark.oracle
@pytest.mark.filterwarnings(
    "ignore:torch.range is deprecated", "ignore:An output with one or more", "ignore:The number of elements in the out"
)
@pytest.mark.parametrize("name", RANGES)
def test_ranges_fill_a_tensor_of_as_many_elements(oracle: Any, name: str) -> None:
    for make in (
        lambda T: T.zeros(2, 2),
        lambda T: T.zeros(2, 2).T,
        lambda T: T.zeros(2, 2, 2)[..., 1],
        lambda T: T.zeros(3),
        lambda T: T.zeros(0),
    ):
        ours, theirs = [RANGES[name](torch, make(torch)) for torch in (flambeau, oracle)]
        assert ours.stride() == theirs.stride()
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-6)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize("name", ["sum", "prod"])
def test_sums_and_products_are_computed_in_the_dtype_of_out(oracle: Any, name: str) -> None:
    for given, wanted in (
        ("float16", "float64"),
        ("float64", "int64"),
        ("complex64", "float32"),
        ("int32", "float16"),
        ("float64", "bool"),
    ):
        ours, theirs = [
            getattr(T, name)(
                T.tensor([[1.7, 0.3], [2050, 3.2], [1.6, 1.1]]).to(getattr(T, given)), 0, out=T.empty(0, dtype=getattr(T, wanted))
            )
            for T in (flambeau, oracle)
        ]
        assert ours.tolist() == theirs.tolist()


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int64"])
def test_evenly_spaced_numbers_are_pytorchs_to_the_bit(dtype: str) -> None:
    theirs = oracle()
    ends = [(-1, 1), (0, 1), (1e-4, 0.02), (-2.7, 5.1), (3.3, -100.9)]
    for first, last in ends:
        for steps in (1, 2, 3, 7, 8, 28, 33, 100, 1000, 9001):
            expected = theirs.linspace(first, last, steps, dtype=getattr(theirs, dtype))
            assert flambeau.linspace(first, last, steps, dtype=getattr(flambeau, dtype)).tolist() == expected.tolist(), (first, last, steps)
