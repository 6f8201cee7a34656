"""Copies of a module on several devices. Source: torch.nn.parallel.replicate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.tensor import Tensor
from ..module import Module
from .comm import _devices

__all__ = ["replicate"]


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Any]:
    """Copies of ``network`` for one pass forward, a device each.

    Parameters of the copies are plain tensors, computed from the network's own by recorded copies, so that their gradients add up in
    the network. On the first device, where the network lies, buffers are shared, so that what a batch norm measures there stays.

    Args:
        network: lies on the first device.
        devices: CUDA devices.
        detach: leave the copies out of the graph.
    Returns:
        A module for each device.
    Raises:
        RuntimeError: the network does not lie on the first device.
        ValueError: a device that is not CUDA's.
    Source: torch.nn.parallel.replicate.
    Example:
        >>> nn.parallel.replicate(nn.ReLU(), ["cpu"])
        Traceback (most recent call last):
            ...
        ValueError: Expected a cuda device, but got: cpu
    """
    places = _devices(devices)
    for tensor in (*network.parameters(), *network.buffers()):
        if tensor.device != places[0]:
            raise RuntimeError(f"All tensors must be on devices[0]: {places[0].index}")
    originals = list(network.modules())
    return [_copy(originals, place, detach)[network] for place in places]


def _copy(originals: Sequence[Module], place: Any, detach: bool) -> dict[Module, Module]:
    """For each of ``originals`` its copy on a device; shared tensors and modules are shared by the copies too."""
    copies = {original: original._replicate_for_data_parallel() for original in originals}
    moved: dict[Tensor, Tensor] = {}

    def on_place(tensor: Tensor, cut: bool) -> Tensor:
        if tensor not in moved:
            # A parameter that stays where it is must not be a parameter of the copy: it is no leaf there.
            source = tensor.detach() if cut else tensor.view_as(tensor)
            moved[tensor] = source.to(place, non_blocking=True)
        return moved[tensor]

    for original, copy in copies.items():
        for name, child in original._modules.items():
            copy._modules[name] = None if child is None else copies[child]
        for name, parameter in original._parameters.items():
            if parameter is None:
                copy._parameters[name] = None
            else:
                setattr(copy, name, on_place(parameter, detach))
        for name, buffer in original._buffers.items():
            copy._buffers[name] = None if buffer is None else on_place(buffer, detach or not buffer.requires_grad)
    return copies
