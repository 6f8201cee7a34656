"""Writes ``flambeau/kernels/index.txt``, which module has the native kernel of an operation: ``python -m tools.kernel_index``.

All modules are imported, and what their decorators registered is the index; so a computed name is in it like a literal one.
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import flambeau.kernels
from flambeau.core.arrays import native

ROOT = Path(__file__).resolve().parent.parent
PATH = ROOT / "flambeau" / "kernels" / "index.txt"
COMMAND = "python -m tools.kernel_index"
_PACKAGE = flambeau.kernels.__name__


def registered() -> dict[str, list[str]]:
    """The names that each module registers."""
    for module in pkgutil.walk_packages(flambeau.kernels.__path__, f"{_PACKAGE}."):
        importlib.import_module(module.name)
    modules: dict[str, list[str]] = {}
    for name, module_name in sorted(native.registering.items()):
        modules.setdefault(module_name.removeprefix(f"{_PACKAGE}."), []).append(name)
    return dict(sorted(modules.items()))


def text() -> str:
    """The file's contents: a line for each module, its name and those of its kernels."""
    return "".join(f"{module} {' '.join(names)}\n" for module, names in registered().items())


def main() -> None:
    made = text()
    changed = not PATH.exists() or PATH.read_text() != made
    PATH.write_text(made)
    print(f"{PATH.relative_to(ROOT)}: {'written' if changed else 'unchanged'}")


if __name__ == "__main__":
    main()
