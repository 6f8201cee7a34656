"""``torch.vmap``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.tensor import Tensor
from ._batch import Batch
from ._levels import mapped


def vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None
) -> Callable[..., Any]:
    def transformed(*args: Any) -> Any:
        dims = in_dims if isinstance(in_dims, tuple) else (in_dims,) * len(args)
        sizes = {a.shape[d] for a, d in zip(args, dims, strict=True) if d is not None and isinstance(a, Tensor)}
        with Batch(sizes.pop(), randomness) as batch:
            made = func(
                *[a if d is None or not isinstance(a, Tensor) else batch.wrap(a.movedim(d, 0)) for a, d in zip(args, dims, strict=True)]
            )
        return mapped(made, lambda each: batch.inside(each).movedim(0, out_dims))

    return transformed
