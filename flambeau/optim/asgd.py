"""Averaged stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from ._stepping import number, scalar
from .elementwise import ElementwiseOptimizer, functional
from .optimizer import ParamsT

__all__ = ["ASGD", "asgd"]


class ASGD(ElementwiseOptimizer):
    """Gradient descent with a decaying step that also keeps the average of the parameters (``state[p]["ax"]``).

    With gradient ``g`` (plus ``weight_decay * p``) after ``t`` steps: ``p = p * (1 - lambd * eta) - eta * g``,
    ``ax = ax + mu * (p - ax)``, ``eta = lr / (1 + lambd * lr * t)**alpha``, ``mu = 1 / max(1, t - t0)``.

    Args:
        lambd: decay of the parameters and of the step size.
        alpha: power of the decay of the step size.
        t0: step at which averaging starts.
    Attributes:
        state: per parameter ``step``, ``eta``, ``mu`` (0-d tensors) and ``ax``.
    Raises:
        ValueError: an option out of its range.
        RuntimeError: sparse gradients.
    Source: torch.optim.ASGD. Polyak and Juditsky 1992.
    Example:
        >>> weight = nn.Parameter(torch.tensor([1.0, -2.0]))
        >>> optimizer = torch.optim.ASGD([weight], lr=0.1)
        >>> (weight**2).sum().backward()
        >>> optimizer.step()
        >>> weight.data
        tensor([ 0.8000, -1.6000])
    """

    _options = "lr lambd alpha t0 weight_decay foreach maximize differentiable capturable"
    _non_negative = "weight_decay"
    _counters = {"step": 0.0, "eta": 0.0, "mu": 1.0}
    _moments = ("ax",)

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-2, lambd: float = 1e-4, alpha: float = 0.75, t0: float = 1e6,
        weight_decay: float = 0, foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
        capturable: bool = False
    ) -> None:  # fmt: skip
        self._begin(params, locals())

    def _initial_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state = super()._initial_state(param, group)
        state["eta"].fill_(number(scalar(group["lr"])))
        return state

    @staticmethod
    def _numbers(group: dict[str, Any], count: float, eta: Any, mu: Any) -> dict[str, Any]:
        lr, lambd = group["lr"], group["lambd"]
        step_size, weight = eta.item(), mu.item()
        eta[...] = number(lr / ((1 + lambd * lr * count) ** group["alpha"]))
        mu[...] = 1 / max(1, count - group["t0"])
        return {"kept": 1 - lambd * step_size, "step_size": -step_size, "weight": weight if weight != 1 else None}

    @staticmethod
    def _rule(f: Any, n: Any, param: Any, grad: Any, average: Any) -> Any:
        param = f.add(param * n.kept, grad, n.step_size)
        return param, param if n.weight is None else average + (param - average) * n.weight  # at weight 1 averaging has not begun


@functional(ASGD, "ax mu eta step")
def asgd(  # type: ignore[no-untyped-def]
    params, grads, axs, mus, etas, state_steps, foreach=None, maximize=False, differentiable=False, capturable=False, has_complex=False,
    *, lambd, lr, t0, alpha, weight_decay
):  # fmt: skip
    """
    Example:
        >>> param, grad = torch.tensor([1.0]), torch.tensor([2.0])
        >>> mean, step = torch.zeros(1), torch.zeros(())
        >>> torch.optim.asgd.asgd([param], [grad], [mean], [torch.ones(())], [torch.tensor(0.1)], [step],
        ...     lr=0.1, lambd=0.0, t0=1e6, alpha=0.75, weight_decay=0.0)
        >>> param
        tensor([0.8000])
    """
