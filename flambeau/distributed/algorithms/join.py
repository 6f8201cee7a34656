"""Training on uneven inputs: ranks without inputs take part in the exchanges of those that have some.

Source: torch.distributed.algorithms.join.

Each iteration of a rank with inputs begins with the sum of ones over all ranks; a rank without adds zero, and thereby learns that there
is an iteration in which it has to take part. When the sum is zero, all have joined.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple

from ... import distributed as dist, ops

__all__ = ["Join", "JoinHook", "Joinable"]

_MANY = 1000  # iterations after which a rank that waits says so


class JoinHook:
    """Work of a rank without inputs for one :class:`Joinable`.

    Source: torch.distributed.algorithms.JoinHook.
    Example:
        >>> torch.distributed.algorithms.join.JoinHook().main_hook()
    """

    def main_hook(self) -> None:
        """Take part in the exchanges of one iteration of the ranks with inputs. Source: torch.distributed.algorithms.JoinHook.main_hook."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called once when all ranks have joined.

        Args:
            is_last_joiner: whether this rank is one of those that joined last.
        Source: torch.distributed.algorithms.JoinHook.post_hook.
        """


class _JoinConfig(NamedTuple):
    """Options of the context that a :class:`Joinable` is in."""

    enable: bool
    throw_on_early_termination: bool
    is_first_joinable: bool

    @staticmethod
    def construct_disabled_join_config() -> _JoinConfig:
        return _JoinConfig(False, False, False)


class Joinable(ABC):
    """Base of what can take part in :class:`Join`: it calls ``Join.notify_join_context(self)`` before its first exchange of an iteration.

    Source: torch.distributed.algorithms.Joinable.
    Example:
        >>> issubclass(torch.nn.parallel.DistributedDataParallel, Joinable)
        True
    """

    @abstractmethod
    def __init__(self) -> None:
        super().__init__()
        self._join_config = _JoinConfig.construct_disabled_join_config()

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """A hook that does what this object's exchanges need. Source: torch.distributed.algorithms.Joinable.join_hook."""

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """The device of the exchanges. Source: torch.distributed.algorithms.Joinable.join_device."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """The group of the exchanges. Source: torch.distributed.algorithms.Joinable.join_process_group."""


class Join:
    """A context in which ranks may run out of inputs at different times.

    Args:
        joinables: wrapped modules and optimizers that exchange something in each iteration, in one order on all ranks.
        enable: False if inputs are known to be even: nothing is done.
        throw_on_early_termination: raise on all ranks as soon as one has no inputs left.
        kwargs: for the hooks of ``joinables``.
    Raises:
        ValueError: no joinables, or of several groups or devices. RuntimeError: inputs ended, with ``throw_on_early_termination``.
    Source: torch.distributed.algorithms.Join.
    Example:
        >>> torch.distributed.algorithms.join.Join([])
        Traceback (most recent call last):
            ...
        ValueError: The join context manager requires at least one joinable
    """

    def __init__(self, joinables: list[Joinable], enable: bool = True, throw_on_early_termination: bool = False, **kwargs: Any) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables = joinables
        self._join_hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        self._enable, self._throws = enable, throw_on_early_termination
        for number, joinable in enumerate(joinables):
            joinable._join_config = _JoinConfig(enable, throw_on_early_termination, number == 0)
        self._process_group = _only([joinable.join_process_group for joinable in joinables], "process groups")
        self._device = _only([joinable.join_device for joinable in joinables], "devices")

    def __enter__(self) -> None:
        """Nothing is done until inputs end."""

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        """This rank has no inputs left, unless it comes with an exception: take part until no rank has any."""
        if not self._enable or kind is not None:
            return
        iterations, is_last = 0, True
        while self._sum(0) > 0:
            if self._throws:
                self._sum(1)
                raise RuntimeError(f"Rank {dist.get_rank(self._process_group)} exhausted all inputs.")
            if iterations == _MANY:
                warnings.warn(
                    f"Detected uneven input skew of greater than {_MANY}. This means that rank {dist.get_rank(self._process_group)} has at "
                    f"least {_MANY} fewer inputs than other currently-active ranks. This level of skew could lead to performance "
                    "degradation during training.",
                    stacklevel=2,
                )
            is_last = False
            for hook in self._join_hooks:
                hook.main_hook()
            iterations += 1
        for hook in self._join_hooks:
            hook.post_hook(is_last)

    def _sum(self, value: int) -> int:
        """The sum of this over all ranks."""
        count = ops.full((1,), float(value), device=self._device)
        dist.all_reduce(count, group=self._process_group, async_op=True).wait()  # as ``notify_join_context`` has it
        return int(count.item())

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Any:
        """Tell ranks without inputs that this one begins an iteration.

        Args:
            joinable: the caller; only the first of a context tells it.
        Returns:
            The work of the sum of ranks with inputs; None outside of a context, or where this is not the first of it.
        Raises:
            RuntimeError: a rank has no inputs left, with ``throw_on_early_termination``.
        Source: torch.distributed.algorithms.Join.notify_join_context.
        """
        config = getattr(joinable, "_join_config", None)
        if config is None:
            raise AssertionError(f"Check that the {type(joinable)} constructor calls the ``Joinable`` constructor")
        if not config.is_first_joinable or not config.enable:
            return None
        device, group = joinable.join_device, joinable.join_process_group
        ones = ops.ones(1, device=device)
        work = dist.all_reduce(ones, group=group, async_op=True)
        if config.throw_on_early_termination:
            work.wait()
            if int(ones.item()) < dist.get_world_size(group):
                ended = ops.zeros(1, device=device)
                dist.all_reduce(ended, group=group, async_op=True).wait()
                raise RuntimeError("Detected at least one rank that exhausted inputs. Throwing across all ranks.")
        joinable._active_ranks = ones  # type: ignore[attr-defined]
        return work


def _only(values: Sequence[Any], what: str) -> Any:
    """The one value that all are."""
    for value in values:
        if value != values[0]:
            raise ValueError(f"Using join context manager with multiple {what}")
    return values[0]
