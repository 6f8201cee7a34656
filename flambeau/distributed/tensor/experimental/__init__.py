"""``torch.distributed.tensor.experimental``: functions of parts, and plain tensors among spread ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ....core import late as _late
from ....core.tensor import Tensor
from ....facades import unsupported
from .. import DTensor
from .._dispatch import implicit
from ._attention import context_parallel

__all__ = ["context_parallel", "implicit_replication", "local_map"]


def local_map(
    func: Callable[..., Any] | None = None, out_placements: Any = None, in_placements: Any = None, in_grad_placements: Any = None,
    device_mesh: Any = None, *, redistribute_inputs: bool = False
) -> Any:  # fmt: skip
    """A function of spread tensors that calls ``func`` on their parts.

    Args:
        func: takes and returns tensors.
        out_placements: how the results are put together: placements of one result, or a tuple of those of each; None of what is no tensor.
        in_placements: how each input must lie; as it lies when None.
        in_grad_placements: how each input's gradient lies; as the input when None.
        device_mesh: the mesh; the inputs' when None.
        redistribute_inputs: move inputs that lie otherwise, instead of raising.
    Returns: a function whose results are spread as ``out_placements`` says; a decorator of functions where ``func`` is None.
    Raises:
        ValueError: an input that lies otherwise.
    Source: torch.distributed.tensor.experimental.local_map.
    Example:
        >>> from flambeau.distributed.tensor import Shard
        >>> from flambeau.distributed.tensor.experimental import local_map
        >>> callable(local_map(torch.sin, [Shard(0)]))
        True
    """
    if func is None:
        return lambda function: local_map(
            function, out_placements, in_placements, in_grad_placements, device_mesh, redistribute_inputs=redistribute_inputs
        )

    def mapped(*args: Any, **kwargs: Any) -> Any:
        mesh = device_mesh
        given = []
        for i, value in enumerate(args):
            if isinstance(value, DTensor):
                mesh = mesh or value.device_mesh
                wanted = None if in_placements is None else in_placements[i]
                if wanted is not None and tuple(wanted) != value.placements:
                    if not redistribute_inputs:
                        raise ValueError(
                            f"arg {value} in local_map has a mismatched placements: expected {wanted}, got {value.placements}."
                        )
                    value = value.redistribute(placements=wanted)
                value = value.to_local(grad_placements=None if in_grad_placements is None else in_grad_placements[i])
            given.append(value)
        result = func(*given, **kwargs)
        if mesh is None:
            return result
        if isinstance(result, tuple):
            return tuple([_placed(part, mesh, places) for part, places in zip(result, out_placements, strict=True)])
        return _placed(result, mesh, out_placements)

    return mapped


@contextmanager
def implicit_replication() -> Iterator[None]:
    """A ``with`` block in which plain tensors among spread ones count as whole on every process.

    Returns: a context manager.
    Source: torch.distributed.tensor.experimental.implicit_replication.
    Example:
        >>> from flambeau.distributed.tensor.experimental import implicit_replication
        >>> with implicit_replication():
        ...     pass
    """
    was, implicit.is_on = implicit.is_on, True
    try:
        yield
    finally:
        implicit.is_on = was


def _placed(value: Any, mesh: Any, places: Any) -> Any:
    return DTensor.from_local(value, mesh, places) if isinstance(value, Tensor) and places is not None else value


_late.adopt(__name__)

globals().update(unsupported.names("distributed.tensor.experimental", "register_sharding"))
