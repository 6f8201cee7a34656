"""Schedules whose backwards come in two halves, so that gradients of weights fill the time in which a process would wait.

The order is found by playing the whole pipeline through, step by step: each process takes, of what is ready, first the gradients of inputs,
for which others wait, then a forward, if it does not keep too many parts yet, and else gradients of weights. Qi et al. 2023 and
2024 describe such orders; every process computes the same one.
"""

from __future__ import annotations

from collections.abc import Callable

from ._steps import InTurns, _Action

__all__ = ["ScheduleDualPipeV", "ScheduleInterleavedZeroBubble", "ScheduleZBVZeroBubble"]


class _Play:
    """A pipeline that is played through in steps.

    Args:
        owners: by stage, its process.
        parts: of the batch.
        limit: parts that a process keeps at most, forward of which is done and backward is not.
        has_backward: whether there are backwards.
    """

    def __init__(self, owners: list[int], parts: int, limit: Callable[[int], int], has_backward: bool) -> None:
        self.owners, self.limit = owners, limit
        processes = max(owners) + 1
        self.order: list[list[_Action]] = [[] for _ in range(processes)]
        self.done: set[_Action] = set()
        kinds = "FIW" if has_backward else "F"
        self.left = {_Action(kind, stage, part) for stage in range(len(owners)) for part in range(parts) for kind in kinds}
        self.mine = [sorted((each for each in self.left if owners[each.stage] == rank), key=_rank_of_action) for rank in range(processes)]

    def played(self) -> list[list[_Action]]:
        """By process, its actions in order."""
        while self.left:
            chosen = [self._chosen(rank, bounded=True) for rank in range(len(self.order))]
            if not any(chosen):
                chosen = [self._chosen(rank, bounded=False) for rank in range(len(self.order))]
            for rank, action in enumerate(chosen):
                if action is not None:
                    self.order[rank].append(action)
                    self.mine[rank].remove(action)
                    self.left.remove(action)
                    self.done.add(action)
        return self.order

    def _chosen(self, rank: int, bounded: bool) -> _Action | None:
        """The action that a process takes next; None where nothing is ready."""
        kept = sum(1 if each.kind == "F" else -1 for each in self.order[rank] if each.kind in "FW")
        full = bounded and kept >= self.limit(rank)
        return next((each for each in self.mine[rank] if self._is_ready(each) and not (full and each.kind == "F")), None)

    def _is_ready(self, action: _Action) -> bool:
        kind, stage, part = action
        if kind == "F":
            return not stage or _Action("F", stage - 1, part) in self.done
        if kind == "W":
            return _Action("I", stage, part) in self.done
        after = stage + 1 == len(self.owners) or _Action("I", stage + 1, part) in self.done
        return after and _Action("F", stage, part) in self.done


def _rank_of_action(action: _Action) -> tuple[int, int, int]:
    """Gradients of inputs, forwards, gradients of weights; among these the earliest part, and of one the latest stage."""
    return "IFW".index(action.kind), action.part, -action.stage


class _ZeroBubble(InTurns):
    """A schedule whose order is played through."""

    def _prepare(self) -> None:
        self.pp_group_size, self._num_stages = self._stages[0].group_size, self._stages[0].num_stages
        self._check()
        self._owners = self._placed()
        for stage in self._stages:
            if self._owners[stage.stage_index] != stage.group_rank:
                raise ValueError(f"{type(self).__name__}: stage {stage.stage_index} belongs to process {self._owners[stage.stage_index]}")
            stage.stage_index_to_group_rank = dict(enumerate(self._owners))
        self._orders: dict[bool, list[_Action]] = {}

    def _check(self) -> None:
        """Raise where the numbers of parts and stages do not fit."""

    def _placed(self) -> list[int]:
        """By stage, its process."""
        return [stage % self.pp_group_size for stage in range(self._num_stages)]

    def _limit(self, rank: int) -> int:
        """Parts that a process keeps at most."""
        return 2 * self.pp_group_size

    def _order(self, has_backward: bool) -> list[_Action]:
        if has_backward not in self._orders:
            played = _Play(self._owners, self._n_microbatches, self._limit, has_backward).played()
            self._orders[has_backward] = played[self._stages[0].group_rank]
        return self._orders[has_backward]


class ScheduleInterleavedZeroBubble(_ZeroBubble):
    """Several stages on each process, in turns, with backwards in halves.

    Args:
        stages: this process's stages.
        n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads: as for :class:`ScheduleGPipe`.
        backward_requires_autograd, defer_pp_recv: as they are by default.
    Raises:
        NotImplementedError: other values of these.
    Source: torch.distributed.pipelining.ScheduleInterleavedZeroBubble; Qi et al. 2023.
    Example:
        >>> from flambeau.distributed.pipelining import ScheduleInterleavedZeroBubble
        >>> ScheduleInterleavedZeroBubble.__name__
        'ScheduleInterleavedZeroBubble'
    """

    def _check(self) -> None:
        if self._n_microbatches % self.pp_group_size:
            raise ValueError(
                "Zero bubble requires the number of microbatches to be a multiple of the pipeline group size "
                f"({self._n_microbatches} and {self.pp_group_size})"
            )

    def _limit(self, rank: int) -> int:
        return (len(self._stages) - 1) * self.pp_group_size + 2 * (self.pp_group_size - 1 - rank) + 1


class _V(_ZeroBubble):
    """Two stages on each process, so that the batch goes down through all processes and up again: process 0 has the first and the last."""

    def _check(self) -> None:
        if len(self._stages) != 2 or self._num_stages != 2 * self.pp_group_size:
            raise ValueError(f"{type(self).__name__} requires exactly 2 stages per process, got {len(self._stages)}")

    def _placed(self) -> list[int]:
        processes = range(self.pp_group_size)
        return [*processes, *reversed(processes)]


class ScheduleZBVZeroBubble(_V):
    """Two stages on each process, in the form of a V, with backwards in halves.

    Args:
        stages: this process's stages: of process ``i`` of ``n`` those numbered ``i`` and ``2 * n - 1 - i``.
        n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads: as for :class:`ScheduleGPipe`.
        backward_requires_autograd, defer_pp_recv: as they are by default.
    Raises:
        ValueError: other stages. NotImplementedError: other values of the last two.
    Source: torch.distributed.pipelining.ScheduleZBVZeroBubble; Qi et al. 2024.
    Example:
        >>> from flambeau.distributed.pipelining import ScheduleZBVZeroBubble
        >>> ScheduleZBVZeroBubble.__name__
        'ScheduleZBVZeroBubble'
    """


class ScheduleDualPipeV(_V):
    """Two stages on each process, in the form of a V, with as many parts under way as both ways hold.

    Args:
        stages: this process's stages: of process ``i`` of ``n`` those numbered ``i`` and ``2 * n - 1 - i``.
        n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads: as for :class:`ScheduleGPipe`.
        backward_requires_autograd, defer_pp_recv: as they are by default.
    Raises:
        ValueError: other stages, or fewer parts than stages. NotImplementedError: other values of the last two.
    Source: torch.distributed.pipelining.ScheduleDualPipeV; DeepSeek-AI 2024.
    Example:
        >>> from flambeau.distributed.pipelining import ScheduleDualPipeV
        >>> ScheduleDualPipeV.__name__
        'ScheduleDualPipeV'
    """

    def _check(self) -> None:
        super()._check()
        if self._n_microbatches < self._num_stages:
            raise ValueError(
                "DualPipeV requires at least as many microbatches as stages, but got "
                f"{self._n_microbatches} microbatches and {self._num_stages} stages."
            )

    def _limit(self, rank: int) -> int:
        return 2 * self.pp_group_size + 1
