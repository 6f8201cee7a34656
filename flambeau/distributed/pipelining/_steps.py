"""In which order stages compute the parts of a batch.

    GPipe         F0 F1 F2 F3          B0 B1 B2 B3
    1F1B          F0 F1 B0 F2 B1 F3 B2 B3            a stage has as many forwards ahead as there are stages after it
    looped        as GPipe, all parts of one stage of the process before those of its next
    interleaved   as 1F1B, in turns of as many parts as there are processes
    zero bubble   backwards in halves, of which that of weights fills gaps (``zero_bubble.py``)

A process does its list in order, and waits for messages only; sending does not wait.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from ...autograd.grad_mode import no_grad
from ...core.tensor import Tensor
from ...utils._pytree import tree_leaves
from . import microbatch
from .stage import PipelineStage

__all__ = [
    "PipelineScheduleMulti", "PipelineScheduleSingle", "Schedule1F1B", "ScheduleGPipe", "ScheduleInterleaved1F1B", "ScheduleLoopedBFS",
]  # fmt: skip

_log = logging.getLogger(__name__)


class _Action(NamedTuple):
    """Work on one part in one of a process's stages: "F" forward, "B" backward, or its halves: "I" gradients of inputs, "W" of weights."""

    kind: str
    stage: int
    part: int


_BACKWARDS = {
    "B": PipelineStage.backward_one_chunk,
    "I": PipelineStage.backward_input_one_chunk,
    "W": PipelineStage.backward_weight_one_chunk,
}


class _Schedule:
    """A pipeline's step.

    Args:
        stages: those of this process.
        n_microbatches: into how many parts a batch is divided.
        loss_fn: of an output and a target; without one there is no backward.
        args_chunk_spec, kwargs_chunk_spec, output_merge_spec: along which dimensions values are divided and put together.
        scale_grads: divide gradients by the number of parts, as a mean over the whole batch does.
    """

    def __init__(
        self, stages: list[PipelineStage], n_microbatches: int, loss_fn: Callable[..., Any] | None = None, args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None, output_merge_spec: Any = None, scale_grads: bool = True
    ) -> None:  # fmt: skip
        self._stages, self._n_microbatches, self._loss_fn, self.scale_grads = stages, n_microbatches, loss_fn, scale_grads
        self._args_chunk_spec, self._kwargs_chunk_spec, self._output_merge_spec = args_chunk_spec, kwargs_chunk_spec, output_merge_spec

    def _order(self, has_backward: bool) -> list[_Action]:
        """The actions of this process, in order."""
        raise NotImplementedError

    def step(
        self, *args: Any, target: Any = None, losses: list[Any] | None = None, return_outputs: bool = True,
        loss_kwargs: dict[str, Any] | None = None, **kwargs: Any
    ) -> Any:  # fmt: skip
        """Compute a batch, and its gradients if there is a loss.

        Args:
            args, kwargs: of the whole batch; ``args`` on the process of the first stage only.
            target: of the whole batch, on the process of the last stage only.
            losses: a list that the losses of the parts are put into.
            return_outputs: put the outputs together.
            loss_kwargs: further arguments of the loss.
        Returns:
            The output on the process of the last stage; None on others.
        Raises:
            ValueError: a batch that cannot be divided into so many parts. RuntimeError: a loss without ``target``.
        """
        return self._run(args, kwargs, target, losses, return_outputs, loss_kwargs or {}, self._loss_fn is not None)

    def eval(self, *args: Any, target: Any = None, losses: list[Any] | None = None, **kwargs: Any) -> Any:
        """Compute a batch without gradients.

        Args:
            args, target, losses, kwargs: as for :meth:`step`.
        """
        with no_grad():
            return self._run(args, kwargs, target, losses, True, {}, False)

    def _run(
        self, args: Any, kwargs: Any, target: Any, losses: list[Any] | None, returns: bool, loss_kwargs: dict[str, Any], has_backward: bool
    ) -> Any:  # fmt: skip
        count = self._n_microbatches
        inputs, named = microbatch.split_args_kwargs_into_chunks(args, kwargs, count, self._args_chunk_spec, self._kwargs_chunk_spec)
        targets = microbatch.split_args_kwargs_into_chunks((target,), None, count)[0] if target is not None else None
        for name, parts in (("inputs", inputs), ("targets", targets)):
            if any(leaf.numel() == 0 for leaf in tree_leaves(parts) if isinstance(leaf, Tensor)):
                raise ValueError(f"{type(self).__name__}: {name} cannot be divided into {count} parts that are not empty")
        if has_backward and targets is None and any(stage.is_last for stage in self._stages):
            raise RuntimeError(f"{type(self).__name__}: loss_fn and target required for last stage")
        by_index = {stage.stage_index: stage for stage in self._stages}
        found: dict[int, Any] = {}
        for stage in self._stages:
            stage.begin(has_backward)
        for action in self._order(has_backward):
            stage = by_index[action.stage]
            if action.kind != "F":
                _BACKWARDS[action.kind](stage, action.part)
                continue
            output = stage.forward_one_chunk(action.part, inputs[action.part], named[action.part])
            if stage.is_last and self._loss_fn is not None and targets is not None:
                found[action.part] = self._loss_fn(output, targets[action.part][0], **loss_kwargs)
                stage.note_loss(action.part, found[action.part])
        for stage in self._stages:
            stage.finish()
        if has_backward and self.scale_grads:
            self._scale()
        if losses is not None:
            losses[:] = [found[part] for part in sorted(found)]
        last = next((stage for stage in self._stages if stage.is_last), None)
        return microbatch.merge_chunks(last.outputs, self._output_merge_spec) if last is not None and returns else None

    def _scale(self) -> None:
        params = {id(param): param for stage in self._stages for param in stage.submod.parameters()}  # stages may share some
        for param in params.values():
            if isinstance(param.grad, Tensor):
                param.grad.div_(self._n_microbatches)


class PipelineScheduleSingle(_Schedule):
    """A schedule of processes with one stage each, for others to be derived from.

    Args:
        stage: this process's stage.
        n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads: as for :class:`ScheduleGPipe`.
    Source: torch.distributed.pipelining.schedules.PipelineScheduleSingle.
    Example:
        >>> from flambeau.distributed.pipelining.schedules import PipelineScheduleSingle, ScheduleGPipe
        >>> issubclass(ScheduleGPipe, PipelineScheduleSingle)
        True
    """

    def __init__(
        self, stage: PipelineStage, n_microbatches: int, loss_fn: Callable[..., Any] | None = None, args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None, output_merge_spec: Any = None, scale_grads: bool = True
    ) -> None:  # fmt: skip
        super().__init__([stage], n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads)
        self._stage = stage
        self._check_parts()

    def _check_parts(self) -> None:
        """Raise where there are too few parts."""


class ScheduleGPipe(PipelineScheduleSingle):
    """All forwards, then all backwards.

    Args:
        stage: this process's stage.
        n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads: parts of a batch, the loss of an
            output and a target, dimensions along which values are divided, and whether gradients are those of the mean over all parts.
    Source: torch.distributed.pipelining.ScheduleGPipe.
    Example:
        >>> from flambeau.distributed.pipelining import ScheduleGPipe
        >>> ScheduleGPipe.__name__
        'ScheduleGPipe'
    """

    def _order(self, has_backward: bool) -> list[_Action]:
        stage = self._stage.stage_index
        forwards = [_Action("F", stage, part) for part in range(self._n_microbatches)]
        return forwards + [_Action("B", stage, part) for part in range(self._n_microbatches) if has_backward]


class Schedule1F1B(PipelineScheduleSingle):
    """One forward, one backward, so that a stage keeps few parts at a time.

    Args:
        stage: this process's stage.
        n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads: as for :class:`ScheduleGPipe`.
    Raises:
        ValueError: fewer parts than stages.
    Source: torch.distributed.pipelining.Schedule1F1B.
    Example:
        >>> from flambeau.distributed.pipelining import Schedule1F1B
        >>> Schedule1F1B.__name__
        'Schedule1F1B'
    """

    def _check_parts(self) -> None:
        parts, stages = self._n_microbatches, self._stage.num_stages
        if parts < stages:
            raise ValueError(f"Number of microbatches ({parts}) must be greater than or equal to the number of stages ({stages}).")

    def _order(self, has_backward: bool) -> list[_Action]:
        stage, count = self._stage.stage_index, self._n_microbatches
        ahead = min(count, self._stage.num_stages - stage) if has_backward else count
        order = [_Action("F", stage, part) for part in range(ahead)]
        for part in range(count if has_backward else 0):
            order.append(_Action("B", stage, part))
            if part + ahead < count:
                order.append(_Action("F", stage, part + ahead))
        return order


class PipelineScheduleMulti(_Schedule):
    """A schedule of processes with several stages each, for others to be derived from.

    Args:
        stages: this process's stages.
        n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads: as for :class:`ScheduleGPipe`.
        use_full_backward: has no effect any more, and a warning is logged where it is given.
        backward_requires_autograd, defer_pp_recv: as they are by default.
    Raises:
        NotImplementedError: other values of the last two.
    Source: torch.distributed.pipelining.schedules.PipelineScheduleMulti.
    Example:
        >>> from flambeau.distributed.pipelining.schedules import PipelineScheduleMulti, ScheduleLoopedBFS
        >>> issubclass(ScheduleLoopedBFS, PipelineScheduleMulti)
        True
    """

    def __init__(
        self, stages: list[PipelineStage], n_microbatches: int, loss_fn: Callable[..., Any] | None = None, args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None, output_merge_spec: Any = None, use_full_backward: bool | None = None, scale_grads: bool = True,
        backward_requires_autograd: bool = True, defer_pp_recv: bool = False
    ) -> None:  # fmt: skip
        super().__init__(stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads)
        if use_full_backward is not None:
            _log.warning("use_full_backward has no effect any more: leave it out")
        if not backward_requires_autograd or defer_pp_recv:
            raise NotImplementedError(f"{type(self).__name__}: backward_requires_autograd=False and defer_pp_recv are not supported")


class ScheduleLoopedBFS(PipelineScheduleMulti):
    """Several stages on each process: all parts of one, then all parts of the next; backward the other way round.

    Args:
        stages: this process's stages.
        n_microbatches, loss_fn, output_merge_spec, scale_grads: as for :class:`ScheduleGPipe`.
    Source: torch.distributed.pipelining.ScheduleLoopedBFS.
    Example:
        >>> from flambeau.distributed.pipelining import ScheduleLoopedBFS
        >>> ScheduleLoopedBFS.__name__
        'ScheduleLoopedBFS'
    """

    def __init__(
        self, stages: list[PipelineStage], n_microbatches: int, loss_fn: Callable[..., Any] | None = None, output_merge_spec: Any = None,
        scale_grads: bool = True, backward_requires_autograd: bool = True, defer_pp_recv: bool = False
    ) -> None:  # fmt: skip
        super().__init__(
            stages, n_microbatches, loss_fn, None, None, output_merge_spec, None, scale_grads, backward_requires_autograd, defer_pp_recv
        )

    def _order(self, has_backward: bool) -> list[_Action]:
        order = [_Action("F", stage.stage_index, part) for stage in self._stages for part in range(self._n_microbatches)]
        if has_backward:
            order += [_Action("B", stage.stage_index, part) for stage in reversed(self._stages) for part in range(self._n_microbatches)]
        return order


class InTurns(PipelineScheduleMulti):
    """A schedule of processes that take turns among their stages."""

    def __init__(
        self, stages: list[PipelineStage], n_microbatches: int, loss_fn: Callable[..., Any] | None = None, args_chunk_spec: Any = None,
        kwargs_chunk_spec: Any = None, output_merge_spec: Any = None, scale_grads: bool = True, backward_requires_autograd: bool = True,
        defer_pp_recv: bool = False
    ) -> None:  # fmt: skip
        super().__init__(
            stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, None, scale_grads,
            backward_requires_autograd, defer_pp_recv
        )  # fmt: skip
        self._prepare()

    def _prepare(self) -> None:
        """Place stages, and raise where the numbers of parts and stages do not fit."""


class ScheduleInterleaved1F1B(InTurns):
    """Several stages on each process, in turns, one forward and one backward at a time.

    Args:
        stages: this process's stages.
        n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads: as for :class:`ScheduleGPipe`.
        backward_requires_autograd, defer_pp_recv: as they are by default.
    Raises:
        ValueError: parts that do not go up into turns of as many as there are processes.
    Source: torch.distributed.pipelining.ScheduleInterleaved1F1B.
    Example:
        >>> from flambeau.distributed.pipelining import ScheduleInterleaved1F1B
        >>> ScheduleInterleaved1F1B.__name__
        'ScheduleInterleaved1F1B'
    """

    def _prepare(self) -> None:
        processes = self._stages[0].group_size
        if self._n_microbatches % processes:
            raise ValueError(f"Interleaved 1F1B expects n_microbatches to be a multiple of the pipeline group size {processes}")

    def _order(self, has_backward: bool) -> list[_Action]:
        processes, own = self._stages[0].group_size, len(self._stages)
        turn = processes * own

        def action(number: int, is_forward: bool) -> _Action:
            """The ``number``-th forward or backward of this process."""
            place = number % turn // processes
            stage = self._stages[place if is_forward else own - 1 - place]
            return _Action("F" if is_forward else "B", stage.stage_index, number // turn * processes + number % processes)

        total = self._n_microbatches * own
        if not has_backward:
            return [action(number, True) for number in range(total)]
        ahead = min(total, (own - 1) * processes + 2 * (processes - 1 - self._stages[0].group_rank) + 1)
        order = [action(number, True) for number in range(ahead)]
        for number in range(total):
            order.append(action(number, False))
            if number + ahead < total:
                order.append(action(number + ahead, True))
        return order
