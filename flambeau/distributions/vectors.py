"""Distributions of vectors: normal ones, and points of the simplex."""

from __future__ import annotations

import math
from typing import Any

from .. import linalg, ops
from ..core.shape import Size, broadcast_shape
from ..core.tensor import Tensor
from . import constraints
from .distribution import Distribution, Parametric
from .exp_family import ExponentialFamily
from .location_scale import Normal
from .transformed_distribution import FromBase
from .transforms import StickBreakingTransform
from .utils import _standard_normal, functional, lazy_property, same_as

__all__ = ["Dirichlet", "LogisticNormal", "LowRankMultivariateNormal", "MultivariateNormal"]


class Dirichlet(ExponentialFamily, Parametric):
    """The Dirichlet distribution of shares that add up to 1.

    Args:
        concentration: ``(*, shares)``, positive.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is ``(*)``, ``event_shape`` ``(shares,)``.
    Raises:
        ValueError: ``concentration`` without a dimension or not positive; a value whose sum is not 1.
    Source: torch.distributions.Dirichlet. Gradients of samples: Figurnov et al. 2018, "Implicit reparameterization gradients".
    Example:
        >>> shares = Dirichlet(torch.tensor([2.0, 3.0, 5.0]))
        >>> shares.mean, shares.variance
        (tensor([0.2000, 0.3000, 0.5000]), tensor([0.0145, 0.0191, 0.0227]))
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    concentration: Tensor

    def __init__(self, concentration: Tensor, validate_args: bool | None = None):
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return ops._sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        c = self.concentration
        return ops.xlogy(c - 1.0, value).sum(-1) + ops.lgamma(c.sum(-1)) - ops.lgamma(c).sum(-1)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        """Mode; if all concentrations are below 1, the corner of the largest one."""
        excess = (self.concentration - 1).clamp(min=0.0)
        mode = excess / excess.sum(-1, True)
        corner = functional.one_hot(mode.argmax(-1), mode.shape[-1]).to(mode)
        return ops.where((self.concentration < 1).all(-1, True), corner, mode)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def entropy(self) -> Tensor:
        c = self.concentration
        k, total = c.shape[-1], c.sum(-1)
        log_beta = ops.lgamma(c).sum(-1) - ops.lgamma(total)
        return log_beta - (k - total) * ops.digamma(total) - ((c - 1.0) * ops.digamma(c)).sum(-1)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.lgamma().sum(-1) - ops.lgamma(x.sum(-1))


class LogisticNormal(FromBase):
    """Shares made by stick breaking from independent normal numbers, one less than shares.

    Args:
        loc: means of the numbers, ``(*, shares - 1)``.
        scale: their standard deviations, positive; broadcasts with ``loc``.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is ``(*)``, ``event_shape`` ``(shares,)``.
    Raises:
        ValueError: ``scale`` not positive.
    Source: torch.distributions.LogisticNormal. Aitchison and Shen 1980, "Logistic-normal distributions".
    Example:
        >>> shares = LogisticNormal(torch.zeros(2), torch.ones(2))
        >>> shares.event_shape, shares.sample().sum().round(decimals=4)
        (torch.Size([3]), tensor(1.))
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True
    _of_base = ("loc", "scale")

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None):
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base if base.batch_shape else base.expand([1]), StickBreakingTransform(), validate_args=validate_args)


# -- normal vectors ---------------------------------------------------------------------------------------------------------------
def _batch_mv(bmat: Tensor, bvec: Tensor) -> Tensor:
    """Matrices times vectors, both in batches."""
    return (bmat @ bvec.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(bL: Tensor, bx: Tensor) -> Tensor:
    """Squared lengths of vectors, measured by ``M = L L^T``: ``x^T M^-1 x``.

    Args:
        bL: Cholesky factors ``(*b, n, n)``. bx: ``(*s, *b, n)``.
    Returns:
        ``(*s, *b)``. What the batch of ``bL`` does not have are columns of one system: no factor is repeated.
    """
    n = bx.shape[-1]
    batch = broadcast_shape(bL.shape[:-2], bx.shape[:-1][bx.dim() - bL.dim() + 1 :]) if bL.dim() > 2 else Size()
    bx = bx.expand(broadcast_shape(bx.shape, (*batch, n)))
    outer = bx.shape[: bx.dim() - 1 - len(batch)]
    columns = bx.reshape((-1, *batch, n)).movedim(0, -1)
    solved = linalg.solve_triangular(bL.expand((*batch, n, n)), columns, upper=False)
    return solved.pow(2).sum(-2).movedim(-1, 0).reshape((*outer, *batch))


def _precision_to_scale_tril(P: Tensor) -> Tensor:
    """The Cholesky factor of the inverse of ``P``: of the matrix with both axes turned round, turned back and inverted."""
    turned = linalg.cholesky(P.flip((-2, -1)))
    identity = ops.eye(P.shape[-1], dtype=P.dtype, device=P.device)
    return linalg.solve_triangular(turned.flip((-2, -1)).mT, identity, upper=False)


class MultivariateNormal(Distribution):
    """The normal distribution of vectors, known by exactly one of three matrices.

    Args:
        loc: the mean, ``(*, n)``.
        covariance_matrix: ``(*, n, n)``, positive definite.
        precision_matrix: its inverse, in its place.
        scale_tril: its lower Cholesky factor, in its place; the quickest.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is ``(*)``, ``event_shape`` ``(n,)``.
    Raises:
        ValueError: none or several of the matrices, or one that is not positive definite.
    Source: torch.distributions.MultivariateNormal.
    Example:
        >>> normal = MultivariateNormal(torch.zeros(2), torch.tensor([[2.0, 0.0], [0.0, 8.0]]))
        >>> normal.scale_tril, normal.log_prob(torch.zeros(2))
        (tensor([[1.4142, 0.0000],
                [0.0000, 2.8284]]), tensor(-3.2242))
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    _MATRICES = {"scale_tril": "scale_tril matrix", "covariance_matrix": "covariance_matrix", "precision_matrix": "precision_matrix"}
    mean: Tensor = same_as("loc")
    mode: Tensor = same_as("loc")

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = _only_matrix(covariance_matrix, precision_matrix, scale_tril, ValueError)
        if matrix.dim() < 2:
            raise ValueError(f"{self._MATRICES[name]} must be at least two-dimensional, with optional leading batch dimensions")
        batch_shape = Size(broadcast_shape(matrix.shape[:-2], loc.shape[:-1]))
        event_shape = loc.shape[-1:]
        setattr(self, name, matrix.expand(batch_shape + matrix.shape[-2:]))
        self.loc = loc.expand(batch_shape + event_shape)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._unbroadcasted_scale_tril = _factor(name, matrix)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(MultivariateNormal, _instance)
        batch_shape = Size(batch_shape)
        new.loc = self.loc.expand(batch_shape + self.event_shape)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        for name in self._MATRICES:
            if name in self.__dict__:
                setattr(new, name, self.__dict__[name].expand(batch_shape + self.event_shape * 2))
        return self._completed(new, batch_shape)

    def _of_each(self, matrix: Tensor) -> Tensor:
        """A matrix for every distribution of the batch."""
        return matrix.expand(self._batch_shape + self._event_shape * 2)

    @lazy_property
    def scale_tril(self) -> Tensor:
        return self._of_each(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        return self._of_each(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        return self._of_each(ops.cholesky_inverse(self._unbroadcasted_scale_tril))

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        noise = _standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, noise)

    def _half_log_det(self) -> Tensor:
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        distance = _batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - self._half_log_det()

    def entropy(self) -> Tensor:
        entropy = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._half_log_det()
        return entropy.expand(self._batch_shape)


def _only_matrix(
    covariance_matrix: Tensor | None, precision_matrix: Tensor | None, scale_tril: Tensor | None, error: type[Exception]
) -> tuple[str, Tensor]:
    """Name and value of the one matrix that was given."""
    matrices = {"scale_tril": scale_tril, "covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix}
    given = [(name, matrix) for name, matrix in matrices.items() if matrix is not None]
    if len(given) != 1:
        raise error("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
    return given[0]


def _factor(name: str, matrix: Tensor) -> Tensor:
    """The lower Cholesky factor of the covariance, from the matrix of that name."""
    if name == "scale_tril":
        return matrix
    return linalg.cholesky(matrix) if name == "covariance_matrix" else _precision_to_scale_tril(matrix)


# -- covariances of a low rank and a diagonal -------------------------------------------------------------------------------------
def _batch_capacitance_tril(W: Tensor, D: Tensor) -> Tensor:
    """The Cholesky factor of ``I + W^T D^-1 W``, which stands for the inverse of ``W W^T + D`` (Woodbury's identity)."""
    identity = ops.eye(W.shape[-1], dtype=W.dtype, device=W.device)
    return linalg.cholesky(identity + (W.mT / D.unsqueeze(-2)) @ W)


def _batch_lowrank_logdet(W: Tensor, D: Tensor, capacitance_tril: Tensor) -> Tensor:
    """``log det(W W^T + D)``, by the matrix determinant lemma."""
    return 2 * capacitance_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1) + D.log().sum(-1)


def _batch_lowrank_mahalanobis(W: Tensor, D: Tensor, x: Tensor, capacitance_tril: Tensor) -> Tensor:
    """``x^T (W W^T + D)^-1 x``, by Woodbury's identity."""
    projected = _batch_mv(W.mT / D.unsqueeze(-2), x)
    return (x.pow(2) / D).sum(-1) - _batch_mahalanobis(capacitance_tril, projected)


class LowRankMultivariateNormal(Distribution):
    """The normal distribution of vectors with covariance ``W W^T + D``: linear in the number of their elements.

    Args:
        loc: the mean, ``(*, n)``.
        cov_factor: W, ``(*, n, rank)``.
        cov_diag: the diagonal of D, ``(*, n)``, positive.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is ``(*)``, ``event_shape`` ``(n,)``.
    Raises:
        ValueError: shapes that do not fit, or ``cov_diag`` not positive.
    Source: torch.distributions.LowRankMultivariateNormal.
    Example:
        >>> normal = LowRankMultivariateNormal(torch.zeros(2), torch.tensor([[1.0], [2.0]]), torch.ones(2))
        >>> normal.covariance_matrix
        tensor([[2., 2.],
                [2., 5.]])
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    mean: Tensor = same_as("loc")
    mode: Tensor = same_as("loc")

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m")
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
        try:
            batch_shape = Size(broadcast_shape(broadcast_shape(loc.shape[:-1], cov_factor.shape[:-2]), cov_diag.shape[:-1]))
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            ) from error
        self.loc = loc.expand(batch_shape + event_shape)
        self.cov_factor = cov_factor.expand(batch_shape + cov_factor.shape[-2:])
        self.cov_diag = cov_diag.expand(batch_shape + event_shape)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = _batch_capacitance_tril(cov_factor, cov_diag)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(LowRankMultivariateNormal, _instance)
        batch_shape = Size(batch_shape)
        new.loc = self.loc.expand(batch_shape + self.event_shape)
        new.cov_diag = self.cov_diag.expand(batch_shape + self.event_shape)
        new.cov_factor = self.cov_factor.expand(batch_shape + self.cov_factor.shape[-2:])
        for name in ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril"):
            setattr(new, name, getattr(self, name))
        return self._completed(new, batch_shape)

    def _of_each(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + self._event_shape * 2)

    @lazy_property
    def variance(self) -> Tensor:
        variance = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return variance.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        # The factor of D^-1/2 (W W^T + D) D^-1/2, whose diagonal is not small, scaled back.
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        identity = ops.eye(self._event_shape[0], dtype=scaled.dtype, device=scaled.device)
        return self._of_each(root * linalg.cholesky(scaled @ scaled.mT + identity))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        factor = self._unbroadcasted_cov_factor
        return self._of_each(factor @ factor.mT + self._unbroadcasted_cov_diag.diag_embed())

    @lazy_property
    def precision_matrix(self) -> Tensor:
        # Woodbury: D^-1 - D^-1 W (I + W^T D^-1 W)^-1 W^T D^-1
        diagonal = self._unbroadcasted_cov_diag
        half = linalg.solve_triangular(self._capacitance_tril, self._unbroadcasted_cov_factor.mT / diagonal.unsqueeze(-2), upper=False)
        return self._of_each(diagonal.reciprocal().diag_embed() - half.mT @ half)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        of_factor = _standard_normal(shape[:-1] + self.cov_factor.shape[-1:], self.loc.dtype, self.loc.device)
        of_diagonal = _standard_normal(shape, self.loc.dtype, self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_cov_factor, of_factor) + self._unbroadcasted_cov_diag.sqrt() * of_diagonal

    def _log_det(self) -> Tensor:
        return _batch_lowrank_logdet(self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, self._capacitance_tril)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        distance = _batch_lowrank_mahalanobis(
            self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, value - self.loc, self._capacitance_tril
        )
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_det() + distance)

    def entropy(self) -> Tensor:
        entropy = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._log_det())
        return entropy.expand(self._batch_shape)
