"""What is changed: expressions and statements inside functions, found in the syntax tree and replaced in the text.

A ``Site`` is one place with one replacement.  Left alone is what no result depends on: messages of errors, docstrings, annotations,
and conditions that only choose between two ways to the same values (``PERFORMANCE``).
"""

from __future__ import annotations

import ast
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sources import parsed

PACKAGE = Path(__file__).parents[2] / "flambeau"

#: Where changes are made, and how many of a hundred in each: operations first, then kernels, the call path, derivatives, transforms.
SHARES = {
    "reference kernels and rules": (42, ("ops/**/*.py",)),
    "native kernels": (18, ("kernels/**/*.py",)),
    "wrappers, promotion, dispatch": (
        10,
        ("core/calls/*.py", "core/arrays/kinds.py", "core/arrays/meta*.py", "core/shape.py", "core/dtype.py"),
    ),
    "tape, views, storages, engine": (10, ("core/tape/*.py", "core/storage.py", "core/tensor.py", "autograd/*.py")),
    "random numbers": (4, ("core/random/*.py",)),
    "transforms": (6, ("func/*.py",)),
    "layers": (4, ("nn/*.py", "nn/utils/*.py")),
    "optimizers": (3, ("optim/*.py",)),
    "files": (3, ("serialization/*.py", "core/protocols/rebuild.py")),
}
#: What computes nothing: memory and threads, looking at source, and text for people.  Their tests are others (tests/faults).
LEFT_OUT = re.compile(
    r"kernels/compiler/(pool|memory|cache|image|target|machine_code|build)\.py|kernels/families/tiles\.py|/__init__\.py"
    r"|core/calls/(interruption|names|annotations|wrapper_source|getters)\.py"
    r"|anomaly|gradcheck|notebook|unsupported|nn/parallel|autograd/(profiler|variable)\.py"
)
#: Words whose conditions choose who computes, not what; ``pass_on`` is for an interrupt that comes between two instructions.
PERFORMANCE = re.compile(
    r"\b(attempt|pays|large|small|enough|threads|LARGE|SMALL|quick|worth|blocks?|chunks?|threshold|contiguous|cache[sd]?|pass_on)\b"
    r"|^.*\b(size|nbytes|count|len)\b.*[<>]=? *[A-Z_]{3,}$"
)

SWAPPED = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "//", ast.BitAnd: "|", ast.BitOr: "&"}
COMPARED = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
}
SIGNS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**", ast.MatMult: "@",
    ast.BitAnd: "&", ast.BitOr: "|",
}  # fmt: skip
DTYPES = {
    "float64": "float32", "float32": "float16", "complex128": "complex64", "complex64": "complex128", "int64": "int32", "intp": "int32",
    "uint8": "int8", "bool_": "uint8",
}  # fmt: skip
#: Calls whose arguments change places without a difference, or without a meaning.
SYMMETRIC = set(
    "isinstance getattr hasattr setattr zip add multiply mul maximum minimum fmin fmax logical_or logical_and logical_xor bitwise_or "
    "bitwise_and bitwise_xor equal not_equal broadcast_shape broadcast_shapes broadcast_arrays result_type promote promote_types gcd lcm "
    "hypot".split()
)
STRIDED = {"T", "mT", "mH", "H"}
UNDONE = {"swapaxes", "transpose", "conj", "copy", "moveaxis", "contiguous", "detach", "abs", "neg"}


@dataclass(frozen=True)
class Site:
    """One change: ``before`` becomes ``after`` at ``line`` of ``path``, inside the function ``within``."""

    path: str  # below the package
    line: int
    within: str
    kind: str
    before: str
    after: str
    start: int  # offsets into the text
    end: int
    rule: int = 0  # the line where the lambda outside of all functions begins in which it is

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.within} [{self.kind}] {_short(self.before)} -> {_short(self.after)}"

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What stays when lines move."""
        return self.path, self.within, self.before, self.after

    def source(self) -> tuple[str, str]:
        """The module's text, as it is and changed."""
        text = (PACKAGE / self.path).read_text()
        return text, text[: self.start] + self.after + text[self.end :]


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) < 90 else text[:87] + "..."


class _Finder:
    def __init__(self, path: Path):
        self.path, self.text = path, path.read_text()
        self.bytes = [line.encode() for line in self.text.splitlines(keepends=True)]
        starts = [0]
        for line in self.text.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        self.starts, self.found, self.is_reference = starts, [], "/ops/" in str(path)
        self.is_native = "/kernels/" in str(path)
        self.left_alone: set[ast.AST] = set()
        self.rule = 0

    def offset(self, line: int, column: int) -> int:
        return self.starts[line - 1] + len(self.bytes[line - 1][:column].decode())

    def segment(self, node: ast.AST) -> tuple[int, int, str]:
        start, end = self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)
        return start, end, self.text[start:end]

    def add(self, node: ast.AST, within: str, kind: str, after: str) -> None:
        start, end, before = self.segment(node)
        if after != before:
            self.found.append(Site(str(self.path.relative_to(PACKAGE)), node.lineno, within, kind, before, after, start, end, self.rule))

    # -- walking ------------------------------------------------------------------------------------------------------------
    def walk(self, node: ast.AST, within: str, inside: bool) -> None:
        """Visit what runs when functions are called; ``within`` names the function at the top of the module, or the method."""
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            named = within if inside else f"{within}.{node.name}".strip(".")
            for outer in (*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)):
                self.walk(outer, named, inside)
            makes_error = isinstance(node.returns, ast.Name) and node.returns.id.endswith(("Error", "Exception", "NoReturn"))
            if makes_error or node.name in ("__repr__", "__str__", "__dir__", "extra_repr", "__del__"):
                return
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            for statement in body:
                self.walk(statement, named, True)
            return
        if isinstance(node, ast.ClassDef):
            for statement in node.body:
                self.walk(statement, within if inside else f"{within}.{node.name}".strip("."), inside)
            return
        if isinstance(node, ast.Lambda):
            before, self.rule = self.rule, self.rule if inside else node.lineno
            self.walk(node.body, within, True)
            self.rule = before
            return
        if isinstance(node, (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)):
            return
        if isinstance(node, ast.If) and all(isinstance(statement, ast.Raise) for statement in node.body):
            return  # a check and its message: tests of errors have their own list
        self.leave_alone(node)
        if isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self.walk(node.value, within, inside)
            return
        if inside:
            self.visit(node, within)
        for child in ast.iter_child_nodes(node):
            self.walk(child, within, inside)

    def leave_alone(self, node: ast.AST) -> None:
        """Parts of ``node`` whose change is none: bounds below which a kernel leaves its work to the reference, fast paths that leave it
        to the slow path, and the -1 of a shape, for which NumPy takes any negative number."""
        if isinstance(node, ast.If) and self.is_native and [ast.unparse(statement) for statement in node.body] == ["return None"]:
            bounds = (part for part in ast.walk(node.test) if isinstance(part, ast.Compare))
            self.left_alone.update(part for part in bounds if isinstance(part.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)))
        if isinstance(node, ast.keyword) and node.arg == "fast":
            choices = (part for part in ast.walk(node.value) if isinstance(part, ast.IfExp))
            self.left_alone.update(part for part in choices if ast.unparse(part.orelse) == "None")
        sizes: list[ast.expr] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "reshape":
            sizes = [*node.args, *[part for arg in node.args if isinstance(arg, ast.Tuple) for part in arg.elts]]
        elif isinstance(node, ast.Tuple) and any(isinstance(part, ast.Starred) and "(1,) *" in ast.unparse(part) for part in node.elts):
            sizes = node.elts
        self.left_alone.update(size.operand for size in sizes if isinstance(size, ast.UnaryOp) and ast.unparse(size) == "-1")

    def visit(self, node: ast.AST, within: str) -> None:
        if node in self.left_alone:
            return
        method = getattr(self, f"visit_{type(node).__name__}", None)
        if method is not None and not PERFORMANCE.search(self.segment(node)[2][:200]):
            method(node, within)

    def visit_BinOp(self, node: ast.BinOp, within: str) -> None:
        left, right = self.segment(node.left)[2], self.segment(node.right)[2]
        if isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
            return
        if (
            type(node.op) in SWAPPED
            and not isinstance(node.right, (ast.Tuple, ast.List))
            and not isinstance(node.left, (ast.Tuple, ast.List))
        ):
            self.add(node, within, "other operator", f"({left}) {SWAPPED[type(node.op)]} ({right})")
        if isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div)):
            self.add(node, within, "dropped term", f"({left})")
        if isinstance(node.op, (ast.Sub, ast.Div, ast.FloorDiv, ast.MatMult, ast.Pow)):
            self.add(node, within, "swapped operands", f"({right}) {SIGNS[type(node.op)]} ({left})")

    def visit_UnaryOp(self, node: ast.UnaryOp, within: str) -> None:
        operand = self.segment(node.operand)[2]
        if isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
            self.add(node, within, "lost sign", f"({operand})")
        if isinstance(node.op, (ast.Not, ast.Invert)):
            self.add(node, within, "lost negation", f"({operand})")

    def visit_Compare(self, node: ast.Compare, within: str) -> None:
        limit = isinstance(node.comparators[0], ast.Constant) and type(node.comparators[0].value) is float  # where series meet
        if len(node.ops) == 1 and type(node.ops[0]) in COMPARED and not limit:
            left, right = self.segment(node.left)[2], self.segment(node.comparators[0])[2]
            self.add(node, within, "other comparison", f"({left}) {COMPARED[type(node.ops[0])]} ({right})")

    def visit_BoolOp(self, node: ast.BoolOp, within: str) -> None:
        sign = " or " if isinstance(node.op, ast.And) else " and "
        self.add(node, within, "other connective", "(" + sign.join(f"({self.segment(value)[2]})" for value in node.values) + ")")

    def visit_IfExp(self, node: ast.IfExp, within: str) -> None:
        test, body, other = (self.segment(part)[2] for part in (node.test, node.body, node.orelse))
        self.add(node, within, "swapped branches", f"(({other}) if {test} else ({body}))")

    def visit_Constant(self, node: ast.Constant, within: str) -> None:
        if type(node.value) is int:
            self.add(node, within, "off by one", f"({node.value} + 1)")
        elif type(node.value) is float and node.value:
            self.add(node, within, "other number", f"({node.value!r} * 1.0001)")

    def visit_Attribute(self, node: ast.Attribute, within: str) -> None:
        value = self.segment(node.value)[2]
        if value == "np" and node.attr in DTYPES:
            self.add(node, within, "wrong dtype", f"np.{DTYPES[node.attr]}")
        elif node.attr in STRIDED and isinstance(node.ctx, ast.Load):
            self.add(node, within, "lost stride", f"({value})")

    def visit_Call(self, node: ast.Call, within: str) -> None:
        if isinstance(node.func, ast.Attribute) and node.func.attr in UNDONE:
            value = self.segment(node.func.value)[2]
            if value != "np":
                self.add(
                    node, within, "lost stride" if node.func.attr in ("swapaxes", "transpose", "moveaxis") else "undone call", f"({value})"
                )
        plain = [arg for arg in node.args if not isinstance(arg, (ast.Starred, ast.Constant, ast.Lambda, ast.GeneratorExp))]
        if len(node.args) == len(plain) and len(plain) in (2, 3) and not node.keywords:
            start, _, before = self.segment(node)
            (a, b), (c, d) = self.segment(plain[-2])[:2], self.segment(plain[-1])[:2]
            name = self.segment(node.func)[2]
            if name.rpartition(".")[2].strip("_") not in SYMMETRIC:
                after = before[: a - start] + self.text[c:d] + before[b - start : c - start] + self.text[a:b] + before[d - start :]
                self.add(node, within, "swapped arguments", after)

    def visit_Return(self, node: ast.Return, within: str) -> None:
        whole = node.value is not None and re.search(r"\.astype\((np\.(u?int|bool)|_I8)", self.segment(node.value)[2])  # nothing to round
        if self.is_reference and not whole and not isinstance(node.value, (ast.Constant, ast.Name, ast.Tuple, ast.Lambda, type(None))):
            self.add(node.value, within, "rounded", f"__rounded__({self.segment(node.value)[2]})")

    def visit_AugAssign(self, node: ast.AugAssign, within: str) -> None:
        self.add(node, within, "dropped statement", "pass")

    def visit_Expr(self, node: ast.Expr, within: str) -> None:
        if isinstance(node.value, ast.Call):
            self.add(node, within, "dropped statement", "pass")


@cache
def sites(path: Path) -> tuple[Site, ...]:
    finder = _Finder(path)
    for statement in parsed(path).body:
        finder.walk(statement, "", False)
    return tuple(finder.found)


def drawn(count: int, seed: int) -> Iterator[Site]:
    """``count`` places: groups by their shares, in a group a function by chance, in it a place by chance.

    Chance is a digest of the seed and the function's name, so that a change of one function draws no others.
    """

    def lot(key: object) -> int:
        return zlib.crc32(f"{seed} {key}".encode())

    done = before = 0
    for share, patterns in SHARES.values():
        done += share
        several, before = round(count * done / 100) - before, round(count * done / 100)
        functions: dict[tuple[str, str], list[Site]] = {}
        for path in sorted(path for pattern in patterns for path in PACKAGE.glob(pattern)):
            if not LEFT_OUT.search(f"/{path.relative_to(PACKAGE)}"):
                for site in sites(path):
                    functions.setdefault((site.path, site.within), []).append(site)
        for key in sorted(functions, key=lot)[:several]:
            yield min(functions[key], key=lambda site: lot(site.key))
