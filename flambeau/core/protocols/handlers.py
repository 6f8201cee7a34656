"""Rules that a class's ``__torch_function__`` follows, which is shown functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..calls.tables import TABLES, Rules
from ..tensor import Tensor


class Handlers(Rules):
    """Rules for calls of operations, and of other methods of tensors, whose keys are ``Tensor.`` and their names.

    Attributes:
        named: the rules by the functions' names.
    """

    def __init__(self, subject: str) -> None:
        super().__init__(subject)
        self.named: dict[str, Callable[..., Any]] = {}

    def __setitem__(self, key: str, function: Callable[..., Any]) -> None:
        namespace, _, name = key.rpartition(".")
        if namespace != "Tensor" or TABLES["Tensor"].declared(name):
            super().__setitem__(key, function)
        elif not hasattr(Tensor, name):
            raise TypeError(f"a handler of {key}, which is no method")
        self.named[name] = function
