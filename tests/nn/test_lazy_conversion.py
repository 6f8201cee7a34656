"""Every lazy module under every conversion, copy and way of saving, and every pair of them, before and after its first call."""

from __future__ import annotations

import copy
import io
import itertools
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import flambeau

# Class, arguments, keyword arguments, shape of an input.
LAZY: dict[str, tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = {
    "Linear": ("Linear", (4,), {}, (2, 3)),
    "Linear without bias": ("Linear", (4, False), {}, (2, 3)),
    **{f"Conv{dims}d": (f"Conv{dims}d", (4, 3), {}, (2, 2, *(4,) * dims)) for dims in (1, 2, 3)},
    **{f"ConvTranspose{dims}d": (f"ConvTranspose{dims}d", (4, 3), {}, (2, 2, *(3,) * dims)) for dims in (1, 2, 3)},
    **{f"BatchNorm{dims}d": (f"BatchNorm{dims}d", (), {}, (2, 3, *(4,) * dims)) for dims in (1, 2, 3)},
    "BatchNorm1d without statistics": ("BatchNorm1d", (), {"track_running_stats": False}, (4, 3)),
    "BatchNorm1d without parameters": ("BatchNorm1d", (), {"affine": False}, (4, 3)),
    **{f"InstanceNorm{dims}d": (f"InstanceNorm{dims}d", (), {}, (2, 3, *(4,) * dims)) for dims in (1, 2, 3)},
    **{
        f"InstanceNorm{dims}d, {tracks}": (
            f"InstanceNorm{dims}d",
            (),
            {"affine": True, "track_running_stats": tracks},
            (2, 3, *(4,) * dims),
        )
        for dims in (1, 2, 3)
        for tracks in (False, True)
    },
    "float64 Linear": ("Linear", (4,), {"dtype": "float64"}, (2, 3)),
    "float64 BatchNorm1d": ("BatchNorm1d", (), {"dtype": "float64"}, (4, 3)),
}


def saved_and_loaded(torch: Any, layer: Any) -> Any:
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def state_again(torch: Any, layer: Any, **arguments: Any) -> Any:
    """The layer with its state, which went through a file."""
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    layer.load_state_dict(torch.load(file, weights_only=False), **arguments)
    return layer


STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "double": lambda torch, layer: layer.double(),
    "float": lambda torch, layer: layer.float(),
    "half": lambda torch, layer: layer.half(),
    # PyTorch forgot it among the conversions of uninitialized tensors
    "bfloat16": lambda torch, layer: layer.bfloat16() if torch.__name__ == "flambeau" else layer.to(torch.bfloat16),
    "to float64": lambda torch, layer: layer.to(torch.float64),
    "to bfloat16 on the CPU": lambda torch, layer: layer.to("cpu", torch.bfloat16),
    "to cpu": lambda torch, layer: layer.to("cpu"),
    "to meta": lambda torch, layer: layer.to("meta"),
    "to a format": lambda torch, layer: layer.to(memory_format=torch.channels_last),
    "to int64": lambda torch, layer: layer.to(torch.int64),
    "type": lambda torch, layer: layer.type(torch.float64),
    "cuda": lambda torch, layer: layer.cuda(),
    "to cuda": lambda torch, layer: layer.to("cuda"),
    "to_empty": lambda torch, layer: layer.to_empty(device="cpu"),
    "share_memory": lambda torch, layer: layer.share_memory(),
    "deepcopy": lambda torch, layer: copy.deepcopy(layer),
    "copy": lambda torch, layer: copy.copy(layer),
    "pickle": lambda torch, layer: pickle.loads(pickle.dumps(layer)),
    "file": saved_and_loaded,
    "state": state_again,
    # PyTorch refuses to assign what is uninitialized, by a method that it forgot as well
    "state, assigned": lambda torch, layer: state_again(torch, layer, assign=not getattr(layer, "has_uninitialized_params", bool)()),
    "requires_grad_": lambda torch, layer: layer.requires_grad_(False),
    "zero_grad": lambda torch, layer: layer.zero_grad() or layer,
    "eval": lambda torch, layer: layer.eval(),
    "inside": lambda torch, layer: torch.nn.Sequential(layer).double()[0],
}

PAIRS = list(itertools.product(STEPS, STEPS))
IN_PAIRS = ("Linear", "BatchNorm2d", "InstanceNorm1d, False", "InstanceNorm1d, True")  # the others differ from these by sizes


def made(torch: Any, name: str) -> Any:
    kind, args, kwargs, _ = LAZY[name]
    return getattr(torch.nn, f"Lazy{kind}")(
        *args, **{key: getattr(torch, value) if key == "dtype" else value for key, value in kwargs.items()}
    )


def facts(torch: Any, layer: Any, shows_values: bool) -> list[Any]:
    """What can be seen of a layer: classes, dtypes, places, shapes and values of all that it has."""
    seen: list[Any] = [type(layer).__name__, repr(layer), layer.training, list(layer.state_dict())]
    for name, tensor in itertools.chain(layer._parameters.items(), layer._buffers.items()):
        if tensor is None:
            seen.append((name, None))
            continue
        is_lazy = torch.nn.parameter.is_lazy(tensor)
        shape = None if is_lazy else (list(tensor.shape), tensor.stride())
        shared = None if is_lazy else tensor.is_shared()
        values = tensor.detach().double().tolist() if shows_values and not is_lazy and not tensor.is_meta else None
        known = (type(tensor).__name__, str(tensor.dtype), str(tensor.device), tensor.requires_grad, isinstance(tensor, torch.nn.Parameter))
        seen.append((name, known, shape, shared, values))
    hooks = len(layer._forward_pre_hooks), len(layer._load_state_dict_pre_hooks)
    return [*seen, hooks]


def outcome(torch: Any, name: str, steps: tuple[str, ...], calls_first: bool) -> list[Any]:
    """A layer made, called or not, taken through steps, and called."""
    torch.manual_seed(7)
    layer, shape = made(torch, name), LAZY[name][3]
    seen: list[Any] = []

    def call(layer: Any) -> None:
        tensors = [tensor for tensor in itertools.chain(layer._parameters.values(), layer._buffers.values()) if tensor is not None]
        first = next((tensor for tensor in tensors if tensor.is_floating_point()), torch.ones(()))
        x = (torch.arange(torch.ones(shape).numel(), device=first.device) % 7 / 4).reshape(shape).to(first.dtype)
        y = layer(x)
        seen.append((str(y.dtype), str(y.device), list(y.shape), y.requires_grad, repr(layer)))
        if shows_values and not y.is_meta:
            seen.append(y.detach().double().tolist())

    shows_values = "to_empty" not in steps
    try:
        if calls_first:
            call(layer)
        for step in steps:
            layer = STEPS[step](torch, layer)
            seen.append(facts(torch, layer, shows_values))
        call(layer)
        seen.append(facts(torch, layer, shows_values))
        call(layer)
    except Exception as error:
        # tensors that moved to meta are no longer uninitialized, and have no sizes either: who notices first differs
        seen.append(("raised", "to meta" in steps or type(error).__name__))
    return seen


def near(got: Any, expected: Any, tolerance: float) -> bool:
    """Equal, but for the rounding of numbers."""
    if isinstance(got, (list, tuple)) and isinstance(expected, (list, tuple)):
        return len(got) == len(expected) and all(near(mine, theirs, tolerance) for mine, theirs in zip(got, expected))
    if isinstance(got, float) and isinstance(expected, float):
        return got == expected or abs(got - expected) <= tolerance * max(1.0, abs(expected)) or (got != got and expected != expected)
    return bool(got == expected)


@pytest.mark.parametrize("calls_first", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("name", LAZY)
def test_conversions(oracle, name, calls_first):
    different = []
    for steps in [(step,) for step in STEPS] + (PAIRS if name in IN_PAIRS else []):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got, expected = outcome(flambeau, name, steps, calls_first), outcome(oracle, name, steps, calls_first)
        tolerance = 0.02 if any("bfloat16" in step or step == "half" for step in steps) else 1e-5
        if not near(got, expected, tolerance):
            at = next(i for i, (mine, theirs) in enumerate(itertools.zip_longest(got, expected)) if not near(mine, theirs, tolerance))
            different.append(f"{' then '.join(steps)}, at {at}:\n  got      {got[at:][:1]}\n  expected {expected[at:][:1]}")
    assert not different, f"{len(different)} differ\n" + "\n".join(different[:5])
