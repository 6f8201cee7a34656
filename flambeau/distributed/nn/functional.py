"""Collectives that gradients flow back through. Source: torch.distributed.nn.functional.

A gradient of what a rank received belongs to who sent it. So the backward pass of a collective is another one: of a broadcast a sum to the
source, of a gathering a reduce-scatter, of a sum a sum. All ranks of the group take part in both.
"""

from __future__ import annotations

from typing import Any

from ...autograd.function import Function
from ...core.tensor import Tensor
from .. import collectives
from .._reduce_op import ReduceOp
from ..collectives import root_of
from ..groups import resolved

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce", "reduce_scatter", "scatter",
]  # fmt: skip

SUM = ReduceOp.SUM


def _summed(grads: tuple[Tensor, ...], group: Any) -> Tensor:
    """This rank's of the ranks' gradients of each rank's tensor, summed."""
    inputs = [grad.contiguous() for grad in grads]
    own = inputs[resolved(group).rank()].new_empty(inputs[resolved(group).rank()].shape)
    collectives.reduce_scatter(own, inputs, SUM, group)
    return own


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, root: int, group: Any) -> Tensor:
        ctx.root, ctx.group = root, group
        result = tensor.clone()
        collectives.broadcast(result, group=group, group_src=root)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        return _Reduce.apply(grad, ctx.root, SUM, ctx.group, True), None, None


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, root: int, op: Any, group: Any, zero_elsewhere: bool) -> Tensor:
        ctx.root, ctx.group = root, group
        result = tensor.clone()
        collectives.reduce(result, op=op, group=group, group_dst=root)
        return result.zero_() if zero_elsewhere and resolved(group).rank() != root else result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        return _Broadcast.apply(grad, ctx.root, ctx.group), None, None, None, None


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, root: int, group: Any) -> tuple[Tensor, ...]:
        ctx.root, ctx.group = root, group
        pg = resolved(group)
        parts = [tensor.new_zeros(tensor.shape) for _ in range(pg.size())]
        collectives.gather(tensor.contiguous(), parts if pg.rank() == root else None, group=group, group_dst=root)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        return _Scatter.apply(ctx.root, ctx.group, *grads), None, None


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, root: int, group: Any, *tensors: Tensor) -> Tensor:
        ctx.root, ctx.group = root, group
        pg = resolved(group)
        result = tensors[0].new_zeros(tensors[pg.rank()].shape)
        parts = [tensor.contiguous() for tensor in tensors] if pg.rank() == root else None
        collectives.scatter(result, parts, group=group, group_src=root)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        return None, None, *_Gather.apply(grad, ctx.root, ctx.group)


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, op: Any, group: Any) -> Tensor:
        ctx.op, ctx.group = op, group
        result = tensor.clone()
        collectives.all_reduce(result, op, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        return _AllReduce.apply(grad, ctx.op, ctx.group), None, None


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, group: Any) -> tuple[Tensor, ...]:
        ctx.group = group
        parts = [tensor.new_empty(tensor.shape) for _ in range(resolved(group).size())]
        collectives.all_gather(parts, tensor.contiguous(), group)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        return _ReduceScatter.apply(SUM, ctx.group, *grads), None


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: Any, *inputs: Tensor) -> Tensor:
        ctx.group, ctx.scale = group, resolved(group).size() if op == ReduceOp.AVG else 1
        result = inputs[0].new_empty(inputs[resolved(group).rank()].shape)
        collectives.reduce_scatter(result, [each.contiguous() for each in inputs], op, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        return None, None, *_AllGather.apply(grad / ctx.scale if ctx.scale != 1 else grad, ctx.group)


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, shapes: list[Any], *inputs: Tensor) -> tuple[Tensor, ...]:
        ctx.group, ctx.shapes = group, [each.shape for each in inputs]
        outputs = [inputs[0].new_empty(shape) for shape in shapes]
        collectives.all_to_all(outputs, [each.contiguous() for each in inputs], group)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        return None, None, *_AllToAll.apply(ctx.group, ctx.shapes, *grads)


class _AllToAllSingle(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, shape: Any, received: Any, sent: Any, input: Tensor) -> Tensor:
        ctx.group, ctx.shape, ctx.received, ctx.sent = group, input.shape, received, sent
        output = input.new_empty(shape)
        collectives.all_to_all_single(output, input.contiguous(), received, sent, group)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        return None, None, None, None, _AllToAllSingle.apply(ctx.group, ctx.shape, ctx.sent, ctx.received, grad)


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """One rank's tensor on all.

    Args:
        tensor: of the same shape on all ranks.
        src: the source, by its rank among all.
        group: the group; that of all processes when None.
    Returns: a new tensor.
    Gradient: that of the source is the sum of all ranks'; elsewhere 0.
    Source: torch.distributed.nn.functional.broadcast.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> y = torch.distributed.nn.functional.broadcast(torch.ones(2, requires_grad=True), 0)
        >>> torch.distributed.destroy_process_group()
    """
    return _Broadcast.apply(tensor, root_of(resolved(group), src, None, "src"), group)


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all ranks on one.

    Args:
        tensor: this rank's, of the same shape on all ranks.
        dst: the destination, by its rank among all.
        group: the group; that of all processes when None.
    Returns: a tuple of tensors, one for each rank; zeros but on the destination.
    Gradient: the destination's of this rank's tensor.
    Source: torch.distributed.nn.functional.gather.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> parts = torch.distributed.nn.functional.gather(torch.ones(2, requires_grad=True))
        >>> torch.distributed.destroy_process_group()
    """
    return _Gather.apply(tensor, root_of(resolved(group), dst, None, "dst"), group)


def scatter(tensors: list[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """One rank's tensors, one for each.

    Args:
        tensors: one for each rank; values count on the source only, shapes on all.
        src: the source, by its rank among all.
        group: the group; that of all processes when None.
    Returns: this rank's tensor.
    Gradient: on the source, those of all ranks; elsewhere 0.
    Source: torch.distributed.nn.functional.scatter.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> y = torch.distributed.nn.functional.scatter([torch.ones(2, requires_grad=True)])
        >>> torch.distributed.destroy_process_group()
    """
    return _Scatter.apply(root_of(resolved(group), src, None, "src"), group, *tensors)


def reduce(tensor: Tensor, dst: int, op: Any = SUM, group: Any = None) -> Tensor:
    """The tensors of all ranks reduced, on one; elsewhere the tensor.

    Args:
        tensor: of the same shape on all ranks.
        dst: the destination, by its rank among all.
        op: a ``ReduceOp``.
        group: the group; that of all processes when None.
    Returns: a new tensor.
    Gradient: the destination's, as of a sum.
    Source: torch.distributed.nn.functional.reduce.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> y = torch.distributed.nn.functional.reduce(torch.ones(2, requires_grad=True), 0)
        >>> torch.distributed.destroy_process_group()
    """
    return _Reduce.apply(tensor, root_of(resolved(group), dst, None, "dst"), op, group, False)


def reduce_scatter(output: Tensor, input_list: list[Tensor], op: Any = SUM, group: Any = None) -> Tensor:
    """Lists of tensors of all ranks reduced, one of the results on each.

    Args:
        output: of the shape of this rank's result, which PyTorch overwrites.
        input_list: one tensor for each rank.
        op: a ``ReduceOp``.
        group: the group; that of all processes when None.
    Returns: a new tensor.
    Gradient: that of each rank's result, as of a sum.
    Source: torch.distributed.nn.functional.reduce_scatter.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> y = torch.distributed.nn.functional.reduce_scatter(torch.zeros(2), [torch.ones(2)])
        >>> torch.distributed.destroy_process_group()
    """
    return _ReduceScatter.apply(op, group, *input_list)


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all ranks on each.

    Args:
        tensor: this rank's, of the same shape on all ranks.
        group: the group; that of all processes when None.
    Returns: a tuple of tensors, one for each rank.
    Gradient: the sum of all ranks' of this rank's tensor.
    Source: torch.distributed.nn.functional.all_gather.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> parts = torch.distributed.nn.functional.all_gather(torch.ones(2, requires_grad=True))
        >>> torch.distributed.destroy_process_group()
    """
    return _AllGather.apply(tensor, group)


def all_to_all(output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None) -> tuple[Tensor, ...]:
    """One tensor from each rank.

    Args:
        output_tensor_list: of the shapes of what comes, which PyTorch overwrites.
        input_tensor_list: one tensor for each rank.
        group: the group; that of all processes when None.
    Returns: a tuple of new tensors.
    Gradient: goes back to where the tensors came from.
    Source: torch.distributed.nn.functional.all_to_all.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> parts = torch.distributed.nn.functional.all_to_all([torch.zeros(2)], [torch.ones(2)])
        >>> torch.distributed.destroy_process_group()
    """
    return _AllToAll.apply(group, [each.shape for each in output_tensor_list], *input_tensor_list)


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Any = None, input_split_sizes: Any = None, group: Any = None
) -> Tensor:
    """Parts of the tensor to each rank, and a part from each.

    Args:
        output: of the shape of what comes, which PyTorch overwrites.
        input: parts along dimension 0.
        output_split_sizes, input_split_sizes: the parts' sizes; equal ones when None.
        group: the group; that of all processes when None.
    Returns: a new tensor.
    Gradient: goes back to where the parts came from.
    Source: torch.distributed.nn.functional.all_to_all_single.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> y = torch.distributed.nn.functional.all_to_all_single(torch.zeros(2), torch.ones(2))
        >>> torch.distributed.destroy_process_group()
    """
    return _AllToAllSingle.apply(group, output.shape, output_split_sizes, input_split_sizes, input)


def all_reduce(tensor: Tensor, op: Any = SUM, group: Any = None) -> Tensor:
    """The tensors of all ranks reduced, on each.

    Args:
        tensor: of the same shape on all ranks.
        op: a ``ReduceOp``.
        group: the group; that of all processes when None.
    Returns: a new tensor.
    Gradient: reduced in the same way.
    Source: torch.distributed.nn.functional.all_reduce.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> x = torch.ones(2, requires_grad=True)
        >>> torch.distributed.nn.functional.all_reduce(x).sum().backward()
        >>> torch.distributed.destroy_process_group()
        >>> x.grad
        tensor([1., 1.])
    """
    return _AllReduce.apply(tensor, op, group)
