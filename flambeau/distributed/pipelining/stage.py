"""One stage of a pipeline: a module whose inputs come from stages before, and whose outputs go to later ones.

Activations and gradients are messages, of which each pair of stages has tags of its own, so that they stay in order. The first one says
what shapes will come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from ... import distributed as dist, ops
from ...autograd.api import backward
from ...core import dtype as dtypes
from ...core.tensor import Tensor
from ...nn import Module
from ._halves import Halves

__all__ = ["PipelineStage"]

_SAID = 64  # numbers of the message that says what comes
_local: dict[tuple[Any, int], deque[Any]] = {}  # messages between stages of one process


class _Expected(NamedTuple):
    """A tensor that will come."""

    dtype: Any
    requires_grad: bool
    shape: tuple[int, ...]


class PipelineStage:
    """A part of a model.

    Args:
        submodule: the part.
        stage_index, num_stages: which of how many.
        device: where it lies.
        input_args, output_args: not needed: shapes are sent with the first message.
        output_grads, input_grads: not needed.
        group: the processes; all when None. Stage ``i`` is on the process ``i % processes``, unless its schedule says otherwise.
        dw_builder, get_mesh: not supported.
    Raises:
        ValueError: a stage that is none of ``num_stages``. RuntimeError: fewer stages than processes.
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
            raise RuntimeError(f"Pipeline group size {self.group_size} cannot be larger than number of stages {num_stages}")
        self.stage_index_to_group_rank = {index: index % self.group_size for index in range(num_stages)}
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
        for other in range(self.num_stages):
            _local.pop((self.group, self._tag(other, self.stage_index)), None)
        self.has_backward = has_backward
        self.kept: dict[int, tuple[dict[int, list[Any]], list[Any], Any]] = {}  # by part: what came by stage, outputs, loss
        self.halves: dict[int, Halves] = {}  # by part: a backward of which the gradients of weights are not computed yet
        self.outputs: list[Any] = []
        self.works: list[tuple[Any, Any]] = []  # messages on their way, with what they send
        self.expected: dict[int, list[_Expected]] = {}  # by stage: what comes from it
        self.said: set[int] = set()

    def forward_one_chunk(self, index: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compute one part of the batch, and send it on."""
        came = {source: self._received(source, self._expected(source)) for source in self._sources()}
        if self.has_backward:
            for source, values in came.items():
                for value, expected in zip(values, self.expected[source], strict=True):
                    value.requires_grad_(expected.requires_grad)
        output = self._computed(came, args, kwargs)
        outputs = list(output) if isinstance(output, (tuple, list)) else [output]
        self.kept[index] = (came, outputs, None)
        if self.is_last:
            self.outputs.append(output)
        for sink, values in self._sent(outputs, args, kwargs).items():
            self._send(sink, values)
        return output

    def note_loss(self, index: int, loss: Any) -> None:
        """Keep the loss that backward of a part begins with."""
        came, outputs, _ = self.kept[index]
        self.kept[index] = (came, outputs, loss)

    def backward_one_chunk(self, index: int) -> None:
        """Compute the gradients of one part of the batch, and send those of its inputs back."""
        roots, grads = self._roots(index)
        backward(roots, grads)
        self._return(index)

    def backward_input_one_chunk(self, index: int) -> None:
        """Compute the gradients of a part's inputs alone, and send them back; ``backward_weight_one_chunk`` computes the others."""
        roots, grads = self._roots(index)
        inputs = [value for values in self.kept[index][0].values() for value in values if value.requires_grad]
        self.halves[index] = Halves(roots, grads, inputs)
        self._return(index)

    def backward_weight_one_chunk(self, index: int) -> None:
        """Compute the gradients of weights that ``backward_input_one_chunk`` left."""
        self.halves.pop(index).weights()

    def _roots(self, index: int) -> tuple[list[Any], list[Any]]:
        """The beginning of a part's backward: the loss, or outputs with the gradients that come from later stages."""
        _, outputs, loss = self.kept[index]
        if self.is_last:
            return [loss], [None]
        grads: dict[int, Any] = {}
        for sink, places in self._sinks(len(outputs)).items():
            wanted = [i for i in places if outputs[i].requires_grad]
            expected = [_Expected(outputs[i].dtype, True, tuple(outputs[i].shape)) for i in wanted]
            for i, grad in zip(wanted, self._received(sink, expected), strict=True):
                grads[i] = grads[i] + grad if i in grads else grad
        return [outputs[i] for i in grads], list(grads.values())

    def _return(self, index: int) -> None:
        """Send the gradients of a part's inputs back."""
        for source, values in self.kept.pop(index)[0].items():
            floats = [value for value in values if value.requires_grad]
            for value in floats:
                self._post(source, ops.zeros_like(value) if value.grad is None else value.grad)

    # -- neighbours ------------------------------------------------------------------------------------------------------------------
    def _sources(self) -> list[int]:
        """The stages that inputs come from."""
        return [] if self.is_first else [self.stage_index - 1]

    def _sinks(self, outputs: int) -> dict[int, list[int]]:
        """By the stages that outputs go to, which ones."""
        return {} if self.is_last else {self.stage_index + 1: list(range(outputs))}

    def _computed(self, came: dict[int, list[Any]], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The module's output."""
        return self.submod(*(args if self.is_first else came[self.stage_index - 1]), **kwargs)

    def _sent(self, outputs: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[int, list[Any]]:
        """The values that go to each later stage."""
        return {sink: [outputs[i] for i in places] for sink, places in self._sinks(len(outputs)).items()}

    def finish(self) -> None:
        """Wait until all messages have been taken."""
        for work, _ in self.works:
            work.wait()
        self.works = []

    # -- messages --------------------------------------------------------------------------------------------------------------------
    def _tag(self, source: int, sink: int) -> int:
        return source * self.num_stages + sink

    def _is_here(self, stage: int) -> bool:
        return self.stage_index_to_group_rank[stage] == self.group_rank

    def _rank_of(self, stage: int) -> int:
        rank = self.stage_index_to_group_rank[stage]
        return rank if self.group is None else dist.get_global_rank(self.group, rank)

    def _post(self, stage: int, tensor: Tensor) -> None:
        tag = self._tag(self.stage_index, stage)
        if self._is_here(stage):
            _local.setdefault((self.group, tag), deque()).append(tensor.detach().clone())
            return
        given = tensor.detach().contiguous()
        self.works.append((dist.isend(given, self._rank_of(stage), group=self.group, tag=tag), given))

    def _take(self, stage: int, dtype: Any, shape: tuple[int, ...]) -> Tensor:
        tag = self._tag(stage, self.stage_index)
        if self._is_here(stage):
            taken: Tensor = _local[self.group, tag].popleft()
            return taken
        made = ops.empty(shape, dtype=dtype)
        dist.recv(made, self._rank_of(stage), group=self.group, tag=tag)
        return made

    def _send(self, stage: int, tensors: list[Tensor]) -> None:
        if stage not in self.said:
            self.said.add(stage)
            self._post(stage, _description(tensors))
        for tensor in tensors:
            self._post(stage, tensor)

    def _expected(self, stage: int) -> list[_Expected]:
        if stage not in self.expected:
            self.expected[stage] = _described(self._take(stage, dtypes.int64, (_SAID,)).tolist())
        return self.expected[stage]

    def _received(self, stage: int, expected: list[_Expected]) -> list[Any]:
        return [self._take(stage, each.dtype, each.shape) for each in expected]


_DTYPES = [dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16, dtypes.int64, dtypes.int32, dtypes.int16, dtypes.int8,
           dtypes.uint8, dtypes.bool_, dtypes.complex64, dtypes.complex128]  # fmt: skip


def _description(tensors: list[Tensor]) -> Tensor:
    """Dtypes and shapes as a tensor of numbers."""
    said = [len(tensors)]
    for tensor in tensors:
        said += [_DTYPES.index(tensor.dtype), int(tensor.requires_grad), tensor.dim(), *tensor.shape]
    if len(said) > _SAID:
        raise NotImplementedError(f"PipelineStage: {len(tensors)} outputs between stages are too many to be described in {_SAID} numbers")
    return ops.tensor(said + [0] * (_SAID - len(said)))


def _described(said: list[int]) -> list[_Expected]:
    result = []
    place = 1
    for _ in range(said[0]):
        kind, requires_grad, ndim = said[place : place + 3]
        result.append(_Expected(_DTYPES[kind], bool(requires_grad), tuple(said[place + 3 : place + 3 + ndim])))
        place += 3 + ndim
    return result
