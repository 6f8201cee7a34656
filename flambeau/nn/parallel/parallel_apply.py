"""Several modules at once, a thread each. Source: torch.nn.parallel.parallel_apply."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ...autograd.grad_mode import is_grad_enabled, set_grad_enabled
from ...core.calls.autocast import resumed
from ...core.exceptions import ExceptionWrapper
from ...core.tensor import Tensor
from ..module import Module

__all__ = ["get_a_var", "parallel_apply"]


def get_a_var(obj: Any) -> Tensor | None:
    """The first tensor in a structure.

    Args:
        obj: a tensor of any shape, or lists, tuples and dictionaries of them.
    Returns:
        The tensor itself; None when there is none.
    Source: torch.nn.parallel.parallel_apply.get_a_var.
    Example:
        >>> get_a_var([{'x': torch.ones(2)}, 3])
        tensor([1., 1.])
    """
    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, (list, tuple, dict)):
        for item in obj.items() if isinstance(obj, dict) else obj:
            tensor = get_a_var(item)
            if tensor is not None:
                return tensor
    return None


def parallel_apply(
    modules: Sequence[Module],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:
    """Call each module with its own arguments, each in a thread with its device as the current one.

    Args:
        modules: as many as there are ``inputs``.
        inputs: the positional arguments of each; what is no tuple or list is the only one.
        kwargs_tup: the keyword arguments of each.
        devices: of the calls; those of the tensors among the arguments when None.
    Returns:
        The results in the order of ``modules``.
    Raises:
        AssertionError: numbers differ. What a module raises is raised with the original traceback in its message.
    Source: torch.nn.parallel.parallel_apply.
    Example:
        >>> nn.parallel.parallel_apply([nn.ReLU(), nn.Tanh()], [torch.tensor([-1.0]), torch.tensor([0.0])])
        [tensor([0.]), tensor([0.])]
    """
    for name, given in (("inputs", inputs), ("kwargs_tup", kwargs_tup), ("devices", devices)):
        if given is not None and len(given) != len(modules):
            what = f"number of {name}" if name == "inputs" else f"length of {name}"
            raise AssertionError(f"The number of modules {len(modules)} is not equal to the {what} {len(given)}")
    keywords = kwargs_tup or [{}] * len(modules)
    places = devices or [None] * len(modules)
    recording, autocast = is_grad_enabled(), resumed()
    results: list[Any] = [None] * len(modules)

    def call(position: int) -> None:
        place = places[position]
        try:
            args = inputs[position]
            if place is None:
                tensor = get_a_var((args, keywords[position]))
                if tensor is None:
                    raise RuntimeError(
                        f"In replica {position}, no device was provided and no tensor input was found; device cannot be resolved"
                    )
                place = tensor.device
            if not isinstance(args, (list, tuple)):
                args = (args,)
            with set_grad_enabled(recording), autocast, _current(place):
                results[position] = modules[position](*args, **keywords[position])
        except Exception:
            results[position] = ExceptionWrapper(where=f"in replica {position} on device {place}")

    if len(modules) > 1:
        threads = [threading.Thread(target=call, args=(position,)) for position in range(len(modules))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    elif modules:
        call(0)
    for result in results:
        if isinstance(result, ExceptionWrapper):
            result.reraise()
    return results


def _current(place: Any) -> AbstractContextManager[Any]:
    """A context in which a CUDA device is the current one."""
    if getattr(place, "type", "cuda") != "cuda":
        return nullcontext()
    from ...cuda import device

    return device(place)
