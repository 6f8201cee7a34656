"""``torch.distributions`` against PyTorch over one table (``distributions_table``), and what holds without it."""

from __future__ import annotations

import io
import math
import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest
from distributions_table import CASES, build

import flambeau as torch
import flambeau.distributions as D
from flambeau.core.random import rejection
from flambeau.distributions import constraints, transforms

QUESTIONS = ("mean", "mode", "variance", "stddev", "batch_shape", "event_shape", "has_rsample", "has_enumerate_support", "support")
CALLS = ("entropy", "perplexity", "enumerate_support", "__repr__")


@pytest.fixture(autouse=True)
def in_float64(request):
    """Numbers among the parameters are float64 in both libraries; PyTorch mixes dtypes in places otherwise."""
    libraries = [torch, request.getfixturevalue("oracle")] if "oracle" in request.fixturenames else [torch]
    before = [library.get_default_dtype() for library in libraries]
    for library in libraries:
        library.set_default_dtype(library.float64)
    yield
    for library, dtype in zip(libraries, before):
        library.set_default_dtype(dtype)


def plain(value: Any) -> Any:
    return value.detach().numpy() if hasattr(value, "detach") else str(value)


def answer(ask: Any) -> Any:
    """What a call gives, or the type and the words of its exception."""
    try:
        return plain(ask())
    except Exception as error:
        return type(error).__name__, " ".join(str(error).replace("flambeau", "torch").split())


def check_same(ours: Any, theirs: Any, what: str, relative: float = 1e-8) -> None:
    if isinstance(ours, np.ndarray) and isinstance(theirs, np.ndarray):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype, what
        np.testing.assert_allclose(ours, theirs, relative, relative * 1e-4, err_msg=what)
    else:
        assert ours == theirs, what


# -- against PyTorch --------------------------------------------------------------------------------------------------------------
def check_answers(name: str, variant: str, ours: Any, theirs: Any, libraries: tuple[Any, Any]) -> None:
    """Everything that a distribution tells of itself and of values."""
    unlike = CASES[name].unlike
    library, oracle = libraries

    def check(what: str, ask: Any) -> None:
        if f"{variant}{what}" not in unlike:
            check_same(answer(lambda: ask(ours, library)), answer(lambda: ask(theirs, oracle)), f"{variant}{what}")

    for what in QUESTIONS:
        check(what, lambda of, _, what=what: getattr(of, what))
    for what in CALLS:
        check(what, lambda of, _, what=what: getattr(of, what)())
    oracle.manual_seed(3)
    values = theirs.sample((4,)).numpy()
    shares = np.linspace(0.05, 0.95, max(math.prod(theirs.batch_shape), 1)).reshape(tuple(theirs.batch_shape))
    for what, array in (("log_prob", values), ("cdf", values), ("icdf", shares)):
        check(what, lambda of, its, what=what, array=array: getattr(of, what)(its.tensor(array)))
    check("log_prob of NaN", lambda of, its: of.log_prob(its.full(values.shape[1:], math.nan)))


def check_samples(variant: str, ours: Any, theirs: Any, libraries: tuple[Any, Any], relative: float = 1e-9) -> None:
    for shape in ((), (3,), (2, 3)):
        for method in ("sample", "rsample"):
            for library in libraries:
                library.manual_seed(7)
            drawn = [answer(partial(getattr(of, method), shape)) for of in (ours, theirs)]
            check_same(*drawn, f"{variant}{method} {shape}", relative)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore:Singular sample detected")  # PyTorch says so of every regular matrix
@pytest.mark.parametrize("name", CASES)
def test_a_distribution_is_pytorchs(name, oracle):
    libraries = (torch, oracle)
    (ours, our_leaves), (theirs, their_leaves) = (build(name, library) for library in libraries)
    check_answers(name, "", ours, theirs, libraries)
    check_samples("", ours, theirs, libraries)
    value = theirs.sample((2,))
    if "gradient" not in CASES[name].unlike:
        grads = [
            library.autograd.grad(of.log_prob(library.tensor(value.numpy())).sum(), leaves, allow_unused=True, retain_graph=True)
            for library, of, leaves in zip(libraries, (ours, theirs), (our_leaves, their_leaves))
        ]
        for i, (our_grad, their_grad) in enumerate(zip(*grads)):
            check_same(plain(our_grad), plain(their_grad), f"gradient {i} of log_prob")
    ours, theirs = (of.expand((2, *of.batch_shape)) for of in (ours, theirs))
    check_answers(name, "expanded ", ours, theirs, libraries)
    check_samples("expanded ", ours, theirs, libraries)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore:Singular sample detected")
def test_samples_in_float32_are_pytorchs(oracle):
    libraries = (torch, oracle)
    for name in CASES:
        check_samples(f"{name}: ", *(build(name, library, dtype="float32")[0] for library in libraries), libraries, 2e-4)  # type: ignore[misc]


MORE = {
    "counts of integers": lambda D, of: D.Binomial(of.tensor([3, 5]), of.tensor([0.2, 0.5])).sample((4,)),
    "failures of integers": lambda D, of: D.NegativeBinomial(of.tensor([3, 5]), of.tensor([0.2, 0.5])).sample((4,)),
    "values that are integers": lambda D, of: D.Geometric(of.tensor([0.2, 0.5])).log_prob(of.tensor([1, 0])),
    "an index that is no integer": lambda D, of: D.Categorical(of.tensor([0.2, 0.5])).log_prob(of.tensor([1.0, 0.0])),
    "integers": lambda D, of: D.Categorical(of.tensor([2, 5])).probs,
    "Python integers": lambda D, of: D.Beta(2, 3).log_prob(of.tensor(0.5)),
    "half precision": lambda D, of: D.Normal(of.zeros(3, dtype=of.bfloat16), 1.0).log_prob(of.ones(3, dtype=of.bfloat16)),
    "two dtypes": lambda D, of: D.Normal(of.zeros(3), of.ones(3, dtype=of.float32)).log_prob(of.ones(3)),
    "a boundary": lambda D, of: D.Gamma(of.tensor([1.0, 2.0, 0.5]), 1.0).log_prob(of.zeros(3)),
    "edges": lambda D, of: D.Uniform(0, 1, validate_args=False).log_prob(of.tensor([0.0, 1.0, 2.0, -1.0])),
    "no probability": lambda D, of: D.Categorical(logits=of.tensor([-math.inf, 1.0, 1.0])).entropy(),
    "KL without probabilities": lambda D, of: D.kl_divergence(D.Bernoulli(of.tensor([0.0, 1, 0.5])), D.Bernoulli(of.tensor([0.0, 1, 0]))),
    "KL of categories without": lambda D, of: D.kl_divergence(
        D.Categorical(of.tensor([0.0, 1, 1])), D.Categorical(of.tensor([0.1, 0, 0.9]))
    ),
    "KL outside": lambda D, of: D.kl_divergence(D.Uniform(of.tensor([-1.0, 0, 0.5]), of.tensor([1.0, 1, 2])), D.Beta(2.0, 3.0)),
    "KL below": lambda D, of: D.kl_divergence(D.Uniform(of.tensor([-1.0, 0, 0.5]), of.tensor([1.0, 1, 2])), D.Pareto(0.4, 3.0)),
    "KL without moments": lambda D, of: D.kl_divergence(D.Pareto(of.tensor(1.0), of.tensor([0.5, 1.5, 3])), D.Normal(0.0, 1.0)),
    "a mode in a corner": lambda D, of: D.Dirichlet(of.tensor([[0.5, 0.6, 0.7], [0.5, 2, 1]])).mode,
    "two modes": lambda D, of: D.Bernoulli(of.tensor([0.5, 0.2, 0.7])).mode,
    "no mean": lambda D, of: D.StudentT(of.tensor([0.5, 1.5, 3])).mean,
    "no variance": lambda D, of: D.StudentT(of.tensor([0.5, 1.5, 3])).variance,
    "nothing": lambda D, of: D.Normal(of.zeros(0, 2), of.ones(0, 2)).sample((3,)),
    "a list": lambda D, of: D.Gamma(of.ones(2), of.ones(2)).sample([0, 3]),
    "copula": lambda D, of: D.TransformedDistribution(D.Normal(0.0, 1.0), D.CumulativeDistributionTransform(D.Normal(0.0, 2.0))).log_prob(
        of.tensor([0.2, 0.5])
    ),
    "reshaped shares": lambda D, of: D.TransformedDistribution(
        D.Normal(of.zeros(4, 3), 1.0), [D.ExpTransform(), D.StickBreakingTransform(), D.ReshapeTransform((4,), (2, 2))]
    ).sample(),
    "batches of factors": lambda D, of: D.MultivariateNormal(of.zeros(2, 1, 3), 2 * of.eye(3).expand(4, 3, 3)).log_prob(
        of.ones(5, 2, 4, 3)
    ),
    "batches of low rank": lambda D, of: D.LowRankMultivariateNormal(of.zeros(2, 1, 3), of.ones(4, 3, 2), of.ones(3)).log_prob(
        of.ones(5, 2, 4, 3)
    ),
    "a mixture for many": lambda D, of: D.MixtureSameFamily(D.Categorical(of.ones(3)), D.Normal(of.arange(6.0).view(2, 3), 1.0)).variance,
    "2 x 2 correlations": lambda D, of: D.LKJCholesky(2).sample((3,)),
}


@pytest.mark.oracle
def test_odd_arguments_are_pytorchs(oracle):
    for name, call in MORE.items():
        answers = []
        for library in (torch, oracle):
            library.manual_seed(2)
            given = call(library.distributions, library)
            answers.append((str(given.dtype).replace("flambeau", "torch"), given.to(library.float64).detach().numpy()))
        assert answers[0][0] == answers[1][0], name
        check_same(answers[0][1], answers[1][1], name)


def by_kind() -> dict[str, str]:
    """A case for each class of distributions: the one of its name."""
    return {name: name for name in CASES if " of " not in name}


@pytest.mark.oracle
def test_divergences_are_pytorchs(oracle):
    kinds = by_kind()
    pairs = {(p.__name__, q.__name__) for p, q in oracle.distributions.kl._KL_REGISTRY}
    assert {(p.__name__, q.__name__) for p, q in D.kl._KL_REGISTRY} == pairs
    compared = 0
    for p, q in sorted(
        (pairs - {("ExponentialFamily", "ExponentialFamily")}) | {("Wishart", "Wishart"), ("Chi2", "Gamma"), ("LogNormal", "LogNormal")}
    ):
        grads, values = [], []
        for library in (torch, oracle):
            (of_p, p_leaves), (of_q, q_leaves) = build(kinds[p], library), build(kinds[q], library, other=CASES[kinds[q]].other is not None)
            divergence = library.distributions.kl_divergence(of_p, of_q)
            values.append(plain(divergence))
            if np.isfinite(values[-1]).all() and p != "Wishart":  # whose gradients PyTorch cuts off
                grads.append(library.autograd.grad(divergence.sum(), [*p_leaves, *q_leaves], allow_unused=True, materialize_grads=True))
        check_same(*values, f"KL({p}, {q})")
        for ours, theirs in zip(*grads) if grads else ():
            np.testing.assert_allclose(plain(ours), plain(theirs), 1e-8, 1e-10, err_msg=f"gradient of KL({p}, {q})")
        compared += 1
    assert compared > 85


WRONG = {
    "both": lambda D, t: D.Bernoulli(t(0.5), t(0.5)),
    "neither": lambda D, t: D.Geometric(),
    "negative scale": lambda D, t: D.Normal(t([0.0, 1]), t([1.0, -1])),
    "bounds": lambda D, t: D.Uniform(t(1.0), t(0.0)),
    "not a number": lambda D, t: D.Laplace("a", 1.0),
    "shapes": lambda D, t: D.Normal(t([1.0, 2]), t([1.0, 2, 3])),
    "never succeeds": lambda D, t: D.Geometric(t(0.0)),
    "no vector": lambda D, t: D.Categorical(t(1.0)),
    "no vector of logits": lambda D, t: D.OneHotCategorical(logits=t(1.0)),
    "no simplex": lambda D, t: D.Categorical(t([-1.0, 2])),
    "no concentrations": lambda D, t: D.Dirichlet(t(1.0)),
    "no mean": lambda D, t: D.MultivariateNormal(t(1.0), t([[1.0]])),
    "no matrix": lambda D, t: D.MultivariateNormal(t([1.0])),
    "vector for a matrix": lambda D, t: D.MultivariateNormal(t([1.0]), precision_matrix=t([1.0])),
    "vector for a factor": lambda D, t: D.MultivariateNormal(t([1.0]), scale_tril=t([1.0])),
    "not symmetric": lambda D, t: D.MultivariateNormal(t([1.0, 1]), t([[1.0, 0], [0.5, 1]])),
    "not definite": lambda D, t: D.MultivariateNormal(t([1.0, 1]), t([[1.0, 2], [2, 1]])),
    "low rank mean": lambda D, t: D.LowRankMultivariateNormal(t(1.0), t([[1.0]]), t([1.0])),
    "low rank factor": lambda D, t: D.LowRankMultivariateNormal(t([1.0, 2]), t([[1.0]]), t([1.0, 2])),
    "low rank vector": lambda D, t: D.LowRankMultivariateNormal(t([1.0, 2]), t([1.0, 2]), t([1.0, 2])),
    "low rank diagonal": lambda D, t: D.LowRankMultivariateNormal(t([1.0, 2]), t([[1.0], [2]]), t([1.0])),
    "counts": lambda D, t: D.Multinomial(t([3.0]), t([1.0, 2])),
    "negative count": lambda D, t: D.Binomial(-1, t([0.5, 0.5])),
    "counts that differ": lambda D, t: D.Binomial(t([2.0, 3]), t([0.5, 0.5])).enumerate_support(),
    "entropy of counts that differ": lambda D, t: D.Binomial(t([2.0, 3]), t([0.5, 0.5])).entropy(),
    "continuous chance": lambda D, t: D.ContinuousBernoulli(t(1.5), validate_args=True),
    "two matrices": lambda D, t: D.Wishart(t(3.0), t([[1.0]]), scale_tril=t([[1.0]])),
    "degrees of freedom": lambda D, t: D.Wishart(t(0.5), t([[1.0, 0], [0, 1]])),
    "one dimension": lambda D, t: D.LKJCholesky(1),
    "too many dimensions": lambda D, t: D.Independent(D.Normal(t([0.0]), t([1.0])), 2),
    "product of supports": lambda D, t: D.Independent(D.Bernoulli(t([0.5])), 1).enumerate_support(),
    "no mixture": lambda D, t: D.MixtureSameFamily(D.Normal(t(0.0), t(1.0)), D.Normal(t([0.0]), t([1.0]))),
    "no component": lambda D, t: D.MixtureSameFamily(D.Categorical(t([1.0])), 3),
    "batches of a mixture": lambda D, t: D.MixtureSameFamily(D.Categorical(t([[1.0]] * 2)), D.Normal(t([[0.0]] * 3), t([[1.0]] * 3))),
    "number of components": lambda D, t: D.MixtureSameFamily(D.Categorical(t([1.0, 1])), D.Normal(t([0.0, 0, 0]), t(1.0))),
    "no transform": lambda D, t: D.TransformedDistribution(D.Normal(t(0.0), t(1.0)), 3),
    "no transforms": lambda D, t: D.TransformedDistribution(D.Normal(t(0.0), t(1.0)), [3]),
    "no vector to break": lambda D, t: D.TransformedDistribution(D.Normal(t(0.0), t(1.0)), D.StickBreakingTransform()),
    "no inverse": lambda D, t: D.TransformedDistribution(D.Normal(t(0.0), t(1.0)), D.AbsTransform()).cdf(t(1.0)),
    "number": lambda D, t: D.Normal(t(0.0), t(1.0)).log_prob(1.0),
    "broadcasting": lambda D, t: D.Normal(t([0.0, 0]), t(1.0)).log_prob(t([1.0, 2, 3])),
    "event shape": lambda D, t: D.Dirichlet(t([1.0, 1])).log_prob(t([1.0, 2, 3])),
    "outside": lambda D, t: D.Gamma(t([1.0, 1]), t(1.0)).log_prob(t([1.0, -2])),
    "no support": lambda D, t: D.Beta(t(1.0), t(1.0)).cdf(t(0.5)),
    "default": lambda D, t: D.Distribution.set_default_validate_args(3),
    "unknown pair": lambda D, t: D.kl_divergence(D.VonMises(t(0.0), t(1.0)), D.Normal(t(0.0), t(1.0))),
    "more trials": lambda D, t: D.kl_divergence(D.Binomial(3, t(0.5)), D.Binomial(4, t(0.5))),
    "dimensions": lambda D, t: D.kl_divergence(*(D.Independent(D.Normal(t([[0.0]]), t(1.0)), n) for n in (1, 2))),
    "different transforms": lambda D, t: D.kl_divergence(D.LogNormal(t(0.0), t(1.0)), D.HalfNormal(t(1.0))),
    "different shapes": lambda D, t: D.kl_divergence(*(D.MultivariateNormal(t([0.0] * n), t(np.eye(n))) for n in (1, 2))),
    "cache": lambda D, t: D.ExpTransform(cache_size=2),
    "reshaped": lambda D, t: D.ReshapeTransform((2,), (3,)),
    "reshaped shape": lambda D, t: D.ReshapeTransform((2,), (1, 2)).forward_shape((3,)),
    "reshaped short": lambda D, t: D.ReshapeTransform((2, 3), (6,)).forward_shape((3,)),
    "triangle": lambda D, t: D.CorrCholeskyTransform().forward_shape((4,)),
    "square": lambda D, t: D.CorrCholeskyTransform().inverse_shape((4, 5)),
    "two sizes of event": lambda D, t: D.CorrCholeskyTransform().event_dim,
    "0-d softmax": lambda D, t: D.SoftmaxTransform().forward_shape(()),
    "0-d event": lambda D, t: D.IndependentTransform(D.ExpTransform(), 1)(t(1.0)),
    "sign": lambda D, t: D.AbsTransform().sign,
    "constraint": lambda D, t: D.biject_to(D.constraints.positive_definite),
    "dependent": lambda D, t: D.constraints.dependent.check(t(1.0)),
    "dependent dimension": lambda D, t: D.constraints.dependent.event_dim,
    "vector of a triangle": lambda D, t: D.utils.vec_to_tril_matrix(t([1.0, 2])),
    "diagonal": lambda D, t: D.utils.tril_matrix_to_vec(t([[1.0]]), 2),
    "independent of a number": lambda D, t: D.constraints.independent(D.constraints.real, 2).check(t([1.0])),
}


@pytest.mark.oracle
def test_errors_are_pytorchs(oracle):
    for name, call in WRONG.items():
        answers = []
        for library in (torch, oracle):
            distributions = library.distributions
            answers.append(answer(lambda: call(distributions, lambda x: library.tensor(x, dtype=library.float64))))  # noqa: B023
        assert isinstance(answers[1], tuple), name
        assert answers[0] == answers[1], name


CONSTRAINTS = {
    "boolean": [0, 1, 0.5],
    "integer_interval(0, 2)": [0, 2, 3, 1.5, math.nan],
    "interval(0.5, 2)": [0.5, 2, 3, math.nan],
    "half_open_interval(0.5, 2)": [0.5, 2, 3],
    "less_than(1)": [0, 1],
    "greater_than(1)": [2, 1],
    "greater_than_eq(1)": [2, 1, 0],
    "nonnegative_integer": [0, -1, 0.5],
    "positive_integer": [0, 1],
    "real": [1, math.inf, math.nan],
    "real_vector": [[1, math.nan], [1, 2]],
    "one_hot": [[1, 0], [1, 1], [0.5, 0.5]],
    "simplex": [[0.5, 0.5], [0.5, 0.6], [-0.5, 1.5]],
    "multinomial(3)": [[1, 2], [2, 2], [-1, 1]],
    "lower_triangular": [[[1, 0], [2, -1]], [[1, 1], [0, 1]]],
    "lower_cholesky": [[[1, 0], [2, -1]], [[1, 0], [0, 1]]],
    "corr_cholesky": [[[1, 0], [0.6, 0.8]], [[1, 0], [0.6, 0.7]]],
    "square": [[[1, 0], [2, -1]]],
    "symmetric": [[[1, 0], [2, -1]], [[1, 0.5], [0.5, 1]]],
    "positive_semidefinite": [[[1, 1], [1, 1]], [[1, 2], [2, 1]]],
    "positive_definite": [[[1, 0.5], [0.5, 1]], [[1, 2], [2, 1]]],
    "cat([real, positive], 0, [1, 2])": [-1, -1, 1],
    "stack([real, positive], 0)": [[-1, -1], [-1, 1]],
    "independent(positive, 1)": [[1, -1], [1, 1]],
    "MixtureSameFamilyConstraint(positive)": [1, -1],
}


@pytest.mark.oracle
def test_constraints_are_pytorchs(oracle):
    for text, values in CONSTRAINTS.items():
        both = []
        for library in (torch, oracle):
            constraint = eval(text, vars(library.distributions.constraints))
            inside = constraint.check(library.tensor(values, dtype=library.float64)).tolist()
            facts = [repr(constraint), constraint.event_dim, constraint.is_discrete, inside]
            registries = (library.distributions.biject_to, library.distributions.transform_to)
            both.append([*facts, *(answer(partial(to, constraint)) for to in registries)])
        assert both[0] == both[1], text


VECTOR, SHARES_OF_ONE, POSITIVE, LINE = [[0.3, -1.2, 0.5], [1, 2, 3]], [[0.2, 0.5, 0.3]], [[0.5, 2.0, 3.0]], [0.4, -0.7, 1.5]
TRANSFORMS = {
    "AbsTransform()": LINE,
    "AffineTransform(1.0, -2.0)": LINE,
    "AffineTransform(t([1.0, 2, 3]), t([2.0, 1, -1]), event_dim=1)": VECTOR,
    "CatTransform([ExpTransform(), TanhTransform()], 0, [1, 2])": LINE,
    "CatTransform([IndependentTransform(ExpTransform(), 1), IndependentTransform(TanhTransform(), 1)], 0)": VECTOR,
    "ComposeTransform([ExpTransform(), AffineTransform(0.0, 2.0), StickBreakingTransform()])": VECTOR,
    "CorrCholeskyTransform()": VECTOR,
    "CumulativeDistributionTransform(Normal(0.0, 1.0))": LINE,
    "ExpTransform().inv": POSITIVE,
    "IndependentTransform(TanhTransform(), 1)": VECTOR,
    "LowerCholeskyTransform()": [[1, 2], [3, -1]],
    "PositiveDefiniteTransform()": [[1, 2], [3, -1]],
    "PowerTransform(t([0.5, -1, 2]))": POSITIVE,
    "ReshapeTransform((3,), (3, 1))": VECTOR,
    "SigmoidTransform()": LINE,
    "SoftmaxTransform()": VECTOR,
    "SoftplusTransform()": LINE,
    "StackTransform([ExpTransform(), AffineTransform(1.0, 2.0)], 0)": VECTOR,
    "StickBreakingTransform()": VECTOR,
    "StickBreakingTransform().inv": SHARES_OF_ONE,
    "TanhTransform()": LINE,
    "biject_to(constraints.interval(-1.0, 3.0))": LINE,
    "biject_to(constraints.independent(constraints.less_than(2.0), 1))": VECTOR,
    "identity_transform": LINE,
}


@pytest.mark.oracle
def test_transforms_are_pytorchs(oracle):
    for text, values in TRANSFORMS.items():
        both = []
        for library in (torch, oracle):

            def tensor(values: Any, library: Any = library) -> Any:
                return library.tensor(values, dtype=library.float64)

            transform = eval(text, {**vars(library.distributions), "t": tensor})
            x = tensor(values)
            y = transform(x)
            asked: list[Any] = [lambda: transform.inv(y), lambda: transform.log_abs_det_jacobian(x, y), lambda: transform.sign]  # noqa: B023
            asked += [lambda: transform.bijective, lambda: transform.domain, lambda: transform.codomain, lambda: transform]  # noqa: B023
            asked += [lambda: transform.forward_shape(x.shape), lambda: transform.inverse_shape(y.shape), lambda: transform.inv]  # noqa: B023
            asked += [lambda: transform.with_cache()(x), lambda: transform == transform.with_cache(1)]  # noqa: B023
            both.append([plain(y), *map(answer, asked)])
        for place, (ours, theirs) in enumerate(zip(*both)):
            check_same(ours, theirs, f"{text}, answer {place}")


# -- without PyTorch --------------------------------------------------------------------------------------------------------------
DIFFERENTIABLE = [name for name in CASES if build(name, torch)[0].has_rsample and "StraightThrough" not in name]


@pytest.fixture
def frozen_draws(monkeypatch):
    """Gamma and Dirichlet numbers at uniform numbers that stay the same: what their gradients hold fixed."""
    special = pytest.importorskip("scipy.special")
    rng = np.random.default_rng

    def gamma(generator: Any, alpha: np.ndarray) -> np.ndarray:
        return special.gammaincinv(alpha, rng(1).uniform(0.1, 0.9, alpha.shape))

    def dirichlet(generator: Any, alpha: np.ndarray) -> np.ndarray:
        """Broken off a stick, from the first share on: of two shares the quantile of a beta distribution."""
        assert alpha.shape[-1] == 2
        first = special.betaincinv(alpha[..., 0], alpha[..., 1], rng(1).uniform(0.1, 0.9, alpha.shape[:-1]))
        return np.stack([first, 1 - first], -1)

    monkeypatch.setattr(rejection, "standard_gamma", gamma)
    monkeypatch.setattr(rejection, "dirichlet", dirichlet)


@pytest.mark.parametrize("name", [name for name in DIFFERENTIABLE if name != "Dirichlet"])
def test_gradients_of_samples_are_finite_differences(name, frozen_draws):
    def total(leaves: list[Any]) -> Any:
        given = iter(leaves)
        torch.manual_seed(11)
        of = CASES[name].make(D, lambda values: next(given))
        drawn = of.rsample((2,))
        return (drawn * torch.linspace(0.5, 1.5, drawn.numel()).view(drawn.shape)).sum()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        leaves = build(name, torch)[1]
        gradients = torch.autograd.grad(total(leaves), leaves, allow_unused=True, materialize_grads=True)
        for place, leaf in enumerate(leaves):
            step = 1e-5
            directions = list(torch.eye(leaf.numel()).view(-1, *leaf.shape))
            if leaf.dim() >= 2 and leaf.shape[-2] == leaf.shape[-1]:  # symmetric matrices stay symmetric, factors triangular
                directions = [torch.eye(leaf.shape[-1]).expand(leaf.shape)]
            for direction in directions:
                with torch.no_grad():
                    moved = [total([*leaves[:place], leaf + sign * step * direction, *leaves[place + 1 :]]) for sign in (1, -1)]
                numeric = float(moved[0] - moved[1]) / (2 * step)
                exact = float((gradients[place] * direction).sum())
                assert exact == pytest.approx(numeric, rel=2e-6, abs=1e-8), f"parameter {place}, {direction.tolist()}"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_implicit_gradients_are_those_of_quantiles(dtype):
    special = pytest.importorskip("scipy.special")
    tolerance, kind = (2e-6, torch.float32) if dtype == "float32" else (1e-8, torch.float64)
    alpha, beta, share = (array.ravel() for array in np.meshgrid([0.02, 0.7, 3.0, 80.0], [0.3, 1.5, 40.0], [0.03, 0.5, 0.98]))
    step = 1e-4 * alpha

    def derivative(of: Any) -> np.ndarray:
        """By four points: the error is of the step's fourth power."""
        return (of(alpha - 2 * step) - 8 * of(alpha - step) + 8 * of(alpha + step) - of(alpha + 2 * step)) / (12 * step)

    x = special.gammaincinv(alpha, share)
    y = special.betaincinv(alpha, beta, share)
    density_x = np.exp((alpha - 1) * np.log(x) - x - special.gammaln(alpha))
    density_y = np.exp((alpha - 1) * np.log(y) + (beta - 1) * np.log1p(-y) - special.betaln(alpha, beta))
    a, b, drawn_x, drawn_y = (torch.tensor(array, dtype=kind) for array in (alpha, beta, x, y))
    ours = torch._standard_gamma_grad(a, drawn_x)
    assert ours.dtype is kind
    np.testing.assert_allclose(ours, -derivative(lambda a: special.gammainc(a, x)) / density_x, tolerance, 1e-40)
    inside = y < 1 - 1e-4  # closer to 1 the difference to it has too few digits
    ours = torch._dirichlet_grad(drawn_y, a, a + b) * (1 - drawn_y)
    expected = -derivative(lambda a: special.betainc(a, beta, y)) / density_y
    np.testing.assert_allclose(ours[torch.tensor(inside)], expected[inside], 200 * tolerance if dtype == "float32" else 1e-7, 1e-40)


def test_dirichlet_gradients_stay_on_the_simplex():
    concentration = torch.tensor([[0.5, 2.0, 3.0]], requires_grad=True)
    drawn = D.Dirichlet(concentration).rsample((5,))
    jacobian = torch.stack([torch.autograd.grad(drawn[..., i].sum(), concentration, retain_graph=True)[0] for i in range(3)])
    assert jacobian.sum(0).abs().max() < 1e-12
    # The mean moves as it should: E[x] = c / sum(c).
    many = D.Dirichlet(concentration).rsample((4000,))
    (gradient,) = torch.autograd.grad(many[..., 0].mean(), concentration)
    (exact,) = torch.autograd.grad(D.Dirichlet(concentration).mean[..., 0].sum(), concentration)
    assert torch.allclose(gradient, exact, atol=0.01)


def test_the_series_of_the_continuous_bernoulli_meets_the_closed_form():
    for p in (0.499 - 1e-9, 0.499 + 1e-9, 0.501 - 1e-9, 0.501 + 1e-9):
        of = D.ContinuousBernoulli(torch.tensor(p))
        assert float(of.mean) == pytest.approx(0.5 + (p - 0.5) / 3, abs=1e-9)
        assert float(of._cont_bern_log_norm()) == pytest.approx(math.log(2) + 4 / 3 * (p - 0.5) ** 2, abs=1e-9)


def test_the_von_mises_density_is_scipys():
    special = pytest.importorskip("scipy.special")
    kappa, loc, value = np.array([1.5, 600.0]), np.array([0.5, -1.0]), np.array([0.3, -1.1])
    i0e, i1e = special.i0e(kappa), special.i1e(kappa)
    of = D.VonMises(torch.tensor(loc), torch.tensor(kappa))
    expected = kappa * (np.cos(value - loc) - 1) - np.log(2 * np.pi * i0e)
    np.testing.assert_allclose(of.log_prob(torch.tensor(value)), expected, 1e-10)
    np.testing.assert_allclose(of.variance, 1 - i1e / i0e, 1e-10)


def test_divergences_of_wishart_batches():
    """Each element of a batch as if it stood alone."""
    p, q = build("Wishart of a precision", torch)[0], build("Wishart", torch, other=True)[0]
    alone = [D.kl_divergence(D.Wishart(df, precision_matrix=p.precision_matrix[0]), q) for df in p.df]
    assert torch.allclose(D.kl_divergence(p, q), torch.stack(alone), rtol=1e-12)
    assert torch.allclose(D.kl_divergence(p, p), torch.zeros(2), atol=1e-12)


def test_a_uniform_distribution_that_just_covers_another():
    assert torch.isfinite(D.kl_divergence(D.ContinuousBernoulli(torch.tensor(0.3)), D.Uniform(0.0, 1.0)))
    assert torch.isfinite(D.kl_divergence(D.Beta(2.0, 3.0), D.Uniform(0.0, 1.0)))


def test_a_program_has_distributions_of_its_own():
    class Shifted(D.Normal):
        """A subclass with the parameters of its base."""

    class Renamed(D.Gamma):
        def __init__(self, mean: Any):
            super().__init__(mean * 2, torch.tensor(2.0))

    class Bare(D.Distribution):
        arg_constraints: dict[str, Any] = {}

        def log_prob(self, value: Any) -> Any:
            self._validate_sample(value)
            return value

    normal = Shifted(torch.zeros(2), torch.ones(2))
    assert type(normal.expand((3, 2))) is Shifted and normal.expand((3, 2)).sample((4,)).shape == (4, 3, 2)
    with pytest.raises(NotImplementedError, match="Subclass Renamed of Gamma that defines a custom __init__"):
        Renamed(torch.ones(2)).expand((3, 2))
    with pytest.warns(UserWarning, match="does not define `support`"):
        assert Bare(validate_args=True).log_prob(torch.tensor(1.0)) == 1
    with pytest.raises(NotImplementedError):
        Bare().expand((2,))
    with pytest.warns(UserWarning, match="does not define `arg_constraints`"):
        type("Undeclared", (D.Distribution,), {})(validate_args=True)

    @D.register_kl(Shifted, D.Normal)
    def divergence(p: Any, q: Any) -> str:
        return "p"

    @D.register_kl(D.Normal, Shifted)
    def other(p: Any, q: Any) -> str:
        return "q"

    try:
        assert D.kl_divergence(normal, D.Normal(0.0, 1.0)) == "p"
        with pytest.warns(RuntimeWarning, match=r"Ambiguous kl_divergence\(Shifted, Shifted\). Please register_kl\(Shifted, Shifted\)"):
            assert D.kl_divergence(normal, normal) == "p"
    finally:
        for pair in ((Shifted, D.Normal), (D.Normal, Shifted)):
            del D.kl._KL_REGISTRY[pair]
        D.kl._KL_MEMOIZE.clear()


def test_a_package_has_a_base_class_of_its_own():
    class Base:
        """What a package's distributions share, beside ``Distribution``."""

    class Own(D.Normal, Base):
        pass

    @D.register_kl(Base, D.Distribution)
    def far(p: Any, q: Any) -> str:
        return "far"

    try:
        assert D.kl_divergence(Own(0.0, 1.0), D.Cauchy(0.0, 1.0)) == "far"
        assert D.kl_divergence(Own(0.0, 1.0), D.Normal(0.0, 1.0)) == 0
    finally:
        del D.kl._KL_REGISTRY[Base, D.Distribution]
        D.kl._KL_MEMOIZE.clear()
    with pytest.raises(TypeError, match="Expected type_p to be a subclass of Distribution"):
        D.register_kl("Normal", D.Normal)


@pytest.mark.parametrize("validate", [True, False])
def test_densities_of_what_is_no_tensor_of_the_parameters_dtype(validate, oracle):
    def densities(library):
        half, made = library.tensor([0.5], dtype=library.float16), []
        for kind in (library.distributions.Gamma(2.0, 1.5, validate_args=validate), library.distributions.HalfCauchy(2.0, validate)):
            for value in (3, 0.5, [0.5, 2.0], np.array([0.5]), half, library.tensor([1])):
                try:
                    density = kind.log_prob(value)
                    made.append((str(density.dtype), density.tolist()))
                except (TypeError, ValueError) as error:
                    made.append(type(error))
        one_hot = library.tensor([[True, False], [False, True]])
        made.append(
            library.distributions.OneHotCategorical(library.tensor([0.25, 0.75]), validate_args=validate).log_prob(one_hot).tolist()
        )
        for kind in (library.distributions.Cauchy(0.0, 1.0), library.distributions.HalfCauchy(1.0), library.distributions.Exponential(1.0)):
            with pytest.raises(TypeError, match="must be Tensor"):
                kind.icdf(0.25)
        return made

    for ours, theirs in zip(densities(torch), densities(oracle), strict=True):
        assert ours == theirs or (np.allclose(ours[-1], theirs[-1]) and str(ours[0]) == str(theirs[0]))


def test_validation_is_a_choice():
    assert D.Normal(0.0, -1.0, validate_args=False).scale == -1
    D.Distribution.set_default_validate_args(False)
    try:
        assert D.Gamma(-1.0, 1.0).concentration == -1 and not D.Gamma(1.0, 1.0).expand((2,))._validate_args
    finally:
        D.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError, match="to satisfy the constraint GreaterThan"):
        D.Gamma(-1.0, 1.0)


def test_a_lazy_property_is_computed_once_with_gradients():
    logits = torch.tensor([0.5, 1.0], requires_grad=True)
    of = D.Bernoulli(logits=logits)
    assert "probs" not in vars(of) and isinstance(D.Bernoulli.probs, property)
    with torch.no_grad():
        probs = of.probs
    assert probs.requires_grad and of.probs is probs
    assert isinstance(D.Bernoulli.probs, D.utils.lazy_property)


def test_a_cache_gives_back_what_went_in():
    transform = D.TanhTransform(cache_size=1)
    x = torch.tensor([20.0, 1.0])  # tanh(20) is 1: without the cache, the way back is infinite
    y = transform(x)
    assert transform.inv(y) is x and transform(x) is y and transform.inv.inv is transform
    chain = D.ComposeTransform([D.ExpTransform(), D.TanhTransform()], cache_size=1)
    assert torch.equal(chain.inv(chain(x)), x)


def test_triangles_and_vectors():
    matrix = torch.arange(9.0).view(3, 3)
    for diag in (-1, 0):
        vector = D.utils.tril_matrix_to_vec(matrix, diag)
        assert torch.equal(D.utils.vec_to_tril_matrix(vector, diag), matrix.tril(diag))


def test_pytorchs_files_are_there():
    import flambeau.distributions.lowrank_multivariate_normal as low_rank
    from flambeau.distributions.multivariate_normal import _batch_mahalanobis
    from flambeau.distributions.normal import Normal
    from flambeau.distributions.relaxed_bernoulli import LogitRelaxedBernoulli

    assert Normal is D.Normal and Normal.__module__ == "flambeau.distributions.normal"
    assert issubclass(LogitRelaxedBernoulli, D.Distribution) and low_rank.LowRankMultivariateNormal is D.LowRankMultivariateNormal
    factor, x = torch.tensor([[2.0, 0.0], [1.0, 1.0]]), torch.randn(5, 3, 2)
    exact = torch.einsum("abi,ij,abj->ab", x, torch.linalg.inv(factor @ factor.T), x)
    assert torch.allclose(_batch_mahalanobis(factor, x), exact)
    assert torch.allclose(_batch_mahalanobis(factor.expand(4, 1, 2, 2), x[0]), exact[0].expand(4, 3))


def test_pickles_and_files_of_distributions(tmp_path):
    import copy
    import pickle

    of = D.TransformedDistribution(D.Normal(torch.zeros(2), torch.ones(2)), [D.ExpTransform(), D.AffineTransform(1.0, 2.0)])
    for copied in (pickle.loads(pickle.dumps(of)), copy.deepcopy(of)):
        assert torch.equal(copied.log_prob(torch.tensor([2.0, 3.0])), of.log_prob(torch.tensor([2.0, 3.0])))
    torch.save(of, tmp_path / "of.pt")
    loaded = torch.load(tmp_path / "of.pt", weights_only=False)
    assert torch.equal(
        loaded.base_dist.base_dist.scale if hasattr(loaded.base_dist, "base_dist") else loaded.base_dist.scale, torch.ones(2)
    )


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["Categorical of logits", "Independent", "StudentT", "TransformedDistribution", "RelaxedBernoulli"])
def test_files_of_distributions_are_exchanged(name, oracle):
    both = (torch, oracle)
    for writer, reader in (both, both[::-1]):
        file = io.BytesIO()
        writer.save(build(name, writer)[0], file)
        file.seek(0)
        loaded = reader.load(file, weights_only=False)
        assert type(loaded).__module__.partition(".")[0] == reader.__name__
        for library in both:
            library.manual_seed(4)
        check_same(plain(loaded.sample((2,))), plain(build(name, writer)[0].sample((2,))), name)


def test_every_constraint_and_transform_is_listed():
    for module in (constraints, transforms):
        assert all(hasattr(module, name) for name in module.__all__)
