"""Shapes, parts, products and conversions as PyTorch's dispatcher is called with them; see ``whole``."""

from __future__ import annotations

from typing import Any

from ..core.layout import contiguous_format
from ..core.tensor import Tensor
from .calls import _as_tensors
from .rules import steps_of
from .whole import WHOLE, divided


# ---- shapes
def _sizes(shape: Any) -> list[Any]:
    """Sizes given one by one or as a sequence."""
    return list(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else list(shape)


WHOLE["Tensor.view"] = lambda input, *rest: _viewed(input, *rest)
WHOLE["squeeze"] = lambda input, dim=None: ("squeeze.dims", (input, []), {}) if dim in ((), []) else NotImplemented
WHOLE["repeat_interleave"] = lambda input, repeats=None, dim=None, *rest: (
    NotImplemented if repeats is not None else ("repeat_interleave.Tensor", (input,), {"output_size": rest[0] if rest else None})
)
WHOLE["_block_diag"] = lambda tensors: ("block_diag", (list(tensors),), {})
WHOLE["linalg.tensorsolve"] = lambda A, B, dims=None: ("linalg_tensorsolve", (A, B, dims), {})
WHOLE["unique_consecutive"] = divided  # its kernel returns what is not asked for, too
WHOLE["stft"] = lambda *values: ("stft.center", values, {})
WHOLE["narrow"] = lambda input, dim, start, length: (
    ("narrow", (input, dim, start, length), {}) if isinstance(start, int) else ("narrow.Tensor", (input, dim, start, length), {})
)
WHOLE["Tensor.narrow"] = lambda input, args, dimension=None, kwargs=None: (
    WHOLE["narrow"](input, *args) if dimension is None and not kwargs and len(args) == 3 else None
)
WHOLE["broadcast_tensors"] = lambda tensors: ("broadcast_tensors", (_tensors(tensors),), {})
WHOLE["meshgrid"] = lambda tensors, indexing=None: (
    ("meshgrid", (_tensors(tensors),), {}) if indexing is None else ("meshgrid.indexing", (_tensors(tensors),), {"indexing": indexing})
)
WHOLE["nn.functional.logsigmoid"] = lambda input: ("log_sigmoid", (input,), {})
_DISTANCES: dict[str | None, int | None] = {
    "use_mm_for_euclid_dist_if_necessary": None,
    "use_mm_for_euclid_dist": 1,
    "donot_use_mm_for_euclid_dist": 2,
    None: None,
}
WHOLE["cdist"] = lambda x1, x2, p=2.0, compute_mode=None: (
    ("cdist", (x1, x2, float(p), _DISTANCES.get(compute_mode)), {}) if compute_mode in _DISTANCES else None
)


def _tensors(given: Any) -> list[Any]:
    """Tensors given one by one or as a sequence."""
    return list(given[0]) if len(given) == 1 and isinstance(given[0], (tuple, list)) else list(given)


@WHOLE("einsum")
def _einsum(args: Any) -> Any:
    equation, *operands = args
    return ("einsum", (equation, _tensors(operands)), {}) if isinstance(equation, str) else None


@WHOLE("tensordot")
def _tensordot(a: Any, b: Any, dims: Any = 2) -> Any:
    if isinstance(dims, int):
        return "tensordot", (a, b, list(range(-dims, 0)), list(range(dims))), {}
    if isinstance(dims, (tuple, list)) and len(dims) == 2 and all(isinstance(each, (tuple, list)) for each in dims):
        return "tensordot", (a, b, list(dims[0]), list(dims[1])), {}
    return None


def _viewed(input: Any, *rest: Any) -> Any:
    shape = rest[0] if rest and isinstance(rest[0], (tuple, list)) else ()
    if any(value is not None and not isinstance(value, (tuple, list, int)) for value in (*rest, *shape)):
        return None  # another dtype
    return "view", (input, _sizes(shape)), {}


WHOLE["Tensor.reshape"] = lambda input, *rest: ("reshape", (input, _sizes(rest[0])), {})
WHOLE["reshape"] = lambda input, shape: ("reshape", (input, list(shape)), {})
WHOLE["flatten"] = lambda input, start_dim=0, end_dim=-1: ("flatten.using_ints", (input, start_dim, end_dim), {})
WHOLE["unflatten"] = lambda input, dim, sizes: ("unflatten.int", (input, dim, list(sizes)), {}) if isinstance(dim, int) else None
WHOLE["Tensor.expand"] = lambda input, *rest: ("expand", (input, _sizes(rest[0])), {})
WHOLE["Tensor.repeat"] = lambda input, *rest: ("repeat", (input, _sizes(rest[0])), {})
WHOLE["Tensor.permute"] = lambda input, *rest: ("permute", (input, _sizes(rest[0])), {})
WHOLE["_view"] = lambda input, shape: ("view", (input, list(shape)), {})
WHOLE["Tensor.contiguous"] = lambda input, memory_format=contiguous_format: (
    None
    if input.is_contiguous(memory_format=memory_format)
    else ("contiguous", (input,), {} if memory_format is contiguous_format else {"memory_format": memory_format})
)


@WHOLE("norm")
def _norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None, *rest: Any) -> Any:
    if dtype is not None or p == "nuc" or any(value is not None for value in rest):
        return None
    order = 2.0 if p is None or p == "fro" else float(p)
    dims = None if dim is None else list(dim) if isinstance(dim, (tuple, list)) else [dim]
    return "linalg_vector_norm", (input, order, dims, keepdim), {}


def _one_part(input: Any, key: Any) -> Any:
    steps = steps_of(key, input.dim())
    if not steps:
        return "alias", (input,), {}
    return (steps[0][0], (input, *steps[0][1]), {}) if len(steps) == 1 else None


for _name in ("_select", "_slice", "_exact_select", "_exact_slice", "_index_unsqueeze"):
    WHOLE[_name] = _one_part
WHOLE["_index"] = lambda input, indices: ("index.Tensor", (input, _as_tensors(indices)), {})
WHOLE["split"] = lambda tensor, sizes, dim=0: (
    ("split.Tensor", (tensor, sizes, dim), {}) if isinstance(sizes, int) else ("split_with_sizes", (tensor, list(sizes), dim), {})
)
WHOLE["Tensor.split"] = WHOLE["split"]
WHOLE["where"] = lambda condition, input=None, other=None: (
    None
    if input is None
    else (
        "where."
        + {
            (True, True): "self",
            (True, False): "ScalarOther",
            (False, True): "ScalarSelf",
            (False, False): "Scalar",
        }[isinstance(input, Tensor), isinstance(other, Tensor)],
        (condition, input, other),
        {},
    )
)


def _scatter(name: str) -> Any:
    def rule(input: Any, dim: int, index: Any, src: Any = None, value: Any = None, reduce: str | None = None) -> Any:
        if reduce is None:
            return NotImplemented
        source = value if src is None else src
        return f"{name}.{'' if isinstance(source, Tensor) else 'value_'}reduce", (input, dim, index, source), {"reduce": reduce}

    return rule


WHOLE["scatter"], WHOLE["Tensor.scatter_"] = _scatter("scatter"), _scatter("scatter_")


@WHOLE("_clamp_tensors")
def _clamp(input: Any, min: Any = None, max: Any = None) -> Any:
    if any(isinstance(limit, Tensor) for limit in (min, max)):
        return "clamp.Tensor", (input, min, max), {}
    return "clamp", (input, min, max), {}


# ---- conversions
WHOLE["_to_copy"] = lambda input, dtype, memory_format=None: (
    ("to.dtype", (input, dtype), {})
    if dtype is not None and (memory_format is None or memory_format.name == "preserve_format")
    else NotImplemented
)
