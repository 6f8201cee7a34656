"""``torch.nn.functional``: the functional forms of the layers.

The functions live with all other operations in ``ops``; each is looked up there on first use and then kept in this module.
"""

from __future__ import annotations

from typing import Any

from ..core.calls.interruption import pass_on
from ..ops import names, resolve

_NAMESPACE = "nn.functional"
# Functions that are the same under ``torch`` and here. Others of the same name (``dropout``, ``embedding``, ...) differ in arguments.
_SHARED = frozenset(
    (
        "adaptive_avg_pool1d avg_pool1d bilinear celu_ channel_shuffle conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d "
        "conv_transpose3d cosine_similarity hardshrink native_channel_shuffle pairwise_distance pdist pixel_shuffle pixel_unshuffle "
        "prelu relu_ rrelu_ selu_ sigmoid tanh threshold_"
    ).split()
)
# The in-place forms that are public; the others are reached by ``inplace=True``.
_INPLACE = frozenset("celu_ elu_ hardtanh_ leaky_relu_ relu_ rrelu_ selu_ threshold_".split())
_INSTEAD = {"pool": "max_pool2d or avg_pool2d"}  # names that old tutorials use and that never existed


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return _public_names()
    if name.startswith("__"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    try:
        function = _find(name)
    except AttributeError as error:
        pass_on(error)
        hint = f"; use {_INSTEAD[name]}" if name in _INSTEAD else ""
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'{hint}") from None
    globals()[name] = function
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *_public_names()})


def _find(name: str) -> Any:
    try:
        return resolve(_NAMESPACE, name)
    except AttributeError as error:
        pass_on(error)
        if name in _SHARED:
            return resolve("torch", name)
        raise


def _public_names() -> list[str]:
    public = {*names(_NAMESPACE), *_SHARED.intersection(names("torch"))}
    return sorted(name for name in public if name[0] != "_" and (name[-1] != "_" or name in _INPLACE))
