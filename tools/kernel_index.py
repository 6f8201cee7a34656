"""Writes ``flambeau/kernels/index.py``, which module has the native kernel of an operation: ``python -m tools.kernel_index``.

All modules are imported, and what their decorators registered is the index; so a computed name is in it like a literal one.
"""

from __future__ import annotations

import importlib
import pkgutil
import textwrap
from pathlib import Path

import flambeau.kernels
from flambeau.core.arrays import native

ROOT = Path(__file__).resolve().parent.parent
PATH = ROOT / "flambeau" / "kernels" / "index.py"
COMMAND = "python -m tools.kernel_index"
WIDTH = 140
_PACKAGE = flambeau.kernels.__name__

_BEGINNING = f'''"""Modules that have the native kernels of operations and of parts. Written by ``{COMMAND}``; do not edit.

So the module is imported when an operation first meets large operands, and no source has to be there. A test compares with what the
``@native`` decorators register.
"""

_NAMES = {{
'''
_END = """}
FAMILIES = {name: module for module, names in _NAMES.items() for name in names.split()}
"""


def registered() -> dict[str, list[str]]:
    """The names that each module registers."""
    for module in pkgutil.walk_packages(flambeau.kernels.__path__, f"{_PACKAGE}."):
        importlib.import_module(module.name)
    modules: dict[str, list[str]] = {}
    for name, module_name in sorted(native.registering.items()):
        modules.setdefault(module_name.removeprefix(f"{_PACKAGE}."), []).append(name)
    return dict(sorted(modules.items()))


def row(module: str, names: list[str]) -> str:
    """A module with its names, which are words in one string."""
    lines = textwrap.wrap(" ".join(names), WIDTH - len(f'    "{module}": "",'), break_on_hyphens=False)
    return f'    "{module}": ' + "".join(f'"{line} "\n    ' for line in lines[:-1]) + f'"{lines[-1]}",\n'


def text() -> str:
    return _BEGINNING + "".join(row(module, names) for module, names in registered().items()) + _END


def main() -> None:
    made = text()
    changed = not PATH.exists() or PATH.read_text() != made
    PATH.write_text(made)
    print(f"{PATH.relative_to(ROOT)}: {'written' if changed else 'unchanged'}")


if __name__ == "__main__":
    main()
