"""Resilient propagation: only the signs of the gradients count."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..core.tensor import Tensor
from ._stepping import number, scalar
from .elementwise import ElementwiseOptimizer, functional
from .optimizer import ParamsT

__all__ = ["Rprop", "rprop"]


class Rprop(ElementwiseOptimizer):
    """Each element moves against the sign of its gradient by a step size of its own.

    The step size grows by ``etas[1]`` while the gradient keeps its sign, shrinks by ``etas[0]`` when it changes (that
    element then rests for one step), and stays within ``step_sizes``.

    Args:
        lr: first step size, a number or a tensor of one element.
        etas: factors ``(below 1, above 1)`` of the step size.
        step_sizes: smallest and largest step size.
    Attributes:
        state: per parameter ``step``, ``prev`` (the last gradient), ``step_size``.
    Raises:
        ValueError: an option out of its range.
        RuntimeError: sparse gradients.
    Source: torch.optim.Rprop. Riedmiller and Braun 1993.
    Example:
        >>> weight = nn.Parameter(torch.tensor([1.0, -2.0]))
        >>> optimizer = torch.optim.Rprop([weight], lr=0.25)
        >>> (weight**2).sum().backward()
        >>> optimizer.step()
        >>> weight.data
        tensor([ 0.7500, -1.7500])
    """

    _options = "lr etas step_sizes foreach maximize differentiable capturable"
    _moments = ("prev", "step_size")

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-2, etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50), *, capturable: bool = False, foreach: bool | None = None,
        maximize: bool = False, differentiable: bool = False
    ) -> None:  # fmt: skip
        self._begin(params, locals())

    def _check(self, options: dict[str, Any]) -> None:
        super()._check(options)
        etas = options["etas"]
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")

    def _initial_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        size = number(scalar(group["lr"]))
        # The parts of a complex number are separate parameters, each with its own step size.
        size = complex(size, size) if param.is_complex() else size
        return {**super()._initial_state(param, group), "step_size": ops.full_like(param, size)}

    @staticmethod
    def _numbers(group: dict[str, Any], count: float) -> dict[str, Any]:
        (down, up), (least, most) = group["etas"], group["step_sizes"]
        return {"down": down, "up": up, "least": least, "most": most}

    @staticmethod
    def _rule(f: Any, n: Any, param: Any, grad: Any, prev: Any, step_size: Any) -> Any:
        agreement = f.sign(grad * prev)
        factor = f.where(agreement > 0, n.up, f.where(agreement < 0, n.down, f.where(agreement == 0, 1.0, agreement)))
        step_size = f.clamp(step_size * factor, n.least, n.most)
        # Where the sign changed the last step went too far: rest, and forget the gradient, so that the next step is plain.
        grad = f.where(agreement < 0, 0.0, grad)
        return f.addcmul(param, f.sign(grad), step_size, -1), grad, step_size


@functional(Rprop, "prev step_size step")
def rprop(  # type: ignore[no-untyped-def]
    params, grads, prevs, step_sizes, state_steps, foreach=None, capturable=False, maximize=False, differentiable=False,
    has_complex=False, *, step_size_min, step_size_max, etaminus, etaplus
):  # fmt: skip
    """
    Example:
        >>> param, grad = torch.tensor([1.0]), torch.tensor([2.0])
        >>> previous, step = torch.zeros(1), torch.zeros(())
        >>> torch.optim.rprop.rprop([param], [grad], [previous], [torch.tensor([0.25])], [step],
        ...     etaminus=0.5, etaplus=1.2, step_size_min=1e-6, step_size_max=50.0)
        >>> param
        tensor([0.7500])
    """
