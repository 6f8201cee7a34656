"""Parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ... import ops
from ...core.tensor import Tensor
from ..module import _typename

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters, flattened, in one vector.

    Args:
        parameters: tensors of any shapes on one device.
    Returns:
        ``(n,)`` with the elements of all, one after the other; a copy.
    Raises:
        TypeError: they are not all on one device.
    Source: torch.nn.utils.parameters_to_vector.
    Example:
        >>> nn.utils.parameters_to_vector([torch.zeros(2, 2), torch.ones(3)])
        tensor([0., 0., 0., 0., 1., 1., 1.])
    """
    listed: list[Tensor] = list(parameters)
    _require_one_device(listed)
    return ops.cat([parameter.view(-1) for parameter in listed])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Make the parameters' data views of consecutive parts of ``vec``.

    Args:
        vec: as many elements as the parameters have together.
        parameters: changed in place.
    Raises:
        TypeError: ``vec`` is not a tensor, or the parameters are not all on one device.
    Source: torch.nn.utils.vector_to_parameters.
    Example:
        >>> weight, bias = torch.zeros(2, 2), torch.zeros(1)
        >>> nn.utils.vector_to_parameters(torch.arange(5.0), [weight, bias])
        >>> weight, bias
        (tensor([[0., 1.],
                [2., 3.]]), tensor([4.]))
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {_typename(vec)}")
    listed: list[Tensor] = list(parameters)
    _require_one_device(listed)
    start = 0
    for parameter in listed:
        stop = start + parameter.numel()
        parameter.data = vec[start:stop].view_as(parameter).data
        start = stop


def _require_one_device(parameters: list[Any]) -> None:
    if len({parameter.device for parameter in parameters}) > 1:
        raise TypeError("Found two parameters on different devices, this is currently not supported.")
