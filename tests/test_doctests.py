"""The examples in the package's docstrings run and print what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import numpy as np
import pytest

import flambeau

MODULES = ["flambeau", *sorted(module.name for module in pkgutil.walk_packages(flambeau.__path__, "flambeau."))]
PROGRAMS = {"flambeau.__main__", "flambeau._aliased"}  # doing something is what importing them is for


@pytest.mark.parametrize("name", [name for name in MODULES if name not in PROGRAMS])
def test_the_examples_of(name):
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("flambeau"):
            raise
        pytest.skip(f"{error.name} is not installed")
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    names = {"torch": flambeau, "flambeau": flambeau, "np": np, **vars(module)}
    output: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=flags)
    for test in doctest.DocTestFinder().find(module, name, globs=names):
        flambeau.manual_seed(0)
        runner.run(test, out=output.append)
    assert not runner.failures, "".join(output)
