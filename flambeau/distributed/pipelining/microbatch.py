"""Batches in parts."""

from __future__ import annotations

from typing import Any

from ... import ops
from ...core.tensor import Tensor
from ...utils._pytree import tree_flatten, tree_unflatten

__all__ = ["TensorChunkSpec", "merge_chunks", "split_args_kwargs_into_chunks"]


class TensorChunkSpec:
    """The dimension along which a tensor is divided.

    Args:
        split_dim: the dimension.
    Source: torch.distributed.pipelining.microbatch.TensorChunkSpec.
    Example:
        >>> from flambeau.distributed.pipelining.microbatch import TensorChunkSpec
        >>> TensorChunkSpec(1)
        <flambeau.distributed.pipelining.microbatch.TensorChunkSpec(1)>
    """

    def __init__(self, split_dim: int) -> None:
        self.split_dim = split_dim

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__}({self.split_dim})>"

    @staticmethod
    def from_tuple(chunk_dims: tuple[int, ...]) -> tuple[TensorChunkSpec, ...]:
        """One for each of several dimensions."""
        return tuple([TensorChunkSpec(dim) for dim in chunk_dims])

    @staticmethod
    def from_dict(chunk_dims: dict[str, int]) -> dict[str, TensorChunkSpec]:
        """One for each of several dimensions, by name."""
        return {name: TensorChunkSpec(dim) for name, dim in chunk_dims.items()}


def _divided(value: Any, spec: Any, count: int) -> list[Any]:
    """The parts of a value: of a tensor, slices; of anything else, itself."""
    leaves, tree = tree_flatten(value)
    dim = spec.split_dim if isinstance(spec, TensorChunkSpec) else 0
    parts = [list(ops.tensor_split(leaf, count, dim)) if isinstance(leaf, Tensor) else [leaf] * count for leaf in leaves]
    return [tree_unflatten([part[i] for part in parts], tree) for i in range(count)]


def split_args_kwargs_into_chunks(
    args: tuple[Any, ...], kwargs: dict[str, Any] | None, chunks: int, args_chunk_spec: Any = None, kwargs_chunk_spec: Any = None
) -> tuple[list[tuple[Any, ...]], list[dict[str, Any]]]:  # fmt: skip
    """Arguments of a batch as arguments of its parts.

    Args:
        args, kwargs: of the batch.
        chunks: how many parts.
        args_chunk_spec, kwargs_chunk_spec: along which dimension each is divided; the first when None.
    Returns:
        A list of tuples and a list of dictionaries.
    Source: torch.distributed.pipelining.microbatch.split_args_kwargs_into_chunks.
    Example:
        >>> from flambeau.distributed.pipelining.microbatch import split_args_kwargs_into_chunks
        >>> [part[0].tolist() for part in split_args_kwargs_into_chunks((torch.arange(3),), None, 2)[0]]
        [[0, 1], [2]]
    """
    specs = args_chunk_spec or [None] * len(args)
    columns = [_divided(value, spec, chunks) for value, spec in zip(args, specs, strict=True)]
    named = {name: _divided(value, (kwargs_chunk_spec or {}).get(name), chunks) for name, value in (kwargs or {}).items()}
    return (
        [tuple([column[i] for column in columns]) for i in range(chunks)],
        [{name: parts[i] for name, parts in named.items()} for i in range(chunks)],
    )


def merge_chunks(chunks: list[Any], chunk_spec: Any = None) -> Any:
    """Outputs of the parts of a batch as one.

    Args:
        chunks: the outputs, of one structure.
        chunk_spec: along which dimension each is put together; the first when None.
    Returns: a value of the chunks' structure, with whole tensors.
    Source: torch.distributed.pipelining.microbatch.merge_chunks.
    Example:
        >>> from flambeau.distributed.pipelining.microbatch import merge_chunks
        >>> merge_chunks([torch.zeros(1), torch.ones(2)])
        tensor([0., 1., 1.])
    """
    flat = [tree_flatten(chunk) for chunk in chunks]
    specs = tree_flatten(chunk_spec)[0] if chunk_spec is not None else []
    merged = []
    for i, leaves in enumerate(zip(*[leaves for leaves, _ in flat], strict=True)):
        dim = specs[i].split_dim if i < len(specs) and isinstance(specs[i], TensorChunkSpec) else 0
        merged.append(ops.cat(leaves, dim) if isinstance(leaves[0], Tensor) and leaves[0].dim() else leaves[0])
    return tree_unflatten(merged, flat[0][1])
