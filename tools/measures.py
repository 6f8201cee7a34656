"""Figures about the package itself, read off its source: ``python -m tools.measures``.

side tables       collections and rows of calls keyed by operations' names, outside of their declarations; a misspelt row fails nowhere
rules             functions that hang on operations under their keys (``core/calls/tables.py``); a misspelt key is an error
places            modules that say something of an operation: its declaration's, those of rules, of native kernels and of side tables;
                  apart from these, modules in which tensors of another kind (sparse, nested, masked, quantized) have a way of their own to
                  do it, without which an operation is whole
spellings         how side tables and rules name ``nn.functional.softmax``: by its key, bare, or as the other end of a pair
entry points      names of ``core.arrays.native`` that files outside of ``core`` and ``kernels`` use
top level         files and folders of the package
circles           groups of files that import each other, imports inside of functions and ``import_module`` counted
lines             of the package, examples of docstrings not counted; and without docstrings
long functions    above 60 lines, outside of kernels
docstrings        of operations, and by package of other public classes and functions: those that give shapes, arguments, and so on
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tools import docstrings

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "flambeau"
# Modules whose strings are other names than our operations', equal though many of them are.
OTHER_NAMES = {
    "aten/": "PyTorch's kernels",
    "kernels/": "NumPy's ufuncs, and functions of the vector mathematics",
    "core/arrays/meta_numpy.py": "NumPy's functions",
    "testing/device_array.py": "NumPy's functions",
    "vision/": "datasets and transforms",
    "nn/init.py": "nonlinear functions, as calculate_gain names them",
    "nn/pooling.py": "functions that modules call",
    "ops/foreach.py": "functions that are made of operations, and are no part of them",
    "ops/linalg/matrix_checks.py": "what fails in LAPACK",
    "facades/modules.py": "what modules show",
    "compiler/worlds.py": "Python's functions",
    "distributed/tensor/": "PyTorch's kernels",
    "fx/experimental/": "PyTorch's kernels, and Python's operators",
    "jit/_recorder.py": "Python's operators",
    "jit/_special.py": "functions of Python's math",
    "onnx/": "PyTorch's kernels, and ONNX's operators",
    "nn/functional.py": "what the module shows",
    "sparse/__init__.py": "what the module shows",
    "masked/_functions.py": "what the module shows",
    "masked/_ops.py": "what the module shows",
}
LEAST = 8  # rows of a side table
SHARE = 0.7  # of its rows that name operations
LONG = 60


@cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}


def shown(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


# -- side tables ------------------------------------------------------------------------------------------------------------------------
@cache
def operations() -> dict[str, str]:
    """Every way to name an operation, bare and with its namespace, and the operation it names."""
    from flambeau.core.calls.registry import entries

    found: dict[str, str] = {}
    for entry in entries():
        whole = entry.name if entry.namespace == "torch" else f"{entry.namespace}.{entry.name}"
        found[whole] = whole
        found.setdefault(entry.name, whole)
    return found


@dataclass
class SideTable:
    """A collection in a file whose elements are operations' names, or calls of one function with such names."""

    path: Path
    line: int
    words: list[str]
    spellings: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        for word in self.words:
            name, _, other = word.partition("=")
            if name in operations():
                self.spellings["pair" if other else "key" if operations()[name] == name else "bare"] += 1

    @property
    def named(self) -> set[str]:
        return {operations()[name] for word in self.words if (name := word.partition("=")[0]) in operations()}

    def counts(self) -> bool:
        return len(self.words) >= LEAST and sum(self.spellings.values()) >= SHARE * len(self.words)


def words_of(node: ast.AST) -> list[str]:
    """The strings that an expression names as elements or keys, those of a longer string one by one."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.split()
    if isinstance(node, ast.Dict):
        return [word for key in node.keys if key is not None for word in words_of(key)]
    if isinstance(node, ast.Set | ast.List | ast.Tuple):
        return [word for element in node.elts for word in words_of(element)]
    return []


def outermost(node: ast.AST) -> Iterator[tuple[int, list[str]]]:
    """The collections below ``node`` that are not parts of others."""
    for child in ast.iter_child_nodes(node):
        words = words_of(child)
        if len(words) >= LEAST:
            yield child.lineno, words  # type: ignore[attr-defined]
        else:
            yield from outermost(child)


@cache
def names_of_rules() -> set[str]:
    """What the package calls its collections of rules; operations are looked for when one is hung."""
    from flambeau.core.calls.tables import Rules

    scopes = [vars(module) for name, module in list(sys.modules.items()) if name.startswith("flambeau.") and module is not None]
    return {name for scope in scopes for name, value in list(scope.items()) if isinstance(value, Rules)}


def side_tables() -> list[SideTable]:
    for name in RULES_OF:
        importlib.import_module(f"flambeau.{name}")
    places = declared()
    found = []
    for path, tree in trees().items():
        if shown(path).startswith(tuple(OTHER_NAMES)):
            continue
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        calls: dict[str, tuple[int, list[str]]] = {}
        within = {
            id(inner) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) for part in node.body for inner in ast.walk(part)
        }
        for node in ast.walk(tree):
            if id(node) in within:  # uses an operation, or names it in an error, and says nothing of it
                continue
            if isinstance(node, ast.Call) and not isinstance(node.func, ast.Call) and ast.unparse(node.func) not in names_of_rules():
                words = [word for argument in node.args for word in words_of(argument) if len(words_of(argument)) < LEAST]
                if words:
                    calls.setdefault(ast.unparse(node.func), (node.lineno, []))[1].extend(words[:1])
        collections = [
            each for statement in tree.body if id(getattr(statement, "value", None)) not in docstrings for each in outermost(statement)
        ]
        for line, words in (*collections, *calls.values()):
            table = SideTable(path, line, words)
            at_home = sum(places.get(name, "") == module_name(path) for name in table.named)
            if table.counts() and 2 * at_home < len(table.named):  # otherwise these are declarations
                found.append(table)
    return found


def declared() -> dict[str, str]:
    """The file that declares each operation."""
    from flambeau.core.calls.registry import entries

    places = {}
    for entry in entries():
        whole = entry.name if entry.namespace == "torch" else f"{entry.namespace}.{entry.name}"
        function = inspect.unwrap(getattr(entry, "kernel", None) or getattr(entry, "body", None) or entry.wrapper)
        places[whole] = getattr(function, "__module__", "")
    return places


def hang(homes: dict[str, set[str]], others: dict[str, set[str]]) -> Counter[str]:
    """Add the modules of the rules and native kernels of operations, to ``others`` those of other kinds of tensors.

    Returns:
        How many rules there are of each subject.
    """
    from flambeau.core.calls.registry import entries
    from flambeau.kernels.index import FAMILIES

    subjects: Counter[str] = Counter()
    for entry in entries():
        subjects.update(entry.hanging.keys())
        for subject, function in entry.hanging.items():
            (others if subject in OF_OTHER_KINDS else homes).setdefault(entry.key, set()).add(inspect.unwrap(function).__module__)
        if entry.key in FAMILIES:
            homes[entry.key].add(f"flambeau.kernels.{FAMILIES[entry.key]}")
    return subjects


OF_OTHER_KINDS = {"sparse", "nested", "jagged", "masked", "quantized"}  # subjects of rules
RULES_OF = (
    "aten.below",
    "func._batch",
    "func._dual",
    "func._batch_layers",
    "func._batch_index",
    "masked",
    "nested",
    "ops.sparse",
    "capture.rowwise",
)


# -- what imports what --------------------------------------------------------------------------------------------------------------------
@cache
def module_name(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def targets(path: Path, node: ast.AST, names: set[str]) -> Iterator[str]:
    """The modules of the package that a statement or a call of ``import_module`` names."""
    package = module_name(path).split(".")
    package = package if path.name == "__init__.py" else package[:-1]
    if isinstance(node, ast.ImportFrom):
        base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
        base = ".".join(filter(None, [base, node.module]))
        for alias in node.names:
            yield f"{base}.{alias.name}" if f"{base}.{alias.name}" in names else base
    elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "import_module" and node.args:
        first = node.args[0]
        text = first.value if isinstance(first, ast.Constant) else ""
        if isinstance(first, ast.JoinedStr):
            text = "".join(part.value if isinstance(part, ast.Constant) else ".".join(package) for part in first.values[:2])  # type: ignore[misc]
        if isinstance(text, str) and text.startswith("."):
            level = len(text) - len(text.lstrip("."))
            text = ".".join([*package[: len(package) - level + 1], text.lstrip(".")])
        if text in names:
            yield text


def circles() -> list[list[str]]:
    """Groups of files each of which reaches all others; packages' ``__init__``, which only collect, are left out."""
    names = {module_name(path) for path in trees()}
    collecting = {module_name(path) for path in trees() if path.name == "__init__.py"}
    edges: dict[str, set[str]] = {}
    for path, tree in trees().items():
        name = module_name(path)
        if name not in collecting:
            nodes = list(ast.walk(tree))
            blocks = [node for node in nodes if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
            for_types = {id(inner) for node in blocks for inner in ast.walk(node)}
            imports = [node for node in nodes if isinstance(node, ast.ImportFrom | ast.Call) and id(node) not in for_types]
            found = {target for node in imports for target in targets(path, node, names)}
            edges[name] = (found & names) - collecting - {name}
    return [sorted(group) for group in strongly_connected(edges) if len(group) > 1]


def strongly_connected(edges: dict[str, set[str]]) -> Iterator[list[str]]:
    """Tarjan's groups."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []

    def visit(name: str) -> Iterator[list[str]]:
        number[name] = low[name] = len(number)
        stack.append(name)
        for target in sorted(edges.get(name, ())):
            if target not in number:
                yield from visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], number[target])
        if low[name] == number[name]:
            at = stack.index(name)
            yield stack[at:]
            del stack[at:]

    for name in sorted(edges):
        if name not in number:
            yield from visit(name)


def entry_points() -> Counter[str]:
    """What files outside of ``core`` and ``kernels`` use of ``core.arrays.native``, and how many files do."""
    found: Counter[str] = Counter()
    for path, tree in trees().items():
        if shown(path).startswith(("core/", "kernels/")):
            continue
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "native"}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("arrays.native"):
                used |= {alias.name for alias in node.names}
        found.update(used)
    return found


# -- sizes --------------------------------------------------------------------------------------------------------------------------------
def lines() -> int:
    return sum(len(re.sub(r"(?m)^ *(>>> |\.\.\. ).*\n(?: +(?!\"\"\")\S.*\n)*", "", path.read_text()).splitlines()) for path in trees())


def lines_of_code() -> int:
    """Lines that are no docstring."""
    count = 0
    for path, tree in trees().items():
        count += len(path.read_text().splitlines())
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module)
                and ast.get_docstring(node, False) is not None
            ):
                count -= (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
    return count


def long_functions() -> list[tuple[int, str]]:
    found = []
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not shown(path).startswith("kernels/"):
                first = node.body[0]
                documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
                length = (node.end_lineno or 0) - node.lineno + 1 - ((first.end_lineno or 0) - first.lineno + 1 if documented else 0)
                if length > LONG:
                    found.append((length, f"{shown(path)}:{node.lineno} {node.name}"))
    return sorted(found, reverse=True)


# -- all of it ----------------------------------------------------------------------------------------------------------------------------
def main() -> None:
    tables = side_tables()
    print(f"side tables: {len(tables)}, {sum(len(table.words) for table in tables)} rows")
    for table in sorted(tables, key=lambda table: -len(table.words)):
        print(f"  {len(table.words):4} rows, {dict(table.spellings)}: {shown(table.path)}:{table.line}")
    homes = {name: {module} for name, module in declared().items()}
    others: dict[str, set[str]] = {}
    subjects = hang(homes, others)
    print(f"rules: {sum(subjects.values())}, by subject: {dict(subjects.most_common())}")
    for table in tables:
        for name in table.named:
            homes.setdefault(name, set()).add(module_name(table.path))
    ranked = sorted(homes.items(), key=lambda pair: (-len(pair[1]), pair[0]))
    print(f"places: at most {len(ranked[0][1])} ({', '.join(name for name, places in ranked if len(places) == len(ranked[0][1]))})")
    print(f"  of {len(homes)} operations, by number of places: {dict(sorted(Counter(len(places) for places in homes.values()).items()))}")
    whole = {name: len(places | others.get(name, set())) for name, places in homes.items()}
    print(f"  with those of other kinds of tensors: at most {max(whole.values())}, {dict(sorted(Counter(whole.values()).items()))}")
    print(f"spellings: {dict(sum((table.spellings for table in tables), Counter()))}")
    points = entry_points()
    print(f"entry points of kernels: {len(points)} ({', '.join(f'{name} {count}' for name, count in points.most_common())})")
    top = sorted(path.name for path in PACKAGE.iterdir() if path.is_file() or any(path.rglob("*.py")))
    print(f"top level: {len(top)}")
    found = circles()
    print(f"circles: {len(found)}")
    for group in found:
        print(f"  {len(group)}: {', '.join(group)}")
    print(f"lines: {lines()}, without docstrings {lines_of_code()}")
    functions = long_functions()
    print(f"functions above {LONG} lines outside of kernels, docstrings not counted: {len(functions)}")
    for length, where in functions:
        print(f"  {length:4} {where}")
    print(f"docstrings of operations: {shares(docstrings.of_operations())}")
    print("docstrings of other public classes and functions:")
    for package in docstrings.packages():
        print(f"  {package}: {shares(docstrings.of_package(package))}")


def shares(counts: dict[str, tuple[int, int]]) -> str:
    return ", ".join(f"{part} {have} of {of} ({have / of:.0%})" for part, (have, of) in counts.items())


if __name__ == "__main__":
    main()
