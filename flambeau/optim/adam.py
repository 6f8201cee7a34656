"""Adam and AdamW: one rule, which differ in where the weight decay goes."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from ._stepping import scalar
from .elementwise import ElementwiseOptimizer, functional, moment_numbers, moments
from .optimizer import ParamsT

__all__ = ["Adam", "AdamW", "adam"]


class Adam(ElementwiseOptimizer):
    """Adaptive moment estimation.

    With gradient ``g`` (plus ``weight_decay * p``): ``m = beta1 * m + (1 - beta1) * g``, ``v = beta2 * v + (1 - beta2) * g**2``,
    and after ``t`` steps ``p = p - lr * (m / (1 - beta1**t)) / (sqrt(v / (1 - beta2**t)) + eps)``.

    Args:
        betas: decay of the first and of the second moment; two floats or two tensors of one element.
        amsgrad: divide by the largest second moment so far.
        foreach: accepted; the mathematics is the same, but ``lr`` and ``betas`` have to be numbers.
        decoupled_weight_decay: shrink the parameters by ``lr * weight_decay`` instead of changing the gradient: AdamW.
    Attributes:
        state: per parameter ``step`` (a 0-d tensor), ``exp_avg``, ``exp_avg_sq``, with ``amsgrad`` also ``max_exp_avg_sq``.
    Raises:
        ValueError: an option out of its range.
        RuntimeError: sparse gradients, or ``fused`` with ``foreach`` or ``differentiable``.
    Source: torch.optim.Adam. Kingma and Ba 2015, algorithm 1; AMSGrad: Reddi et al. 2018.
    Example:
        >>> weight = nn.Parameter(torch.tensor([1.0, -2.0]))
        >>> optimizer = torch.optim.Adam([weight], lr=0.1)
        >>> (weight**2).sum().backward()
        >>> optimizer.step()
        >>> weight.data
        tensor([ 0.9000, -1.9000])
    """

    _options = "lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused decoupled_weight_decay"
    _non_negative = "eps weight_decay"
    _moments = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
    _sparse_hint = ", please consider SparseAdam instead"

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-3, betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None,
        maximize: bool = False, capturable: bool = False, differentiable: bool = False, fused: bool | None = None,
        decoupled_weight_decay: bool = False
    ) -> None:  # fmt: skip
        self._begin(params, locals())

    def _check(self, options: dict[str, Any]) -> None:
        betas, wants_numbers = options["betas"], bool(options["foreach"]) and not options["capturable"]
        _check_lr_type(options, ValueError)
        super()._check(options)
        are_tensors = [isinstance(beta, Tensor) for beta in betas]
        if not (all(are_tensors) or all(isinstance(beta, float) for beta in betas)):
            raise ValueError("betas must be either both floats or both Tensors")
        for idx, beta in enumerate(betas):
            if are_tensors[idx] and wants_numbers:
                raise ValueError(f"betas[{idx}] as a Tensor is not supported for capturable=False and foreach=True")
            if are_tensors[idx] and beta.numel() != 1:
                raise ValueError(f"Tensor betas[{idx}] must be 1-element")
        options["betas"] = tuple(map(scalar, betas))

    def _check_group(self, group: dict[str, Any]) -> None:
        _check_lr_type(group, RuntimeError)

    @classmethod
    def _kept(cls, group: dict[str, Any]) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if group["amsgrad"] else ("exp_avg", "exp_avg_sq")

    @staticmethod
    def _numbers(group: dict[str, Any], count: float) -> dict[str, Any]:
        return {**moment_numbers(*group["betas"]), "eps": group["eps"], **Adam._counted(group, count)}

    @staticmethod
    def _counted(group: dict[str, Any], count: float) -> dict[str, Any]:
        beta1, beta2 = group["betas"]
        return {"correction": (1 - beta2**count) ** 0.5, "step_size": -(group["lr"] / (1 - beta1**count))}

    @staticmethod
    def _rule(f: Any, n: Any, param: Any, grad: Any, exp_avg: Any, exp_avg_sq: Any, largest: Any) -> Any:
        exp_avg, exp_avg_sq = moments(f, n, grad, exp_avg, exp_avg_sq)
        if largest is not None:
            largest = f.maximum(largest, exp_avg_sq)
        root = f.sqrt(exp_avg_sq if largest is None else largest) / n.correction + n.eps
        return f.addcdiv(param, exp_avg, root, n.step_size), exp_avg, exp_avg_sq, largest


def _check_lr_type(options: dict[str, Any], error: type[Exception]) -> None:
    if options["foreach"] and not options["capturable"] and isinstance(options["lr"], Tensor):
        raise error("lr as a Tensor is not supported for capturable=False and foreach=True")


class AdamW(Adam):
    """Adam with decoupled weight decay: ``p = p * (1 - lr * weight_decay)`` before the update, the gradient stays as it is.

    Args:
        weight_decay: by which part (times ``lr``) the parameters shrink in a step.
        amsgrad: divide by the largest second moment so far.
        foreach: accepted; the mathematics is the same, but ``lr`` and ``betas`` have to be numbers.
    Attributes:
        state: per parameter ``step``, ``exp_avg``, ``exp_avg_sq``, with ``amsgrad`` also ``max_exp_avg_sq``, as Adam's.
    Raises:
        ValueError: an option out of its range.
        RuntimeError: sparse gradients, or ``fused`` with ``foreach`` or ``differentiable``.
    Source: torch.optim.AdamW. Loshchilov and Hutter 2019.
    Example:
        >>> weight = nn.Parameter(torch.tensor([1.0, -2.0]))
        >>> optimizer = torch.optim.AdamW([weight], lr=0.1, weight_decay=0.5)
        >>> (weight**2).sum().backward()
        >>> optimizer.step()
        >>> weight.data
        tensor([ 0.8500, -1.8000])
    """

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 1e-3, betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False,
        foreach: bool | None = None, capturable: bool = False, differentiable: bool = False, fused: bool | None = None
    ) -> None:  # fmt: skip
        self._begin(params, {**locals(), "decoupled_weight_decay": True})

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


@functional(Adam, "exp_avg exp_avg_sq max_exp_avg_sq step")
def adam(  # type: ignore[no-untyped-def]
    params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, foreach=None, capturable=False, differentiable=False,
    fused=None, grad_scale=None, found_inf=None, has_complex=False, decoupled_weight_decay=False, *, amsgrad, beta1, beta2, lr,
    weight_decay, eps, maximize
):  # fmt: skip
    """
    Example:
        >>> param, grad = torch.tensor([1.0]), torch.tensor([2.0])
        >>> mean, square, step = torch.zeros(1), torch.zeros(1), torch.zeros(())
        >>> torch.optim.adam.adam([param], [grad], [mean], [square], [], [step],
        ...     lr=0.1, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, amsgrad=False, maximize=False)
        >>> param
        tensor([0.9000])
    """
