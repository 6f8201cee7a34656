"""Parametrizations that are ready to use: orthogonal matrices, weight norm and spectral norm."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from ... import ops
from ...autograd.grad_mode import no_grad
from ...core.tensor import Tensor
from .. import functional as F
from ..conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..module import Module
from . import parametrize

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


# -- orthogonal matrices -------------------------------------------------------------------------------------------------------
def _identity(n: int, like: Any) -> Any:
    return ops.eye(n, dtype=like.dtype, device=like.device)


def _is_orthogonal(Q: Any) -> bool:
    n, k = Q.size(-2), Q.size(-1)
    return bool(ops.allclose(Q.mH @ Q, _identity(k, Q), atol=10.0 * n * float(np.finfo(Q.dtype.numpy).eps)))


def _make_orthogonal(A: Any) -> Any:
    """Q of the QR decomposition whose R has a positive diagonal."""
    X, tau = ops.geqrf(A)
    return ops.resolve("linalg", "householder_product")(X, tau) * X.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _OrthMaps(enum.Enum):
    matrix_exp = enum.auto()
    cayley = enum.auto()
    householder = enum.auto()


class _Orthogonal(Module):
    base: Tensor

    def __init__(self, weight: Any, orthogonal_map: _OrthMaps, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map is _OrthMaps.householder:
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Any) -> Any:
        transposed = X.size(-2) < X.size(-1)
        X = X.mT if transposed else X
        Q = self._reflected(X) if self.orthogonal_map is _OrthMaps.householder else self._rotated(X)
        if hasattr(self, "base"):
            Q = self.base @ Q
        return Q.mT if transposed else Q

    def _rotated(self, X: Any) -> Any:
        """A map of the skew-symmetric matrix that ``X`` is one half of."""
        n, k = X.shape[-2:]
        X = X.tril()
        if n != k:
            X = ops.cat([X, X.new_zeros(n, n - k).expand(*X.shape[:-2], -1, -1)], dim=-1)
        A = X - X.mH
        if self.orthogonal_map is _OrthMaps.matrix_exp:
            return ops.resolve("linalg", "matrix_exp")(A)[..., :k]
        identity = _identity(n, A)
        return (ops.resolve("linalg", "inv")(identity - 0.5 * A) @ (identity + 0.5 * A))[..., :k]

    def _reflected(self, X: Any) -> Any:
        A = X.tril(diagonal=-1)
        tau = 2.0 / (1.0 + (A * A).sum(dim=-2))
        # The diagonal of X is 1 or -1; as integers it has no gradient.
        return ops.resolve("linalg", "householder_product")(A, tau) * X.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)

    @no_grad()
    def right_inverse(self, Q: Any) -> Any:
        if Q.shape != self.shape:
            raise ValueError(f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {Q.shape}.")
        given, transposed = Q, Q.size(-2) < Q.size(-1)
        Q = Q.mT if transposed else Q
        n, k = Q.shape[-2:]
        if not hasattr(self, "base"):
            if self.orthogonal_map is not _OrthMaps.householder:
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley parametrizations when use_trivialization=False."
                )
            A, tau = ops.geqrf(Q)
            A.diagonal(dim1=-2, dim2=-1).sign_()
            A.diagonal(dim1=-2, dim2=-1)[tau == 0.0] *= -1
            return A.mT if transposed else A
        if n != k:  # the other columns at random
            others = ops.randn(*Q.shape[:-2], n, n - k, dtype=Q.dtype, device=Q.device)
            Q = _make_orthogonal(ops.cat([Q, others], dim=-1))
        else:
            Q = Q.clone() if _is_orthogonal(Q) else _make_orthogonal(Q)
        self.base = Q
        start = ops.zeros_like(given)
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return start


def orthogonal(module: Any, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True) -> Any:
    """Keep a weight orthogonal, or unitary: its rows or columns, whichever are fewer, orthonormal.

    Args:
        module: changed in place.
        name: of the weight, ``(*, n, k)``.
        orthogonal_map: ``"matrix_exp"``, ``"cayley"`` or ``"householder"``; chosen by the weight's shape when None.
        use_trivialization: multiply by the present weight, which is made orthogonal; then it can be assigned with all three.
    Returns:
        ``module``.
    Raises:
        ValueError: no such weight, fewer than 2 dimensions, or another map.
    Source: torch.nn.utils.parametrizations.orthogonal. Lezcano-Casado 2019.
    Example:
        >>> layer = nn.utils.parametrizations.orthogonal(nn.Linear(3, 2))
        >>> torch.allclose(layer.weight @ layer.weight.T, torch.eye(2), atol=1e-5)
        True
    """
    weight: Any = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.size(-2) == weight.size(-1) or weight.is_complex() else "householder"
    chosen = getattr(_OrthMaps, orthogonal_map, None)
    if chosen is None:
        raise ValueError(f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}')
    parametrization = _Orthogonal(weight, chosen, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, parametrization, unsafe=True)


# -- weight norm ---------------------------------------------------------------------------------------------------------------
class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Any, weight_v: Any) -> Any:
        return ops.resolve("torch", "_weight_norm")(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Any) -> tuple[Any, Any]:
        return ops.norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Any, name: str = "weight", dim: int = 0) -> Any:
    """Split a weight into its magnitude and its direction: ``original0 * original1 / norm(original1)``.

    Args:
        module: changed in place; it reads states of the old ``weight_norm`` too.
        name: of the weight.
        dim: dimension whose indices have magnitudes of their own; None for one magnitude.
    Returns:
        ``module``.
    Source: torch.nn.utils.parametrizations.weight_norm. Salimans and Kingma 2016.
    Example:
        >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
        >>> [(name, tuple(parameter.shape)) for name, parameter in layer.named_parameters()][1:]
        [('parametrizations.weight.original0', (2, 1)), ('parametrizations.weight.original1', (2, 3))]
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def read_old_names(state_dict: Any, prefix: str, *rest: Any) -> None:
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(read_old_names)
    return module


# -- spectral norm -------------------------------------------------------------------------------------------------------------
class _SpectralNorm(Module):
    def __init__(self, weight: Any, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        ndim = weight.ndim
        if dim >= ndim or dim < -ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
        self.dim = dim if dim >= 0 else dim + ndim
        self.eps = eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._reshape_weight_to_matrix(weight)
            height, width = matrix.size()
            u = matrix.new_empty(height).normal_(0, 1)
            v = matrix.new_empty(width).normal_(0, 1)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
            self._power_method(matrix, 15)  # near the singular vectors before the first use

    def _reshape_weight_to_matrix(self, weight: Any) -> Any:
        if weight.ndim <= 1:
            raise AssertionError(f"Expected weight to have more than 1 dimension, got {weight.ndim}")
        return weight.movedim(self.dim, 0).flatten(1)

    @no_grad()
    def _power_method(self, weight_mat: Any, n_power_iterations: int) -> None:
        if weight_mat.ndim <= 1:
            raise AssertionError(f"Expected weight_mat to have more than 1 dimension, got {weight_mat.ndim}")
        for _ in range(n_power_iterations):
            self._u.copy_(F.normalize(weight_mat.mv(self._v), dim=0, eps=self.eps))
            self._v.copy_(F.normalize(weight_mat.mH.mv(self._u), dim=0, eps=self.eps))

    def forward(self, weight: Any) -> Any:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._reshape_weight_to_matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # Copies: the next call changes the buffers in place, which this call's derivative needs.
        u, v = self._u.clone(), self._v.clone()
        return weight / ops.vdot(u, matrix.mv(v))

    def right_inverse(self, value: Any) -> Any:
        return value  # no inverse: what is assigned is normalized at its next use


def spectral_norm(module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None) -> Any:
    """Divide a weight by its largest singular value, which is estimated anew at each use in training.

    Args:
        module: changed in place.
        name: of the weight.
        n_power_iterations: steps of the power method at each use.
        eps: for the normalization of vectors.
        dim: dimension of the outputs; 1 for transposed convolutions and 0 for others when None.
    Returns:
        ``module``.
    Raises:
        ValueError: no such weight, or no steps.
        IndexError: ``dim`` out of range.
    Source: torch.nn.utils.parametrizations.spectral_norm. Miyato et al. 2018.
    Example:
        >>> layer = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3), n_power_iterations=100)
        >>> torch.linalg.matrix_norm(layer.weight, 2).detach().round(decimals=3)
        tensor(1.)
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        dim = 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0
    parametrization = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return parametrize.register_parametrization(module, name, parametrization)
