"""Cosine annealing, once or with warm restarts."""

from __future__ import annotations

import math
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler, _raised


class CosineAnnealingLR(LRScheduler):
    """The rates follow half a cosine from where they start to ``eta_min`` in ``T_max`` steps, and back up in as many.

    ``lr = eta_min + (initial lr - eta_min) * (1 + cos(pi * step / T_max)) / 2``, computed from the last rate, so that it can be
    combined with other changes of the rate.

    Args:
        optimizer: whose rates are scheduled.
        T_max: steps of half a period.
        eta_min: smallest rate.
        last_epoch: how many steps were done before, -1 for a new schedule.
    Source: torch.optim.lr_scheduler.CosineAnnealingLR. Loshchilov and Hutter 2017, without the restarts.
    Example:
        >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
        >>> for _ in range(5):
        ...     optimizer.step(); scheduler.step()
        ...     print(f"{scheduler.get_last_lr()[0]:.2f}", end=" ")
        0.85 0.50 0.15 0.00 0.15
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates for ``last_epoch``."""
        self._warn_outside_step()
        step, period, low = self.last_epoch, self.T_max, self.eta_min
        if self._is_initial:
            return self._same()
        rates = [group["lr"] for group in self.optimizer.param_groups]
        if self._step_count == 1 and step > 0:
            return [low + (base - low) * (1 + math.cos(step * math.pi / period)) / 2 for base in self.base_lrs]
        if (step - 1 - period) % (2 * period) == 0:
            # The last rate was the lowest, from which no ratio leads up.
            rise = 1 - math.cos(math.pi / period)
            return [lr + (base - low) * rise / 2 for lr, base in zip(rates, self.base_lrs, strict=True)]
        ratio = (1 + math.cos(math.pi * step / period)) / (1 + math.cos(math.pi * (step - 1) / period))
        return [ratio * (lr - low) + low for lr in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        low = self.eta_min
        return [low + (base - low) * (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2 for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """The rates fall along half a cosine to ``eta_min`` and jump back, each time after ``T_mult`` times as many steps.

    Args:
        optimizer: whose rates are scheduled.
        T_0: steps until the first restart.
        T_mult: factor of the steps from restart to restart.
        eta_min: smallest rate.
        last_epoch: how many steps were done before, -1 for a new schedule.
    Attributes:
        T_cur: steps since the last restart.
        T_i: steps between the last restart and the next.
    Raises:
        ValueError: ``T_0`` or ``T_mult`` not a positive int, or ``eta_min`` not a number.
    Source: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts. Loshchilov and Hutter 2017.
    Example:
        >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=3)
        >>> for _ in range(7):
        ...     optimizer.step(); scheduler.step()
        ...     print(f"{scheduler.get_last_lr()[0]:.2f}", end=" ")
        0.75 0.25 1.00 0.75 0.25 1.00 0.75
    """

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        if not isinstance(T_0, int) or T_0 <= 0:
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if not isinstance(T_mult, int) or T_mult < 1:
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates for ``T_cur``."""
        self._warn_outside_step()
        low = self.eta_min
        return [low + (base - low) * (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2 for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go to the next rates, or to those of ``epoch``.

        Args:
            epoch: steps since the start; a fraction is allowed, to follow the cosine within an epoch.
        Raises:
            ValueError: a negative ``epoch``.
        """
        if epoch is None and self.last_epoch >= 0:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            epoch = 0 if epoch is None else epoch
            if epoch < 0:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
            self._jump(epoch)
        self.last_epoch = math.floor(epoch)
        with _raised(self, "_get_lr_called_within_step"):
            rates = self.get_lr()
        self._write(rates)

    def _jump(self, epoch: float) -> None:
        """Set the present cycle from the steps since the start, of which the cycles are a geometric series."""
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            cycle = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**cycle - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**cycle
