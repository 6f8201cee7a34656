"""Averages of a model over training: stochastic weight averaging and exponential moving averages."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from typing import Any, Literal, TypeAlias

from .. import nn, ops
from ..autograd.grad_mode import no_grad
from ..core.dtype import int64
from ..core.tensor import Tensor
from ..nn.normalization import _BatchNorm
from .lr_scheduler.base import LRScheduler, per_group
from .optimizer import Optimizer

__all__ = ["SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn", "update_bn"]

AverageFn: TypeAlias = Callable[[Tensor, Tensor, Any], Tensor]
MultiAverageFn: TypeAlias = Callable[[list[Tensor], list[Tensor], Any], None]


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def _can_lerp(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def get_ema_avg_fn(decay: float = 0.999) -> AverageFn:
    """The function ``(average, new, count) -> decay * average + (1 - decay) * new``.

    Args:
        decay: between 0 and 1.
    Returns:
        A function of two tensors of one shape and a number, which returns a tensor of that shape.
    Raises:
        ValueError: ``decay`` outside 0 to 1.
    Source: torch.optim.swa_utils.get_ema_avg_fn.
    Example:
        >>> torch.optim.swa_utils.get_ema_avg_fn(0.75)(torch.tensor([1.0]), torch.tensor([5.0]), 1)
        tensor([2.])
    """
    _check_decay(decay)

    @no_grad()
    def average(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return decay * ema_param + (1 - decay) * current_param

    return average


def get_swa_avg_fn() -> AverageFn:
    """The function ``(average, new, count) -> average + (new - average) / (count + 1)``.

    Returns:
        A function of two tensors of one shape and the number of models in the average; it returns a tensor of that shape.
    Source: torch.optim.swa_utils.get_swa_avg_fn.
    Example:
        >>> torch.optim.swa_utils.get_swa_avg_fn()(torch.tensor([1.0]), torch.tensor([5.0]), 1)
        tensor([3.])
    """

    @no_grad()
    def average(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return average


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAverageFn:
    """As :func:`get_ema_avg_fn`, for lists of tensors and in place.

    Args:
        decay: between 0 and 1.
    Returns:
        A function of two lists of tensors and a number, which changes the first list's tensors.
    Raises:
        ValueError: ``decay`` outside 0 to 1.
    Source: torch.optim.swa_utils.get_ema_multi_avg_fn.
    Example:
        >>> averages = [torch.tensor([1.0])]
        >>> torch.optim.swa_utils.get_ema_multi_avg_fn(0.75)(averages, [torch.tensor([5.0])], 1)
        >>> averages
        [tensor([2.])]
    """
    _check_decay(decay)

    @no_grad()
    def average(ema_params: list[Tensor], current_params: list[Tensor], num_averaged: Any) -> None:
        for ema_param, current_param in zip(ema_params, current_params, strict=True):
            if _can_lerp(ema_param):
                ema_param.lerp_(current_param, 1 - decay)
            else:
                ema_param.copy_(ema_param * decay + current_param * (1 - decay))

    return average


def get_swa_multi_avg_fn() -> MultiAverageFn:
    """As :func:`get_swa_avg_fn`, for lists of tensors and in place.

    Returns:
        A function of two lists of tensors and the number of models in the average, which changes the first list's tensors.
    Source: torch.optim.swa_utils.get_swa_multi_avg_fn.
    Example:
        >>> averages = [torch.tensor([1.0])]
        >>> torch.optim.swa_utils.get_swa_multi_avg_fn()(averages, [torch.tensor([5.0])], 1)
        >>> averages
        [tensor([3.])]
    """

    @no_grad()
    def average(averaged_params: list[Tensor], current_params: list[Tensor], num_averaged: Any) -> None:
        weight = float(1 / (num_averaged + 1))
        for averaged_param, current_param in zip(averaged_params, current_params, strict=True):
            if _can_lerp(averaged_param):
                averaged_param.lerp_(current_param, weight)
            else:
                averaged_param.copy_(averaged_param + (current_param - averaged_param) * weight)

    return average


class AveragedModel(nn.Module):
    """A copy of a model whose parameters are averages of that model's over training.

    Args:
        model: the model; it is copied.
        device: where the copy lives; the model's when None.
        avg_fn: ``(average, new, count) -> average`` for one tensor; the mean of all when None.
        multi_avg_fn: ``(averages, news, count)`` for lists of tensors, in place; instead of ``avg_fn``.
        use_buffers: average the buffers too, instead of taking over the newest.
    Shape:
        That of the model.
    Attributes:
        module: the copy.
        n_averaged: how many models are in the average (0-d int64).
    Raises:
        AssertionError: both ``avg_fn`` and ``multi_avg_fn``.
    Source: torch.optim.swa_utils.AveragedModel. Izmailov et al. 2018.
    Example:
        >>> average = torch.optim.swa_utils.AveragedModel(model := nn.Linear(2, 1))
        >>> for value in (1.0, 3.0):
        ...     model.weight.data = torch.full((1, 2), value)
        ...     average.update_parameters(model)
        >>> print(average.module.weight.data)
        tensor([[2., 2.]])
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: nn.Module,
        device: Any = None,
        avg_fn: AverageFn | None = None,
        multi_avg_fn: MultiAverageFn | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", ops.tensor(0, dtype=int64, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The averaged model's output."""
        return self.module(*args, **kwargs)

    def _averaged(self, model: nn.Module) -> Iterator[Tensor]:
        return itertools.chain(model.parameters(), model.buffers()) if self.use_buffers else model.parameters()

    @no_grad()
    def update_parameters(self, model: nn.Module) -> None:
        """Take ``model``'s present parameters into the average.

        Args:
            model: the model that is trained.
        """
        averages = [param.detach() for param in self._averaged(self.module)]
        news = [param.detach().to(average.device) for param, average in zip(self._averaged(model), averages, strict=False)]
        if self.n_averaged == 0:
            for average, new in zip(averages, news, strict=True):
                average.copy_(new)
        else:
            self._average(averages, news)
        if not self.use_buffers:
            for average, new in zip(self.module.buffers(), model.buffers(), strict=True):
                average.detach().copy_(new.detach().to(average.device))
        self.n_averaged += 1

    def _average(self, averages: list[Tensor], news: list[Tensor]) -> None:
        if self.multi_avg_fn is not None:
            # Functions for lists may look at the first tensor only, so each list has one device and dtype.
            lists: dict[Any, tuple[list[Tensor], list[Tensor]]] = {}
            for average, new in zip(averages, news, strict=True):
                same = lists.setdefault((average.device, average.dtype), ([], []))
                same[0].append(average)
                same[1].append(new)
            for (device, _), same in lists.items():
                self.multi_avg_fn(*same, self.n_averaged.to(device))
            return
        function = self.avg_fn or get_swa_avg_fn()
        for average, new in zip(averages, news, strict=True):
            average.copy_(function(average, new, self.n_averaged.to(average.device)))


@no_grad()
def update_bn(loader: Iterable[Any], model: nn.Module, device: Any = None) -> None:
    """Compute a model's batch normalization statistics anew, as plain means over a data set.

    Args:
        loader: gives batches; of a list or tuple the first entry is the input.
        model: usually an :class:`AveragedModel`, whose statistics no batch has gone through.
        device: where the batches are moved.
    Source: torch.optim.swa_utils.update_bn.
    Example:
        >>> model = nn.Sequential(nn.BatchNorm1d(1))
        >>> torch.optim.swa_utils.update_bn([torch.tensor([[1.0], [3.0]]), torch.tensor([[6.0], [6.0]])], model)
        >>> model[0].running_mean
        tensor([4.])
    """
    momenta = {}
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.reset_running_stats()
            momenta[module] = module.momentum
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.momentum = None
    for batch in loader:
        data = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(data if device is None else data.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Anneal the rates from where they are to ``swa_lr`` in ``anneal_epochs`` steps, and keep them there.

    Args:
        optimizer: whose rates are scheduled.
        swa_lr: the final rate, or one for each group.
        anneal_epochs: number of steps.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        last_epoch: how many steps were done before, -1 for a new schedule.
    Raises:
        ValueError: an unknown strategy, or a negative ``anneal_epochs``.
    Source: torch.optim.swa_utils.SWALR.
    Example:
        >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        >>> scheduler = torch.optim.swa_utils.SWALR(optimizer, swa_lr=0.2, anneal_epochs=4, anneal_strategy="linear")
        >>> for _ in range(5):
        ...     optimizer.step(); scheduler.step()
        ...     print(f"{scheduler.get_last_lr()[0]:.2f}", end=" ")
        0.80 0.60 0.40 0.20 0.20
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        last_epoch: int = -1,
    ) -> None:
        for group, rate in zip(optimizer.param_groups, per_group("swa_lr", optimizer, swa_lr), strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        """The share of ``swa_lr`` in the rate after ``step`` steps."""
        position = max(0, min(1, step / max(1, self.anneal_epochs)))
        return (1 - math.cos(math.pi * position)) / 2 if self._anneal_strategy == "cos" else position

    def get_lr(self) -> list[Any]:
        """The rates for the present step, from the last ones."""
        self._warn_outside_step()
        step = max(1, self._step_count - 1) if self.anneal_epochs == 0 else self._step_count - 1
        before, now = self._share(step - 1), self._share(step)
        rates = []
        for group in self.optimizer.param_groups:
            final = group["swa_lr"]
            first = final if before == 1 else (group["lr"] - before * final) / (1 - before)
            rates.append(final * now + first * (1 - now))
        return rates
