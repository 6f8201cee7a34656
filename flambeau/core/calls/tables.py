"""Declared operations by namespace and name, and the rules that hang on them.

    TABLES["torch"]["add"]                       the entry behind ``torch.add``

    batching = Rules("vmap")
    @batching("sum", "nn.functional.linear")     or   batching["sum"] = function
    def along(batch, op, input, *rest): ...
    batching.of(op)                              the function, or None

A rule says what a transform, a layout or a mode does with a call, where no word of the operation's declaration says it. It hangs on the
operation, under the operation's *key*: the public name below ``torch``, and nothing else. A key that no operation has is an error, at
once if all families are there, otherwise when they are.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from ..late import is_whole

late_families: dict[str, frozenset[str]] = {}  # modules of families that are imported when one of their names is used -> their methods
_rules: dict[str, dict[str, Callable[..., Any]]] = {}  # by key and subject, those of operations that are declared later too
_unseen: set[str] = set()  # keys that no family has declared so far


def imported(module: str) -> Any:
    """A late family, which is not left in the way of an operation that has its name: ``ops.dropout`` is the operation."""
    family = importlib.import_module(module)
    package, _, name = module.rpartition(".")
    members = vars(sys.modules[package])
    if members.get(name) is family and TABLES["torch"].declared(name):
        members.pop(name, None)
    return family


def late_imports() -> Iterator[Any]:
    """Import one late family after another; where another thread imports one at the moment, wait for it."""
    for module in late_families:
        yield imported(module)


class Namespace(dict[str, Any]):
    """Entries by name. A name that no family has declared so far is looked for in the families that are imported late."""

    def declared(self, name: str) -> bool:
        """Whether there is that name already. One of a module whose import was interrupted is none."""
        return dict.__contains__(self, name) and dict.__getitem__(self, name).module in sys.modules

    def __contains__(self, name: Any) -> bool:
        return self.declared(name) or any(self.declared(name) for _ in late_imports())

    def __getitem__(self, name: str) -> Any:
        if name in self:
            return dict.__getitem__(self, name)
        raise KeyError(name)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default


TABLES = {name: Namespace() for name in ("torch", "nn.functional", "Tensor", "linalg", "fft", "special", "sparse", "ops.aten")}


def key_of(name: str, namespace: str) -> str:
    """Key of an operation wherever a name is needed: ``sum``, ``nn.functional.linear``."""
    return name if namespace == "torch" else f"{namespace}.{name}"


def import_late() -> None:
    """Import the late families too.

    Raises:
        TypeError: there are rules for operations that no family has declared.
    """
    for _ in late_imports():
        pass
    for key in list(_unseen):
        _check(key)


def _check(key: str) -> None:
    """Look for the operation of a rule, in late families when they are there."""
    namespace, _, name = key.rpartition(".")
    table = TABLES[namespace or "torch"]
    if table.declared(name):
        if table[name].key != key:
            raise TypeError(f"a rule for {key}, which is an alias of {table[name].key}")
        _unseen.discard(key)
    elif all(module in sys.modules and is_whole(sys.modules[module]) for module in late_families):
        raise TypeError(f"a rule for {key}, which is no operation")
    else:
        _unseen.add(key)


def rules_of(key: str) -> dict[str, Callable[..., Any]]:
    """All that hangs on an operation, by subject: one object, which later rules are added to."""
    return _rules.setdefault(key, {})


class Rules:
    """The rules about one subject, such as ``vmap``.

    Args:
        subject: what they are about, a word that documentation shows.
    """

    def __init__(self, subject: str):
        self.subject = subject

    def __call__(self, *keys: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorator: the rule of these operations."""

        def hang(function: Callable[..., Any]) -> Callable[..., Any]:
            for key in keys:
                self[key] = function
            return function

        return hang

    def __setitem__(self, key: str, function: Callable[..., Any]) -> None:
        _check(key)
        rules_of(key)[self.subject] = function

    def __getitem__(self, key: str) -> Callable[..., Any]:
        return rules_of(key)[self.subject]

    def __contains__(self, key: str) -> bool:
        return self.subject in rules_of(key)

    def __iter__(self) -> Iterator[str]:
        """Keys of the operations that have a rule."""
        return iter([key for key, found in _rules.items() if self.subject in found])

    def update(self, rules: dict[str, Callable[..., Any]]) -> None:
        for key, function in rules.items():
            self[key] = function

    def of(self, op: Any) -> Callable[..., Any] | None:
        """The rule of a declared operation, None where it has none."""
        return op.hanging.get(self.subject)
