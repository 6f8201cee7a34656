"""Adadelta: steps in units of the parameters, from decayed squares of gradients and of steps."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from .elementwise import ElementwiseOptimizer, functional
from .optimizer import ParamsT

__all__ = ["Adadelta", "adadelta"]


class Adadelta(ElementwiseOptimizer):
    """Gradient descent whose step sizes follow from the history of gradients and steps.

    With gradient ``g`` (plus ``weight_decay * p``): ``v = rho * v + (1 - rho) * g**2``,
    ``d = sqrt(u + eps) / sqrt(v + eps) * g``, ``u = rho * u + (1 - rho) * d**2``, ``p = p - lr * d``.

    Args:
        lr: factor of the step, a number or a tensor of one element.
        rho: decay of the two running averages.
        eps: added under the roots.
    Attributes:
        state: per parameter ``step``, ``square_avg``, ``acc_delta``.
    Raises:
        ValueError: an option out of its range.
        RuntimeError: sparse gradients.
    Source: torch.optim.Adadelta. Zeiler 2012.
    Example:
        >>> weight = nn.Parameter(torch.tensor([1.0, -2.0]))
        >>> optimizer = torch.optim.Adadelta([weight], lr=100.0)
        >>> (weight**2).sum().backward()
        >>> optimizer.step()
        >>> weight.data
        tensor([ 0.6838, -1.6838])
    """

    _options = "lr rho eps weight_decay maximize capturable foreach differentiable"
    _non_negative = "eps weight_decay"
    _moments = ("square_avg", "acc_delta")

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0,
        foreach: bool | None = None, *, capturable: bool = False, maximize: bool = False, differentiable: bool = False
    ) -> None:  # fmt: skip
        self._begin(params, locals())

    def _check(self, options: dict[str, Any]) -> None:
        super()._check(options)
        if not 0.0 <= options["rho"] <= 1.0:
            raise ValueError(f"Invalid rho value: {options['rho']}")

    @staticmethod
    def _numbers(group: dict[str, Any], count: float) -> dict[str, Any]:
        rho = group["rho"]
        return {"kept": rho, "taken": 1 - rho, "eps": group["eps"], "step_size": -group["lr"]}

    @staticmethod
    def _rule(f: Any, n: Any, param: Any, grad: Any, square_avg: Any, acc_delta: Any) -> Any:
        square_avg = f.addcmul(square_avg * n.kept, grad, grad, n.taken)
        delta = f.sqrt(acc_delta + n.eps) / f.sqrt(square_avg + n.eps) * grad
        acc_delta = f.addcmul(acc_delta * n.kept, delta, delta, n.taken)
        return f.add(param, delta, n.step_size), square_avg, acc_delta


@functional(Adadelta, "square_avg acc_delta step")
def adadelta(  # type: ignore[no-untyped-def]
    params, grads, square_avgs, acc_deltas, state_steps, capturable=False, foreach=None, differentiable=False, has_complex=False, *, lr,
    rho, eps, weight_decay, maximize
):  # fmt: skip
    """
    Example:
        >>> param, grad = torch.tensor([1.0]), torch.tensor([2.0])
        >>> square, delta, step = torch.zeros(1), torch.zeros(1), torch.zeros(())
        >>> torch.optim.adadelta.adadelta([param], [grad], [square], [delta], [step],
        ...     lr=100.0, rho=0.9, eps=1e-6, weight_decay=0.0, maximize=False)
        >>> param
        tensor([0.6838])
    """
