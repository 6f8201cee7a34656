"""Adagrad: steps shrink with the sum of squared gradients."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..core.tensor import Tensor
from ._stepping import add_entries_, entries_of, number, with_entries
from .elementwise import ElementwiseOptimizer, functional
from .optimizer import ParamsT

__all__ = ["Adagrad", "adagrad"]


class Adagrad(ElementwiseOptimizer):
    """Gradient descent whose step per element is divided by the root of all its squared gradients.

    With gradient ``g`` (plus ``weight_decay * p``) and ``t`` steps so far: ``s = s + g**2``,
    ``p = p - lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps)``.

    Args:
        lr_decay: decay of the learning rate per step.
        initial_accumulator_value: what the sums start from.
    Attributes:
        state: per parameter ``step`` and ``sum``, there from the start.
    Raises:
        ValueError: an option out of its range.
        RuntimeError: ``weight_decay`` with sparse gradients, or ``fused`` with ``foreach`` or ``differentiable``.
    Source: torch.optim.Adagrad. Duchi et al. 2011.
    Example:
        >>> weight = nn.Parameter(torch.tensor([1.0, -2.0]))
        >>> optimizer = torch.optim.Adagrad([weight], lr=0.5)
        >>> (weight**2).sum().backward()
        >>> optimizer.step()
        >>> weight.data
        tensor([ 0.5000, -1.5000])
    """

    _options = "lr lr_decay eps weight_decay initial_accumulator_value foreach maximize differentiable fused"
    _non_negative = "lr_decay weight_decay initial_accumulator_value eps"
    _moments = ("sum",)

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
        initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: bool | None = None, *,
        maximize: bool = False, differentiable: bool = False, fused: bool | None = None
    ) -> None:  # fmt: skip
        self._begin(params, locals())
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param].update(self._initial_state(param, group))

    def share_memory(self) -> None:
        """Move the sums to shared memory, so that several processes can train one model."""
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param]["sum"].share_memory_()

    def _initial_state(self, param: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        start = self.defaults["initial_accumulator_value"]
        # The parts of a complex number are separate parameters, and both sums start alike.
        value = complex(start, start) if param.is_complex() else start
        return {**super()._initial_state(param, group), "sum": ops.full_like(param, value)}

    @staticmethod
    def _numbers(group: dict[str, Any], count: float) -> dict[str, Any]:
        return {"eps": group["eps"], "step_size": -(group["lr"] / (1 + (count - 1) * group["lr_decay"]))}

    @staticmethod
    def _rule(f: Any, n: Any, param: Any, grad: Any, total: Any) -> Any:
        total = f.addcmul(total, grad, grad, 1)
        return f.addcdiv(param, grad, f.sqrt(total) + n.eps, n.step_size), total

    @staticmethod
    def _update_sparse(group: dict[str, Any], param: Tensor, grad: Tensor, state: dict[str, Any]) -> None:
        if group["weight_decay"] != 0:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        state["step"] += 1
        grad = grad.coalesce()  # the update is not linear, so that each element must be there once
        values = grad._values()
        add_entries_(state["sum"], with_entries(grad, values * values))
        root = entries_of(state["sum"], grad).sqrt() + group["eps"]
        step_size = number(group["lr"]) / (1 + (state["step"].item() - 1) * group["lr_decay"])
        add_entries_(param, with_entries(grad, values / root), -step_size)


@functional(Adagrad, "sum step")
def adagrad(  # type: ignore[no-untyped-def]
    params, grads, state_sums, state_steps, fused=None, grad_scale=None, found_inf=None, has_sparse_grad=False, foreach=None,
    differentiable=False, has_complex=False, *, lr, weight_decay, lr_decay, eps, maximize
):  # fmt: skip
    """
    Example:
        >>> param, grad = torch.tensor([1.0]), torch.tensor([2.0])
        >>> total, step = torch.zeros(1), torch.zeros(())
        >>> torch.optim.adagrad.adagrad([param], [grad], [total], [step],
        ...     lr=0.5, lr_decay=0.0, weight_decay=0.0, eps=1e-10, maximize=False)
        >>> param
        tensor([0.5000])
    """
