"""The examples in the package's docstrings run and print what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import warnings

import numpy as np
import pytest

import flambeau
from flambeau.core.calls.registry import entries

NAMES = {"torch": flambeau, "np": np, "F": flambeau.nn.functional}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
LINES = 6  # of an operation's example, with what is printed
MODULES = ["flambeau", *sorted(module.name for module in pkgutil.walk_packages(flambeau.__path__, "flambeau."))]
PROGRAMS = {"flambeau.__main__", "flambeau.runner.aliased"}  # doing something is what importing them is for


@pytest.mark.parametrize("name", [name for name in MODULES if name not in PROGRAMS])
def test_the_examples_of(name):
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("flambeau"):
            raise
        pytest.skip(f"{error.name} is not installed")
    names = {**NAMES, "flambeau": flambeau, **vars(module)}
    assert not failures(doctest.DocTestFinder().find(module, name, globs=names))


# Declared operations are objects, which doctest does not look into.
OPERATIONS = {f"{entry.module}.{entry.namespace}.{entry.name}": entry for entry in entries() if ">>> " in (entry.doc or "")}


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_examples_of_the_operation(name):
    test = doctest.DocTestParser().get_doctest(OPERATIONS[name].doc, dict(NAMES), name, None, None)
    assert sum((example.source + example.want).count("\n") for example in test.examples) <= LINES
    assert not failures([test])


@pytest.mark.parametrize("part", ["Args:", "Returns:", "Source:", "Example:"])
def test_every_public_operation_has(part):
    public = [entry for entry in entries() if not entry.name.startswith("_") and (part != "Args:" or entry.params)]
    assert not [f"{entry.namespace}.{entry.name}" for entry in public if part not in (entry.doc or "")]


def test_every_argument_is_named():
    """In the section ``Args`` all parameters stand, but methods' tensors and any number of arguments that have names of their own there."""
    missing = []
    for entry in entries():
        if not entry.name.startswith("_"):
            section = re.split(r"\n    (?=\S)", (entry.doc or "").partition("Args:")[2])[0]
            named = [p.name for p in entry.params if p.name not in ("bounds", "named")][entry.namespace == "Tensor" :]
            missing += [(entry.name, name) for name in named if not re.search(rf"\b{name}\b", section)]
    assert missing == [("scatter", "inplace")]  # which no caller gives


def failures(tests):
    """What fails, in words."""
    output: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated operations have examples, too
        for test in tests:
            flambeau.manual_seed(0)
            runner.run(test, out=output.append)
    return "".join(output)
