"""Collectives as methods of a group, which start them and return a ``Work``. Source: torch.distributed.ProcessGroup."""

from __future__ import annotations

import datetime
import importlib
from collections.abc import Callable
from typing import Any

from ..core.tensor import Tensor
from ._reduce_op import ReduceOp
from .work import CoalescedWork, Work

__all__ = ["GroupMethods"]

SUM = ReduceOp.SUM
_MODULE_OF = {"isend": "messages", "irecv": "messages", "monitored_barrier": "subgroups"}


def _called(name: str, *arguments: Any, **options: Any) -> Any:
    """A function of one of the modules above, which import the class that has these methods."""
    module = _MODULE_OF.get(name, "collectives")
    return getattr(importlib.import_module(f".{module}", __package__), name)(*arguments, **options)


def _all(tensors: Any) -> list[Any]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _together(works: list[Any]) -> Work:
    return works[0] if len(works) == 1 else CoalescedWork(works)


def _op(opts: Any) -> Any:
    return opts if isinstance(opts, ReduceOp) else getattr(opts, "reduceOp", SUM)


def _root(opts: Any) -> int:
    return opts if isinstance(opts, int) else getattr(opts, "rootRank", 0)


def _under(work: Any, opts: Any, timeout: Any = None) -> Work:
    """The work, under its options: how long it may take, and whether it is waited for here."""
    given = timeout if timeout is not None else getattr(opts, "timeout", None)
    if getattr(opts, "rootTensor", 0):
        raise NotImplementedError("options of collectives: rootTensor is not supported; give one tensor")
    if given is not None and given.total_seconds() > 0:
        work.limit(given.total_seconds())
    if getattr(opts, "asyncOp", True) is False:
        work.wait()
    return work


class GroupMethods:
    """Methods of ``ProcessGroup``. Roots and peers are places in the group; ``opts`` are options as classes or the one that matters."""

    def _each(self, call: Callable[..., Any], *lists: Any) -> Work:
        return _together([call(*each) for each in zip(*map(_all, lists), strict=True)])

    def allreduce(self, tensors: Any, opts: Any = SUM, timeout: Any = None) -> Work:
        """``all_reduce`` of a tensor or several."""
        return _under(self._each(lambda tensor: _called("all_reduce", tensor, _op(opts), self, True), tensors), opts, timeout)

    def allreduce_coalesced(self, tensors: Any, opts: Any = SUM) -> Work:
        """``all_reduce`` of several tensors as one operation."""
        return _under(_called("all_reduce_coalesced", tensors, _op(opts), self, True), opts)

    def broadcast(self, tensors: Any, opts: Any = 0, root: int | None = None, timeout: Any = None) -> Work:
        """``broadcast`` of a tensor or several."""
        place = _root(opts) if root is None else root
        return _under(
            self._each(lambda tensor: _called("broadcast", tensor, group=self, async_op=True, group_src=place), tensors), opts, timeout
        )

    def reduce(self, tensors: Any, opts: Any = 0, root: int | None = None, op: Any = None, timeout: Any = None) -> Work:
        """``reduce`` of a tensor or several."""
        place = _root(opts) if root is None else root
        kind = _op(opts) if op is None else op
        return _under(
            self._each(lambda tensor: _called("reduce", tensor, op=kind, group=self, async_op=True, group_dst=place), tensors),
            opts,
            timeout,
        )

    def allgather(self, output_tensors: Any, input_tensors: Any, opts: Any = None, timeout: Any = None) -> Work:
        """``all_gather`` of a tensor or several."""
        inputs = _all(input_tensors)
        outputs = [output_tensors] if isinstance(input_tensors, Tensor) else output_tensors
        return _under(self._each(lambda into, tensor: _called("all_gather", into, tensor, self, True), outputs, inputs), opts, timeout)

    def allgather_coalesced(self, output_lists: Any, input_list: Any, opts: Any = None) -> Work:
        """``all_gather`` of several tensors as one operation."""
        return _under(_called("all_gather_coalesced", output_lists, input_list, self, True), opts)

    def all_gather_single(self, output: Tensor, input: Tensor, opts: Any = None, timeout: Any = None) -> Work:
        """``all_gather_into_tensor``."""
        return _under(_called("all_gather_into_tensor", output, input, self, True), opts, timeout)

    def allgather_into_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """``all_gather_into_tensor`` of several tensors."""
        return _under(self._each(self.all_gather_single, outputs, inputs), opts)

    def gather(self, output_tensors: Any, input_tensors: Any, opts: Any = 0, root: int | None = None, timeout: Any = None) -> Work:
        """``gather``; ``output_tensors`` is empty but on the destination."""
        place = _root(opts) if root is None else root
        into = output_tensors[0] if output_tensors else None
        return _under(_called("gather", _all(input_tensors)[0], into, group=self, async_op=True, group_dst=place), opts, timeout)

    def scatter(self, output_tensors: Any, input_tensors: Any, opts: Any = 0, root: int | None = None, timeout: Any = None) -> Work:
        """``scatter``; ``input_tensors`` is empty but on the source."""
        place = _root(opts) if root is None else root
        parts = input_tensors[0] if input_tensors else None
        return _under(_called("scatter", _all(output_tensors)[0], parts, group=self, async_op=True, group_src=place), opts, timeout)

    def reduce_scatter(self, output_tensors: Any, input_tensors: Any, opts: Any = SUM, timeout: Any = None) -> Work:
        """``reduce_scatter`` of a list or several."""
        inputs = [input_tensors] if isinstance(output_tensors, Tensor) else input_tensors
        return _under(
            self._each(lambda out, parts: _called("reduce_scatter", out, parts, _op(opts), self, True), _all(output_tensors), inputs),
            opts,
            timeout,
        )

    def reduce_scatter_single(self, output: Tensor, input: Tensor, opts: Any = SUM, timeout: Any = None) -> Work:
        """``reduce_scatter_tensor``."""
        return _under(_called("reduce_scatter_tensor", output, input, _op(opts), self, True), opts, timeout)

    def reduce_scatter_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = SUM) -> Work:
        """``reduce_scatter_tensor`` of several tensors."""
        return _under(self._each(lambda out, whole: self.reduce_scatter_single(out, whole, opts), outputs, inputs), opts)

    _allgather_base = all_gather_single
    _reduce_scatter_base = reduce_scatter_single

    def alltoall(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Work:
        """``all_to_all``."""
        return _under(_called("all_to_all", output_tensors, input_tensors, self, True), opts)

    def alltoall_base(self, output: Tensor, input: Tensor, output_split_sizes: Any, input_split_sizes: Any, opts: Any = None) -> Work:
        """``all_to_all_single``."""
        return _under(_called("all_to_all_single", output, input, output_split_sizes, input_split_sizes, self, True), opts)

    all_to_all_single = alltoall_base

    def barrier(self, opts: Any = None, timeout: datetime.timedelta | None = None) -> Work:
        """``barrier``."""
        return _under(_called("barrier", self, True), opts, timeout)

    def send(self, tensors: Any, dstRank: int, tag: int = 0) -> Work:
        """``isend`` of one tensor."""
        return self._each(lambda tensor: _called("isend", tensor, None, self, tag, dstRank), tensors)

    def recv(self, tensors: Any, srcRank: int, tag: int = 0) -> Work:
        """``irecv`` of one tensor."""
        return self._each(lambda tensor: _called("irecv", tensor, None, self, tag, srcRank), tensors)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Work:
        """``irecv`` of one tensor from any rank."""
        return self._each(lambda tensor: _called("irecv", tensor, None, self, tag), tensors)

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        """``monitored_barrier``."""
        _called("monitored_barrier", self, timeout, wait_all_ranks)
