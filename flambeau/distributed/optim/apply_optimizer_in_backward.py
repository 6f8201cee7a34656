"""Steps within the backward pass. Source: torch.distributed.optim.apply_optimizer_in_backward."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from ...core.tape.node import AccumulateGrad
from ...optim import Optimizer

__all__: list[str] = []


def _apply_optimizer_in_backward(
    optimizer_class: type[Optimizer], params: Iterable[Any], optimizer_kwargs: dict[str, Any], register_hook: bool = True
) -> None:
    """Step on each parameter as soon as its gradient is there, and free the gradient.

    Args:
        optimizer_class: class of the optimizer, of which each parameter gets one.
        params: the parameters.
        optimizer_kwargs: further arguments of the class.
        register_hook: False only notes the optimizers.
    Source: torch.distributed.optim._apply_optimizer_in_backward.
    Example:
        >>> from flambeau.distributed.optim import _apply_optimizer_in_backward
        >>> layer = torch.nn.Linear(1, 1, bias=False)
        >>> before = layer.weight.item()
        >>> _apply_optimizer_in_backward(torch.optim.SGD, layer.parameters(), {"lr": 1.0})
        >>> layer(torch.ones(1)).backward()
        >>> round(before - layer.weight.item(), 6), layer.weight.grad
        (1.0, None)
    """
    for param in params:
        optimizers = param.__dict__.setdefault("_in_backward_optimizers", [])
        optimizers.append(optimizer_class([param], **optimizer_kwargs))
        param.__dict__.setdefault("_optimizer_classes", []).append(optimizer_class)
        param.__dict__.setdefault("_optimizer_kwargs", []).append(optimizer_kwargs)
        if register_hook and len(optimizers) == 1:
            param.__dict__["_optimizer_hook_handle"] = AccumulateGrad(param).register_hook(_stepping(weakref.ref(param)))


def _stepping(reference: Any) -> Any:
    def hook(*unused: Any) -> None:
        param = reference()
        for optimizer in param._in_backward_optimizers:
            optimizer.step()
        param.grad = None

    return hook


def _get_in_backward_optimizers(module: Any) -> list[Optimizer]:
    """The optimizers that step within the backward pass.

    Args:
        module: whose parameters have them.
    Source: torch.distributed.optim._get_in_backward_optimizers.
    Example:
        >>> from flambeau.distributed.optim import _get_in_backward_optimizers
        >>> _get_in_backward_optimizers(torch.nn.Linear(1, 1))
        []
    """
    return [optimizer for param in module.parameters() for optimizer in getattr(param, "_in_backward_optimizers", [])]
