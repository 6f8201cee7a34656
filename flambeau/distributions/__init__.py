"""``torch.distributions``: the names, for checks of types and for paths that a program does not take. Nothing is supported yet."""

from __future__ import annotations

import sys

from .. import _unsupported
from ..core import late as _late
from . import constraints as constraints

_late.adopt(__name__)

__all__: list[str] = []

globals().update(
    _unsupported.names(
        "distributions",
        "biject_to broadcast_all identity_transform kl_divergence logits_to_probs probs_to_logits register_kl transform_to",
        "AbsTransform AffineTransform Bernoulli Beta Binomial CatTransform Categorical Cauchy Chi2 ComposeTransform ContinuousBernoulli "
        "CorrCholeskyTransform CumulativeDistributionTransform Dirichlet Distribution ExpTransform Exponential ExponentialFamily "
        "FisherSnedecor Gamma GeneralizedPareto Geometric Gumbel HalfCauchy HalfNormal Independent IndependentTransform InverseGamma "
        "Kumaraswamy LKJCholesky Laplace LogNormal LogisticNormal LowRankMultivariateNormal LowerCholeskyTransform MixtureSameFamily "
        "Multinomial MultivariateNormal NegativeBinomial Normal OneHotCategorical OneHotCategoricalStraightThrough Pareto Poisson "
        "PositiveDefiniteTransform PowerTransform RelaxedBernoulli RelaxedOneHotCategorical ReshapeTransform SigmoidTransform "
        "SoftmaxTransform SoftplusTransform StackTransform StickBreakingTransform StudentT TanhTransform Transform "
        "TransformedDistribution Uniform VonMises Weibull Wishart",
    )
)
# PyTorch's files, by whose names packages import the classes.
for _file in (
    "bernoulli beta binomial categorical cauchy chi2 dirichlet distribution exponential gamma geometric gumbel independent kl laplace "
    "log_normal mixture_same_family multinomial multivariate_normal negative_binomial normal one_hot_categorical poisson studentT "
    "transformed_distribution transforms uniform utils"
).split():
    sys.modules[f"{__name__}.{_file}"] = globals()[_file] = sys.modules[__name__]
del _file
