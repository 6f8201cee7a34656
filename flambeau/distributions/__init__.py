"""``torch.distributions``: distributions with differentiable samples, transforms of them, constraints, divergences.

Files hold families. PyTorch's names of files, which programs import from and pickles mention, are aliases of these modules. SciPy is
imported when a computation first needs it.
"""

# ruff: noqa: F403, F405 - transforms list their public names themselves

from __future__ import annotations

import sys

from ..core import late as _late
from . import categories, unit_interval
from .categories import Categorical, Multinomial, OneHotCategorical, OneHotCategoricalStraightThrough, RelaxedOneHotCategorical
from .constraint_registry import biject_to, transform_to
from .counts import Bernoulli, Binomial, Geometric, NegativeBinomial, Poisson
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .independent import Independent
from .kl import kl_divergence, register_kl
from .location_scale import Cauchy, Gumbel, HalfCauchy, HalfNormal, Laplace, LogNormal, Normal, StudentT, Uniform, VonMises
from .matrices import LKJCholesky, Wishart
from .mixture_same_family import MixtureSameFamily
from .positive import Chi2, Exponential, FisherSnedecor, Gamma, GeneralizedPareto, InverseGamma, Pareto, Weibull
from .transformed_distribution import TransformedDistribution
from .transforms import *
from .unit_interval import Beta, ContinuousBernoulli, Kumaraswamy, RelaxedBernoulli
from .vectors import Dirichlet, LogisticNormal, LowRankMultivariateNormal, MultivariateNormal

_late.adopt(__name__)

# PyTorch's files that are part of a file here, with the classes in them.
FILES: dict[str, tuple[type, ...]] = {
    "categorical": (Categorical,),
    "multinomial": (Multinomial,),
    "one_hot_categorical": (OneHotCategorical, OneHotCategoricalStraightThrough),
    "relaxed_categorical": (categories.ExpRelaxedCategorical, RelaxedOneHotCategorical),
    "bernoulli": (Bernoulli,),
    "binomial": (Binomial,),
    "geometric": (Geometric,),
    "negative_binomial": (NegativeBinomial,),
    "poisson": (Poisson,),
    "cauchy": (Cauchy,),
    "gumbel": (Gumbel,),
    "half_cauchy": (HalfCauchy,),
    "half_normal": (HalfNormal,),
    "laplace": (Laplace,),
    "log_normal": (LogNormal,),
    "normal": (Normal,),
    "studentT": (StudentT,),
    "uniform": (Uniform,),
    "von_mises": (VonMises,),
    "lkj_cholesky": (LKJCholesky,),
    "wishart": (Wishart,),
    "chi2": (Chi2,),
    "exponential": (Exponential,),
    "fishersnedecor": (FisherSnedecor,),
    "gamma": (Gamma,),
    "generalized_pareto": (GeneralizedPareto,),
    "inverse_gamma": (InverseGamma,),
    "pareto": (Pareto,),
    "weibull": (Weibull,),
    "beta": (Beta,),
    "continuous_bernoulli": (ContinuousBernoulli,),
    "kumaraswamy": (Kumaraswamy,),
    "relaxed_bernoulli": (unit_interval.LogitRelaxedBernoulli, RelaxedBernoulli),
    "dirichlet": (Dirichlet,),
    "logistic_normal": (LogisticNormal,),
    "lowrank_multivariate_normal": (LowRankMultivariateNormal,),
    "multivariate_normal": (MultivariateNormal,),
}
for _file, _kinds in FILES.items():
    sys.modules[f"{__name__}.{_file}"] = globals()[_file] = sys.modules[_kinds[0].__module__]
    for _kind in _kinds:
        _kind.__module__ = f"{__name__}.{_file}"
del _file, _kinds, _kind

__all__ = [
    "AbsTransform", "AffineTransform", "Bernoulli", "Beta", "Binomial", "CatTransform", "Categorical", "Cauchy", "Chi2", "ComposeTransform",
    "ContinuousBernoulli", "CorrCholeskyTransform", "CumulativeDistributionTransform", "Dirichlet", "Distribution", "ExpTransform",
    "Exponential", "ExponentialFamily", "FisherSnedecor", "Gamma", "GeneralizedPareto", "Geometric", "Gumbel", "HalfCauchy", "HalfNormal",
    "Independent", "IndependentTransform", "InverseGamma", "Kumaraswamy", "LKJCholesky", "Laplace", "LogNormal", "LogisticNormal",
    "LowRankMultivariateNormal", "LowerCholeskyTransform", "MixtureSameFamily", "Multinomial", "MultivariateNormal", "NegativeBinomial",
    "Normal", "OneHotCategorical", "OneHotCategoricalStraightThrough", "Pareto", "Poisson", "PositiveDefiniteTransform", "PowerTransform",
    "RelaxedBernoulli", "RelaxedOneHotCategorical", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform",
    "StackTransform", "StickBreakingTransform", "StudentT", "TanhTransform", "Transform", "TransformedDistribution", "Uniform", "VonMises",
    "Weibull", "Wishart", "biject_to", "identity_transform", "kl_divergence", "register_kl", "transform_to",
]  # fmt: skip
