"""Gamma and Dirichlet numbers, differentiable in their parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.calls.annotations import Tensor
from ..core.calls.registry import op
from ..core.random import rejection, reparameterisation
from ..core.random.generator import Generator
from .arithmetic import scipy_function
from .random import _generator

_digamma = scipy_function("psi")


@op(name="_standard_gamma", grad={"input": lambda grad, input, result: grad * _standard_gamma_grad(input, result)}, aten=None)
def _standard_gamma(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Gamma numbers of shapes ``input`` and rate 1.

    Args:
        input: float32 or float64, not negative.
        generator: where the numbers come from; the default generator when None.
    Returns:
        ``input``'s shape and dtype; at least the dtype's smallest normal number.
    Gradient: that of ``_standard_gamma_grad``.
    Source: torch._standard_gamma. Marsaglia and Tsang 2000.
    """
    return rejection.standard_gamma(_generator(generator, "_standard_gamma"), input)


@op(name="_standard_gamma_grad", promotion="same", grad=None, aten=None)
def _standard_gamma_grad(input: Tensor, output: Tensor) -> Tensor:
    """Derivative of gamma numbers ``output`` by their shapes ``input``.

    Source: torch._standard_gamma_grad, which is right to about four digits; this to eleven. Figurnov et al. 2018.
    """
    shape = np.broadcast_shapes(input.shape, output.shape)
    alpha, x = (np.broadcast_to(array, shape).astype(np.float64) for array in (input, output))
    return reparameterisation.gamma_gradient(alpha, x, _digamma).astype(input.dtype)


def _dirichlet_rule(grad: Any, input: Any, result: Any) -> Any:
    total = input.sum(-1, True).expand_as(input)
    return _dirichlet_grad(result, input, total) * (grad - (result * grad).sum(-1, True))


@op(name="_sample_dirichlet", grad={"input": _dirichlet_rule}, aten=None)
def _sample_dirichlet(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Points of the simplex with concentrations ``input`` along the last dimension.

    Args:
        input: ``(*, n)``, float32 or float64, not negative.
        generator: where the numbers come from; the default generator when None.
    Returns:
        ``input``'s shape and dtype; every element lies inside of (0, 1).
    Gradient: that of ``_dirichlet_grad``, brought back to the simplex.
    Source: torch._sample_dirichlet. Gamma numbers over their sum.
    """
    return rejection.dirichlet(_generator(generator, "_sample_dirichlet"), input)


@op(name="_dirichlet_grad", promotion="same", grad=None, aten=None)
def _dirichlet_grad(x: Tensor, alpha: Tensor, total: Tensor) -> Tensor:
    """Derivative of a coordinate ``x`` of a Dirichlet point by its concentration ``alpha``, over ``1 - x``.

    Args:
        x, alpha, total: of one shape; ``total`` is the sum of all concentrations of the point.
    Source: torch._dirichlet_grad, which is right to about three digits; this to eleven. Figurnov et al. 2018.
    """
    wide = [array.astype(np.float64) for array in np.broadcast_arrays(x, alpha, total)]
    return reparameterisation.dirichlet_gradient(wide[0], wide[1], wide[2], _digamma).astype(x.dtype)
