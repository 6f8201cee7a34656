"""``torch.func``: transforms of functions, for their derivatives and over batches, and modules as functions of their parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from .. import ops
from ..core import late as _late
from ..core.tensor import Tensor
from ..nn import Module
from ..nn.normalization import _BatchNorm
from ..nn.utils.stateless import _functional_call
from . import _functions as _functions
from ._functionalize import debug_unwrap, functionalize
from ._jacobians import hessian, jacfwd, jacrev
from ._jvp import jvp
from ._linearize import linearize
from ._rearrange import rearrange
from ._reverse import grad, grad_and_value, vjp
from ._vmap import vmap

_late.adopt(__name__)

__all__ = [
    "debug_unwrap", "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
    "rearrange", "replace_all_batch_norm_modules_", "stack_module_state", "vjp", "vmap",
]  # fmt: skip


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: dict[str, Tensor] | Sequence[dict[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call ``module`` with other parameters and buffers; the gradients are those of the tensors given.

    Args:
        module: unchanged afterwards.
        parameter_and_buffer_dicts: tensors of any shape by path, in one dictionary or several; the others stay. A buffer that the
            module replaces is replaced here.
        args: of the call; what is no tuple is the only one.
        kwargs: of the call.
        tie_weights: let tensors that the module shares be shared.
        strict: whether all tensors have to be given, and no others.
    Returns: what the module returns.
    Raises:
        ValueError: no dictionaries, a name in two of them, or different tensors for one that is shared.
        RuntimeError: missing or unexpected tensors, if ``strict``.
    Source: torch.func.functional_call.
    Example:
        >>> layer = torch.nn.Linear(2, 1)
        >>> torch.func.functional_call(layer, {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}, torch.tensor([3.0, 4.0]))
        tensor([7.])
    """
    if isinstance(parameter_and_buffer_dicts, dict):
        given = parameter_and_buffer_dicts
    elif isinstance(parameter_and_buffer_dicts, Sequence):
        if not all(isinstance(tensors, dict) for tensors in parameter_and_buffer_dicts):
            raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
        names = Counter(name for tensors in parameter_and_buffer_dicts for name in tensors)
        if repeated := [name for name, count in names.items() if count > 1]:
            raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
        given = {name: tensor for tensors in parameter_and_buffer_dicts for name, tensor in tensors.items()}
    else:
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(parameter_and_buffer_dicts)}"
        )
    return _functional_call(module, given, args, kwargs, tie_weights=tie_weights, strict=strict)


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and the buffers of modules of one kind, each stacked along a new first dimension.

    Args:
        models: of one class, with tensors of the same shapes, and in the same mode.
    Returns:
        Parameters and buffers by path. The stacked parameters are leaves with copies of the values.
    Raises:
        RuntimeError: no models, or models that differ.
    Source: torch.func.stack_module_state.
    Example:
        >>> models = [torch.nn.Linear(2, 3) for _ in range(4)]
        >>> parameters, buffers = torch.func.stack_module_state(models)
        >>> parameters["weight"].shape
        torch.Size([4, 3, 2])
    """
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if any(model.training != models[0].training for model in models):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(model) is not type(models[0]) for model in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = [dict(model.named_parameters()) for model in models]
    buffers = [dict(model.named_buffers()) for model in models]
    return tuple([{name: _stacked(name, [state[name] for state in states]) for name in states[0]} for states in (parameters, buffers)])  # type: ignore[return-value]


def _stacked(name: str, tensors: list[Tensor]) -> Tensor:
    requires_grad = tensors[0].requires_grad
    if any(tensor.requires_grad != requires_grad for tensor in tensors):
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    return ops.resolve("torch", "stack")(tensors).detach().requires_grad_(requires_grad)


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Have all batch norms of a module use each batch's statistics, and keep none: they change no tensor then.

    Args:
        root: changed in place, and returned.
    Returns: ``root`` itself.
    Source: torch.func.replace_all_batch_norm_modules_.
    Example:
        >>> net = torch.func.replace_all_batch_norm_modules_(torch.nn.Sequential(torch.nn.BatchNorm1d(2)))
        >>> net[0].running_mean is None
        True
    """
    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


for _name in __all__:  # pickles name them by the module in which PyTorch's are found
    globals()[_name].__module__ = __name__
