"""``functorch``: transforms of functions under their first package's name, and modules as functions of their parameters.

The latter are deprecated: ``torch.func.functional_call`` and ``torch.func.stack_module_state`` do the same. Source: functorch.
"""

from __future__ import annotations

import copy
import warnings
from typing import Any

from ..core.tensor import Tensor
from ..func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    vjp,
    vmap,
)
from ..nn import Module
from ..nn.utils._named_member_accessor import NamedMemberAccessor
from ..ops import stack

__all__ = [
    "FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble", "functionalize", "grad", "grad_and_value", "hessian",
    "jacfwd", "jacrev", "jvp", "make_functional", "make_functional_with_buffers", "vjp", "vmap",
]  # fmt: skip

Names = dict[str, list[str]]  # of each tensor's first name, all of them


def _taken_out(model: Module, named: list[tuple[str, Tensor]]) -> tuple[tuple[Tensor, ...], tuple[str, ...], Names]:
    """A module's tensors, which are replaced there by ones without values; their first names, and all names of each."""
    accessor, names, tensors = NamedMemberAccessor(model), {}, []
    first: dict[int, str] = {}
    for name, tensor in named:
        if id(tensor) not in first:
            first[id(tensor)] = name
            names[name] = [name]
            tensors.append(tensor)
        else:
            names[first[id(tensor)]].append(name)
    for tensor, places in zip(tensors, names.values(), strict=True):
        for place in places:
            hollow = tensor.detach().to("meta")
            accessor.set_tensor(place, type(tensor)(hollow, tensor.requires_grad) if tensor.requires_grad else hollow)
    return tuple(tensors), tuple(names), names


def _tracked(params: tuple[Tensor, ...], disable_autograd_tracking: bool) -> tuple[Tensor, ...]:
    if disable_autograd_tracking:
        for param in params:
            param.requires_grad_(False)
    return params


class FunctionalModule(Module):
    """A module without parameters of its own: it is called with them.

    Args:
        stateless_model: the module; its parameters are never looked at.
        param_names: the names under which parameters come, in order.
        names_map: of each name, all names of that parameter.
    Source: functorch.FunctionalModule.
    """

    def __init__(self, stateless_model: Module, param_names: tuple[str, ...], names_map: Names) -> None:
        super().__init__()
        self.stateless_model, self.param_names, self.names_map = stateless_model, param_names, dict(names_map)

    @staticmethod
    def _create_from(model: Module, disable_autograd_tracking: bool = False) -> tuple[FunctionalModule, tuple[Tensor, ...]]:
        """A copy of a module as a function of its parameters, and these."""
        stateless = copy.deepcopy(model)
        params, names, places = _taken_out(stateless, list(stateless.named_parameters(remove_duplicate=False)))
        return FunctionalModule(stateless, names, places), _tracked(params, disable_autograd_tracking)

    def forward(self, params: Any, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        """The module's result for these parameters."""
        return functional_call(self.stateless_model, dict(zip(self.param_names, params, strict=True)), args, kwargs)


class FunctionalModuleWithBuffers(Module):
    """A module without parameters and buffers of its own: it is called with them.

    Args:
        stateless_model: the module; its tensors are never looked at.
        param_names, buffer_names: the names under which they come, in order.
        param_names_map, buffer_names_map: of each name, all names of that tensor.
    Source: functorch.FunctionalModuleWithBuffers.
    """

    def __init__(
        self,
        stateless_model: Module,
        param_names: tuple[str, ...],
        buffer_names: tuple[str, ...],
        param_names_map: Names,
        buffer_names_map: Names,
    ) -> None:
        super().__init__()
        self.stateless_model, self.param_names, self.buffer_names = stateless_model, param_names, buffer_names
        self.all_names_map = {**param_names_map, **buffer_names_map}

    @staticmethod
    def _create_from(
        model: Module, disable_autograd_tracking: bool = False
    ) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
        """A copy of a module as a function of its parameters and buffers, and these."""
        stateless = copy.deepcopy(model)
        params, names, places = _taken_out(stateless, list(stateless.named_parameters(remove_duplicate=False)))
        buffers, own, spots = _taken_out(stateless, list(stateless.named_buffers(remove_duplicate=False)))
        function = FunctionalModuleWithBuffers(stateless, names, own, places, spots)
        return function, _tracked(params, disable_autograd_tracking), buffers

    def forward(self, params: Any, buffers: Any, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        """The module's result for these parameters and buffers."""
        given = dict(zip((*self.param_names, *self.buffer_names), (*params, *buffers), strict=True))
        return functional_call(self.stateless_model, given, args, kwargs)


def _warn(name: str, instead: str) -> None:
    warnings.warn(
        "We've integrated functorch into PyTorch. As the final step of the integration, "
        f"`functorch.{name}` is deprecated as of PyTorch 2.0 and will be deleted in a future version of PyTorch >= 2.3. "
        f"Please use `torch.func.{instead}` instead; see the PyTorch 2.0 release notes and/or the `torch.func` migration guide for more "
        "details https://pytorch.org/docs/main/func.migrating.html",
        FutureWarning,
        stacklevel=3,
    )


def make_functional(model: Module, disable_autograd_tracking: bool = False) -> tuple[FunctionalModule, tuple[Tensor, ...]]:
    """A module as a function of its parameters, and these.

    Args:
        model: a module without buffers.
        disable_autograd_tracking: give parameters that need no gradient.
    Raises:
        RuntimeError: there are buffers.
    Source: functorch.make_functional.
    """
    _warn("make_functional", "functional_call")
    if any(True for _ in model.buffers()):
        raise RuntimeError("make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead.")
    return FunctionalModule._create_from(model, disable_autograd_tracking)


def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """A module as a function of its parameters and buffers, and these.

    Args:
        model: the module.
        disable_autograd_tracking: give parameters that need no gradient.
    Source: functorch.make_functional_with_buffers.
    """
    _warn("make_functional_with_buffers", "functional_call")
    return FunctionalModuleWithBuffers._create_from(model, disable_autograd_tracking)


def combine_state_for_ensemble(
    models: list[Module],
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """One function for several modules alike, with their parameters and their buffers stacked, which need no gradients.

    Args:
        models: of one class, all training or all not.
    Raises:
        RuntimeError: none, or modules that are not alike.
    Source: functorch.combine_state_for_ensemble.
    """
    _warn("combine_state_for_ensemble", "stack_module_state")
    if len(models) == 0:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if not (all(m.training for m in models) or all(not m.training for m in models)):
        raise RuntimeError("combine_state_for_ensemble: Expected all models to have the same training/eval mode.")
    if not all(type(m) is type(models[0]) for m in models):
        raise RuntimeError("combine_state_for_ensemble: Expected all models to be of the same class.")
    functions, params, buffers = zip(*[FunctionalModuleWithBuffers._create_from(model) for model in models], strict=True)
    stacked, own = (tuple([stack(parts).detach() for parts in zip(*state, strict=True)]) for state in (params, buffers))
    return functions[0], stacked, own
