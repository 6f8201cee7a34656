"""From a program that differs to the smallest that still does."""

from __future__ import annotations

import ast
import copy
import time
from collections.abc import Callable, Iterator, Sequence

Lines = list[str]


def shrink(lines: Sequence[str], still: Callable[[Lines], bool], seconds: float = 20.0) -> Lines:
    """Leave out statements, then parts of statements, for as long as ``still`` holds of what is left.

    A statement whose variables are gone raises NameError in both libraries, which is no difference: it only stands to be left out itself.
    """
    stop = time.monotonic() + seconds
    lines, before = list(lines), None
    while lines != before and time.monotonic() < stop:
        before = lines
        lines = _fewer(lines, still, stop)
        lines = _simpler(lines, still, stop)
    return lines


def _fewer(lines: Lines, still: Callable[[Lines], bool], stop: float) -> Lines:
    """Without runs of statements: halves, quarters, ... single ones, from the end, where what is not needed mostly stands."""
    size = len(lines) // 2
    while size:
        end = len(lines)
        while end > 0 and time.monotonic() < stop:
            shorter = lines[: max(end - size, 0)] + lines[end:]
            if shorter and still(shorter):
                lines = shorter
            end -= size
        size //= 2
    return lines


def _simpler(lines: Lines, still: Callable[[Lines], bool], stop: float) -> Lines:
    """With an expression replaced by a part of it, and with smaller numbers."""
    for place in range(len(lines)):
        again = True
        while again and time.monotonic() < stop:
            again = False
            for line in simpler_statements(lines[place]):
                tried = [*lines[:place], line, *lines[place + 1 :]]
                if time.monotonic() < stop and still(tried):
                    lines, again = tried, True
                    break
    return lines


def simpler_statements(line: str) -> Iterator[str]:
    """The statement with one of its expressions replaced by one of that one's parts, larger cuts first; always shorter."""
    try:
        tree = ast.parse(line)
    except SyntaxError:
        return
    plain = ast.unparse(tree)
    seen = {plain}
    if len(plain) < len(line):
        yield plain
    for place, node in enumerate(ast.walk(tree)):
        for part in _parts(node):
            other = copy.deepcopy(tree)
            target = next(found for i, found in enumerate(ast.walk(other)) if i == place)
            changed = _Replace(target, part).visit(other)
            try:
                text = ast.unparse(ast.fix_missing_locations(changed))
                compile(text, "<program>", "exec")
            except (SyntaxError, ValueError, TypeError, AttributeError):
                continue
            if text not in seen and len(text) <= len(plain):
                seen.add(text)
                yield text


def _parts(node: ast.AST) -> list[ast.AST]:
    """What may stand for a node: for ``x.f(a)`` ``x`` and ``a``, for ``a + b`` either, for a body of a ``with`` the body, for 7 3 and 0."""
    match node:
        case ast.With():
            return [ast.Module(node.body, [])]
        case ast.Expr():
            return []
        case ast.Call():
            inner = [node.func.value] if isinstance(node.func, ast.Attribute) and not isinstance(node.func.value, ast.Name) else []
            if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) and node.func.value.id != "torch":
                inner = [node.func.value]
            fewer = [ast.Call(node.func, node.args, node.keywords[:i] + node.keywords[i + 1 :]) for i in range(len(node.keywords))]
            fewer += [ast.Call(node.func, node.args[:-1], node.keywords)] if len(node.args) > 1 else []
            return [*inner, *node.args, *fewer]
        case ast.BinOp():
            return [node.left, node.right]
        case ast.IfExp():
            return [node.body, node.orelse]
        case ast.UnaryOp():
            return [node.operand]
        case ast.Subscript():
            return [node.value]
        case ast.Tuple() | ast.List():
            kind = type(node)
            return [kind(node.elts[:i] + node.elts[i + 1 :], node.ctx) for i in range(len(node.elts)) if isinstance(node.ctx, ast.Load)]
        case ast.Constant(value=int(number)) if not isinstance(number, bool) and number > 1:
            return [ast.Constant(smaller) for smaller in dict.fromkeys((1, 2, number // 2, number - 1)) if smaller < number]
    return []


class _Replace(ast.NodeTransformer):
    def __init__(self, target: ast.AST, part: ast.AST):
        self.target, self.part = target, part

    def visit(self, node: ast.AST) -> ast.AST | list[ast.stmt]:
        if node is self.target:
            return self.part.body if isinstance(self.part, ast.Module) else self.part
        return super().visit(node)
