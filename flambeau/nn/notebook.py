"""Modules in a notebook: a tree that opens and closes, with the number of parameters of each branch."""

from __future__ import annotations

import html
from typing import Any

from ..core.tensor import Parameter

MOST_TENSORS = 12


def module_html(module: Any, name: str = "", depth: int = 0) -> str:
    """HTML of a module: its class and ``extra_repr``, its own parameters and buffers with their shapes, and the modules below it.

    Args:
        module: the module.
        name: its name in its parent.
        depth: how many modules are around it; the outermost is open.
    """
    number = sum(parameter.numel() for parameter in module.parameters() if not _is_lazy(parameter))
    title = f"<b>{html.escape(module._get_name())}</b>"
    if name:
        title = f"({html.escape(name)}) {title}"
    if extra := module.extra_repr():
        title += f"({html.escape(extra)})"
    if number:
        title += f" <i>{number:,} parameters</i>"
    own = [*module._parameters.items(), *module._buffers.items()]
    lines = [f"<li>{_tensor(name, tensor)}</li>" for name, tensor in own[:MOST_TENSORS] if tensor is not None]
    if len(own) > MOST_TENSORS:
        lines.append(f"<li>and {len(own) - MOST_TENSORS} more</li>")
    lines += [f"<li>{module_html(child, name, depth + 1)}</li>" for name, child in module._modules.items() if child is not None]
    if not lines:
        return f"<div>{title}</div>"
    is_open = " open" if depth == 0 else ""
    return f"<details{is_open}><summary>{title}</summary><ul style='list-style:none'>{''.join(lines)}</ul></details>"


def _is_lazy(tensor: Any) -> bool:
    """Whether a parameter has no shape yet."""
    return type(tensor).__name__.startswith("Uninitialized")


def _tensor(name: str, tensor: Any) -> str:
    shape = "not known yet" if _is_lazy(tensor) else " × ".join(map(str, tensor.shape)) or "scalar"
    frozen = ", no gradient" if isinstance(tensor, Parameter) and not tensor.requires_grad else ""
    return html.escape(f"{name}: {shape}, {str(tensor.dtype).removeprefix('torch.')}{frozen}")
