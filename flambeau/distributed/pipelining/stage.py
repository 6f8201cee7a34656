"""One stage of a pipeline: a module whose inputs come from the stage before, and whose outputs go to the next.

Activations and gradients are messages, of which each kind between two stages has a tag of its own, so that they stay in order. The
first one of a kind says what shapes will come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from ... import distributed as dist, ops
from ...autograd.api import backward
from ...core import dtype as dtypes
from ...core.tensor import Tensor
from ...nn import Module

__all__ = ["PipelineStage"]

_SAID = 64  # numbers of the message that says what comes
_local: dict[tuple[Any, int], deque[Any]] = {}  # messages between stages of one process


class PipelineStage:
    """A part of a model.

    Args:
        submodule: the part.
        stage_index, num_stages: which of how many.
        device: where it lies.
        input_args, output_args: not needed: shapes are sent with the first message.
        output_grads, input_grads: not needed.
        group: the processes; all when None. Stage ``i`` is on the process ``i % processes``.
        dw_builder, get_mesh: not supported.
    Raises:
        ValueError: a stage that is none of ``num_stages``, or fewer stages than processes.
    Source: torch.distributed.pipelining.PipelineStage.
    Example:
        >>> from flambeau.distributed.pipelining import PipelineStage
        >>> PipelineStage(nn.ReLU(), 2, 2, "cpu")
        Traceback (most recent call last):
        ValueError: Stage index 2 is out of range of 2
    """

    def __init__(
        self, submodule: Module, stage_index: int, num_stages: int, device: Any, input_args: Any = None, output_args: Any = None,
        output_grads: Any = None, input_grads: Any = None, group: Any = None, dw_builder: Callable[..., Any] | None = None,
        get_mesh: Any = None
    ) -> None:  # fmt: skip
        if stage_index >= num_stages:
            raise ValueError(f"Stage index {stage_index} is out of range of {num_stages}")
        if dw_builder is not None or get_mesh is not None:
            raise NotImplementedError("PipelineStage: dw_builder and get_mesh are not supported")
        self.submod, self.stage_index, self.num_stages, self.device, self.group = submodule, stage_index, num_stages, device, group
        self.group_size, self.group_rank = dist.get_world_size(group), dist.get_rank(group)
        if self.group_size > num_stages:
            raise ValueError(f"Pipeline group size {self.group_size} cannot be larger than number of stages {num_stages}")
        self.submod.to(device)
        self.begin(True)

    @property
    def is_first(self) -> bool:
        """Whether the batch goes in here."""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """Whether the result comes out here."""
        return self.stage_index == self.num_stages - 1

    # -- a step ----------------------------------------------------------------------------------------------------------------------
    def begin(self, has_backward: bool) -> None:
        """Forget the step before, with what it left on its way where it was broken off."""
        for tag in (2 * self.stage_index, 2 * self.stage_index + 1):
            _local.pop((self.group, tag), None)
        self.has_backward = has_backward
        self.kept: dict[int, tuple[list[Any], list[Any], Any]] = {}  # by part: inputs, outputs, loss
        self.outputs: list[Any] = []
        self.works: list[tuple[Any, Any]] = []  # messages on their way, with what they send
        self.expected: list[tuple[Any, tuple[int, ...]]] | None = None
        self.said = False

    def forward_one_chunk(self, index: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compute one part of the batch, and send it on."""
        inputs = list(args) if self.is_first else self._received(self.stage_index - 1, self._shapes())
        if not self.is_first and self.has_backward:
            inputs = [value.requires_grad_() if value.is_floating_point() else value for value in inputs]
        output = self.submod(*inputs, **kwargs)
        outputs = list(output) if isinstance(output, (tuple, list)) else [output]
        self.kept[index] = (inputs, outputs, None)
        if self.is_last:
            self.outputs.append(output)
        else:
            self._send(self.stage_index + 1, [value.detach() for value in outputs])
        return output

    def note_loss(self, index: int, loss: Any) -> None:
        """Keep the loss that backward of a part begins with."""
        inputs, outputs, _ = self.kept[index]
        self.kept[index] = (inputs, outputs, loss)

    def backward_one_chunk(self, index: int) -> None:
        """Compute the gradients of one part of the batch, and send those of its inputs back."""
        inputs, outputs, loss = self.kept.pop(index)
        if self.is_last:
            backward([loss])
        else:
            wanted = [value for value in outputs if value.requires_grad]
            grads = self._received(self.stage_index + 1, [(value.dtype, tuple(value.shape)) for value in wanted])
            backward(wanted, grads)
        if not self.is_first:
            floats = [value for value in inputs if value.requires_grad]
            self._send(self.stage_index - 1, [ops.zeros_like(value) if value.grad is None else value.grad for value in floats], said=True)

    def finish(self) -> None:
        """Wait until all messages have been taken."""
        for work, _ in self.works:
            work.wait()
        self.works = []

    # -- messages --------------------------------------------------------------------------------------------------------------------
    def _rank_of(self, stage: int) -> int:
        rank = stage % self.group_size
        return rank if self.group is None else dist.get_global_rank(self.group, rank)

    def _post(self, stage: int, tensor: Tensor) -> None:
        tag = 2 * stage + (stage < self.stage_index)
        if stage % self.group_size == self.group_rank:
            _local.setdefault((self.group, tag), deque()).append(tensor.clone())
            return
        given = tensor.contiguous()
        self.works.append((dist.isend(given, self._rank_of(stage), group=self.group, tag=tag), given))

    def _take(self, stage: int, dtype: Any, shape: tuple[int, ...]) -> Tensor:
        tag = 2 * self.stage_index + (stage > self.stage_index)
        if stage % self.group_size == self.group_rank:
            taken: Tensor = _local[self.group, tag].popleft()
            return taken
        made = ops.empty(shape, dtype=dtype)
        dist.recv(made, self._rank_of(stage), group=self.group, tag=tag)
        return made

    def _send(self, stage: int, tensors: list[Tensor], said: bool = False) -> None:
        if not said and not self.said:
            self.said = True
            self._post(stage, _description(tensors))
        for tensor in tensors:
            self._post(stage, tensor)

    def _shapes(self) -> list[tuple[Any, tuple[int, ...]]] | None:
        if self.expected is None:
            self.expected = _described(self._take(self.stage_index - 1, dtypes.int64, (_SAID,)).tolist())
        return self.expected

    def _received(self, stage: int, expected: Any) -> list[Any]:
        return [self._take(stage, dtype, shape) for dtype, shape in expected]


_DTYPES = [dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16, dtypes.int64, dtypes.int32, dtypes.int16, dtypes.int8,
           dtypes.uint8, dtypes.bool_, dtypes.complex64, dtypes.complex128]  # fmt: skip


def _description(tensors: list[Tensor]) -> Tensor:
    """Dtypes and shapes as a tensor of numbers."""
    said = [len(tensors)]
    for tensor in tensors:
        said += [_DTYPES.index(tensor.dtype), tensor.dim(), *tensor.shape]
    if len(said) > _SAID:
        raise NotImplementedError(f"PipelineStage: {len(tensors)} outputs between stages are too many to be described in {_SAID} numbers")
    return ops.tensor(said + [0] * (_SAID - len(said)))


def _described(said: list[int]) -> list[tuple[Any, tuple[int, ...]]]:
    result = []
    place = 1
    for _ in range(said[0]):
        kind, ndim = said[place : place + 2]
        result.append((_DTYPES[kind], tuple(said[place + 2 : place + 2 + ndim])))
        place += 2 + ndim
    return result
