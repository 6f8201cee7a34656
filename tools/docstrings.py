"""The parts that docstrings of public things have; ``python -m tools.docstrings PACKAGE`` lists the classes and functions that lack each.

Public is what stands in a module's ``__all__``, and, in a package or a module of PyTorch's name that has none, what has no underscore.
A part is counted only where there is something to say: errors where the body raises one, attributes where the constructor makes
parameters, buffers or fields, results where the annotation is not ``None``.
"""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
import pkgutil
import re
import sys
import textwrap
import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

PARTS = {
    "source": r"(?i)\bSource\b",
    "shapes": r"Shape:|``\(.*?\)``|shape|elements|0-d|1-d|2-d|any size|number",
    "arguments": r"Args:|Arguments:",
    "attributes": r"Attributes:|Args:",
    "results": r"Returns?:|Yields:",
    "errors": r"Raises",
    "example": r">>> ",
}
OWN = {"aten", "capture", "core", "facades", "kernels", "ops", "runner"}  # packages without names of PyTorch's
INSIDE = (  # how modules without names of PyTorch's begin, in packages that have some
    "compiler.", "onnx.tables", "distributed.buffers", "distributed.elastic.agent", "distributed.elastic.nodes", "distributed.engine",
    "distributed.rpc.agent", "distributed.rpc.connection", "distributed.rpc.packing", "distributed.rpc.rref", "distributed.stores",
    "distributed.watching", "distributed.grad_bucket", "distributed.group_methods", "distributed.work",
)  # fmt: skip
BARE = set(  # modules of PyTorch's names without ``__all__``, besides packages
    "autograd.function autograd.grad_mode backends.cudnn backends.mkldnn backends.opt_einsum fft nn.utils.prune special".split()
)


def of_operations() -> dict[str, tuple[int, int]]:
    """For each part of a docstring, how many public operations have it, of how many that need it."""
    from flambeau.core.calls.registry import entries

    counts = {part: [0, 0] for part in PARTS if part != "attributes"}
    for entry in entries():
        if not entry.name.startswith("_"):
            for part, count in counts.items():
                if part != "arguments" or getattr(entry, "params", ()):
                    count[0] += bool(re.search(PARTS[part], entry.doc or ""))
                    count[1] += 1
    return {part: (have, of) for part, (have, of) in counts.items()}


@cache
def public() -> dict[str, Any]:
    """The public classes and functions outside of the registry, each under the first of its names."""
    from flambeau.core.calls.registry import entries

    operations = {id(getattr(entry, part, None)) for entry in entries() for part in ("wrapper", "body", "kernel")}
    operations |= {id(entry) for entry in entries()}
    found: dict[int, tuple[str, Any]] = {}
    for module in modules():
        for name in names(module):
            thing = getattr(module, name, None)
            if id(thing) not in operations and counts(thing):
                found.setdefault(id(thing), (f"{module.__name__.removeprefix('flambeau').removeprefix('.')}.{name}".lstrip("."), thing))
    return dict(found.values())


def modules() -> Iterator[Any]:
    """The public modules that can be imported here."""
    import flambeau

    yield flambeau
    for found in pkgutil.walk_packages(flambeau.__path__, "flambeau.", onerror=lambda name: None):
        name = found.name.removeprefix("flambeau.")
        is_own = name.partition(".")[0] in OWN or name.startswith(INSIDE)
        if not is_own and not any(part.startswith("_") for part in name.split(".")):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # old names
                    yield importlib.import_module(found.name)
            except ImportError:
                continue  # of a library that is not installed


def names(module: Any) -> list[str]:
    if hasattr(module, "__all__"):
        return list(module.__all__)
    if hasattr(module, "__path__") or module.__name__.removeprefix("flambeau.") in BARE:
        return [name for name, thing in vars(module).items() if not name.startswith("_") and is_of(module, thing)]
    return []


def is_of(module: Any, thing: Any) -> bool:
    """Whether a module defines a thing, or, being a package, collects it."""
    return hasattr(module, "__path__") or getattr(thing, "__module__", "") == module.__name__


def counts(thing: Any) -> bool:
    """Whether it is a class or a function of flambeau's own; generated in-place forms are described with their operation."""
    if not (inspect.isclass(thing) or inspect.isfunction(inspect.unwrap(thing) if callable(thing) else thing)):
        return False
    if not str(thing.__module__).startswith(("flambeau", "torch")) or getattr(thing, "is_unsupported", False):
        return False
    return not getattr(getattr(thing, "__code__", None), "co_filename", "").startswith("<flambeau:")


def needed(thing: Any) -> Iterator[str]:
    """The parts that a docstring should have."""
    yield from ("source", "example")
    own = [cls for cls in getattr(thing, "__mro__", ()) if cls.__module__.startswith("flambeau")]
    kinds = [cls for cls in own if not getattr(cls, "_is_protocol", False)]  # typing gives protocols a constructor, which nobody calls
    constructor = [vars(cls).get("__init__") for cls in kinds if cls is thing or cls.__qualname__ != "Module"]
    called = [thing] if not inspect.isclass(thing) else [next(filter(None, constructor), None), vars(thing).get("forward")]
    texts = [source(function) for function in called if function is not None]
    if inspect.isclass(thing):
        fields = getattr(thing, "__dataclass_fields__", None) or hasattr(thing, "_fields")
        made = "".join(source(function) for function in constructor if function)
        if fields or re.search(r"Parameter\(|register_parameter\(|register_buffer\(", made):
            yield "attributes"
        if vars(thing).get("forward"):
            yield "shapes"
        takes = not issubclass(thing, enum.Enum | BaseException) and called[0] is not None and bool(parameters(called[0], skip=1))
    else:
        annotations = getattr(thing, "__annotations__", {})
        if any("Tensor" in str(kind) for kind in annotations.values()):
            yield "shapes"
        if str(annotations.get("return", "")) not in ("None", "NoReturn", "<class 'NoneType'>"):
            yield "results"
        takes = bool(parameters(thing))
    if takes:
        yield "arguments"
    if any(raises(text) for text in texts):
        yield "errors"


def parameters(function: Any, skip: int = 0) -> list[str]:
    try:
        found = list(inspect.signature(function).parameters.values())[skip:]
    except (TypeError, ValueError):
        return []
    return [each.name for each in found if not each.name.startswith("_")]


def source(function: Any) -> str:
    try:
        return textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        return ""


def raises(text: str) -> bool:
    try:
        return any(isinstance(node, ast.Raise) and node.exc is not None for node in ast.walk(ast.parse(text)))
    except SyntaxError:
        return False


def missing(package: str) -> dict[str, list[str]]:
    """For each part, the public names of a package (``nn``, ``utils``; the top level is ``torch``) whose docstring lacks it."""
    found: dict[str, list[str]] = {part: [] for part in PARTS}
    for name, thing in public().items():
        if home(name) == package:
            for part in needed(thing):
                if not re.search(PARTS[part], thing.__doc__ or ""):
                    found[part].append(name)
    return found


def of_package(package: str) -> dict[str, tuple[int, int]]:
    """For each part, how many public names of a package have it, of how many that need it."""
    wanted = [part for name, thing in public().items() if home(name) == package for part in needed(thing)]
    lacking = missing(package)
    return {part: (wanted.count(part) - len(lacking[part]), wanted.count(part)) for part in PARTS if part in wanted}


def packages() -> list[str]:
    return sorted({home(name) for name in public()})


def home(name: str) -> str:
    return name.split(".")[0] if "." in name else "torch"


def main() -> None:
    for package in sys.argv[1:] or packages():
        for part, lacking in missing(package).items():
            if lacking:
                print(f"{package}: {len(lacking)} without {part}: {' '.join(lacking)}")


if __name__ == "__main__":
    main()
