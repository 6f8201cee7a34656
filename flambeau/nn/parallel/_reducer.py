"""Averages of gradients over the processes of a group, taken while the backward pass goes on.

Parameters are cut into buckets, in the order in which their gradients are expected: the last registered first, after one pass the order
that was seen. A hook after accumulation puts each gradient, divided by the number of processes, into its place in its bucket. A full
bucket is reduced at once, in the same order on all ranks, while the engine computes the gradients of earlier layers:

    engine      grad 9 | grad 8 | grad 7 | grad 6 | grad 5 | ...  | grad 0 | end of the pass: wait, write averages to .grad
                    \\       \\________\\        \\________\\
    bucket           0:full   1: ......full    2: .....full
    group             [reduce 0]      [  reduce 1   ][  reduce 2   ]
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from time import perf_counter_ns
from typing import Any

import numpy as np

from ... import ops
from ...autograd.grad_mode import no_grad
from ...core.dtype import int32, int64
from ...core.state import thread
from ...core.tape.node import AccumulateGrad, Output, edge_of
from ...core.tensor import Tensor
from ...distributed._buckets import Bucket, cut
from ...distributed.grad_bucket import GradBucket
from ...facades.futures import Future

__all__ = ["PARTS", "Reducer", "leaves_below"]

_UNFINISHED = (
    "Expected to have finished reduction in the prior iteration before starting a new one. This error indicates that your module has "
    "parameters that were not used in producing loss. Pass `find_unused_parameters=True` to `torch.nn.parallel.DistributedDataParallel` "
    "if that is meant, and make sure that all outputs of `forward` take part in the loss. Outputs are found in tuples, lists, dictionaries "
    "and dataclasses only."
)
_TWICE = (
    "Expected to mark a variable ready only once. A parameter is used outside of the `forward` function or in several concurrent "
    "pairs of forward and backward passes, or in several backward passes inside of one, as by reentrant checkpoints of the same layers. "
    "If the graph does not change over iterations, `_set_static_graph()` is a workaround."
)
_CHANGED = (
    "Your training graph has changed in this iteration, e.g., one parameter is unused in first iteration, but then got used in the second "
    "iteration. this is not compatible with static_graph set to True."
)

PARTS = ("forward_compute_time", "backward_compute_time", "backward_comm_time", "backward_compute_comm_overlap_time")


def leaves_below(tensors: Iterable[Tensor], wanted: set[int]) -> set[int]:
    """Ids of the leaves that the graphs of ``tensors`` lead to."""
    found: set[int] = set()
    seen: set[int] = set()
    stack = [edge_of(tensor) for tensor in tensors]
    while stack:
        edge = stack.pop()
        if isinstance(edge, Tensor):
            if id(edge) in wanted:
                found.add(id(edge))
            continue
        node = edge.node if edge.__class__ is Output else edge
        if node is not None and id(node) not in seen:
            seen.add(id(node))
            stack.extend(node.edges)
    return found


def _put(place: Tensor, grad: Tensor, scale: float) -> None:
    """Write a gradient, scaled, into its place in a bucket."""
    target, source = place._array, grad._array
    if target.__class__ is np.ndarray is source.__class__ and target.dtype.char in "fd" and source.dtype is target.dtype:
        np.multiply(source, target.dtype.type(scale), out=target)
        return
    place.copy_(grad)
    if scale != 1.0:
        place.mul_(scale)


class Reducer:
    """Reduces the gradients of ``parameters`` over a group during backward passes that :meth:`prepare` announces.

    Args:
        parameters: leaves, the same on all ranks, in the order of their registration.
        names: theirs, for messages.
        group: the process group.
        limits: bytes of the first buckets, the last one for all others.
        sparse: indices of parameters whose gradients are sparse.
        find_unused: look for parameters that the outputs do not depend on, which are not waited for.
        as_view: whether ``.grad`` becomes a view of a bucket, instead of getting a copy.
        static: the graph stays the same: what the first pass used is expected of all others.
        skip_unused: do not reduce buckets of which no parameter is used.
        on_reduce: called before each reduction with the number of bytes.
    """

    def __init__(
        self, parameters: Sequence[Tensor], names: Sequence[str], group: Any, limits: Sequence[int], sparse: set[int], *,
        find_unused: bool = False, as_view: bool = False, static: bool = False, skip_unused: bool = False,
    ) -> None:  # fmt: skip
        from ... import distributed

        self.dist, self.group = distributed, group
        self.world_size = distributed.get_world_size(group)
        self.parameters, self.names, self.limits, self.sparse = list(parameters), list(names), list(limits), sparse
        self.find_unused, self.as_view, self.static, self.skip_unused = find_unused, as_view, static, skip_unused
        self.hook: Callable[[Any], Any] | None = None
        self.divisor = self.world_size
        self.used: set[int] = set()
        self.expected_calls: dict[int, int] | None = None  # of a static graph, after its first pass
        self.static_unused: set[int] = set()
        self.rebuilt, self.order = False, []  # type: tuple[bool, list[int]]
        self.times: dict[str, int] = {}
        self.totals: dict[str, int] = {}  # nanoseconds of all passes
        self.passes, self.not_used = 0, []  # type: tuple[int, list[int]]
        self._arm(cut(self.parameters, reversed(range(len(self.parameters))), self.limits, sparse))
        self.expects = self.began = self.finished = False
        handles = [
            AccumulateGrad(parameter).register_hook(partial(_call, weakref.ref(self), index))
            for index, parameter in enumerate(self.parameters)
        ]
        weakref.finalize(self, _remove, handles)

    # -- before a pass --------------------------------------------------------------------------------------------------------------------
    def _arm(self, buckets: list[Bucket]) -> None:
        """Take these buckets."""
        self.buckets = buckets
        self.place_of = {i: (bucket, at) for bucket in buckets for at, i in enumerate(bucket.members)}

    def prepare(self, outputs: Sequence[Tensor]) -> None:
        """Expect a backward pass from ``outputs``.

        Raises:
            RuntimeError: in the pass before some gradients did not come.
        """
        self.check_finished()
        for bucket in self.buckets:
            bucket.pending, bucket.result = len(bucket.members), None
        self.next, self.done, self.calls, self.kept = 0, set(), {}, {}  # type: tuple[int, set[int], dict[int, int], dict[int, Tensor]]
        self.expects, self.began, self.finished = True, False, False
        self.unreached: list[int] = []
        if self.find_unused and not self.static:
            reached = leaves_below(outputs, {id(parameter) for parameter in self.parameters})
            self.unreached = [i for i, parameter in enumerate(self.parameters) if id(parameter) not in reached]

    def check_finished(self) -> None:
        """Raise if a pass began and did not reduce all gradients."""
        if not (self.expects and self.began) or self.finished:
            return
        missing = [i for i in range(len(self.parameters)) if i not in self.done]
        rank, text = self.dist.get_rank(), _UNFINISHED
        if os.environ.get("TORCH_DISTRIBUTED_DEBUG", "").upper() in ("INFO", "DETAIL"):
            text += f"\nParameters which did not receive grad for rank {rank}: {', '.join(self.names[i] for i in reversed(missing))}"
        else:
            text += "\nTORCH_DISTRIBUTED_DEBUG=INFO or DETAIL in the environment adds their names."
        raise RuntimeError(f"{text}\nParameter indices which did not receive grad for rank {rank}: {' '.join(map(str, missing))}")

    def rebuild(self) -> bool:
        """Cut the buckets anew after the first whole pass, in the order in which rank 0 got its gradients; whether that was done."""
        if self.rebuilt or not self.order or (self.find_unused and not self.static):
            return False
        seen = [*self.order, *(i for i in reversed(range(len(self.parameters))) if i not in set(self.order))]
        order = ops.tensor([i for i in seen if i not in self.sparse], dtype=int64)
        self.dist.broadcast(order, self.dist.get_global_rank(self.group, 0), group=self.group)
        self.rebuilt, self.order = True, order.tolist()
        self._arm(cut(self.parameters, [*self.order, *sorted(self.sparse)], self.limits, self.sparse))
        return True

    # -- in a pass -------------------------------------------------------------------------------------------------------------------------
    def on_gradient(self, index: int) -> None:
        """The gradient of a parameter was accumulated."""
        self.used.add(index)
        if not self.expects or self.finished:
            return
        if not self.began:
            self._begin()
        self.calls[index] = self.calls.get(index, 0) + 1
        if self.static:
            expected = self.expected_calls
            if expected is None:
                if index not in self.order:
                    self.order.append(index)
                return
            if index not in expected:
                raise RuntimeError(f"{_CHANGED}\nParameter at index {index} with name {self.names[index]} was unused before.")
            if self.calls[index] != expected[index]:
                return
        elif not self.rebuilt:
            self.order.append(index)
        self._ready(index)

    def _begin(self) -> None:
        """Note that a pass began; its end, or that of the pass around it, is waited for."""
        self.began = True
        self.times["backward_compute_time_start"] = perf_counter_ns()
        if not self.rebuilt:
            self.order = []
        running = thread.running
        while running.outer is not None:
            running = running.outer
        running.at_end.append(self._finish)
        for index in self.unreached:
            self._ready(index)
        if self.static and self.expected_calls is not None:
            for index in range(len(self.parameters)):
                if index not in self.expected_calls:
                    self._ready(index)

    def _ready(self, index: int) -> None:
        """Put a gradient that will not change any more into its bucket, which is reduced when it is full."""
        if index in self.done:
            raise RuntimeError(f"{_TWICE}\nParameter at index {index} with name {self.names[index]} has been marked as ready twice.")
        self.done.add(index)
        bucket, at = self.place_of[index]
        if bucket.flat is not None:
            self._fill(index, bucket.places[at])
        bucket.pending -= 1
        while self.next < len(self.buckets) and not self.buckets[self.next].pending:
            self._reduce(self.buckets[self.next])
            self.next += 1

    def _fill(self, index: int, place: Tensor) -> None:
        parameter, scale = self.parameters[index], 1.0 if self.hook is not None else 1.0 / self.divisor
        grad = parameter.grad
        if grad is None:
            with no_grad():
                place.zero_()
            return
        if grad.is_sparse:
            raise RuntimeError(f"the gradient of parameter {self.names[index]} is sparse, which its module did not announce")
        if self.as_view and index not in self.calls and self.may_be_unused:
            self.kept[index] = grad.detach().clone()  # a gradient of earlier passes, which stays as it is if no rank has a new one
        with no_grad():
            _put(place, grad.detach(), scale)
        if self.as_view and index in self.calls and not grad.requires_grad:
            parameter._grad = place

    @property
    def may_be_unused(self) -> bool:
        """Whether gradients may be missing by design."""
        return self.find_unused or self.static

    def _reduce(self, bucket: Bucket) -> None:
        """Begin the reduction of a full bucket."""
        if not bucket.index:
            self.times["backward_comm_time_start"] = perf_counter_ns()
        if bucket.flat is None or (self.skip_unused and not any(i in self.calls for i in bucket.members)):
            return
        if self.hook is not None:
            bucket.result = self.hook(self._shown(bucket))
            if not isinstance(bucket.result, Future):
                raise RuntimeError(f"DDP communication hook: expected a torch.futures.Future, got {type(bucket.result).__name__}")
        else:
            bucket.result = self.dist.all_reduce(bucket.flat, group=self.group.apart, async_op=True)

    def _shown(self, bucket: Bucket) -> Any:
        shown = [self.parameters[i] for i in bucket.members]
        return GradBucket(bucket.index, bucket.flat, bucket.places, shown, bucket.index == len(self.buckets) - 1)

    # -- at the end of a pass ------------------------------------------------------------------------------------------------------------
    def _finish(self) -> None:
        """Reduce what is left, wait, and write the averages to ``.grad``."""
        self.times["backward_compute_time_end"] = perf_counter_ns()
        if self.static and self.expected_calls is None:
            self._ready_in_order(set(self.calls))
        if self.may_be_unused:
            self._ready_in_order(set(range(len(self.parameters))))
        if self.next < len(self.buckets):
            return  # the next forward pass raises
        self.finish_reduction()

    def _ready_in_order(self, indices: set[int]) -> None:
        for bucket in self.buckets:
            for index in bucket.members:
                if index in indices and index not in self.done:
                    self._ready(index)

    def finish_reduction(self) -> None:
        """Wait for all buckets and write the averages to ``.grad`` of parameters that some rank used."""
        unused = self._unused_everywhere()
        with no_grad():
            for bucket in self.buckets:
                if bucket.flat is None:
                    self._reduce_sparse(bucket.members[0], unused)
                elif bucket.result is not None:
                    self._wait(bucket)
                    for index, place in zip(bucket.members, bucket.places):
                        self._write(index, place, unused)
        if self.static and self.expected_calls is None:
            self.expected_calls = dict(self.calls)
        self.times["backward_comm_time_end"] = perf_counter_ns()
        self.expects, self.finished = False, True
        self.not_used, self.passes = [i for i in range(len(self.parameters)) if i not in self.calls], self.passes + 1
        self.used.clear()
        for name in PARTS:
            self.totals[name] = self.totals.get(name, 0) + self.duration(name)

    def duration(self, name: str) -> int:
        """Nanoseconds that a part of the last pass took."""
        times = self.times
        if name == "backward_compute_comm_overlap_time":
            return max(0, times["backward_compute_time_end"] - times["backward_comm_time_start"])
        return times.get(f"{name}_end", 0) - times.get(f"{name}_start", 0)

    def _unused_everywhere(self) -> set[int]:
        """Indices of parameters that no rank used; asks the others where some may be."""
        if not self.may_be_unused:
            return set()
        if self.static and self.expected_calls is not None:
            return self.static_unused
        used = ops.zeros(len(self.parameters), dtype=int32)
        if self.used:
            used[sorted(self.used)] = 1
        self.dist.all_reduce(used, group=self.group.apart)
        unused = {i for i, count in enumerate(used.tolist()) if not count}
        self.static_unused = unused
        return unused

    def _wait(self, bucket: Bucket) -> None:
        if self.hook is None:
            bucket.result.wait()
            return
        value = bucket.result.wait()
        value = value[0] if isinstance(value, (list, tuple)) else value
        if value.data_ptr() != bucket.flat.data_ptr():
            bucket.flat.copy_(value)

    def _write(self, index: int, place: Tensor, unused: set[int]) -> None:
        """Give a parameter its average."""
        parameter = self.parameters[index]
        if index in unused:
            if index in self.kept:
                place.copy_(self.kept[index])
            return
        have = parameter.grad
        if have is place:
            return
        if self.as_view:
            parameter._grad = place
        elif have is None or have.requires_grad or have.dtype is not place.dtype:
            parameter._grad = place.clone()
        else:
            have.copy_(place)

    def _reduce_sparse(self, index: int, unused: set[int]) -> None:
        """Average a sparse gradient: every rank gets the indices and values of all."""
        if index in unused:
            return
        parameter = self.parameters[index]
        grad = parameter.grad
        indices = values = None
        if grad is not None:
            if not grad.is_sparse:
                raise RuntimeError(f"expected the gradient of parameter {self.names[index]} to be sparse, as that of its module is")
            grad = grad.coalesce()
            indices, values = grad._indices().numpy(), (grad._values() / self.divisor).numpy()
        parts: list[Any] = [None] * self.world_size
        self.dist.all_gather_object(parts, (indices, values), group=self.group)
        there = [part for part in parts if part[0] is not None]
        if there:
            indices, values = (ops.from_numpy(np.concatenate([part[k] for part in there], axis=1 - k)) for k in (0, 1))
            parameter._grad = ops.sparse_coo_tensor(indices, values, parameter.shape).coalesce()

    # -- ranks without inputs ------------------------------------------------------------------------------------------------------------
    def shadow_pass(self) -> None:
        """Take part in the reductions of a pass of other ranks, with zeros."""
        self.prepare([])
        self.began = True
        with no_grad():
            for bucket in self.buckets:
                if bucket.flat is not None:
                    bucket.flat.zero_()
                    self._reduce(bucket)
            unused = self._unused_everywhere()
            for bucket in self.buckets:
                if bucket.flat is None and bucket.members[0] not in unused:
                    self.dist.all_gather_object([None] * self.world_size, (None, None), group=self.group)
                elif bucket.result is not None:
                    self._wait(bucket)
        self.finished, self.expects = True, False
        self.expected_calls = self.expected_calls or {}
        if not self.rebuilt and not self.order:
            self.order = list(reversed(range(len(self.parameters))))


def _call(reference: weakref.ref[Reducer], index: int, ins: Any, outs: Any) -> None:
    reducer = reference()
    if reducer is not None:
        reducer.on_gradient(index)


def _remove(handles: Sequence[Any]) -> None:
    for handle in handles:
        handle.remove()
