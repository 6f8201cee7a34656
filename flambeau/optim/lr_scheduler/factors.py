"""Schedules that multiply the rates by a factor: given by a function, in steps, constant, linear, exponential, polynomial."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler, saved_function


class _FunctionLR(LRScheduler):
    """A schedule with one function of the step number for each group."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int) -> None:
        count = len(optimizer.param_groups)
        if isinstance(lr_lambda, (list, tuple)):
            if len(lr_lambda) != count:
                raise ValueError(f"Expected {count} lr_lambdas, but got {len(lr_lambda)}")
            self.lr_lambdas = list(lr_lambda)
        else:
            self.lr_lambdas = [lr_lambda] * count
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and plain functions, as a dict; callable objects are saved by their attributes."""
        return {**super().state_dict(), "lr_lambdas": [saved_function(function) for function in self.lr_lambdas]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state that :meth:`state_dict` returned; plain functions stay those of this schedule.

        Args:
            state_dict: the saved state.
        """
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "lr_lambdas"})
        for function, saved in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if saved is not None:
                function.__dict__.update(saved)


class LambdaLR(_FunctionLR):
    """``lr = initial lr * lr_lambda(step)``.

    Args:
        optimizer: whose rates are scheduled.
        lr_lambda: function of the step number (from 0), or one for each group.
        last_epoch: how many steps were done before, -1 for a new schedule.
    Raises:
        ValueError: another number of functions than groups.
    Source: torch.optim.lr_scheduler.LambdaLR.
    Example:
        >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (step + 1))
        >>> for _ in range(5):
        ...     optimizer.step(); scheduler.step()
        ...     print(f"{scheduler.get_last_lr()[0]:.2f}", end=" ")
        0.50 0.33 0.25 0.20 0.17
    """

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Callable[[int], float] | list[Callable[[int], float]], last_epoch: int = -1
    ) -> None:
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates for ``last_epoch``."""
        self._warn_outside_step()
        return [lr * function(self.last_epoch) for lr, function in zip(self.base_lrs, self.lr_lambdas, strict=True)]


class MultiplicativeLR(_FunctionLR):
    """``lr = last lr * lr_lambda(step)``, from the second step on.

    Args:
        optimizer: whose rates are scheduled.
        lr_lambda: function of the step number, or one for each group.
        last_epoch: how many steps were done before, -1 for a new schedule.
    Raises:
        ValueError: another number of functions than groups.
        TypeError: something that cannot be called.
    Source: torch.optim.lr_scheduler.MultiplicativeLR.
    Example:
        >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda step: 0.5)
        >>> for _ in range(5):
        ...     optimizer.step(); scheduler.step()
        ...     print(f"{scheduler.get_last_lr()[0]:.2f}", end=" ")
        0.50 0.25 0.12 0.06 0.03
    """

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Callable[[int], float] | list[Callable[[int], float]], last_epoch: int = -1
    ) -> None:
        for function in lr_lambda if isinstance(lr_lambda, (list, tuple)) else [lr_lambda]:
            if not callable(function):
                raise TypeError(f"lr_lambda should be a function, but got {type(function).__name__}")
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates for ``last_epoch``."""
        self._warn_outside_step()
        if self._is_initial:
            return self._same()
        groups = self.optimizer.param_groups
        return [group["lr"] * function(self.last_epoch) for group, function in zip(groups, self.lr_lambdas, strict=True)]


class StepLR(LRScheduler):
    """Multiply the rates by ``gamma`` every ``step_size`` steps.

    Args:
        optimizer: whose rates are scheduled.
        step_size: steps between two changes.
        gamma: the factor.
        last_epoch: how many steps were done before, -1 for a new schedule.
    Source: torch.optim.lr_scheduler.StepLR.
    Example:
        >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
        >>> for _ in range(5):
        ...     optimizer.step(); scheduler.step()
        ...     print(f"{scheduler.get_last_lr()[0]:.2f}", end=" ")
        1.00 0.50 0.50 0.25 0.25
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates for ``last_epoch``."""
        self._warn_outside_step()
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return self._same()
        return self._scaled(self.gamma)

    def _get_closed_form_lr(self) -> list[Any]:
        return [lr * self.gamma ** (self.last_epoch // self.step_size) for lr in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Multiply the rates by ``gamma`` at each milestone.

    Args:
        optimizer: whose rates are scheduled.
        milestones: step numbers; one that comes twice counts twice.
        gamma: the factor.
        last_epoch: how many steps were done before, -1 for a new schedule.
    Source: torch.optim.lr_scheduler.MultiStepLR.
    Example:
        >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 4])
        >>> for _ in range(5):
        ...     optimizer.step(); scheduler.step()
        ...     print(f"{scheduler.get_last_lr()[0]:.2f}", end=" ")
        0.10 0.10 0.10 0.01 0.01
    """

    def __init__(self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates for ``last_epoch``."""
        self._warn_outside_step()
        if self.last_epoch not in self.milestones:
            return self._same()
        return self._scaled(self.gamma ** self.milestones[self.last_epoch])

    def _get_closed_form_lr(self) -> list[Any]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [lr * self.gamma**passed for lr in self.base_lrs]


class ConstantLR(LRScheduler):
    """The rates times ``factor`` for ``total_iters`` steps, then as they were.

    Args:
        optimizer: whose rates are scheduled.
        factor: between 0 and 1.
        total_iters: number of steps with the smaller rates.
        last_epoch: how many steps were done before, -1 for a new schedule.
    Raises:
        ValueError: ``factor`` outside 0 to 1.
    Source: torch.optim.lr_scheduler.ConstantLR.
    Example:
        >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=3)
        >>> for _ in range(5):
        ...     optimizer.step(); scheduler.step()
        ...     print(f"{scheduler.get_last_lr()[0]:.2f}", end=" ")
        0.50 0.50 1.00 1.00 1.00
    """

    def __init__(self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates for ``last_epoch``."""
        self._warn_outside_step()
        if self.last_epoch == 0:
            return self._scaled(self.factor)
        return self._scaled(1.0 / self.factor) if self.last_epoch == self.total_iters else self._same()

    def _get_closed_form_lr(self) -> list[Any]:
        is_over = self.last_epoch >= self.total_iters
        return [lr * (self.factor + is_over * (1 - self.factor)) for lr in self.base_lrs]


class LinearLR(LRScheduler):
    """The rates times a factor that goes from ``start_factor`` to ``end_factor`` in ``total_iters`` equal steps.

    Args:
        optimizer: whose rates are scheduled.
        start_factor: above 0, at most 1.
        end_factor: between 0 and 1.
        total_iters: number of steps until the factor stays.
        last_epoch: how many steps were done before, -1 for a new schedule.
    Raises:
        ValueError: a factor out of its range.
    Source: torch.optim.lr_scheduler.LinearLR.
    Example:
        >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.2, total_iters=4)
        >>> for _ in range(5):
        ...     optimizer.step(); scheduler.step()
        ...     print(f"{scheduler.get_last_lr()[0]:.2f}", end=" ")
        0.40 0.60 0.80 1.00 1.00
    """

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1.0 / 3, end_factor: float = 1.0, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates for ``last_epoch``."""
        self._warn_outside_step()
        if self.last_epoch == 0:
            return self._scaled(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._same()
        rise = self.end_factor - self.start_factor
        return self._scaled(1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise))

    def _get_closed_form_lr(self) -> list[Any]:
        rise = self.end_factor - self.start_factor
        factor = self.start_factor + rise * min(self.total_iters, self.last_epoch) / self.total_iters
        return [lr * factor for lr in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Multiply the rates by ``gamma`` every step.

    Args:
        optimizer: whose rates are scheduled.
        gamma: the factor.
        last_epoch: how many steps were done before, -1 for a new schedule.
    Source: torch.optim.lr_scheduler.ExponentialLR.
    Example:
        >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        >>> for _ in range(5):
        ...     optimizer.step(); scheduler.step()
        ...     print(f"{scheduler.get_last_lr()[0]:.2f}", end=" ")
        0.50 0.25 0.12 0.06 0.03
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates for ``last_epoch``."""
        self._warn_outside_step()
        return self._same() if self._is_initial else self._scaled(self.gamma)

    def _get_closed_form_lr(self) -> list[Any]:
        return [lr * self.gamma**self.last_epoch for lr in self.base_lrs]


class PolynomialLR(LRScheduler):
    """The rates times ``(1 - step / total_iters)**power``, zero from ``total_iters`` on.

    Args:
        optimizer: whose rates are scheduled.
        total_iters: number of steps until the rates are zero.
        power: power of the polynomial.
        last_epoch: how many steps were done before, -1 for a new schedule.
    Source: torch.optim.lr_scheduler.PolynomialLR.
    Example:
        >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=4, power=2.0)
        >>> for _ in range(5):
        ...     optimizer.step(); scheduler.step()
        ...     print(f"{scheduler.get_last_lr()[0]:.2f}", end=" ")
        0.56 0.25 0.06 0.00 0.00
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates for ``last_epoch``."""
        self._warn_outside_step()
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._same()
        left = 1.0 - self.last_epoch / self.total_iters
        left_before = 1.0 - (self.last_epoch - 1) / self.total_iters
        return self._scaled((left / left_before) ** self.power)

    def _get_closed_form_lr(self) -> list[Any]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [lr * left**self.power for lr in self.base_lrs]
