"""Sending tensors to several CUDA devices and back. Source: torch.nn.parallel.comm.

All of it is made of ``.to``, ``+``, ``chunk`` and ``cat``, so that it is recorded on the tape.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from ... import ops
from ...core.device import device as Device
from ...core.tensor import Tensor

__all__ = ["broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter"]


def _index(where: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    from ...cuda._runtime import index_of

    return index_of(where, optional, allow_cpu)


def _devices(devices: Sequence[Any]) -> list[Device]:
    return [Device("cuda", _index(where)) for where in devices]


def _on_cuda(tensors: Sequence[Tensor], operation: str) -> None:
    for position, tensor in enumerate(tensors):
        if not tensor.is_cuda:
            raise RuntimeError(
                f"{operation}: expected all tensors to be CUDA tensors, but tensor at index {position} is on device '{tensor.device}'"
            )


def broadcast(tensor: Tensor, devices: Sequence[Any] | None = None, *, out: Sequence[Tensor] | None = None) -> tuple[Tensor, ...]:
    """A tensor on several devices.

    Args:
        tensor: on the CPU or a CUDA device.
        devices: where to, beginning with ``tensor``'s own device where that is one of them.
        out: CUDA tensors of ``tensor``'s shape to write to, in place of ``devices``.
    Returns:
        A tensor for each device, ``tensor`` itself on its own; ``out`` where it is given.
    Raises:
        RuntimeError: both or none of ``devices`` and ``out``, or an ``out`` on the CPU or of another shape.
    Source: torch.nn.parallel.comm.broadcast.
    Example:
        >>> if torch.cuda.device_count() > 1:
        ...     first, second = torch.cuda.comm.broadcast(torch.ones(2), [0, 1])
        ...     assert second.get_device() == 1
    """
    if (devices is None) == (out is None):
        raise RuntimeError(f"Exactly one of 'devices' and 'out' must be specified, but got devices={devices} and out={out}")
    if devices is not None:
        return tuple([tensor.to(where, non_blocking=True) for where in _devices(devices)])
    targets = tuple(out or ())
    for position, target in enumerate(targets):
        if not target.is_cuda:
            raise RuntimeError(
                f"Expected all output tensors to be CUDA tensors, but output tensor at index {position} has device '{target.device}'"
            )
        if target.shape != tensor.shape:
            raise RuntimeError(
                f"Expected all output tensors to have same shape as the source tensor {list(tensor.shape)}, but output tensor at index "
                f"{position} has shape {list(target.shape)}"
            )
    for target in targets:
        if target is not tensor:
            target.copy_(tensor, non_blocking=True)
    return targets


def broadcast_coalesced(tensors: Sequence[Tensor], devices: Sequence[Any], buffer_size: int = 10485760) -> tuple[tuple[Tensor, ...], ...]:
    """Several tensors on several devices.

    Args:
        tensors: CUDA tensors of one device, of any shapes.
        devices: where to; the first one has to be the tensors' own.
        buffer_size: bytes that PyTorch sends at once; every tensor is sent by itself here, so that nothing depends on it.
    Returns:
        For each device a tuple of tensors.
    Raises:
        RuntimeError: the first device is not the tensors' own, or a size that is no buffer's.
    Source: torch.nn.parallel.comm.broadcast_coalesced.
    Example:
        >>> if torch.cuda.device_count() > 1:
        ...     copies = torch.cuda.comm.broadcast_coalesced([torch.ones(2).cuda(0)], [0, 1])
        ...     assert copies[1][0].get_device() == 1
    """
    _checked_size(buffer_size)
    places = _devices(devices)
    if any(tensor.device != places[0] for tensor in tensors):
        raise RuntimeError(
            "All tensors must be on devices[0]: 0" if places[0].index == 0 else f"All tensors must be on devices[0]: {places[0].index}"
        )
    return tuple([tuple([tensor.to(where, non_blocking=True) for tensor in tensors]) for where in places])


def _checked_size(buffer_size: int) -> None:
    if buffer_size <= 0:
        raise RuntimeError(f"expected a buffer size of more than 0 bytes, got {buffer_size}")


def reduce_add(inputs: Sequence[Tensor], destination: Any = None) -> Tensor:
    """The sum of tensors of several devices.

    Args:
        inputs: CUDA tensors of one shape.
        destination: the device of the result, on which one of ``inputs`` lies; the current one for None.
    Returns:
        A tensor of the inputs' shape on ``destination``.
    Raises:
        ValueError: shapes differ. RuntimeError: no input lies there.
    Source: torch.nn.parallel.comm.reduce_add.
    Example:
        >>> if torch.cuda.device_count() > 1:
        ...     parts = [torch.ones(2).cuda(0), torch.ones(2).cuda(1)]
        ...     assert torch.cuda.comm.reduce_add(parts).tolist() == [2.0, 2.0]
    """
    index = _index(destination, optional=True)
    _on_cuda(inputs, "reduce_add")
    shape = inputs[0].shape
    for position, tensor in enumerate(inputs):
        if tensor.shape != shape:
            got, expected = ("x".join(map(str, each)) for each in (tensor.shape, shape))
            raise ValueError(f"input {position} has invalid size: got {got}, but expected {expected}")
    at_home = [position for position, tensor in enumerate(inputs) if tensor.get_device() == index]
    if not at_home:
        raise RuntimeError("reduce_add expects destination to be on the same GPU with one of the tensors")
    root = at_home[-1]
    result = inputs[root]
    for position, tensor in enumerate(inputs):
        if position != root:
            result = result + tensor.to(result.device, non_blocking=True)
    return result


def reduce_add_coalesced(inputs: Sequence[Sequence[Tensor]], destination: Any = None, buffer_size: int = 10485760) -> tuple[Tensor, ...]:
    """The sums of corresponding tensors of several devices.

    Args:
        inputs: for each device its tensors; those at one place are of one shape.
        destination: the device of the results; the current one for None.
        buffer_size: bytes that PyTorch sends at once; every tensor is sent by itself here, so that nothing depends on it.
    Returns:
        A tensor on ``destination`` for each place in the sequences.
    Source: torch.nn.parallel.comm.reduce_add_coalesced.
    Example:
        >>> if torch.cuda.device_count() > 1:
        ...     parts = [[torch.ones(2).cuda(0)], [torch.ones(2).cuda(1)]]
        ...     assert torch.cuda.comm.reduce_add_coalesced(parts)[0].tolist() == [2.0, 2.0]
    """
    _checked_size(buffer_size)
    return tuple([reduce_add(tensors, destination) for tensors in zip(*inputs, strict=True)])


def scatter(
    tensor: Tensor,
    devices: Sequence[Any] | None = None,
    chunk_sizes: Sequence[int] | None = None,
    dim: int = 0,
    streams: Sequence[Any] | None = None,
    *,
    out: Sequence[Tensor] | None = None,
) -> tuple[Tensor, ...]:
    """Parts of a tensor on several devices.

    Args:
        tensor: ``(*, n, *)``, on the CPU or a CUDA device.
        devices: where to, in the order of the parts.
        chunk_sizes: how long the parts are in ``dim``; as equal as can be when None.
        dim: the dimension to split.
        streams: for each device the stream of its copy, or None.
        out: CUDA tensors to write the parts to, in place of ``devices`` and ``chunk_sizes``.
    Returns:
        The parts, views of ``tensor`` where they stay; ``out`` where it is given.
    Raises:
        RuntimeError: no devices, sizes that do not add up, or ``out`` with what it replaces.
    Source: torch.nn.parallel.comm.scatter.
    Example:
        >>> if torch.cuda.device_count() > 1:
        ...     halves = torch.cuda.comm.scatter(torch.arange(4.0), [0, 1])
        ...     assert halves[1].tolist() == [2.0, 3.0]
    """
    if out is not None:
        for name, value in (("devices", devices), ("chunk_sizes", chunk_sizes)):
            if value is not None:
                raise RuntimeError(f"'{name}' must not be specified when 'out' is specified, but got {name}={value}")
        _on_cuda(out, "scatter")
        parts = tensor.split([target.shape[dim] for target in out], dim)
        for part, target, stream in zip(parts, out, _streams(streams, len(out)), strict=True):
            with _context(stream):
                target.copy_(part, non_blocking=True)
        return tuple(out)
    places = _devices(devices or ())
    if not places:
        raise RuntimeError("Expected at least one device to scatter to")
    if chunk_sizes is None:
        parts = tensor.chunk(len(places), dim)
        places = places[: len(parts)]
    else:
        if len(chunk_sizes) != len(places):
            raise RuntimeError(f"Expected devices and chunk_sizes to be of same length, but got {len(places)} and {len(chunk_sizes)}")
        if sum(chunk_sizes) != tensor.shape[dim]:
            raise RuntimeError(
                f"given chunk sizes don't sum up to the tensor's size (sum(chunk_sizes) == {sum(chunk_sizes)}, but expected "
                f"{tensor.shape[dim]})"
            )
        parts = tensor.split(list(chunk_sizes), dim)
    results = []
    for part, where, stream in zip(parts, places, _streams(streams, len(places)), strict=True):
        with _context(stream):
            results.append(part.to(where, non_blocking=True))
    return tuple(results)


def _streams(streams: Sequence[Any] | None, count: int) -> Sequence[Any]:
    if streams is None:
        return [None] * count
    if len(streams) < count:
        raise RuntimeError(f"Expected a stream for each of {count} devices, but got {len(streams)}")
    return streams[:count]


def _context(stream: Any) -> Any:
    if stream is None:
        return nullcontext()
    from ...cuda.streams import StreamContext

    return StreamContext(stream)


def gather(tensors: Sequence[Tensor], dim: int = 0, destination: Any = None, *, out: Tensor | None = None) -> Tensor:
    """Tensors of several devices joined on one.

    Args:
        tensors: CUDA tensors whose shapes agree but for ``dim``.
        dim: the dimension to join them in.
        destination: the device of the result, or the CPU; the current one for None.
        out: the tensor to write to, in place of ``destination``.
    Returns:
        The joined tensor, on ``destination``.
    Raises:
        RuntimeError: a tensor of the CPU, or ``out`` with ``destination``.
    Source: torch.nn.parallel.comm.gather.
    Example:
        >>> if torch.cuda.device_count() > 1:
        ...     halves = torch.cuda.comm.scatter(torch.arange(4.0), [0, 1])
        ...     assert torch.cuda.comm.gather(halves, destination="cpu").tolist() == [0.0, 1.0, 2.0, 3.0]
    """
    if out is not None and destination is not None:
        raise RuntimeError(f"'destination' must not be specified when 'out' is specified, but got destination={destination}")
    if not tensors:
        raise RuntimeError("Expected at least one tensor to gather from")
    _on_cuda(tensors, "gather")
    if out is None:
        if destination == -1:
            warnings.warn(
                'Using -1 to represent CPU tensor is deprecated. Please use a device object or string instead, e.g., "cpu".',
                FutureWarning,
                stacklevel=2,
            )
        index = _index(destination, optional=True, allow_cpu=True)
        where = Device("cpu") if index < 0 else Device("cuda", index)
    else:
        where = out.device
    joined = ops.resolve("torch", "cat")([tensor.to(where, non_blocking=True) for tensor in tensors], dim)
    return joined if out is None else out.copy_(joined)
