"""Adam for sparse gradients: only elements with a gradient are updated."""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..core.tensor import Tensor
from ._stepping import GroupOptimizer, add_entries_, entries_of, number, with_entries
from .optimizer import ParamsT

__all__ = ["SparseAdam", "sparse_adam"]


class SparseAdam(GroupOptimizer):
    """Adam over the elements that a COO gradient specifies; moments and parameters elsewhere stay as they are.

    With values ``g`` of the coalesced gradient, and the moments at its places: ``m = m + (1 - beta1) * (g - m)``,
    ``v = v + (1 - beta2) * (g**2 - v)``, ``p = p - lr * sqrt(1 - beta2**t) / (1 - beta1**t) * m / (sqrt(v) + eps)``.

    Attributes:
        state: per parameter ``step``, an int, and the dense ``exp_avg`` and ``exp_avg_sq``.
    Raises:
        ValueError: an option out of its range, or sparse or complex parameters.
        RuntimeError: dense gradients.
    Source: torch.optim.SparseAdam. Kingma and Ba 2015.
    Example:
        >>> table = nn.Embedding.from_pretrained(torch.zeros(3, 1), freeze=False, sparse=True)
        >>> optimizer = torch.optim.SparseAdam(table.parameters(), lr=0.5)
        >>> table(torch.tensor([1])).sum().backward()
        >>> optimizer.step()
        >>> print(table.weight.data.flatten())
        tensor([ 0.0000, -0.5000,  0.0000])
    """

    _options = "lr betas eps maximize"
    _counters = {}

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        maximize: bool = False
    ) -> None:  # fmt: skip
        self._begin(params, locals())
        places = [(param, [i, j]) for i, group in enumerate(self.param_groups) for j, param in enumerate(group["params"])]
        if sparse := [place for param, place in places if param.is_sparse]:
            raise ValueError(f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors")
        if complex_ones := [place for param, place in places if param.is_complex()]:
            raise ValueError(f"Complex params at indices {complex_ones}: SparseAdam does not support complex parameters")

    def _check(self, options: dict[str, Any]) -> None:
        super()._check(options)
        if not 0.0 < options["lr"]:
            raise ValueError(f"Invalid learning rate: {options['lr']}")
        if not 0.0 < options["eps"]:
            raise ValueError(f"Invalid epsilon value: {options['eps']}")

    def _update_group(self, group: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        for param in group["params"]:
            if param.grad is None:
                continue
            if not param.grad.is_sparse:
                raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
            state = self.state[param]
            if not state:
                state.update(step=0, exp_avg=ops.zeros_like(param), exp_avg_sq=ops.zeros_like(param))
            state["step"] += 1
            sparse_adam(
                [param], [param.grad], [state["exp_avg"]], [state["exp_avg_sq"]], [state["step"]],
                eps=group["eps"], beta1=beta1, beta2=beta2, lr=number(group["lr"]), maximize=group["maximize"],
            )  # fmt: skip


def sparse_adam(
    params: list[Tensor], grads: list[Tensor], exp_avgs: list[Tensor], exp_avg_sqs: list[Tensor], state_steps: list[int], *,
    eps: float, beta1: float, beta2: float, lr: float, maximize: bool
) -> None:  # fmt: skip
    """Update ``params`` and the moments in place by one step of SparseAdam.

    Args:
        params: dense tensors to update.
        grads: their gradients, COO tensors of the same shapes.
        exp_avgs, exp_avg_sqs: dense moments of the same shapes.
        state_steps: the number of each parameter's steps with this one, ints.
        eps, lr, maximize: as in :class:`SparseAdam`.
        beta1, beta2: the two entries of its ``betas``.
    Source: torch.optim._functional.sparse_adam.
    Example:
        >>> param, mean, square = torch.zeros(3), torch.zeros(3), torch.zeros(3)
        >>> grad = torch.tensor([0.0, 2.0, 0.0]).to_sparse()
        >>> torch.optim.sparse_adam.sparse_adam([param], [grad], [mean], [square], [1],
        ...     lr=0.1, beta1=0.9, beta2=0.999, eps=1e-8, maximize=False)
        >>> param
        tensor([ 0.0000, -0.1000,  0.0000])
    """
    for param, grad, exp_avg, exp_avg_sq, step in zip(params, grads, exp_avgs, exp_avg_sqs, state_steps, strict=True):
        grad = grad.coalesce()  # the update is not linear, so that each element must be there once
        values = -grad._values() if maximize else grad._values()
        if not values.numel():
            continue
        old, old_sq = entries_of(exp_avg, grad), entries_of(exp_avg_sq, grad)
        change, change_sq = (values - old) * (1 - beta1), (values * values - old_sq) * (1 - beta2)
        add_entries_(exp_avg, with_entries(grad, change))
        add_entries_(exp_avg_sq, with_entries(grad, change_sq))
        step_size = lr * math.sqrt(1 - beta2**step) / (1 - beta1**step)
        update = (change + old) / ((change_sq + old_sq).sqrt() + eps)
        add_entries_(param, with_entries(grad, update * -step_size))
