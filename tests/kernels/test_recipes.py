"""Loading machine code without writing its text: by names of what it points to, as long as the sources are the same."""

from __future__ import annotations

import math
import sys
import threading
from types import CodeType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from flambeau.core.calls import machine_calls
from flambeau.core.settings import settings
from flambeau.core.tensor import Tensor
from flambeau.kernels.compiler import cache, image
from flambeau.kernels.fastpath import code, interpreter, kept_codes, recipes, start

try:
    interpreter.interpreter()
except interpreter.Unsupported as error:
    pytest.skip(f"no machine code of fast paths here: {error}", allow_module_level=True)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache of its own."""
    monkeypatch.setattr(cache, "directory", lambda: str(tmp_path))
    monkeypatch.setattr(machine_calls, "IMPORTED", math.inf)  # whoever edits sources while tests run
    return tmp_path


def small(here: code.Code) -> str:
    """Writes a function that has one object and one function in the table."""
    here.functions["small"] = f"define i64 @small() {{ ret i64 {here.object(Tensor) + 100 * here.function('Py_DecRef')} }}"
    return "small"


def unwritable(here: code.Code) -> str:
    raise AssertionError("the text was written once more")


def test_everything_in_the_table_of_operations_has_a_name() -> None:
    here = code.Code()
    for write in start._FORMS:
        write(here)
    for kind, thing, *_ in here._kinds:
        if kind != code._FUNCTION:
            found = recipes.named(recipes.name_of(thing))
            assert found is thing or (type(thing) in (tuple, str) and found == thing), thing


def test_names_are_found_while_threads_import(monkeypatch) -> None:
    module, ended = ModuleType("flambeau.A"), threading.Event()  # which is searched before others

    def grow() -> None:
        while not ended.is_set():
            for number in range(1000):
                setattr(module, f"member{number}", 1)
            for number in range(1000):
                delattr(module, f"member{number}")

    before, thread = sys.getswitchinterval(), threading.Thread(target=grow)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    sys.setswitchinterval(1e-5)
    thread.start()
    try:
        for _ in range(300):
            assert recipes.name_of(machine_calls.exchanged)
    finally:
        ended.set()
        thread.join()
        sys.setswitchinterval(before)


def test_text_is_written_once(folder, monkeypatch) -> None:
    names, addresses = code.loaded("tests", [small])
    assert names == ["small"] and len(list(folder.glob("*.image"))) == 2
    again, elsewhere = code.loaded("tests", [unwritable])
    assert again == names and elsewhere["small"] != addresses["small"]
    for changed in ("FLAMBEAU_KERNELS_FROM", "FLAMBEAU_OTHER"):
        monkeypatch.setenv(changed, "3")
        with pytest.raises(AssertionError, match="once more"):
            code.loaded("tests", [unwritable])


@pytest.mark.parametrize("changed", [{"st_size": 1}, {"st_mtime_ns": 1}, {"st_ctime_ns": 1}])
def test_any_change_of_a_source_is_seen(changed, monkeypatch) -> None:
    first = next(recipes._all_files())
    states = {name: getattr(first.stat(), name) for name in ("st_size", "st_mtime", "st_ctime", "st_mtime_ns", "st_ctime_ns")}

    def state(**other: int) -> str | None:
        entry = SimpleNamespace(path=first.path, stat=lambda: SimpleNamespace(**states | other))
        monkeypatch.setattr(recipes, "_all_files", lambda: iter([entry]))
        return recipes.sources()

    assert None is not state() == state() != state(**changed)


def test_nothing_is_compiled_unless_it_may_be(monkeypatch) -> None:
    monkeypatch.setattr(start, "_FORMS", (unwritable,))
    monkeypatch.setattr(start.switch, "on", True)
    assert start.start(compiles=False) is False


def exchanged_in_a_block(made_of: Any) -> list[int]:
    """List what is compiled in a block in which one code is exchanged."""
    compiled = []

    def compiled_now() -> CodeType:
        compiled.append(made_of)
        return compile("1", "kept", "eval")

    with kept_codes.kept_codes():
        assert eval(machine_calls.kept(made_of, compiled_now)) == 1
    return compiled


def test_codes_are_compiled_once(folder, monkeypatch) -> None:
    first, second = "def one(): pass", ("file.py", "m = asked()", compile("1", "kept", "eval"))
    assert [exchanged_in_a_block(made_of) for made_of in (first, second)] == [[first], [second]]
    assert [exchanged_in_a_block(made_of) for made_of in (first, second)] == [[], []]
    assert exchanged_in_a_block((*second[:2], compile("2", "kept", "eval")))
    (path,) = folder.glob("*.image")
    path.write_bytes(image.sealed(0, b"no codes"))
    assert exchanged_in_a_block(first) == [first] and exchanged_in_a_block(first) == []
    monkeypatch.setattr(kept_codes, "MOST", 1)
    assert exchanged_in_a_block(second) == [second] and exchanged_in_a_block(first) == [first]  # the new ones alone are kept
    monkeypatch.setattr(recipes, "sources", lambda: None)
    assert exchanged_in_a_block(first) == exchanged_in_a_block(first) == [first]


def test_without_the_image_or_the_sources_it_is_written_again(folder, monkeypatch) -> None:
    code.loaded("tests", [small])
    largest = max(folder.glob("*.image"), key=lambda path: path.stat().st_size)
    largest.unlink()
    assert code.loaded("tests", [small])[0] == ["small"] and largest.exists()
    monkeypatch.setattr(recipes, "sources", lambda: None)
    with pytest.raises(AssertionError, match="once more"):
        code.loaded("tests", [unwritable])


def test_sources_that_were_changed_since_the_import_have_no_recipe(folder, monkeypatch) -> None:
    code.loaded("tests", [small])
    monkeypatch.setattr(machine_calls, "IMPORTED", max(entry.stat().st_ctime for entry in recipes._all_files()))
    with pytest.raises(AssertionError, match="once more"):
        code.loaded("tests", [unwritable])
    code.loaded("others", [small])
    assert len(list(folder.glob("*.image"))) == 2


@pytest.mark.parametrize("content", [image.sealed(0, b"\xff\x00 no text"), image.sealed(0, b"{}"), b""])
def test_what_is_no_recipe_is_not_followed(folder, content) -> None:
    code.loaded("tests", [small])
    (recipe,) = (path for path in folder.glob("*.image") if b'"image"' in path.read_bytes())
    told = recipe.read_bytes()
    recipe.write_bytes(content)
    assert code.loaded("tests", [small])[0] == ["small"] and recipe.read_bytes() == told


def test_what_has_no_name_has_no_recipe(folder) -> None:
    def write(here: code.Code) -> str:
        here.functions["other"] = f"define i64 @other() {{ ret i64 {here.object(object())} }}"
        return "other"

    code.loaded("tests", [write])
    assert len(list(folder.glob("*.image"))) == 1


@pytest.mark.parametrize(
    "thing", [None, ..., True, 3, "text", (1, 0), (), np.dtype("float32"), dict, type(None), machine_calls.exchanged, vars(settings)]
)
def test_names_lead_back(thing) -> None:
    found = recipes.named(recipes.name_of(thing))
    assert found is thing or found == thing != []


def test_a_name_of_nothing_is_an_error() -> None:
    with pytest.raises(LookupError):
        recipes.named("flambeau.core.tensor:Nothing")
