"""Definitions of TorchScript by qualified name: what an archive's code has, and what ``script`` and ``trace`` write.

Unit     definitions as text, with the tensors that they name (``CONSTANTS.c0``); makes types and functions of them when asked
adopt    puts another unit's definitions in, under other names where theirs are taken
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

from . import _source
from ._loading import LoadingGuard
from ._values import ScriptType, raised

_BASES = ("Module", "NamedTuple", "Enum", "Interface", "ModuleInterface", "")
_PATH = re.compile(r"__torch__(?:\.\w+)+")
_CONSTANT = re.compile(r"\bCONSTANTS\.c(\d+)\b")
PYTHON = "__python__"  # stands in code for a call that stays Python
MANGLED = re.compile(r"___torch_mangle_\d+\.")


class Unit:
    """Definitions that belong together.

    Attributes:
        texts: classes and functions by qualified name, in the order in which they were added.
        constants: tensors that they name.
        loading: whether an archive is being loaded, when nothing of its code is called but ``__setstate__``.
    """

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.constants: list[Any] = []
        self._trees: dict[str, Any] = {}
        self._made: dict[str, Any] = {}
        self._count = 0
        self.loading = False

    # -- putting in -----------------------------------------------------------------------------------------------------------
    def add(self, name: str, text: str) -> None:
        """Add a definition.

        Raises:
            RuntimeError: there is one of that name.
        """
        if name in self.texts:
            raise _source.damaged(name, "it is defined twice")
        self.texts[name] = text

    def replace(self, name: str, text: str) -> None:
        """Give a definition another text."""
        self.texts[name] = text
        self._trees.pop(name, None)
        self._made.pop(name, None)

    def add_file(self, module: str, text: str) -> None:
        """Add the definitions of a file of an archive."""
        for name, definition in _source.split(text, module):
            self.add(name, definition)

    def constant(self, tensor: Any) -> str:
        """The name of a tensor in code."""
        for place, other in enumerate(self.constants):
            if other is tensor:
                return f"CONSTANTS.c{place}"
        self.constants.append(tensor)
        return f"CONSTANTS.c{len(self.constants) - 1}"

    def free_name(self, name: str) -> str:
        """``name``, or where it is taken, the name with a part that makes it another."""
        if name not in self.texts:
            return name
        head, _, last = name.rpartition(".")
        while True:
            mangled = f"{head}.___torch_mangle_{self._count}.{last}"
            self._count += 1
            if mangled not in self.texts:
                return mangled

    def add_like(self, name: str, text: Callable[[str], str]) -> str:
        """Add a definition whose text depends on its name; the name of one with the same text if there is one.

        Args:
            name: what it would be called.
            text: gives the text under a name.
        """
        last = name.rpartition(".")[2]
        for known, present in self.texts.items():
            if known.rpartition(".")[2] == last and MANGLED.sub("", known) == name and present == text(known):
                return known
        chosen = self.free_name(name)
        self.texts[chosen] = text(chosen)
        return chosen

    def adopt(self, other: Unit, name: str) -> str:
        """Put another unit's definition in, with all that it names; what it is called here."""
        if other is self:
            return name
        places = {place: self.constant(tensor) for place, tensor in enumerate(other.constants)}
        needed = other.reachable(name)
        names: dict[str, str] = {}
        for known in needed:
            taken = known in self.texts and self.texts[known] != _renamed(other.texts[known], {}, places)
            names[known] = self.free_name(known) if taken else known
            self.texts.setdefault(names[known], "")
        for known in needed:
            self.texts[names[known]] = _renamed(other.texts[known], names, places)
        return names[name]

    def reachable(self, *names: str) -> list[str]:
        """The definitions that some have, with those that they name."""
        found: dict[str, None] = {}
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name in found or name not in self.texts:
                continue
            found[name] = None
            for match in _PATH.finditer(self.texts[name]):
                path = match[0]
                while path not in self.texts and "." in path:
                    path = path.rpartition(".")[0]
                waiting.append(path)
        return [name for name in self.texts if name in found]

    def files(self, *names: str) -> dict[str, str]:
        """The text of each file of an archive's code that defines ``names`` and what they need."""
        files: dict[str, list[str]] = {}
        for name in self.reachable(*names):
            files.setdefault(name.rpartition(".")[0].replace(".", "/") + ".py", []).append(self.texts[name])
        return {place: "".join(texts) for place, texts in files.items()}

    # -- taking out -----------------------------------------------------------------------------------------------------------
    def tree(self, name: str) -> Any:
        """The tree of a definition.

        Raises:
            RuntimeError: there is none, or its text is no definition.
        """
        if name not in self._trees:
            if name not in self.texts:
                raise RuntimeError(f"Unknown type name '{name:.200}': the archive has no such class or function")
            self._trees[name] = _source.parse(self.texts[name], name)
        return self._trees[name]

    def find(self, name: str) -> Any:
        """A type, or a function; also of a longer path, a member of a type."""
        if name in self._made:
            return self._made[name]
        head, _, last = name.rpartition(".")
        if name not in self.texts and head in self.texts:
            owner = self.find(head)
            if isinstance(owner, ScriptType):
                from ._members import attribute

                return attribute(owner, last)
        tree = self.tree(name)
        made = self._type(name, tree) if isinstance(tree, ast.ClassDef) else self.function(tree, name)
        return self._made.setdefault(name, made)

    def type(self, name: str) -> ScriptType:
        """The class of a qualified name.

        Raises:
            RuntimeError: it is a function, or not there.
        """
        found = self.find(name)
        if not isinstance(found, ScriptType):
            raise _source.damaged(name, "it is a function where a class is expected")
        return found

    def function(self, tree: ast.FunctionDef, name: str, guard: Callable[..., _source.Guard] = _source.Guard) -> Callable[..., Any]:
        """The function of a tree."""
        made: Callable[..., Any] = guard(name, self.find, self.constants).function(tree)
        return made

    def _type(self, name: str, tree: ast.ClassDef) -> ScriptType:
        bases = [base.id if isinstance(base, ast.Name) else "?" for base in tree.bases]
        base = bases[0] if bases else ""
        if len(bases) > 1 or base not in _BASES or tree.keywords or tree.decorator_list:
            raise _source.damaged(name, "a class with unknown bases")
        kind = ScriptType(name, base)
        self._made[name] = kind  # methods may name it
        try:
            for statement in tree.body:
                self._member(kind, statement)
            try:
                kind.close()
            except (ValueError, TypeError) as error:
                raise _source.damaged(name, str(error)) from None
        except BaseException:
            del self._made[name]
            raise
        return kind

    def _member(self, kind: ScriptType, statement: ast.stmt) -> None:
        if isinstance(statement, ast.FunctionDef):
            name = f"{kind.name}.{statement.name}"
            kind.methods[statement.name] = _nothing if kind.base.endswith("Interface") else self._method(kind, statement, name)
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            annotation = _source.annotated(statement.annotation, kind.name)
            field = statement.target.id
            kind.fields[field] = annotation
            if statement.value is not None:
                kind.constants[field] = _source.constant(statement.value, kind.name)
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            self._listed(kind, statement.targets[0], statement.value)
        elif not isinstance(statement, ast.Pass):
            raise _source.damaged(kind.name, f"a class with a statement of type {type(statement).__name__}")

    def _method(self, kind: ScriptType, tree: ast.FunctionDef, name: str) -> Callable[..., Any]:
        if tree.name == "__setstate__":
            return self.function(tree, name, LoadingGuard)

        def first(*args: Any, **kwargs: Any) -> Any:
            if self.loading:
                raise _source.damaged(name, "a method that is called while the archive is loaded")
            made = kind.methods[tree.name] = self.function(tree, name)
            return made(*args, **kwargs)

        return first

    def _listed(self, kind: ScriptType, target: ast.expr, value: ast.expr) -> None:
        """``__parameters__ = [...]``, ``__annotations__["0"] = T``, a member of an enumeration."""
        if isinstance(target, ast.Subscript) and ast.unparse(target.value) == "__annotations__" and isinstance(target.slice, ast.Constant):
            kind.fields[str(target.slice.value)] = _source.annotated(value, kind.name)
            return
        if not isinstance(target, ast.Name):
            raise _source.damaged(kind.name, "an assignment in a class")
        found = _source.constant(value, kind.name)
        if target.id in ("__parameters__", "__buffers__"):
            names = [str(name) for name in found] if isinstance(found, list) else []
            setattr(kind, target.id.strip("_"), names)
        elif kind.base == "Enum":
            kind.constants[target.id] = found


def _nothing(*args: Any, **kwargs: Any) -> Any:
    raise raised("a method of an interface was called")


def _renamed(text: str, names: dict[str, str], places: dict[int, str]) -> str:
    """A text with other names for definitions and constants."""

    def path(match: re.Match[str]) -> str:
        head, tail = match[0], ""
        while head not in names and "." in head:
            head, _, last = head.rpartition(".")
            tail = f".{last}{tail}"
        return names.get(head, head) + tail

    text = _CONSTANT.sub(lambda match: places.get(int(match[1]), match[0]), text)
    return _PATH.sub(path, text) if names else text
