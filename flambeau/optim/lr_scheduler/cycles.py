"""Cyclic rates and the one-cycle policy, which move the momentum against the rate."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from ..optimizer import Optimizer
from .base import LRScheduler, check_optimizer, per_group, saved_function, set_group_value

_SCALE_MODES = {"triangular": "cycle", "triangular2": "cycle", "exp_range": "iterations"}


class _MomentumScheduler(LRScheduler):
    """A schedule that also writes the momentum (for Adam and its kin: the first beta)."""

    cycle_momentum: bool
    use_beta1: bool

    def _start_momentum(self, base_momentum: Any, max_momentum: Any, last_epoch: int) -> tuple[list[Any], list[Any]]:
        """The bounds of the momentum for each group, which a new schedule writes into the groups with the largest momentum."""
        optimizer = self.optimizer
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in optimizer.defaults
        low = per_group("base_momentum", optimizer, base_momentum)
        high = per_group("max_momentum", optimizer, max_momentum)
        if last_epoch == -1:
            for group, lowest, highest in zip(optimizer.param_groups, low, high, strict=True):
                self._set_momentum(group, highest)
                group["max_momentum"] = highest
                group["base_momentum"] = lowest
        return low, high

    def _set_momentum(self, group: dict[str, Any], momentum: Any) -> None:
        if self.use_beta1:
            group["betas"] = (momentum, *group["betas"][1:])
        else:
            group["momentum"] = momentum


class CyclicLR(_MomentumScheduler):
    """The rates rise from ``base_lr`` to ``max_lr`` and fall again, periodically, and the momentum moves in the opposite direction.

    Args:
        optimizer: whose rates are scheduled.
        base_lr: lowest rate, or one for each group.
        max_lr: highest rate, or one for each group.
        step_size_up: number of steps in which the rates rise.
        step_size_down: number of steps in which they fall; ``step_size_up`` when None.
        mode: ``"triangular"``, ``"triangular2"`` (half the height each cycle), ``"exp_range"`` (height times ``gamma**step``).
        gamma: for ``"exp_range"``.
        scale_fn: factor of the height, instead of ``mode``.
        scale_mode: whether ``scale_fn`` gets the number of the cycle (``"cycle"``, from 1) or of the step (``"iterations"``).
        cycle_momentum: move the momentum too.
        base_momentum: lowest momentum, or one for each group.
        max_momentum: highest momentum, or one for each group.
        last_epoch: how many steps were done before, -1 for a new schedule.
    Raises:
        TypeError: ``optimizer`` is not an Optimizer.
        ValueError: an unknown mode, a wrong number of values, or ``cycle_momentum`` with an optimizer without momentum.
    Source: torch.optim.lr_scheduler.CyclicLR. Smith 2017.
    Example:
        >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.CyclicLR(optimizer, base_lr=0.5, max_lr=1.0, step_size_up=2, cycle_momentum=False)
        >>> for _ in range(5):
        ...     optimizer.step(); scheduler.step()
        ...     print(f"{scheduler.get_last_lr()[0]:.2f}", end=" ")
        0.75 1.00 0.75 0.50 0.75
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: Literal["triangular", "triangular2", "exp_range"] = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: Literal["cycle", "iterations"] = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for lr, group in zip(base_lrs, optimizer.param_groups, strict=True):
                set_group_value(group, "lr", lr)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in _SCALE_MODES and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode if scale_fn is not None else _SCALE_MODES[mode]
        if scale_fn is None:
            scale = getattr(self, f"_{mode}_scale_fn")
            self._scale_fn_ref = partial(scale, gamma) if mode == "exp_range" else scale
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums, self.max_momentums = self._start_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """The factor of the height at cycle or step ``x``."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        return self._scale_fn_ref(x)

    # Files of whole schedules name these.
    @staticmethod
    def _triangular_scale_fn(x: float) -> float:
        return 1.0

    @staticmethod
    def _triangular2_scale_fn(x: float) -> float:
        return 1 / (2.0 ** (x - 1))

    @staticmethod
    def _exp_range_scale_fn(gamma: float, x: float) -> float:
        return gamma**x

    def get_lr(self) -> list[Any]:
        """The rates for ``last_epoch``; writes the momentum."""
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        position = 1.0 + self.last_epoch / self.total_size - cycle
        going_up = position <= self.step_ratio
        height = position / self.step_ratio if going_up else (position - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            bounds = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
            for group, low, high in bounds:
                self._set_momentum(group, high - (high - low) * height * scale)
        return [low + (high - low) * height * scale for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and a plain ``scale_fn``, as a dict."""
        state = {**super().state_dict(), "_scale_fn_custom": saved_function(self._scale_fn_custom)}
        state.pop("_scale_fn_ref", None)
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state that :meth:`state_dict` returned; a plain ``scale_fn`` stays that of this schedule.

        Args:
            state_dict: the saved state.
        """
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_scale_fn_custom"})
        saved = state_dict["_scale_fn_custom"]
        if saved is not None:
            self._scale_fn_custom.__dict__.update(saved)


class OneCycleLR(_MomentumScheduler):
    """One cycle in ``total_steps`` steps: from a low rate up to ``max_lr``, then down to a much lower one.

    The rates start at ``max_lr / div_factor`` and end at that divided by ``final_div_factor``. Step it after each batch.

    Args:
        optimizer: whose rates are scheduled.
        max_lr: highest rate, or one for each group.
        total_steps: number of steps; ``epochs * steps_per_epoch`` when None.
        epochs: number of epochs.
        steps_per_epoch: number of steps in an epoch.
        pct_start: share of the cycle that goes up, a float between 0 and 1.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        cycle_momentum: move the momentum against the rate.
        base_momentum: lowest momentum, or one for each group.
        max_momentum: highest momentum, or one for each group.
        div_factor: highest rate over first rate.
        final_div_factor: first rate over last rate.
        three_phase: go down to the first rate as fast as up, and from there to the last rate.
        last_epoch: how many steps were done before, -1 for a new schedule.
    Raises:
        TypeError: ``optimizer`` is not an Optimizer.
        ValueError: an option out of its range, or at a step: more steps than ``total_steps``.
    Source: torch.optim.lr_scheduler.OneCycleLR. Smith and Topin 2019.
    Example:
        >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        >>> scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=6, cycle_momentum=False)
        >>> for _ in range(5):
        ...     optimizer.step(); scheduler.step()
        ...     print(f"{scheduler.get_last_lr()[0]:.2f}", end=" ")
        0.99 0.81 0.46 0.13 0.00
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = _total_steps(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or pct_start < 0 or pct_start > 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._schedule_phases = _one_cycle_phases(self.total_steps, pct_start, three_phase)
        self._anneal_func_type = anneal_strategy
        max_lrs = per_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, highest in zip(optimizer.param_groups, max_lrs, strict=True):
                group["initial_lr"] = highest / div_factor
                group["max_lr"] = highest
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._start_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _anneal(self, start: Any, end: Any, share: float) -> Any:
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)
        return (end - start) * share + start

    def get_lr(self) -> list[Any]:
        """The rates for ``last_epoch``; writes the momentum."""
        self._warn_outside_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        start_step = 0.0
        for phase in self._schedule_phases[:-1]:
            if step <= phase["end_step"]:
                break
            start_step = phase["end_step"]
        else:
            phase = self._schedule_phases[-1]
        share = (step - start_step) / (phase["end_step"] - start_step)
        groups = self.optimizer.param_groups
        if self.cycle_momentum:
            for group in groups:
                self._set_momentum(group, self._anneal(group[phase["start_momentum"]], group[phase["end_momentum"]], share))
        return [self._anneal(group[phase["start_lr"]], group[phase["end_lr"]], share) for group in groups]


def _total_steps(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    if total_steps is not None:
        if not isinstance(total_steps, int) or total_steps <= 0:
            raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
        return total_steps
    if epochs is None or steps_per_epoch is None:
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    for name, value in (("epochs", epochs), ("steps_per_epoch", steps_per_epoch)):
        if not isinstance(value, int) or value <= 0:
            raise ValueError(f"Expected positive integer {name}, but got {value}")
    return epochs * steps_per_epoch


def _one_cycle_phases(total_steps: int, pct_start: float, three_phase: bool) -> list[dict[str, Any]]:
    """The phases: at which step each ends, and between which options of a group it moves."""

    def phase(end_step: float, start_lr: str, end_lr: str, start_momentum: str, end_momentum: str) -> dict[str, Any]:
        return {
            "end_step": end_step,
            "start_lr": start_lr,
            "end_lr": end_lr,
            "start_momentum": start_momentum,
            "end_momentum": end_momentum,
        }

    up = phase(float(pct_start * total_steps) - 1, "initial_lr", "max_lr", "max_momentum", "base_momentum")
    if not three_phase:
        return [up, phase(total_steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum")]
    return [
        up,
        phase(float(2 * pct_start * total_steps) - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
        phase(total_steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
    ]
