"""Source of functions that are scripted, and what of Python TorchScript does not have. Source: torch.jit.frontend."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any

__all__ = ["FrontendError", "FrontendTypeError", "NotSupportedError", "UnsupportedNodeError"]


class FrontendError(Exception):
    """A program that cannot be compiled.

    Attributes:
        source_range: where. msg: why.
    Source: torch.jit.frontend.FrontendError.
    Example:
        >>> raise torch.jit.frontend.FrontendError("", "no such thing")
        Traceback (most recent call last):
        flambeau.jit.frontend.FrontendError: no such thing
    """

    def __init__(self, source_range: Any, msg: str) -> None:
        super().__init__(f"{msg}:\n{source_range}" if source_range else msg)
        self.source_range, self.msg = source_range, msg


class NotSupportedError(FrontendError):
    """A program with something that TorchScript does not have.

    Args:
        source_range: where. msg: why.
    Source: torch.jit.frontend.NotSupportedError.
    Example:
        >>> issubclass(torch.jit.frontend.NotSupportedError, torch.jit.frontend.FrontendError)
        True
    """


class UnsupportedNodeError(NotSupportedError):
    """A program with syntax that TorchScript does not have.

    Args:
        ctx: the source. offending_node: its node. reason: the message, where the node's name is not enough.
    Source: torch.jit.frontend.UnsupportedNodeError.
    Example:
        >>> issubclass(torch.jit.frontend.UnsupportedNodeError, torch.jit.frontend.NotSupportedError)
        True
    """

    def __init__(self, ctx: Any, offending_node: Any, reason: str = "") -> None:
        kind = type(offending_node)
        what = reason or f"{_NAMES.get(kind, kind.__name__)} aren't supported"
        super().__init__(ctx.location(offending_node, _KEYWORDS.get(kind, 1)), what)


class FrontendTypeError(FrontendError):
    """A program with a wrong type.

    Args:
        source_range: where. msg: why.
    Source: torch.jit.frontend.FrontendTypeError.
    Example:
        >>> issubclass(torch.jit.frontend.FrontendTypeError, torch.jit.frontend.FrontendError)
        True
    """


_NAMES: dict[type, str] = {
    ast.FunctionDef: "function definitions",
    ast.AsyncFunctionDef: "async function definitions",
    ast.ClassDef: "class definitions",
    ast.Try: "try blocks",
    ast.Import: "import statements",
    ast.ImportFrom: "import statements",
    ast.Global: "global variables",
    ast.Nonlocal: "nonlocal variables",
    ast.AsyncFor: "async for loops",
    ast.AsyncWith: "async with statements",
}
_KEYWORDS: dict[type, int] = {
    ast.FunctionDef: 3, ast.AsyncFunctionDef: 9, ast.ClassDef: 5, ast.Try: 3, ast.Import: 6, ast.ImportFrom: 6, ast.Global: 6,
    ast.Nonlocal: 8,
}  # fmt: skip


class Source:
    """The source of a function.

    Attributes:
        tree: its definition. function: the function itself.
    Raises:
        OSError: there is no source, of a function from a prompt, say.
    """

    def __init__(self, function: Any) -> None:
        self.function = function
        try:
            lines, self._first = inspect.getsourcelines(function)
            self.filename = inspect.getsourcefile(function) or "<string>"
        except (OSError, TypeError) as error:
            raise OSError(
                f"Can't get source for {function}. TorchScript requires source access in order to carry out compilation, make sure "
                "original .py files are available."
            ) from error
        self.text = textwrap.dedent("".join(lines))
        self._indent = len(lines[0]) - len(lines[0].lstrip())
        try:
            found = [
                node for node in ast.walk(ast.parse(self.text)) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            ]
        except SyntaxError:  # a lambda in the midst of an expression
            found = []
        self.tree: Any = next((node for node in found if getattr(node, "name", "<lambda>") == function.__name__), None)
        if not isinstance(self.tree, ast.FunctionDef):
            raise RuntimeError(f"Expected a single top-level function: {self.filename}:{self._first}")

    def location(self, node: Any, length: int = 0) -> str:
        """The place of a node, with a mark under it."""
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        end = column + length
        if not length:
            end = getattr(node, "end_col_offset", 0)
            if getattr(node, "end_lineno", line) != line:
                end = len(self.text.split("\n")[line - 1])
        shown = self.text.split("\n")
        mark = " " * column + "~" * max(end - column, 1) + " <--- HERE"
        before, after = shown[max(line - 4, 0) : line], shown[line : line + 3]
        return f'  File "{self.filename}", line {self._first + line - 1}\n' + "\n".join([*before, mark, *after]) + "\n"

    def error(self, message: str, node: Any) -> RuntimeError:
        """The error of a program that means something wrong."""
        return RuntimeError(f"\n{message}:\n{self.location(node)}")

    def check(self) -> None:
        """Look for syntax that TorchScript does not have.

        Raises:
            NotSupportedError: there is some.
        """
        arguments = self.tree.args
        wrong = arguments.vararg or arguments.kwarg or next((value for value in arguments.kw_defaults if value is not None), None)
        if wrong is not None:
            raise NotSupportedError(
                self.location(wrong),
                "Compiled functions can't take variable number of arguments or use keyword-only arguments with defaults",
            )
        for statement in self.tree.body:
            for node in ast.walk(statement):
                if isinstance(node, _UNSUPPORTED):
                    raise UnsupportedNodeError(self, node)
                if isinstance(node, (ast.For, ast.While)) and node.orelse:
                    kind = "for" if isinstance(node, ast.For) else "while"
                    raise NotSupportedError(self.location(node, len(kind)), f"else branches of {kind} loops aren't supported")


_UNSUPPORTED = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Try, ast.TryStar, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal,
    ast.Lambda, ast.Yield, ast.YieldFrom, ast.Await, ast.Set, ast.SetComp, ast.NamedExpr, ast.Match, ast.AsyncFor, ast.AsyncWith,
)  # fmt: skip


def closure_of(function: Any) -> dict[str, Any]:
    """Names that a function sees: its module's, and those of functions around it."""
    function = inspect.unwrap(function)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
    inner = {}
    for name, cell in cells.items():
        try:
            inner[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return {**function.__globals__, **inner}
