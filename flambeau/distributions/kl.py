"""The Kullback-Leibler divergence of two distributions: ``E_p[log p(x) - log q(x)]``, in nats.

For two distributions of one family there are formulas. For two families the divergence is composed of the entropy of ``p`` and the
expectation of ``log q(x)``, which is a sum of a few expectations under ``p``:

    KL(p, q) = -H(p) - E_p[log q(x)]        log q(x) = ... E[x], E[x**2], E[log x], E[log(1 - x)], E[exp(-x / s)]

Where ``p`` has values at which the density of ``q`` is zero, the divergence is infinite.

Source: Gil, Alajaji and Linder 2013, "Renyi divergence measures for commonly used univariate continuous distributions"; Cover and Thomas,
"Elements of information theory", 2006, chapters 2 and 8.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from .. import linalg, ops
from ..autograd import grad
from ..core.shape import broadcast_shape
from ..core.tensor import Tensor
from .categories import Categorical, OneHotCategorical
from .counts import Bernoulli, Binomial, Geometric, Poisson
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .independent import Independent
from .location_scale import Cauchy, Gumbel, HalfNormal, Laplace, Normal, Uniform
from .positive import Exponential, Gamma, Pareto
from .transformed_distribution import TransformedDistribution
from .unit_interval import Beta, ContinuousBernoulli
from .utils import _sum_rightmost, euler_constant, functional
from .vectors import Dirichlet, LowRankMultivariateNormal, MultivariateNormal, _batch_lowrank_mahalanobis, _batch_mahalanobis

__all__ = ["kl_divergence", "register_kl"]

Rule = Callable[[Any, Any], Tensor]
_KL_REGISTRY: dict[tuple[type, type], Rule] = {}
_KL_MEMOIZE: dict[tuple[type, type], Any] = {}


def register_kl(type_p: Any, type_q: Any) -> Callable[[Rule], Rule]:
    """A decorator that registers the divergence of two classes of distributions and their subclasses.

    Of several rules that match, the one for the nearest base classes is used. Where one is nearer in ``p`` and another in ``q``, the
    nearest in ``p`` is used, with a warning.

    Args:
        type_p: class of the first distribution; a package may have a base class of its own.
        type_q: class of the second.
    Returns: the decorator, which returns the rule unchanged; a rule takes ``(p, q)`` and returns a tensor of shape ``batch_shape``.
    Raises:
        TypeError: no classes.
    Source: torch.distributions.register_kl.
    Example:
        >>> class Fixed(torch.distributions.Normal):
        ...     pass
        >>> rule = register_kl(Fixed, Fixed)(lambda p, q: torch.zeros(()))
        >>> kl_divergence(Fixed(0.0, 1.0), Fixed(5.0, 1.0))
        tensor(0.)
    """
    for name, cls in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(cls, type):
            raise TypeError(f"Expected {name} to be a subclass of Distribution but got {cls}")

    def decorator(rule: Rule) -> Rule:
        _KL_REGISTRY[type_p, type_q] = rule
        _KL_MEMOIZE.clear()
        return rule

    return decorator


def _distance(cls: type, base: type) -> int:
    """Distance of a base class in the method resolution order; virtual base classes are the farthest."""
    return cls.__mro__.index(base) if base in cls.__mro__ else len(cls.__mro__)


def _dispatch_kl(type_p: type, type_q: type) -> Any:
    """The rule for two classes; NotImplemented where there is none."""
    fitting = [
        (_distance(type_p, p), _distance(type_q, q), p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)
    ]
    if not fitting:
        return NotImplemented
    left = min(fitting, key=lambda match: match[:2])[2:]
    right = min(fitting, key=lambda match: match[1::-1])[2:]
    if _KL_REGISTRY[left] is not _KL_REGISTRY[right]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please register_kl({left[0].__name__}, {right[1].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return _KL_REGISTRY[left]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The divergence of ``q`` from ``p``, for each member of the batch.

    Args:
        p: the distribution that values come from.
        q: the distribution that is compared with it, of the same event shape.
    Returns: a tensor of the two batch shapes broadcast together, in nats; infinite where ``q`` excludes what ``p`` allows.
    Raises:
        NotImplementedError: no rule is registered for the two.
    Source: torch.distributions.kl_divergence.
    Example:
        >>> p = torch.distributions.Bernoulli(torch.tensor([0.5, 0.9]))
        >>> kl_divergence(p, torch.distributions.Bernoulli(0.5))
        tensor([0.0000, 0.3681])
    """
    key = type(p), type(q)
    rule = _KL_MEMOIZE.get(key)
    if rule is None:
        rule = _KL_MEMOIZE[key] = _dispatch_kl(*key)
    if rule is NotImplemented:
        raise NotImplementedError(f"No KL(p || q) is implemented for p type {key[0].__name__} and q type {key[1].__name__}")
    return rule(p, q)


# -- one family -------------------------------------------------------------------------------------------------------------------
@register_kl(Bernoulli, Bernoulli)
def _kl_bernoulli_bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    one = p.probs * (functional.softplus(-q.logits) - functional.softplus(-p.logits))
    zero = (1 - p.probs) * (functional.softplus(q.logits) - functional.softplus(p.logits))
    one = ops.where(p.probs == 0, 0.0, ops.where(q.probs == 0, math.inf, one))
    zero = ops.where(p.probs == 1, 0.0, ops.where(q.probs == 1, math.inf, zero))
    return one + zero


@register_kl(Binomial, Binomial)
def _kl_binomial_binomial(p: Binomial, q: Binomial) -> Tensor:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    of_one = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return ops.where(p.total_count > q.total_count, math.inf, p.total_count * of_one)


@register_kl(Categorical, Categorical)
def _kl_categorical_categorical(p: Categorical, q: Categorical) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    return ops.where(p.probs == 0, 0.0, ops.where(q.probs == 0, math.inf, terms)).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _kl_onehotcategorical_onehotcategorical(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _kl_categorical_categorical(p._categorical, q._categorical)


@register_kl(Geometric, Geometric)
def _kl_geometric_geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _kl_poisson_poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Exponential, Exponential)
def _kl_exponential_exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Gamma, Gamma)
def _kl_gamma_gamma(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    of_shapes = ops.lgamma(b) - ops.lgamma(a) + (a - b) * ops.digamma(a)
    return b * (p.rate / q.rate).log() + of_shapes + (q.rate - p.rate) * (a / p.rate)


@register_kl(Normal, Normal)
def _kl_normal_normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _kl_halfnormal_halfnormal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _kl_normal_normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _kl_laplace_laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * (-distance / p.scale).exp() - 1


@register_kl(Cauchy, Cauchy)
def _kl_cauchy_cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    """Chyzak and Nielsen 2019, "A closed-form formula for the Kullback-Leibler divergence between Cauchy distributions"."""
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(Gumbel, Gumbel)
def _kl_gumbel_gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, shift = p.scale / q.scale, (p.loc - q.loc) / q.scale
    return shift - ratio.log() + euler_constant * (ratio - 1) + (ops.lgamma(1 + ratio) - shift).exp() - 1


@register_kl(Uniform, Uniform)
def _kl_uniform_uniform(p: Uniform, q: Uniform) -> Tensor:
    inside = (q.low <= p.low) & (q.high >= p.high)
    return ops.where(inside, ((q.high - q.low) / (p.high - p.low)).log(), math.inf)


@register_kl(Pareto, Pareto)
def _kl_pareto_pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    return ops.where(p.scale < q.scale, math.inf, q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1)


@register_kl(Dirichlet, Dirichlet)
def _kl_dirichlet_dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    log_normalizers = ops.lgamma(a.sum(-1)) - ops.lgamma(b.sum(-1)) - (ops.lgamma(a) - ops.lgamma(b)).sum(-1)
    return log_normalizers + ((a - b) * (ops.digamma(a) - ops.digamma(a.sum(-1, True)))).sum(-1)


@register_kl(Beta, Beta)
def _kl_beta_beta(p: Beta, q: Beta) -> Tensor:
    return _kl_dirichlet_dirichlet(p._dirichlet, q._dirichlet)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _kl_continuous_bernoulli_continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    normalizers = p._cont_bern_log_norm() + (-p.probs).log1p() - q._cont_bern_log_norm() - (-q.probs).log1p()
    return p.mean * (p.logits - q.logits) + normalizers


# -- normal vectors ---------------------------------------------------------------------------------------------------------------
def _check_event_shapes(p: Distribution, q: Distribution, kind: str) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError(f"KL-divergence between two {kind} with different event shapes cannot be computed")


def _squares(matrix: Tensor) -> Tensor:
    return matrix.pow(2).sum((-2, -1))


def _squares_by(factor: Tensor, matrix: Tensor) -> Tensor:
    """The trace of ``(L L^T)^-1 B B^T`` for a lower triangular ``L``, in batches."""
    batch = broadcast_shape(factor.shape[:-2], matrix.shape[:-2])
    expanded = (value.expand((*batch, *value.shape[-2:])) for value in (factor, matrix))
    return _squares(linalg.solve_triangular(*expanded, upper=False))


@register_kl(MultivariateNormal, MultivariateNormal)
def _kl_multivariatenormal_multivariatenormal(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    _check_event_shapes(p, q, "Multivariate Normals")
    half_log_dets = q._half_log_det() - p._half_log_det()
    trace = _squares_by(q._unbroadcasted_scale_tril, p._unbroadcasted_scale_tril)
    distance = _batch_mahalanobis(q._unbroadcasted_scale_tril, q.loc - p.loc)
    return half_log_dets + 0.5 * (trace + distance - p.event_shape[0])


def _low_rank_distance(p: Any, q: LowRankMultivariateNormal) -> Tensor:
    """The squared distance of the means, measured by the covariance of ``q``."""
    return _batch_lowrank_mahalanobis(q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag, q.loc - p.loc, q._capacitance_tril)


def _low_rank_trace(factor: Tensor, q: LowRankMultivariateNormal) -> Tensor:
    """The trace of ``(W W^T + D)^-1 B B^T`` for the covariance of ``q`` and a matrix ``B``, by Woodbury's identity."""
    diagonal = q._unbroadcasted_cov_diag.unsqueeze(-1)
    projected = (q._unbroadcasted_cov_factor / diagonal).mT @ factor
    return _squares(factor / diagonal.sqrt()) - _squares_by(q._capacitance_tril, projected)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _kl_lowrankmultivariatenormal_lowrankmultivariatenormal(p: LowRankMultivariateNormal, q: LowRankMultivariateNormal) -> Tensor:
    _check_event_shapes(p, q, "Low Rank Multivariate Normals")
    log_dets = q._log_det() - p._log_det()
    trace = _low_rank_trace(p._unbroadcasted_cov_factor, q) + _low_rank_trace(p._unbroadcasted_cov_diag.sqrt().diag_embed(), q)
    return 0.5 * (log_dets + trace + _low_rank_distance(p, q) - p.event_shape[0])


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _kl_multivariatenormal_lowrankmultivariatenormal(p: MultivariateNormal, q: LowRankMultivariateNormal) -> Tensor:
    _check_event_shapes(p, q, "(Low Rank) Multivariate Normals")
    log_dets = q._log_det() - 2 * p._half_log_det()
    return 0.5 * (log_dets + _low_rank_trace(p._unbroadcasted_scale_tril, q) + _low_rank_distance(p, q) - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _kl_lowrankmultivariatenormal_multivariatenormal(p: LowRankMultivariateNormal, q: MultivariateNormal) -> Tensor:
    _check_event_shapes(p, q, "(Low Rank) Multivariate Normals")
    factor = q._unbroadcasted_scale_tril
    log_dets = 2 * q._half_log_det() - p._log_det()
    trace = _squares_by(factor, p._unbroadcasted_cov_factor) + _squares_by(factor, p._unbroadcasted_cov_diag.sqrt().diag_embed())
    return 0.5 * (log_dets + trace + _batch_mahalanobis(factor, q.loc - p.loc) - p.event_shape[0])


# -- families and wrappers --------------------------------------------------------------------------------------------------------
@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_expfamily_expfamily(p: Any, q: Any) -> Tensor:
    """The Bregman divergence of the log normalizer, of the natural parameters in reverse order."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman divergences"
        )
    of_p = [value if value.requires_grad else value.detach().requires_grad_() for value in p._natural_params]
    normalizer = p._log_normalizer(*of_p)
    gradients = grad(normalizer.sum(), of_p, create_graph=True)
    result = q._log_normalizer(*q._natural_params) - normalizer
    for ours, theirs, gradient in zip(of_p, q._natural_params, gradients):
        term = (theirs - ours) * gradient
        # What a parameter has beyond the dimensions of the batch belongs to the event: a matrix's two, a number's none.
        result = result - _sum_rightmost(term, max(term.dim() - result.dim(), 0))
    return result


@register_kl(Independent, Independent)
def _kl_independent_independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _kl_transformed_transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    """A bijection of both changes nothing."""
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), len(p.event_shape) - len(p.base_dist.event_shape))


# -- two families -----------------------------------------------------------------------------------------------------------------
def _mean_log_of_uniform(low: Tensor, high: Tensor) -> Tensor:
    return (ops.xlogy(high, high) - ops.xlogy(low, low)) / (high - low) - 1


_MEAN_LOG: dict[type, Callable[[Any], Tensor]] = {
    Beta: lambda p: ops.digamma(p.concentration1) - ops.digamma(p.concentration1 + p.concentration0),
    Exponential: lambda p: -euler_constant - p.rate.log(),
    Gamma: lambda p: ops.digamma(p.concentration) - p.rate.log(),
    Pareto: lambda p: p.scale.log() + p.alpha.reciprocal(),
    Uniform: lambda p: _mean_log_of_uniform(p.low, p.high),
}
_MEAN_LOG_OF_REST: dict[type, Callable[[Any], Tensor]] = {  # E[log(1 - x)]
    Uniform: lambda p: _mean_log_of_uniform(1 - p.high, 1 - p.low)
}
_LOG_MEAN_EXP: dict[type, Callable[[Any, Tensor], Tensor]] = {  # log E[exp(-t x)]
    Exponential: lambda p, t: -(t / p.rate).log1p(),
    Gamma: lambda p, t: -p.concentration * (t / p.rate).log1p(),
    Normal: lambda p, t: -t * p.loc + 0.5 * (t * p.scale).pow(2),
    Uniform: lambda p, t: -t * p.low + (-(-t * (p.high - p.low)).expm1() / (t * (p.high - p.low))).log(),
}


def _expectation(table: dict[type, Any], p: Distribution, *arguments: Tensor) -> Tensor:
    """Expectation under a distribution, by the table's function for its class or the nearest base class."""
    return next(table[kind] for kind in type(p).__mro__ if kind in table)(p, *arguments)


def _mean_log_prob_of_laplace(p: Normal, q: Laplace) -> Tensor:
    """With the mean of ``|x - m|``, a folded normal number's: Leone, Nelson and Nottingham 1961."""
    shift = p.loc - q.loc
    folded = p.scale * math.sqrt(2 / math.pi) * (-0.5 * (shift / p.scale).pow(2)).exp() + shift * ops.erf(shift / (p.scale * math.sqrt(2)))
    return -(2 * q.scale).log() - folded / q.scale


_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
_MEAN_LOG_PROB: dict[type, Rule] = {  # E_p[log q(x)], by the class of q
    Beta: lambda p, q: (
        (q.concentration1 - 1) * _expectation(_MEAN_LOG, p)
        + (q.concentration0 - 1) * _expectation(_MEAN_LOG_OF_REST, p)
        - q._log_normalizer(q.concentration1, q.concentration0)
    ),
    ContinuousBernoulli: lambda p, q: p.mean * q.logits + (-q.probs).log1p() + q._cont_bern_log_norm(),
    Exponential: lambda p, q: q.rate.log() - q.rate * p.mean,
    Gamma: lambda p, q: (
        q.concentration * q.rate.log() - ops.lgamma(q.concentration) + (q.concentration - 1) * _expectation(_MEAN_LOG, p) - q.rate * p.mean
    ),
    Gumbel: lambda p, q: (q.loc - p.mean) / q.scale - q.scale.log() - (_expectation(_LOG_MEAN_EXP, p, 1 / q.scale) + q.loc / q.scale).exp(),
    Laplace: _mean_log_prob_of_laplace,
    Normal: lambda p, q: -_LOG_ROOT_TWO_PI - q.scale.log() - 0.5 * (p.variance + (p.mean - q.loc).pow(2)) / q.scale.pow(2),
    Pareto: lambda p, q: q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * _expectation(_MEAN_LOG, p),
    Poisson: lambda p, q: p.mean * q.rate.log() - q.rate,  # of zeros and ones, whose factorials are 1
    Uniform: lambda p, q: -(q.high - q.low).log(),
}
_WITHIN: dict[tuple[type, type], Rule] = {  # where all values of p have a density under q; everywhere, if not listed
    **dict.fromkeys([(Beta, Uniform), (ContinuousBernoulli, Uniform)], lambda p, q: (q.low <= 0) & (q.high >= 1)),
    **dict.fromkeys([(Uniform, Beta), (Uniform, ContinuousBernoulli)], lambda p, q: (p.low >= 0) & (p.high <= 1)),
    **dict.fromkeys([(Uniform, Exponential), (Uniform, Gamma)], lambda p, q: p.low >= 0),
    (Uniform, Pareto): lambda p, q: p.low >= q.scale,
}
_FINITE: dict[type, tuple[type, ...]] = {
    Bernoulli: (Poisson,),
    Beta: (ContinuousBernoulli, Exponential, Gamma, Normal, Uniform),
    ContinuousBernoulli: (Exponential, Normal, Uniform),
    Exponential: (Gamma, Gumbel, Normal),
    Gamma: (Exponential, Gumbel, Normal),
    Gumbel: (Normal,),
    Laplace: (Normal,),
    Normal: (Gumbel, Laplace),
    Pareto: (Exponential, Gamma, Normal),
    Uniform: (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Normal, Pareto),
}
_INFINITE: dict[type, tuple[type, ...]] = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}


def _kl_infinite(p: Distribution, q: Distribution) -> Tensor:
    like = p.mean
    return ops.full(broadcast_shape(p.batch_shape, q.batch_shape), math.inf, dtype=like.dtype, device=like.device)


def _rule_of_parts(kind_p: type, kind_q: type) -> Rule:
    """The rule for distributions of two families, composed from the tables."""
    mean_log_prob, within = _MEAN_LOG_PROB[kind_q], _WITHIN.get((kind_p, kind_q))

    def rule(p: Any, q: Any) -> Tensor:
        divergence = -p.entropy() - mean_log_prob(p, q)
        return divergence if within is None else ops.where(within(p, q), divergence, math.inf)

    return rule


for _kind_p, _kinds in _FINITE.items():
    for _kind_q in _kinds:
        register_kl(_kind_p, _kind_q)(_rule_of_parts(_kind_p, _kind_q))
for _kind_p, _kinds in _INFINITE.items():
    for _kind_q in _kinds:
        register_kl(_kind_p, _kind_q)(_kl_infinite)
del _kind_p, _kind_q, _kinds
