"""Samples of every distribution against SciPy: ``python -m tests.programs.distributions_samples [--count 200000] [NAME ...]``.

Numbers are compared with SciPy's distribution function by Kolmogorov and Smirnov's test, counts by chi-squared; what SciPy has no name for,
vectors and matrices too, by the mean of each element, and its variance, in standard errors. A row fails below a probability of 1e-4, or
beyond 5 standard errors.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from typing import Any

import numpy as np
from distributions_table import CASES, build
from scipy import stats

import flambeau as torch

LEAST_PROBABILITY, MOST_ERRORS = 1e-4, 5.0


def p_value(samples: np.ndarray, expected: Any) -> float:
    """How likely samples that differ so much would be, if they were drawn from the expected distribution."""
    if isinstance(getattr(expected, "dist", expected), stats.rv_continuous):
        return float(stats.kstest(samples, expected.cdf).pvalue)
    values, counts = np.unique(samples, return_counts=True)
    chances = expected.pmf(values)
    frequent = chances * len(samples) >= 20
    observed = [*counts[frequent], counts[~frequent].sum()]
    wanted = [*(chances[frequent] * len(samples)), (1 - chances[frequent].sum()) * len(samples)]
    if wanted[-1] < 20:  # the rest goes to the last of the frequent ones
        observed[-2:], wanted[-2:] = [sum(observed[-2:])], [sum(wanted[-2:])]
    return float(stats.chisquare(observed, wanted).pvalue) if len(wanted) > 1 else float(observed == wanted)


def standard_errors(samples: np.ndarray, distribution: Any) -> float | None:
    """The largest distance of a mean or a variance from what it should be; None where the distribution does not tell both."""
    try:
        mean, variance = (getattr(distribution, name).detach().numpy() for name in ("mean", "variance"))
    except NotImplementedError:
        return None
    if not (np.isfinite(mean).all() and np.isfinite(variance).all()):
        return None
    squares = (samples - mean) ** 2
    varying = variance > 0
    distances = [np.abs(values.mean(0) - exact) / (values.std(0) + 1e-300) for values, exact in ((samples, mean), (squares, variance))]
    return float(max(distance[varying].max() for distance in distances) * len(samples) ** 0.5)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", default=list(CASES), help="distributions of the table; all when left out")
    parser.add_argument("--count", type=int, default=200_000, help="samples of each")
    parser.add_argument("--seed", type=int, default=2026)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    failures = 0
    print(f"{'distribution':36} {'test':>22} {'seconds':>8}")
    for name in options.names:
        torch.manual_seed(options.seed)
        distribution = build(name, torch)[0]
        start = time.perf_counter()
        samples = distribution.sample((options.count,)).numpy()
        seconds = time.perf_counter() - start
        expected = CASES[name].scipy
        if expected is not None:
            probability = p_value(samples.reshape(options.count, -1)[:, 0], expected(stats))
            failed, told = probability < LEAST_PROBABILITY, f"p = {probability:.4f}"
        else:
            errors = standard_errors(samples, distribution)
            failed, told = errors is not None and errors > MOST_ERRORS, "no moments" if errors is None else f"{errors:.2f} standard errors"
        failures += failed
        print(f"{name:36} {told:>22} {seconds:8.1f}{'  FAILED' if failed else ''}", flush=True)
    print(f"{len(options.names)} distributions, {options.count:,} samples of each: {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
