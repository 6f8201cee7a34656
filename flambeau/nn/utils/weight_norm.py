"""Weight norm by a hook: the older form, whose tensors are ``weight_g`` and ``weight_v``."""

from __future__ import annotations

import warnings
from typing import Any

from ... import ops
from ...core.tensor import Parameter

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


class WeightNorm:
    """The hook that computes a weight from its magnitude and direction before each call.

    Args:
        name: of the weight.
        dim: dimension whose indices have magnitudes of their own; None for one magnitude.
    Source: torch.nn.utils.weight_norm.WeightNorm.
    Example:
        >>> layer = nn.utils.weight_norm(nn.Linear(3, 2))
        >>> [(hook.name, hook.dim) for hook in layer._forward_pre_hooks.values()]
        [('weight', 0)]
    """

    name: str
    dim: int

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Any) -> Any:
        """Direction times magnitude."""
        g, v = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        return ops.resolve("torch", "_weight_norm")(v, g, self.dim)

    @staticmethod
    def apply(module: Any, name: str, dim: int | None) -> WeightNorm:
        """Replace the weight by two parameters and register the hook."""
        warnings.warn(
            "`torch.nn.utils.weight_norm` is deprecated in favor of `torch.nn.utils.parametrizations.weight_norm`.",
            FutureWarning,
            stacklevel=3,
        )
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm) and hook.name == name:
                raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
        fn = WeightNorm(name, dim)
        weight = getattr(module, name)
        _require_initialized(weight, "WeightNorm", "weight")
        del module._parameters[name]
        module.register_parameter(f"{name}_g", Parameter(ops.norm_except_dim(weight, 2, fn.dim).data))
        module.register_parameter(f"{name}_v", Parameter(weight.data))
        setattr(module, name, fn.compute_weight(module))
        module.register_forward_pre_hook(fn)
        return fn

    def remove(self, module: Any) -> None:
        """Make the weight a parameter again."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[f"{self.name}_g"]
        del module._parameters[f"{self.name}_v"]
        setattr(module, self.name, Parameter(weight.data))

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def _require_initialized(weight: Any, hook: str, kind: str) -> None:
    if type(weight).__name__ == "UninitializedParameter":
        raise ValueError(
            f"The module passed to `{hook}` can't have uninitialized parameters. Make sure to run the dummy forward before applying "
            f"{kind} normalization"
        )


def weight_norm(module: Any, name: str = "weight", dim: int = 0) -> Any:
    """Split a weight into ``<name>_g``, its magnitude, and ``<name>_v``, its direction. Deprecated.

    Args:
        module: changed in place.
        name: of the weight.
        dim: dimension whose indices have magnitudes of their own; None for one magnitude.
    Returns:
        ``module``.
    Raises:
        RuntimeError: the weight has such a hook already.
    Source: torch.nn.utils.weight_norm. Salimans and Kingma 2016.
    Example:
        >>> layer = nn.utils.weight_norm(nn.Linear(3, 2))
        >>> [(name, tuple(parameter.shape)) for name, parameter in layer.named_parameters()]
        [('bias', (2,)), ('weight_g', (2, 1)), ('weight_v', (2, 3))]
    """
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """Undo ``weight_norm``; the weight keeps its value.

    Args:
        module: changed in place.
        name: of the weight.
    Returns:
        ``module``.
    Raises:
        ValueError: the weight has no such hook.
    Source: torch.nn.utils.remove_weight_norm.
    Example:
        >>> layer = nn.utils.remove_weight_norm(nn.utils.weight_norm(nn.Linear(3, 2)))
        >>> sorted(layer.state_dict())
        ['bias', 'weight']
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
