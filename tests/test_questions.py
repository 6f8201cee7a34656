"""Functions that are given a question in front: only where their source is what they were made of."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from flambeau.core.calls.questions import _with_question

SOURCE = '''
class Number:
    def doubled(self, value):
        """Twice the value."""
        return value * 2


def outer(value):
    def tripled():
        return value * 3

    return tripled
'''
QUESTION = ["m = 7 if asked else None", "if m is not None: return m"]


def functions(path: Path) -> tuple[Any, Any]:
    spec = importlib.util.spec_from_file_location("asked_functions", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.asked = True  # type: ignore[attr-defined]
    return module.Number.doubled, module.outer(5)


def test_a_function_answers_its_question(tmp_path: Path) -> None:
    path = tmp_path / "asked_functions.py"
    path.write_text(SOURCE)
    for function, arguments, answer in zip(functions(path), ((None, 4), ()), (8, 15), strict=True):
        code = _with_question(function, QUESTION)
        assert code is not None
        function.__code__ = code
        assert function(*arguments) == 7
        function.__globals__["asked"] = False
        assert function(*arguments) == answer
        function.__globals__["asked"] = True


@pytest.mark.parametrize(
    "edited",
    [
        b"",
        b"\n\n" + b'    """of several lines, which never end\n' * 9,
        b"\n\n    value = 3\n    value = 4\n" * 4,
        b"\n\n    (\n" * 4,
        b"\n\n    value = 1\0\n" * 4,
        b"# \xff, which is no UTF-8\n" + SOURCE.encode(),
        SOURCE.replace("* 2", "* 4").replace("* 3", "* 4").encode(),
        SOURCE.replace("* 2", "+ 2").replace("* 3", "+ 3").encode(),
        SOURCE.replace("doubled", "trebled").replace("tripled", "doubled").encode(),
    ],
    ids=["empty", "text", "statements", "open", "null", "encoding", "constants", "operators", "names"],
)
def test_a_function_whose_file_was_edited_stays_as_it_is(tmp_path: Path, edited: bytes) -> None:
    path = tmp_path / "asked_functions.py"
    path.write_text(SOURCE)
    made = functions(path)
    path.write_bytes(edited)
    assert [_with_question(function, QUESTION) for function in made] == [None, None]
