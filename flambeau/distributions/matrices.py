"""Distributions of matrices."""

from __future__ import annotations

import math
import warnings
from numbers import Number
from typing import Any

from .. import linalg, ops
from ..autograd import no_grad
from ..core.shape import Size, broadcast_shape
from ..core.tensor import Tensor
from ..ops.inspection import finfo
from . import constraints
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .positive import Chi2
from .unit_interval import Beta
from .utils import broadcast_all, lazy_property
from .vectors import _factor, _only_matrix

__all__ = ["LKJCholesky", "Wishart"]


class LKJCholesky(Distribution):
    """Lower Cholesky factors of matrices of correlations, whose density is a power of their determinant.

    Args:
        dim: rows of a matrix, 2 or more.
        concentration: positive; 1 makes all matrices of correlations equally likely, more those near the identity.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is that of ``concentration``, ``event_shape`` ``(dim, dim)``.
    Raises:
        ValueError: ``dim`` below 2, or ``concentration`` not positive.
    Source: torch.distributions.LKJCholesky. Lewandowski, Kurowicka and Joe 2009, "Generating random correlation matrices based on vines
        and extended onion method", section 3.2.
    Example:
        >>> factor = LKJCholesky(3, 0.5).sample()
        >>> factor.shape, (factor @ factor.T).diagonal().round(decimals=4)
        (torch.Size([3, 3]), tensor([1., 1., 1.]))
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None):
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        like = {"dtype": self.concentration.dtype, "device": self.concentration.device}
        # What is left to the diagonal of each row is a beta number; the first row has a stand-in, which sample() does not use.
        row = ops.cat([ops.zeros((1,), **like), ops.arange(dim - 1, **like)])
        self._beta = Beta(row + 0.5, (self.concentration + 0.5 * (dim - 2)).unsqueeze(-1) - 0.5 * row)
        super().__init__(self.concentration.shape, Size((dim, dim)), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(LKJCholesky, _instance)
        batch_shape = Size(batch_shape)
        new.dim = self.dim
        new.concentration = self.concentration.expand(batch_shape)
        new._beta = self._beta.expand(batch_shape + (self.dim,))
        return self._completed(new, batch_shape)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            squared_length = self._beta.sample(sample_shape).unsqueeze(-1)
            noise = ops.randn(self._extended_shape(sample_shape), dtype=self.concentration.dtype, device=self.concentration.device).tril(-1)
            direction = noise / noise.square().sum(-1, True).sqrt()
            direction[..., 0, :].fill_(0.0)
            below = squared_length.sqrt() * direction
            diagonal = (1 - below.square().sum(-1)).clamp(min=finfo(below.dtype).tiny).sqrt()
            return below + diagonal.diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        rest = self.dim - 1
        powers = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - ops.arange(2, self.dim + 1, device=self.concentration.device)
        density = (powers * value.diagonal(dim1=-1, dim2=-2)[..., 1:].log()).sum(-1)
        alpha = self.concentration + 0.5 * rest
        normalizer = 0.5 * rest * math.log(math.pi) + ops.mvlgamma(alpha - 0.5, rest) - ops.lgamma(alpha) * rest
        return density - normalizer


def _mvdigamma(x: Tensor, p: int) -> Tensor:
    """The derivative of the logarithm of the multivariate gamma function."""
    return ops.digamma(x.unsqueeze(-1) - ops.arange(p, dtype=x.dtype, device=x.device).div(2)).sum(-1)


class Wishart(ExponentialFamily):
    """The Wishart distribution of positive-definite matrices, known by exactly one of three matrices.

    Args:
        df: degrees of freedom, a number or ``(*)``, more than ``n - 1``.
        covariance_matrix: the scale matrix, ``(*, n, n)``; the mean is ``df`` times it.
        precision_matrix: its inverse, in its place.
        scale_tril: its lower Cholesky factor, in its place.
        validate_args: whether parameters and values are checked.
    Shape: ``batch_shape`` is ``(*)``, ``event_shape`` ``(n, n)``.
    Raises:
        ValueError: too few degrees of freedom, or matrices without rows and columns.
        AssertionError: none or several of the matrices.
    Source: torch.distributions.Wishart. Samples: Bartlett's decomposition, Muirhead, "Aspects of multivariate statistical theory", 1982,
        section 3.2.4.
    Example:
        >>> Wishart(3.0, torch.eye(2)).mean
        tensor([[3., 0.],
                [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _MATRICES = ("scale_tril", "covariance_matrix", "precision_matrix")

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ):
        name, matrix = _only_matrix(covariance_matrix, precision_matrix, scale_tril, AssertionError)
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        df = ops.tensor(df, dtype=matrix.dtype, device=matrix.device) if isinstance(df, Number) else df
        batch_shape = Size(broadcast_shape(matrix.shape[:-2], df.shape))
        event_shape = matrix.shape[-2:]
        if bool((df <= event_shape[-1] - 1).any()):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {event_shape[-1] - 1}.")
        self.df = df.expand(batch_shape)
        setattr(self, name, matrix.expand(batch_shape + (-1, -1)))
        if bool((self.df < event_shape[-1]).any()):
            warnings.warn("Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.", stacklevel=2)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._batch_dims = [-(dim + 1) for dim in range(len(batch_shape))]
        self._unbroadcasted_scale_tril = _factor(name, matrix)
        falling = ops.arange(event_shape[-1], dtype=matrix.dtype, device=matrix.device)
        self._dist_chi2 = Chi2(self.df.unsqueeze(-1) - falling.expand(batch_shape + (-1,)))

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Wishart, _instance)
        batch_shape = Size(batch_shape)
        new.df = self.df.expand(batch_shape)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        new._batch_dims = [-(dim + 1) for dim in range(len(batch_shape))]
        for name in self._MATRICES:
            if name in self.__dict__:
                setattr(new, name, self.__dict__[name].expand(batch_shape + self.event_shape))
        new._dist_chi2 = self._dist_chi2.expand(batch_shape + self.event_shape[-1:])
        return self._completed(new, batch_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        return self._unbroadcasted_scale_tril.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        factor = self._unbroadcasted_scale_tril
        return (factor @ factor.mT).expand(self._batch_shape + self._event_shape)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        return ops.cholesky_inverse(self._unbroadcasted_scale_tril).expand(self._batch_shape + self._event_shape)

    def _df_of_matrices(self) -> Tensor:
        return self.df.view(self._batch_shape + (1, 1))

    @property
    def mean(self) -> Tensor:
        return self._df_of_matrices() * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """NaN where the degrees of freedom are at most ``n + 1``."""
        factor = self._df_of_matrices() - self._event_shape[-1] - 1
        return ops.where(factor <= 0, math.nan, factor) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        scale = self.covariance_matrix
        diagonal = scale.diagonal(dim1=-2, dim2=-1)
        return self._df_of_matrices() * (scale.pow(2) + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def _bartlett_sampling(self, sample_shape: Any = ()) -> Tensor:
        """Matrices, some of which may be singular by rounding."""
        n = self._event_shape[-1]
        chi = self._dist_chi2.rsample(sample_shape)
        noise = chi.sqrt().clamp(min=finfo(chi.dtype).eps).diag_embed()
        rows, columns = ops.tril_indices(n, n, offset=-1)
        shape = Size((*sample_shape, *self._batch_shape, n * (n - 1) // 2))
        noise[..., rows, columns] = ops.randn(shape, dtype=noise.dtype, device=noise.device)
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def rsample(self, sample_shape: Any = (), max_try_correction: int | None = None) -> Tensor:
        """Matrices; singular ones are drawn again.

        Args:
            sample_shape: how many. max_try_correction: how often singular ones are drawn again; 10 when None.
        """
        sample_shape = Size(sample_shape)
        # PyTorch 2.13 draws regular matrices a second time, because its test is inverted. So does this, to give the same numbers.
        self._bartlett_sampling(sample_shape)
        sample = self._bartlett_sampling(sample_shape)
        for _ in range(10 if max_try_correction is None else max_try_correction):
            singular = ~self.support.check(sample)
            if not bool(singular.any()):
                return sample
            warnings.warn("Singular sample detected.", stacklevel=2)
            sample = ops.where(singular[..., None, None], self._bartlett_sampling(sample_shape), sample)
        return sample

    def _half_log_det(self) -> Tensor:
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._check_sample(value)
        nu, n = self.df, self._event_shape[-1]
        factor = self._unbroadcasted_scale_tril
        trace = ops.cholesky_solve(value, factor.expand(broadcast_shape(value.shape, factor.shape))).diagonal(dim1=-2, dim2=-1).sum(-1)
        return (
            -nu * (n * math.log(2) / 2 + self._half_log_det())
            - ops.mvlgamma(nu / 2, n)
            + (nu - n - 1) / 2 * linalg.slogdet(value).logabsdet
            - trace / 2
        )

    def entropy(self) -> Tensor:
        nu, n = self.df, self._event_shape[-1]
        return (
            (n + 1) * (n * math.log(2) / 2 + self._half_log_det())
            + ops.mvlgamma(nu / 2, n)
            - (nu - n - 1) / 2 * _mvdigamma(nu / 2, n)
            + nu * n / 2
        )

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        n = self._event_shape[-1]
        half_df = y + (n + 1) / 2
        return half_df * (-linalg.slogdet(-2 * x).logabsdet + math.log(2) * n) + ops.mvlgamma(half_df, n)
