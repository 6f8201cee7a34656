"""Every operation exactly once, by family.  ``ops.add`` is the public function; see ``core.calls.registry`` for the decorators."""

from __future__ import annotations

import importlib
from typing import Any

from ..core.calls.registry import TABLES, names, resolve
from . import custom

FAMILIES = (
    "arithmetic",
    "signs",
    "powers",
    "limits",
    "rounding",
    "comparison",
    "trigonometry",
    "exponential",
    "special",
    "polynomials",
    "activation",
    "softmaxes",
    "attention",
    "multi_head_attention",
    "views",
    "parts",
    "conversion",
    "inplace",
    "indexing",
    "scatter",
    "rearrange",
    "inspection",
    "reduction",
    "creation",
    "ranges",
    "added_products",
    "statistics",
    "sorting",
    "norms",
    "cumulative",
    "matrices",
    "contraction",
    "products",
    "linear_systems",
    "decompositions",
    "least_squares",
    "old_matrices",
    "low_rank",
    "extrema",
    "random",
    "dropout",
    "convolution",
    "padding",
    "pooling",
    "average_pooling",
    "normalization",
    "loss",
    "class_loss",
    "margin_loss",
    "ctc",
    "functional_dropout",
    "embedding",
    "unpooling",
    "unfolding",
    "resampling",
    "grids",
    "joining",
    "view_copies",
    "native_functions",
    "numbered_losses",
    "places",
    "segments",
    "sequences",
    "recurrent",
    "windows",
    "fourier",
    "spectrograms",
    "from_data",
)

for _family in FAMILIES:
    importlib.import_module(f".{_family}", __name__)
    if _family in TABLES["torch"]:
        del globals()[_family]  # ``ops.scatter`` is the operation; its family stays reachable as ``flambeau.ops.scatter`` by import


def __getattr__(name: str) -> Any:
    if name in custom.NAMESPACES:
        return custom.NAMESPACES[name]
    if name == "aten":
        return custom.aten
    if name not in TABLES["torch"]:
        raise AttributeError(f"module 'flambeau.ops' has no attribute '{name}'")
    function = globals()[name] = resolve("torch", name)
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *names("torch")})


__all__ = ["names", "resolve"]
