"""Exponential families."""

from __future__ import annotations

from typing import Any

from ..autograd import grad
from ..core.tensor import Tensor
from .distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Densities ``h(x) exp(<eta, t(x)> - F(eta))``: natural parameters ``eta``, statistics ``t``, log normalizer ``F``, measure ``h``.

    Subclasses give ``_natural_params``, ``_log_normalizer`` and ``_mean_carrier_measure``, the expectation of ``log h``; the entropy, and
    divergences within a family, follow by differentiating ``F``, whose gradient is the expectation of ``t``.

    Args:
        batch_shape, event_shape, validate_args: as of ``Distribution``.
    Shape: natural parameters have ``batch_shape``, those of vectors one dimension more.
    Raises:
        NotImplementedError: ``entropy`` of a subclass that leaves one of the three out.
    Source: torch.distributions.ExponentialFamily. Nielsen and Nock 2010, "Entropies and cross-entropies of exponential families".
    Example:
        >>> gamma = torch.distributions.Gamma(torch.tensor([1.0, 2.0]), 1.0)
        >>> isinstance(gamma, ExponentialFamily), ExponentialFamily.entropy(gamma)
        (True, tensor([1.0000, 1.5772], grad_fn=<SubBackward0>))
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """``F(eta) - <eta, grad F(eta)> - E[log h]``."""
        result = -self._mean_carrier_measure
        natural = [parameter.detach().requires_grad_() for parameter in self._natural_params]
        normalizer = self._log_normalizer(*natural)
        gradients = grad(normalizer.sum(), natural, create_graph=True)
        result = result + normalizer
        for parameter, gradient in zip(natural, gradients):
            result = result - (parameter * gradient).reshape(self._batch_shape + (-1,)).sum(-1)
        return result
