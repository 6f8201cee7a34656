"""Who may import whom inside the package, and what importing the package must leave alone."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from sources import parsed

from tools import measures

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "flambeau"
FILES = sorted(PACKAGE.rglob("*.py"))

# core <- autograd <- ops <- everything else <- the package itself; a layer may import itself and what stands before it.
LAYERS = ["core", "autograd", "ops"]
PROGRAMS = {"__main__", "runner"}  # run flambeau from outside
INFO = "flambeau.runner.info"  # tells what there is
HEAVY = {"scipy", "llvmlite", "PIL", "matplotlib", "multiprocessing", "cupy", "mpi4py", "onnx", "safetensors", "sklearn", "tensorboard"}
# By folder: what it is about, and may import with its files.
WRAPS = {"multiprocessing": {"multiprocessing"}, "vision": {"PIL"}, "utils/tensorboard": {"tensorboard"}}


@dataclass(frozen=True)
class Import:
    """One imported module: its full name, the line, and whether it is imported with the file rather than late."""

    target: str
    line: int
    eager: bool


def module_name(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {module_name(path) for path in FILES}


def base_of(path: Path, node: ast.ImportFrom) -> str:
    """The full name of the module that a ``from`` statement of a file names."""
    package = module_name(path).split(".")[: None if path.name == "__init__.py" else -1]
    base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
    return ".".join(filter(None, [base, node.module]))


@cache
def imports_of(path: Path) -> tuple[Import, ...]:
    """Every import of a file but those for the type checker. ``from . import x`` counts as importing x where x is a module."""

    def visit(node: ast.AST, eager: bool) -> Iterator[Import]:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, eager)
        elif isinstance(node, ast.ImportFrom):
            base = base_of(path, node)
            targets = {f"{base}.{alias.name}" if f"{base}.{alias.name}" in NAMES else base for alias in node.names}
            for target in sorted(targets):
                yield Import(target, node.lineno, eager)
        else:
            late = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            for child in ast.iter_child_nodes(node):
                yield from visit(child, eager and not late)

    return tuple(visit(parsed(path), True))


def layer(name: str) -> int:
    """The place of a module in the order of layers, by the first part of its name below the package."""
    parts = name.split(".")
    if len(parts) == 1:
        return len(LAYERS) + 1
    return LAYERS.index(parts[1]) if parts[1] in LAYERS else len(LAYERS)


def allowed(importer: str, target: str) -> bool:
    own, other = (name.split(".")[1] if "." in name else "" for name in (importer, target))
    if importer == INFO:
        return other in ("core", "kernels", "version")
    if own in PROGRAMS:
        return other in (*PROGRAMS, "version") or target == "flambeau.facades.modules"
    if target == INFO:
        return own == "utils"
    if other in PROGRAMS:
        return False
    if own == "kernels":  # machine code of fast paths knows the engine, which it stands in for
        return other in ("kernels", "core") or (other == "autograd" and importer.startswith("flambeau.kernels.fastpath."))
    if other == "kernels":  # reached through ``core.arrays.native`` alone, but for plans, which are lists of launches, and machine code
        return own in ("core", "capture") or importer.endswith("._machine")
    return layer(target) <= layer(importer)


@pytest.mark.parametrize(
    ("importer", "target", "expected"),
    [
        ("flambeau.ops.views", "flambeau.core.tensor", True),
        ("flambeau.core.tensor", "flambeau.ops.views", False),
        ("flambeau.core.tensor", "flambeau.autograd.engine", False),
        ("flambeau.autograd.engine", "flambeau.ops", False),
        ("flambeau.nn.module", "flambeau.ops", True),
        ("flambeau.nn.module", "flambeau", False),
        ("flambeau", "flambeau.nn", True),
        ("flambeau.kernels.compiler.pool", "flambeau.core.dtype", True),
        ("flambeau.kernels.compiler.pool", "flambeau.ops", False),
        ("flambeau.kernels.families.gemm", "flambeau.autograd.engine", False),
        ("flambeau.kernels.fastpath.backward", "flambeau.autograd.engine", True),
        ("flambeau.nn.module", "flambeau.kernels", False),
        ("flambeau.nn._machine", "flambeau.kernels.fastpath", True),
        ("flambeau.nn.module", "flambeau.runner", False),
    ],
)
def test_the_rule_itself(importer, target, expected):
    assert allowed(importer, target) is expected


@pytest.mark.slow
def test_imports_point_downwards():
    wrong = [
        f"{path.relative_to(ROOT)}:{statement.line}: {module_name(path)} imports {statement.target}"
        for path in FILES
        for statement in imports_of(path)
        if statement.target.split(".")[0] == "flambeau" and not allowed(module_name(path), statement.target)
    ]
    assert not wrong, "\n".join(wrong)


# Modules of nn that need nothing of it.
OF_THEIR_OWN = {"flambeau.nn._module_convert", "flambeau.nn.modules.utils", "flambeau.nn.parallel.comm"}


def test_nn_is_imported_whole_before_its_modules():
    """Else two threads, one of which imports ``nn``, the other this file, can wait for each other: Python then gives half a module away."""
    wrong = []
    for path in FILES:
        waited = module_name(path).startswith("flambeau.nn")
        for statement in parsed(path).body:
            if waited or not isinstance(statement, ast.ImportFrom):
                continue
            base = base_of(path, statement)
            waited = base == "flambeau.nn" or (base == "flambeau" and any(alias.name == "nn" for alias in statement.names))
            if base.startswith("flambeau.nn.") and base not in OF_THEIR_OWN:
                wrong.append(f"{path.relative_to(ROOT)}:{statement.lineno}: {base}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_the_package_imports_itself_relatively():
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in FILES
        if "shim" not in path.parts  # lies on the path of modules by itself
        for node in ast.walk(parsed(path))
        if (isinstance(node, ast.Import) and any(alias.name.split(".")[0] == "flambeau" for alias in node.names))
        or (isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").split(".")[0] == "flambeau")
    ]
    assert not wrong, "\n".join(wrong)


def wrapped(path: Path) -> set[str]:
    """The heavy libraries that a file may import with itself."""
    folder = f"{path.relative_to(PACKAGE).parent.as_posix()}/"
    return {library for wrapper, libraries in WRAPS.items() if folder.startswith(f"{wrapper}/") for library in libraries}


def test_heavy_libraries_are_imported_late_and_pytorch_never():
    wrong = [
        f"{path.relative_to(ROOT)}:{statement.line}: {statement.target}"
        for path in FILES
        for statement in imports_of(path)
        if (statement.eager and statement.target.split(".")[0] in HEAVY - wrapped(path))
        or statement.target.split(".")[0] in ("torch", "torchvision")
    ]
    assert not wrong, "\n".join(wrong)


def test_the_search_for_circles_finds_one():
    groups = list(measures.strongly_connected({"a": {"b"}, "b": {"c", "d"}, "c": set(), "d": {"b"}}))
    assert sorted(sorted(group) for group in groups) == [["a"], ["b", "d"], ["c"]]
    assert all(len(group) == 1 for group in measures.strongly_connected({"a": {"b", "c"}, "b": {"c"}, "c": set()}))


@pytest.mark.slow
def test_no_file_imports_itself_in_a_circle():
    """Imports between the files of the package form no circle, those inside of functions and by ``import_module`` counted.

    Packages' ``__init__`` files, which only collect, are left out.
    """
    assert not measures.circles()


def test_imports_by_name_are_seen():
    path = PACKAGE / "nn" / "init.py"
    written = """
from importlib import import_module
import_module("..core.tensor", __package__), importlib.import_module(f"{__package__}.modules"), import_module("flambeau.ops")
"""
    calls = [node for node in ast.walk(ast.parse(written)) if isinstance(node, ast.Call)]
    assert {name for call in calls for name in measures.targets(path, call, NAMES)} == {
        "flambeau.core.tensor",
        "flambeau.nn.modules",
        "flambeau.ops",
    }


STATE = """
import atexit, locale, os, random, signal, sys, threading, warnings
import numpy as np
import ml_dtypes

def state():
    return {
        "error state": (np.geterr(), np.geterrcall()),
        "print options": str(np.get_printoptions()),
        "numpy's random numbers": str(np.random.get_state()),
        "python's random numbers": random.getstate(),
        "warning filters": list(warnings.filters),
        "warning hook": warnings.showwarning,
        "signal handlers": [signal.getsignal(number) for number in sorted(signal.valid_signals())],
        "locale": locale.setlocale(locale.LC_ALL),
        "threads": threading.active_count(),
        "environment": dict(os.environ),
        "hooks": (sys.excepthook, sys.displayhook, sys.unraisablehook, threading.excepthook),
        "import system": (list(sys.meta_path), list(sys.path), list(sys.path_hooks)),
        "limits": (sys.getrecursionlimit(), sys.getswitchinterval()),
    }

before = state()
import flambeau
after = state()
print("changed:", *(name for name in before if before[name] != after[name]))
print("heavy:", *sorted(set(%r) & set(sys.modules)))
print("late:", *sorted(name for name in flambeau.ops.LATE if f"flambeau.ops.{name}" in sys.modules))
flambeau.nn
print("with nn:", *sorted(name for name in flambeau.ops.LATE if f"flambeau.ops.{name}" in sys.modules))
flambeau.linalg.det
sys.modules.pop("flambeau.ops.linalg.inverses")  # as after an import that was interrupted
print(flambeau.eye(2).logdet().item(), flambeau.slogdet.__name__)
"""


def test_importing_the_package_changes_no_global_state_and_loads_nothing_heavy():
    heavy = sorted(HEAVY | {"torch", "torchvision", "flambeau.distributions", "flambeau.facades.spaces"})
    process = subprocess.run([sys.executable, "-c", STATE % heavy], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines() == ["changed:", "heavy:", "late:", "with nn:", "0.0 slogdet"]


def test_late_families_say_which_methods_they_declare():
    from flambeau.core.calls.registry import TABLES, import_late, methods_without_wrapper
    from flambeau.ops import LATE

    import_late()
    late = {f"flambeau.ops.{name}" for name in LATE}
    bare = [TABLES["torch"].get(name) or TABLES["Tensor"][name] for name in methods_without_wrapper.__wrapped__()]
    assert not [entry.name for entry in bare if entry.module in late]
    declared: dict[str, set[str]] = {name: set() for name in LATE}
    for namespace in ("torch", "Tensor"):
        for name, entry in TABLES[namespace].items():
            family = next((family for family in LATE if f"{entry.module}.".startswith(f"flambeau.ops.{family}.")), None)
            if family is not None and (getattr(entry, "method", False) or namespace == "Tensor"):
                declared[family].add(name)
                assert not entry.inplace, f"{name}_ has to be listed as a method too"
    assert declared == {family: set(methods.split()) for family, methods in LATE.items()}


def test_late_families_are_not_in_the_way_of_operations_of_their_name():
    names = "dropout embedding convolution"
    program = f"import flambeau as torch; torch.dropout; print(*{{type(getattr(torch.ops, name)).__name__ for name in {names!r}.split()}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["function"]


def test_packages_adopt_what_an_interrupted_import_left():
    """A package that imports its own files has them as attributes, also where they were loaded before it; see ``core.late.adopt``."""
    whole = {"flambeau", "flambeau.ops", "flambeau.ops.sparse", "flambeau.autograd", "flambeau.kernels", "flambeau.nn.modules"}
    lacking = []
    for path in PACKAGE.rglob("__init__.py"):
        own = [node for node in parsed(path).body if isinstance(node, ast.ImportFrom) and node.level == 1]
        if own and "shim" not in path.parts and "adopt(__name__)" not in path.read_text() and module_name(path) not in whole:
            lacking.append(module_name(path))
    assert not lacking, lacking
