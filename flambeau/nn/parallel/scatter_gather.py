"""Arguments and results in parts on several devices, whatever holds the tensors. Source: torch.nn.parallel.scatter_gather."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ...core.tensor import Tensor
from . import comm

__all__ = ["scatter", "scatter_kwargs", "gather"]


def _is_namedtuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields") and hasattr(value, "_make")


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """Parts of all tensors in a structure, on several devices.

    Args:
        inputs: a tensor, or tuples, lists and dictionaries that hold some; whatever else is in them is the same in every part.
        target_gpus: CUDA devices.
        dim: the dimension to split tensors in.
    Returns:
        A sequence with the structure for each device; shorter than ``target_gpus`` where a tensor has fewer parts.
    Raises:
        ValueError: a device that is not CUDA's, where there are tensors.
    Source: torch.nn.parallel.scatter.
    Example:
        >>> nn.parallel.scatter({"rate": 0.1}, target_gpus=[0, 1])
        [{'rate': 0.1}, {'rate': 0.1}]
    """
    if isinstance(inputs, Tensor):
        return comm.scatter(inputs, target_gpus, dim=dim)
    if _is_namedtuple(inputs):
        return [type(inputs)(*parts) for parts in zip(*[scatter(item, target_gpus, dim) for item in inputs])]
    if isinstance(inputs, tuple) and inputs:
        return list(zip(*[scatter(item, target_gpus, dim) for item in inputs]))
    if isinstance(inputs, list) and inputs:
        return [list(parts) for parts in zip(*[scatter(item, target_gpus, dim) for item in inputs])]
    if isinstance(inputs, dict) and inputs:
        parts_of_values = zip(*[scatter(value, target_gpus, dim) for value in inputs.values()])
        return [type(inputs)(zip(inputs, parts)) for parts in parts_of_values]
    return [inputs for _ in target_gpus]


def scatter_kwargs(
    inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, target_gpus: Sequence[Any], dim: int = 0
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """Positional and keyword arguments for each device, as many of the one as of the other.

    Args:
        inputs: positional arguments.
        kwargs: keyword arguments; None for none.
        target_gpus: CUDA devices.
        dim: the dimension to split tensors in.
    Returns:
        Two tuples of the same length: positional arguments, and keyword arguments, of each device.
    Source: torch.nn.parallel.scatter_gather.scatter_kwargs.
    Example:
        >>> nn.parallel.scatter_gather.scatter_kwargs((1,), {"a": 2}, [0, 1])
        (((1,), (1,)), ({'a': 2}, {'a': 2}))
    """
    args = list(scatter(inputs, target_gpus, dim)) if inputs else []
    keywords = list(scatter(kwargs, target_gpus, dim)) if kwargs else []
    args += [()] * (len(keywords) - len(args))
    keywords += [{}] * (len(args) - len(keywords))
    return tuple(args), tuple(keywords)


def _gather_tensors(tensors: Sequence[Tensor], target_device: Any, dim: int) -> Tensor:
    if not all(not tensor.is_cpu for tensor in tensors):
        raise AssertionError("Gather function not implemented for CPU tensors")
    if all(tensor.dim() == 0 for tensor in tensors) and dim == 0:
        warnings.warn(
            "Was asked to gather along dimension 0, but all input tensors were scalars; will instead unsqueeze and return a vector.",
            stacklevel=2,
        )
        tensors = [tensor.view(1) for tensor in tensors]
    return comm.gather(tensors, dim, "cpu" if target_device == "cpu" else target_device)


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """Results of several devices, joined on one.

    Args:
        outputs: for each device a tensor, or a structure of tensors; None stays None.
        target_device: a CUDA device, or ``"cpu"``.
        dim: the dimension to join tensors in.
    Returns:
        The structure, with the joined tensors; scalars are joined to a vector.
    Raises:
        AssertionError: a tensor of the CPU.
        ValueError: dictionaries of different lengths.
    Source: torch.nn.parallel.gather.
    Example:
        >>> nn.parallel.gather([None, None], "cpu") is None
        True
    """
    first = outputs[0]
    if isinstance(first, Tensor):
        return _gather_tensors(outputs, target_device, dim)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(len(output) != len(first) for output in outputs):
            raise ValueError("All dicts must have the same number of keys")
        return type(first)((key, gather([output[key] for output in outputs], target_device, dim)) for key in first)
    joined = [gather(items, target_device, dim) for items in zip(*outputs)]
    return type(first)._make(joined) if _is_namedtuple(first) else type(first)(joined)
