"""The base class of all schedules, and how rates are read from and written to an optimizer."""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any
from weakref import ref

from ...core.tensor import Tensor
from .._stepping import scalar
from ..optimizer import Optimizer

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. "
    "Please use `scheduler.step()` to step the scheduler. With an epoch, the closed form of the schedule is used where there is one."
)
_ORDER_DOCUMENTATION = "See https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"


def check_optimizer(optimizer: object) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def group_values(optimizer: Optimizer, key: str) -> list[Any]:
    """One option of each group; tensors are copied, since they change in place."""
    values = [group[key] for group in optimizer.param_groups]
    return [value.clone() if isinstance(value, Tensor) else value for value in values]


def set_group_value(group: dict[str, Any], key: str, value: Any) -> None:
    """Set an option of a group; a tensor is filled, so that whoever holds it sees the new value."""
    if isinstance(group[key], Tensor):
        group[key].fill_(scalar(value))
    else:
        group[key] = value


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """``value`` for each group: a list or tuple has one for each, anything else is repeated."""
    count = len(optimizer.param_groups)
    if isinstance(value, (list, tuple)):
        if len(value) != count:
            raise ValueError(
                f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, param_groups has {count}."
            )
        values = list(value)
    else:
        values = [value] * count
    return [entry.clone() if isinstance(entry, Tensor) else entry for entry in values]


def saved_function(function: Callable[..., Any] | None) -> dict[str, Any] | None:
    """The attributes of a callable object; None for a plain function, which cannot be saved."""
    return None if function is None or isinstance(function, types.FunctionType) else function.__dict__.copy()


class LRScheduler:
    """Base class of the schedules: :meth:`step` writes the rates that :meth:`get_lr` computes into the optimizer's groups.

    Args:
        optimizer: whose groups' ``"lr"`` is scheduled. A rate that is a tensor is filled in place.
        last_epoch: how many steps were done before, -1 for a new schedule. To resume, each group needs an ``"initial_lr"``.
    Attributes:
        base_lrs: the groups' rates at the start.
        last_epoch: number of steps done.
    Raises:
        TypeError: ``optimizer`` is not an Optimizer.
        KeyError: resuming without ``"initial_lr"``.
    Source: torch.optim.lr_scheduler.LRScheduler.
    Example:
        >>> class Halved(torch.optim.lr_scheduler.LRScheduler):
        ...     def get_lr(self):
        ...         return [lr / 2**self.last_epoch for lr in self.base_lrs]
        >>> optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
        >>> print(Halved(optimizer, last_epoch=-1).get_last_lr())
        [1.0]
    """

    _get_lr_called_within_step: bool = False
    _is_initial: bool = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                lr = group["lr"]
                group.setdefault("initial_lr", lr.clone() if isinstance(lr, Tensor) else lr)
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with last_epoch >= 0: "
                    "load the optimizer's state first, or start with last_epoch=-1"
                )
        self.base_lrs: list[Any] = group_values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _track_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        """Write the first rates; this is not a step of the user's."""
        self._step_count = 0
        with _raised(self, "_is_initial"):
            self.step()

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, as a dict."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state that :meth:`state_dict` returned.

        Args:
            state_dict: the saved state. The optimizer's rates are part of the optimizer's own state.
        """
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The rates that the last step wrote, one for each group."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The rates for ``last_epoch``, one for each group; only meaningful inside :meth:`step`."""
        raise NotImplementedError

    def step(self, epoch: int | None = None) -> None:
        """Go to the next rates, after the optimizer's step.

        Args:
            epoch: go to this step instead; deprecated.
        """
        if self._step_count == 1:
            self._check_order()
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _check_order(self) -> None:
        if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            warnings.warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization, so the order of "
                f"`optimizer.step()` and `lr_scheduler.step()` cannot be checked: call the optimizer's first. {_ORDER_DOCUMENTATION}",
                UserWarning,
                stacklevel=3,
            )
        elif not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In the other order, `optimizer.step()` before "
                f"`lr_scheduler.step()`, the first value of the schedule is used too; now it is skipped. {_ORDER_DOCUMENTATION}",
                UserWarning,
                stacklevel=3,
            )

    def _update_lr(self, epoch: int | None = None) -> None:
        with _raised(self, "_get_lr_called_within_step"):
            if epoch is None:
                self.last_epoch += 1
                rates = self.get_lr()
            else:
                self.last_epoch = epoch
                closed_form = getattr(self, "_get_closed_form_lr", None)
                rates = closed_form() if closed_form is not None else self.get_lr()
        self._write(rates)

    def _write(self, rates: list[Any]) -> None:
        for group, lr in zip(self.optimizer.param_groups, rates, strict=True):
            set_group_value(group, "lr", lr)
        self._last_lr = group_values(self.optimizer, "lr")

    def _warn_outside_step(self) -> None:
        """For ``get_lr``: most rates follow from the last ones, so that a call outside ``step`` gives wrong ones."""
        if not self._get_lr_called_within_step:
            warnings.warn("To get the last learning rate computed by the scheduler, please use `get_last_lr()`.", UserWarning, stacklevel=3)

    def _same(self) -> list[Any]:
        """The present rates."""
        return group_values(self.optimizer, "lr")

    def _scaled(self, factor: float) -> list[Any]:
        """The present rates times ``factor``."""
        return [group["lr"] * factor for group in self.optimizer.param_groups]


class _LRScheduler(LRScheduler):
    """The base class of the schedules under its earlier name, for programs that derive from it.

    Args:
        optimizer, last_epoch: as in ``LRScheduler``.
    Raises:
        TypeError: ``optimizer`` is not an Optimizer.
        KeyError: resuming without ``"initial_lr"``.
    Source: torch.optim.lr_scheduler._LRScheduler.
    Example:
        >>> issubclass(torch.optim.lr_scheduler._LRScheduler, torch.optim.lr_scheduler.LRScheduler)
        True
    """


@contextmanager
def _raised(scheduler: LRScheduler, flag: str) -> Iterator[None]:
    """``scheduler.flag`` is True inside."""
    setattr(scheduler, flag, True)
    try:
        yield
    finally:
        setattr(scheduler, flag, False)


def _track_steps(optimizer: Optimizer) -> None:
    """Have ``optimizer.step`` set a mark, so that a schedule that steps first can warn."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    optimizer_ref = ref(optimizer)  # the optimizer holds this function: a plain reference would be a cycle
    function = optimizer.step.__func__  # type: ignore[attr-defined]

    @wraps(function)
    def step(*args: Any, **kwargs: Any) -> Any:
        target = optimizer_ref()
        target._opt_called = True  # type: ignore[union-attr]
        return function(target, *args, **kwargs)

    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer.step = step  # type: ignore[method-assign]
