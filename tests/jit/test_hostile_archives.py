"""Archives that mislead or are damaged: a few of those of ``hostile_archives``, and each trick by itself."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import pytest
from hostile_archives import CANARY, DEFINITIONS, MEMBERS, STATEMENTS, Rewritten, archives_of_pytorch, attempt, run

import flambeau as torch
from flambeau.jit import _source
from flambeau.jit._serialization import take_state


@pytest.fixture(scope="module")
def archives() -> list[bytes]:
    return archives_of_pytorch()[:12]


def test_damaged_archives_run_nothing_and_end(archives: list[bytes]) -> None:
    assert 0 < run(60, 5, archives) < 60


def changed(edit: Any) -> Rewritten:
    archive = Rewritten(torch.jit.script(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())).save_to_buffer())
    name = archive.named("container.py")[0]
    archive.records[name] = edit(archive.records[name].decode()).encode()
    return archive


def shown(text: str) -> str:
    """A test's name, the same in every run."""
    return text.replace(CANARY, "made")[:80]


@pytest.mark.parametrize("statement", STATEMENTS, ids=shown)
def test_a_hostile_statement_is_refused_before_it_runs(statement: str) -> None:
    archive = changed(lambda text: text.replace("    return", f"    {statement}\n    return", 1))
    attempt(archive.bytes())
    try:
        loaded = torch.jit.load(io.BytesIO(archive.bytes()))
    except RuntimeError:
        return
    harmless = ("x = 10 ** 10", "x = 'a' *", "x = [0] *")  # arithmetic, which a call may do
    if not statement.startswith(harmless):
        with pytest.raises((RuntimeError, torch.jit.Error, AttributeError, TypeError, NameError, LookupError)):
            loaded(torch.ones(1, 2))


@pytest.mark.parametrize("member", MEMBERS, ids=shown)
def test_a_hostile_member_of_a_class_runs_nothing(member: str) -> None:
    attempt(changed(lambda text: text.replace("  training : bool\n", "  training : bool\n" + member, 1)).bytes())


@pytest.mark.parametrize("definition", DEFINITIONS, ids=shown)
def test_a_hostile_definition_is_refused(definition: str) -> None:
    assert not attempt(changed(lambda text: definition + text).bytes()) or definition.startswith(("def", "class", "import"))


def test_a_method_that_runs_while_loading_cannot_loop_or_compute() -> None:
    for body in (
        "while True:\n      pass", "x = torch.zeros([9])", "x = [i for i in range(9)]", "self.a = torch.mul(state, 2)", "x = 9 * 9",
        "x = -state", "(self).f()", "x = __torch__.torch.nn.modules.container.f()", "x = [1]\n    x += x", "del state[0]", "state[0] = 1",
        "x = state < state", "x = {state: 1}", "x = state[state]", "x = state[0:]", "x = isinstance(state, List[int])", "print(1)",
        "with state:\n      pass", "(x, (y, z)) = state", "def f():\n      pass",
    ):  # fmt: skip
        archive = changed(lambda text, body=body: f"{text}  def __setstate__(self, state: int):\n    {body}\n")
        with pytest.raises(RuntimeError, match="while the archive is loaded"):
            torch.jit.load(io.BytesIO(archive.bytes()))


@pytest.mark.parametrize(
    "body",
    ["torch.eq(state, state)", "torch.__getitem__(state, state)", "ops.prim.RaiseException(state)", "(state)[0].shape", "torch.len(self)"],
)
def test_what_a_method_gets_while_loading_is_not_computed_with(body: str) -> None:
    unit = torch.jit._unit.Unit()
    length = "  def __len__(self):\n    return 1\n"
    unit.add("__torch__.A", f"class A:\n{length}  def __setstate__(self, state: Tensor):\n    x = {body}\n")
    unit.loading = True
    with pytest.raises((torch.jit.Error, RuntimeError), match="while the archive is loaded"):
        take_state(unit.type("__torch__.A").make(), torch.ones(2))


def test_code_reaches_no_files(tmp_path: Path) -> None:
    for text in ("torch.from_file", "ops.aten.from_file", "(x).from_file"):
        unit = torch.jit.CompilationUnit(f"def f(x: Tensor, name: str):\n  return {text}(name, True, 8)\n")
        with pytest.raises((torch.jit.Error, TypeError), match="from_file"):
            unit.f(torch.ones(1), str(tmp_path / "a"))
    assert not list(tmp_path.iterdir())


def test_code_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    data = changed(lambda text: text + "def f():\n  pass\n").bytes()
    monkeypatch.setattr(_source, "CODE_BYTES", 100)
    with pytest.raises(RuntimeError, match="more than 100 bytes of code"):
        torch.jit.load(io.BytesIO(data))
    with pytest.raises(RuntimeError, match="brackets in each other"):
        _source.parse("def f():\n  x = " + "[" * 300 + "]" * 300, "f")


def test_names_of_modules_own_attributes_cannot_be_taken() -> None:
    archive = changed(lambda text: text.replace("  training : bool\n", "  training : bool\n  state_dict : int\n", 1))
    name = archive.named("/data.pkl")[0]
    archive.records[name] = archive.records[name].replace(
        b"X\x08\x00\x00\x00training", b"X\x0a\x00\x00\x00state_dictJ\x01\x00\x00\x00X\x08\x00\x00\x00training", 1
    )
    with pytest.raises(RuntimeError, match="one that every module has"):
        torch.jit.load(io.BytesIO(archive.bytes()))
    assigned = changed(lambda text: text.replace("  training : bool\n", "  training : bool\n  state_dict : int\n  _modules : int\n", 1))
    for word in ("state_dict", "_modules"):
        name = assigned.named("container.py")[0]
        again = Rewritten(assigned.bytes())
        again.records[name] = again.records[name].replace(b"    return", f"    self.{word} = 1\n    return".encode(), 1)
        with pytest.raises(AttributeError, match=word):
            torch.jit.load(io.BytesIO(again.bytes()))(torch.ones(1, 2))


def test_attributes_of_python_objects_are_out_of_reach() -> None:
    unit = torch.jit.CompilationUnit("def f(x: Tensor):\n  return x.shape\n")
    assert unit.f(torch.ones(2)) == [2]
    for text in ("x._array", "x.__class__", "x.tofile('a')", "'{0.__class__}'.format(x).a", "[].__class__", "x.untyped_storage()"):
        with pytest.raises((torch.jit.Error, RuntimeError)):
            torch.jit.CompilationUnit(f"def f(x: Tensor):\n  return {text}\n").f(torch.ones(2))
    formatted = torch.jit.CompilationUnit("def f(x: Tensor):\n  return '{0.__class__} {}'.format(1)\n")
    assert formatted.f(torch.ones(1)) == "{0.__class__} 1"


def test_the_program_draws_every_kind_of_change() -> None:
    archives = archives_of_pytorch()[:1]
    from hostile_archives import hostile

    draw = random.Random(0)
    assert len({hostile(archives, draw) for _ in range(40)}) > 35
    assert not Path(CANARY).exists()
