"""Spectral norm by a hook: the older form, whose tensors are ``weight_orig``, ``weight_u`` and ``weight_v``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import ops
from ...autograd.grad_mode import no_grad
from ...core.tensor import Parameter
from .. import functional as F
from ..conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .weight_norm import _require_initialized

__all__ = ["SpectralNorm", "SpectralNormLoadStateDictPreHook", "SpectralNormStateDictHook", "remove_spectral_norm", "spectral_norm"]


class SpectralNorm:
    """The hook that divides a weight by its largest singular value before each call.

    Args:
        name: of the weight.
        n_power_iterations: steps of the power method at each call in training.
        dim: dimension of the outputs.
        eps: for the normalization of vectors.
    Raises:
        ValueError: no steps.
    Source: torch.nn.utils.spectral_norm.SpectralNorm.
    Example:
        >>> layer = nn.utils.spectral_norm(nn.Linear(3, 2))
        >>> [type(hook).__name__ for hook in layer._forward_pre_hooks.values()]
        ['SpectralNorm']
    """

    _version: int = 1  # of the layout of the state: 1 has the right singular vector
    name: str
    dim: int
    n_power_iterations: int
    eps: float

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        self.name = name
        self.dim = dim
        if n_power_iterations <= 0:
            raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Any) -> Any:
        """The weight as a matrix, a row for each output."""
        return weight.movedim(self.dim, 0).reshape(weight.size(self.dim), -1)

    def compute_weight(self, module: Any, do_power_iteration: bool) -> Any:
        """The weight over its largest singular value, after steps of the power method if ``do_power_iteration``."""
        weight, u, v = (getattr(module, f"{self.name}_{suffix}") for suffix in ("orig", "u", "v"))
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(matrix.t().mv(u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(matrix.mv(v), dim=0, eps=self.eps))
                # Copies: the next call changes the buffers in place, which this call's derivative needs.
                u, v = u.clone(), v.clone()
        return weight / ops.dot(u, matrix.mv(v))

    def remove(self, module: Any) -> None:
        """Make the weight a parameter again."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for name in (self.name, f"{self.name}_u", f"{self.name}_v", f"{self.name}_orig"):
            delattr(module, name)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    def _solve_v_and_rescale(self, weight_mat: Any, u: Any, target_sigma: Any) -> Any:
        """The right vector that goes with ``u``, of states that do not have it: ``u.T @ weight_mat @ v`` is ``target_sigma``."""
        inverse = np.linalg.pinv(weight_mat.t().mm(weight_mat).detach().cpu().numpy())
        v = ops.tensor(inverse).to(weight_mat).mm(weight_mat.t()).mv(u)
        return v.mul_(target_sigma / ops.dot(u, weight_mat.mv(v)))

    @staticmethod
    def apply(module: Any, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        """Replace the weight by a parameter and two buffers, and register the hooks."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
        fn = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        _require_initialized(weight, "SpectralNorm", "spectral")
        with no_grad():
            height, width = fn.reshape_weight_to_matrix(weight).size()
            u = F.normalize(weight.new_empty(height).normal_(0, 1), dim=0, eps=eps)
            v = F.normalize(weight.new_empty(width).normal_(0, 1), dim=0, eps=eps)
        delattr(module, name)
        module.register_parameter(f"{name}_orig", weight)
        # A plain attribute, which the hook replaces: the name is in no state.
        setattr(module, name, weight.data)
        module.register_buffer(f"{name}_u", u)
        module.register_buffer(f"{name}_v", v)
        module.register_forward_pre_hook(fn)
        module._register_state_dict_hook(SpectralNormStateDictHook(fn))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(fn))
        return fn


class SpectralNormLoadStateDictPreHook:
    """Adds the right singular vector to states that were saved before it was in them.

    Args:
        fn: the hook of the weight.
    Source: torch.nn.utils.spectral_norm.SpectralNormLoadStateDictPreHook.
    Example:
        >>> layer = nn.utils.spectral_norm(nn.Linear(3, 2))
        >>> len(layer._load_state_dict_pre_hooks)
        1
    """

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        fn = self.fn
        version = local_metadata.get("spectral_norm", {}).get(f"{fn.name}.version", None)
        if version is not None and version >= 1:
            return
        key = prefix + fn.name
        if version is None and key not in state_dict and all(f"{key}_{suffix}" in state_dict for suffix in ("orig", "u", "v")):
            return  # a state of this layout, without its metadata
        missing = [key + suffix for suffix in ("_orig", "", "_u") if key + suffix not in state_dict]
        if missing:
            missing_keys.extend(missing if strict else ())
            return
        with no_grad():
            original = state_dict[f"{key}_orig"]
            sigma = (original / state_dict.pop(key)).mean()
            state_dict[f"{key}_v"] = fn._solve_v_and_rescale(fn.reshape_weight_to_matrix(original), state_dict[f"{key}_u"], sigma)


class SpectralNormStateDictHook:
    """Writes the version of the layout into the state's metadata.

    Args:
        fn: the hook of the weight.
    Raises:
        RuntimeError: at the call, the metadata has the version of this weight already.
    Source: torch.nn.utils.spectral_norm.SpectralNormStateDictHook.
    Example:
        >>> layer = nn.utils.spectral_norm(nn.Linear(3, 2))
        >>> layer.state_dict()._metadata[""]
        {'version': 1, 'spectral_norm': {'weight.version': 1}}
    """

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(self, module: Any, state_dict: Any, prefix: str, local_metadata: Any) -> None:
        versions = local_metadata.setdefault("spectral_norm", {})
        key = f"{self.fn.name}.version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = self.fn._version


def spectral_norm(module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None) -> Any:
    """Divide a weight by its largest singular value, which is estimated anew at each call in training.

    Args:
        module: changed in place.
        name: of the weight.
        n_power_iterations: steps of the power method at each call.
        eps: for the normalization of vectors.
        dim: dimension of the outputs; 1 for transposed convolutions and 0 for others when None.
    Returns:
        ``module``.
    Raises:
        RuntimeError: the weight has such a hook already.
    Source: torch.nn.utils.spectral_norm. Miyato et al. 2018.
    Example:
        >>> layer = nn.utils.spectral_norm(nn.Linear(3, 2))
        >>> sorted(layer.state_dict())
        ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    if dim is None:
        dim = 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0
    SpectralNorm.apply(module, name, n_power_iterations, dim, eps)
    return module


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Undo ``spectral_norm``; the weight keeps its value.

    Args:
        module: changed in place.
        name: of the weight.
    Returns:
        ``module``.
    Raises:
        ValueError: the weight has no such hook.
    Source: torch.nn.utils.remove_spectral_norm.
    Example:
        >>> layer = nn.utils.remove_spectral_norm(nn.utils.spectral_norm(nn.Linear(3, 2)))
        >>> sorted(layer.state_dict())
        ['bias', 'weight']
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            break
    else:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    for hooks, kind in (
        (module._state_dict_hooks, SpectralNormStateDictHook),
        (module._load_state_dict_pre_hooks, SpectralNormLoadStateDictPreHook),
    ):
        for key, hook in list(hooks.items()):
            hook = getattr(hook, "hook", hook)
            if isinstance(hook, kind) and hook.fn.name == name:
                del hooks[key]
                break
    return module
