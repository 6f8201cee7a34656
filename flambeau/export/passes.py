"""Changes of exported programs. Source: torch.export.passes."""

from __future__ import annotations

import copy
from typing import Any

from ..core.device import device as Device
from ..core.tensor import Parameter, Tensor
from ..utils._pytree import tree_map
from .exported_program import ExportedProgram

__all__ = ["move_to_device_pass"]


def move_to_device_pass(ep: ExportedProgram, location: Any) -> ExportedProgram:
    """A program with its tensors on another device, and nodes that name devices naming that one.

    Args:
        ep: the program, which is changed. location: the device, or a dict of devices by what they take the place of.
    Returns:
        The program.
    Source: torch.export.passes.move_to_device_pass.
    Example:
        >>> class Shifted(torch.nn.Module):
        ...     def forward(self, x):
        ...         return x + torch.ones(2, device="cpu")
        >>> program = torch.export.export(Shifted(), (torch.zeros(2),))
        >>> print(torch.export.passes.move_to_device_pass(program, "meta").graph_module.code.strip().splitlines()[1].strip())
        ones = torch.ops.aten.ones.default([2], device = device(type='meta'), pin_memory = False)
    """

    def place(device: Any) -> Any:
        if isinstance(location, dict):
            return Device(location.get(str(device), str(device)))
        return Device(location)

    def moved(value: Any) -> Any:
        if isinstance(value, Device):
            return place(value)
        if not isinstance(value, Tensor) or value.device == place(value.device):
            return value
        made = value.detach().to(place(value.device))
        return Parameter(made, value.requires_grad) if isinstance(value, Parameter) else made.requires_grad_(value.requires_grad)

    for tensors in (ep.state_dict, ep.constants):
        tensors.update({name: moved(tensor) for name, tensor in tensors.items()})
    for module in ep.graph_module.modules():
        for node in getattr(module, "graph", ep.graph).nodes:
            node.args, node.kwargs = tree_map(moved, node.args), tree_map(moved, dict(node.kwargs))
            node.meta = copy.copy(node.meta)
            if "val" in node.meta:
                node.meta["val"] = tree_map(moved, node.meta["val"])
    if ep.example_inputs is not None:
        ep._example_inputs = tree_map(moved, ep.example_inputs)
    ep.graph_module.recompile()
    return ep
