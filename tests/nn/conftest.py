"""Running one program on flambeau and on real PyTorch, and comparing everything that it returned."""

from __future__ import annotations

import re
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

import flambeau

_MODULE_PATHS = re.compile(r"(torch|flambeau)\.nn\.(modules\.)?[a-z_]+\.(?=[A-Z_])")
_ADDRESSES = re.compile(r"0x[0-9a-f]+")


def _plain(value: Any) -> Any:
    """``value`` in terms that do not depend on the library: tensors as dtype, shape and numbers, modules as they print.

    A function is called, and stands for what it returned or raised; so a program returns a list of lambdas to try several things.
    """
    if isinstance(value, types.LambdaType):
        return _outcome(value)
    if hasattr(value, "detach") and hasattr(value, "dtype"):
        numbers = value.detach().tolist()
        return ["tensor", str(value.dtype), list(value.shape), value.requires_grad, repr(numbers)]
    if isinstance(value, str):
        return _ADDRESSES.sub("0x", _MODULE_PATHS.sub("nn.", value))
    if value is None or isinstance(value, (bool, int, float)):
        return repr(value)
    if isinstance(value, Mapping):
        return ["mapping", [[_plain(key), _plain(item)] for key, item in value.items()]]
    if isinstance(value, (set, frozenset)):
        return ["set", sorted(repr(_plain(item)) for item in value)]
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return [type(value).__name__, [_plain(item) for item in value]]
    if isinstance(value, (Iterator, type({}.keys()), type({}.values()), type({}.items()))):
        return ["iterable", [_plain(item) for item in value]]
    return _plain(repr(value))


def _outcome(program: Callable[..., Any], *args: Any) -> Any:
    try:
        return _plain(program(*args))
    except Exception as error:
        return ["raised", type(error).__name__, _plain(str(error))]


def _first_difference(got: Any, expected: Any, path: str = "") -> str:
    """Where two outcomes part, in words."""
    if isinstance(got, list) and isinstance(expected, list) and len(got) == len(expected):
        for position, (mine, theirs) in enumerate(zip(got, expected)):
            if mine != theirs:
                return _first_difference(mine, theirs, f"{path}[{position}]")
    return f"at {path}:\n  got      {got!r}\n  expected {expected!r}"


@pytest.fixture
def same(of_pytorch: Callable[..., Any]) -> Callable[[Callable[[Any], Any]], None]:
    """Assert that a program, a function of the library, has the same outcome with both, starting from one seed."""

    def run(program: Callable[[Any], Any]) -> None:
        def seeded(oracle: Any) -> Any:
            oracle.manual_seed(0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return _outcome(program, oracle)

        flambeau.manual_seed(0)
        got = _outcome(program, flambeau)
        expected = of_pytorch(seeded)
        assert got == expected, _first_difference(got, expected)
        assert got[0] != "raised", f"the program itself failed: {got}"

    return run
