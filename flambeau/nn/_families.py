"""Layers that exist in 1, 2 and 3 dimensions: code and docstring are in a base class, and each layer has its own example."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

Layer = TypeVar("Layer", bound=type[Any])

# Words that the docstring's placeholders stand for, by number of dimensions.
_WORDS = {
    1: {"dimensions": "1 dimension", "axes": "L", "outputs": "L_out", "last": "the last dimension", "sides": "left, right"},
    2: {
        "dimensions": "2 dimensions",
        "axes": "H, W",
        "outputs": "H_out, W_out",
        "last": "the last two dimensions",
        "sides": "left, right, top, bottom",
    },
    3: {
        "dimensions": "3 dimensions",
        "axes": "D, H, W",
        "outputs": "D_out, H_out, W_out",
        "last": "the last three dimensions",
        "sides": "left, right, top, bottom, front, back",
    },
}


def of_dims(dims: int, function: str = "", **words: str) -> Callable[[Layer], Layer]:
    """A decorator that makes a class the layer of its base's family for so many dimensions.

    The base's docstring, with its words filled in, comes before the class's own.

    Args:
        dims: ``_dims`` of the class.
        function: name of the functional form, ``_functional_form`` of the class.
        words: for the docstring, besides those of its number of dimensions.
    """

    def completed(layer: Layer) -> Layer:
        layer._dims, layer._functional_form = dims, function
        description, own = layer.__bases__[0].__doc__, layer.__doc__
        if description and own:  # Python keeps none under -OO
            description = inspect.cleandoc(description).format(dims=dims, unbatched=dims + 1, batched=dims + 2, **_WORDS[dims], **words)
            layer.__doc__ = f"{description}\n{inspect.cleandoc(own)}"
        return layer

    return completed
