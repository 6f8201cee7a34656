"""The examples in the package's docstrings run and print what they say."""

from __future__ import annotations

import builtins
import contextlib
import doctest
import importlib
import inspect
import pkgutil
import re
import sys
import warnings
from functools import partial

import numpy as np
import pytest

import flambeau
from flambeau.core.calls.registry import entries
from tools import docstrings

NAMES = {"torch": flambeau, "np": np, "nn": flambeau.nn, "F": flambeau.nn.functional}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
LINES = 6  # of an operation's example, with what is printed
MODULES = ["flambeau", *sorted(module.name for module in pkgutil.walk_packages(flambeau.__path__, "flambeau."))]
PROGRAMS = {"flambeau.__main__", "flambeau.runner.aliased"}  # doing something is what importing them is for


class Finder(doctest.DocTestFinder):
    """Finds classes whose ``__module__`` is another name of their file, too."""

    def _from_module(self, module, object):
        return super()._from_module(module, object) or sys.modules.get(getattr(object, "__module__", None)) is module


@pytest.mark.parametrize("name", [name for name in MODULES if name not in PROGRAMS])
def test_the_examples_of(name, monkeypatch, tmp_path):
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("flambeau"):
            raise
        pytest.skip(f"{error.name} is not installed")
    own = {name: value for name, value in vars(module).items() if not hasattr(builtins, name)}  # ``flambeau.int`` is a dtype
    names = {**NAMES, "flambeau": flambeau, **own}
    assert not failures(Finder().find(module, name, globs=names), partial(folder_of, monkeypatch=monkeypatch, tmp_path=tmp_path))


# Declared operations are objects, which doctest does not look into.
OPERATIONS = {f"{entry.module}.{entry.namespace}.{entry.name}": entry for entry in entries() if ">>> " in (entry.doc or "")}


@pytest.mark.slow
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
            section = re.split(r"\n(?=\S)", inspect.cleandoc(entry.doc or "").partition("Args:")[2])[0]
            named = [p.name for p in entry.params if p.name not in ("bounds", "named")][entry.namespace == "Tensor" :]
            missing += [(entry.name, name) for name in named if not re.search(rf"\b{name}\b", section)]
    assert missing == []


def is_found(thing):
    """Whether the module that a thing names as its own is there, and has it among its own names."""
    module = sys.modules.get(thing.__module__)
    return module is not None and Finder()._from_module(module, thing)


# Classes and functions made by a function are not of the module's own names, which is where doctest looks.
MADE = {name: thing for name, thing in docstrings.public().items() if ">>> " in (thing.__doc__ or "") and not is_found(thing)}


@pytest.mark.parametrize("name", MADE)
def test_the_examples_of_what_is_made(name):
    names = {**NAMES, **vars(sys.modules.get(MADE[name].__module__, flambeau))}
    assert not failures([doctest.DocTestParser().get_doctest(MADE[name].__doc__, names, name, None, None)])


# How many public classes and functions outside of the registry lack a part. No number may grow; what is reached is written here.
LACKING: dict[str, dict[str, int]] = {}


@pytest.mark.slow
@pytest.mark.parametrize("package", docstrings.packages())
def test_public_classes_and_functions_have_the_parts(package):
    allowed = LACKING.get(package, {})
    assert not {part: names for part, names in docstrings.missing(package).items() if len(names) > allowed.get(part, 0)}


@contextlib.contextmanager
def folder_of(test, monkeypatch, tmp_path):
    """The folder ``root`` of a data set's example, with the files that it reads."""
    name = test.name.rpartition(".")[2]
    if test.name.startswith("flambeau.vision.datasets.") and "root" in test.docstring:
        import small_datasets

        if name in small_datasets.BUILDERS:
            root = tmp_path / name / "root"
            root.mkdir(parents=True)
            monkeypatch.chdir(root.parent)
            test.globs["root"] = str(root)
            with small_datasets.filled(name, root):
                yield
            return
    yield


def failures(tests, folder=lambda test: contextlib.nullcontext()):
    """What fails, in words; ``folder`` is a context around each."""
    output: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated operations have examples, too
        for test in tests:
            flambeau.manual_seed(0)
            with folder(test):
                runner.run(test, out=output.append)
    return "".join(output)
