"""Scripting: what is refused and how, what a compiled function or module is, its code and graph, marks."""

from __future__ import annotations

import io
import zipfile
from collections import OrderedDict
from enum import Enum
from typing import Any, Final, NamedTuple

import pytest
from oracle import HAS_ORACLE, pytorch

import flambeau as torch
from flambeau import nn
from flambeau.jit.frontend import NotSupportedError, UnsupportedNodeError


def tries(x):
    try:
        return x
    except ValueError:
        return x


def calls_lambda(x):
    return (lambda y: y)(x)


def imports(x):
    import math

    return x * math.pi


def yields(x):
    yield x


def defines(x):
    def inner(y):
        return y

    return inner(x)


def has_set(x):
    return {1, 2}


def has_else(x):
    for _ in range(3):
        x = x + 1
    else:
        x = x - 1
    return x


def takes_any(x, *rest):
    return x


@pytest.mark.parametrize(
    ("function", "kind", "message"),
    [
        (tries, UnsupportedNodeError, "try blocks aren't supported"),
        (calls_lambda, UnsupportedNodeError, "Lambda aren't supported"),
        (imports, UnsupportedNodeError, "import statements aren't supported"),
        (yields, UnsupportedNodeError, "Yield aren't supported"),
        (defines, UnsupportedNodeError, "function definitions aren't supported"),
        (has_set, UnsupportedNodeError, "Set aren't supported"),
        (has_else, NotSupportedError, "else branches of for loops aren't supported"),
        (takes_any, NotSupportedError, "Compiled functions can't take variable number of arguments"),
    ],
)
def test_syntax_that_torchscript_lacks(function: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        torch.jit.script(function)
    assert "<--- HERE" in str(caught.value) and __file__ in str(caught.value)


def undefined(x):
    return unknown_name(x)  # noqa: F821


def half_defined(x):
    if x.sum() > 0:
        y = 1
    return y


def of_two_types(x, n: int):
    if n > 0:
        y = 1
    else:
        y = x
    return y


def no_method(x):
    return x.unknown_method()


def no_function(x):
    return torch.unknown_function(x)


def doubled(x):
    return x * 2


def given_a_number(n: int):
    return doubled(n)


def appends(x):
    parts = []
    parts.append(1)
    return parts


def adds_text(x):
    return x + "a"


def optional_operand(n: int | None):
    return n + 1


def chooses(x):
    return 1 if x else 2.0


def opens(x):
    return open("name")


LIMIT = 3


def closes_over(x):
    return x * LIMIT


def recurses(x):
    return recurses(x)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (undefined, "undefined value unknown_name"),
        (half_defined, r"y is not defined in the false branch"),
        (of_two_types, r"Type mismatch: y is set to type int in the true branch and type Tensor \(inferred\) in the false branch"),
        (no_method, r"'Tensor \(inferred\)' object has no attribute or method 'unknown_method'"),
        (no_function, "has no attribute unknown_function"),
        (given_a_number, r"Expected a value of type 'Tensor \(inferred\)' for argument 'x' but instead found type 'int'"),
        (appends, "previously matched to type Tensor is matched to type int"),
        (adds_text, "Expected a value of type 'Tensor' for argument 'other' but instead found type 'str'"),
        (optional_operand, r"Optional\[int\]"),
        (chooses, "true branch has type int but false branch has type float"),
        (opens, "Python builtin <built-in function open> is currently not supported in Torchscript"),
        (closes_over, "python value of type 'int' cannot be used as a value"),
        (recurses, "is called recursively. Recursive calls are not supported"),
    ],
)
def test_programs_that_mean_something_wrong(function: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        torch.jit.script(function)


class Attributes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.thing = object()

    def forward(self, x):
        return self.thing


class Missing(nn.Module):
    def forward(self, x):
        return self.nowhere


class Sets(nn.Module):
    def forward(self, x):
        self.fresh = 3
        return x


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (Attributes, "Module 'Attributes' has no attribute 'thing' .*failed to convert Python type: 'object'"),
        (Missing, "Module 'Missing' has no attribute 'nowhere'"),
        (Sets, "Tried to set nonexistent attribute: fresh"),
    ],
)
def test_attributes_that_modules_lack(module: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        torch.jit.script(module())


def test_what_is_neither_function_nor_module() -> None:
    for thing in (3, "a", None):
        with pytest.raises(TypeError, match="is a built-in class"):
            torch.jit.script(thing)
    assert torch.jit.script([1]) == [1]
    with pytest.raises(RuntimeError, match="cannot be compiled since it inherits from nn.Module"):
        torch.jit.script(nn.Linear)
    with pytest.raises(AttributeError, match="has no attribute 'save'"):
        torch.jit.save(nn.Linear(1, 1), io.BytesIO())


def looped(x, n: int = 2):
    for i in range(n):
        if i > 0:
            x = x + i
    return x


def test_a_compiled_function_shows_its_code_and_graph() -> None:
    compiled = torch.jit.script(looped)
    assert isinstance(compiled, torch.jit.ScriptFunction) and compiled.name == "looped" and torch.jit.script(compiled) is compiled
    assert "def looped(x: Tensor,\n      n: int=2) -> Tensor:" in compiled.code and "for i in range(n):" in compiled.code
    assert [node.kind() for node in compiled.graph.nodes()][-1] == "prim::Loop"
    assert len(compiled.graph.findAllNodes("prim::If")) == 1 and compiled.graph.findNode("aten::add") is not None
    assert str(compiled.schema) == "looped(Tensor x, int n=2) -> Tensor"
    assert compiled(torch.ones(1), 3).item() == 4
    with pytest.raises(RuntimeError, match="cannot be pickled"):
        compiled.__reduce_ex__(2)


class Layer(nn.Module):
    count: Final[int]

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.count = 2
        self.seen: list[int] = [1]
        self.table: dict[str, int] = {"a": 1}

    @torch.jit.export
    def twice(self, x):
        return 2 * x

    @torch.jit.ignore
    def plain(self, x) -> int:
        return len(repr(x))

    def forward(self, x):
        if torch.jit.is_scripting():
            x = x + 1
        return self.linear(x) * self.count


def test_a_compiled_module_is_the_module_in_another_form() -> None:
    module = Layer()
    compiled = torch.jit.script(module)
    x = torch.ones(1, 2)
    assert compiled.linear.weight is module.linear.weight and compiled.original_name == "Layer"
    assert isinstance(compiled, torch.jit.RecursiveScriptModule) and isinstance(compiled.linear, torch._C.ScriptModule)
    assert torch.equal(compiled(x), module(x + 1)), "is_scripting() holds in compiled programs"
    assert compiled.twice(x).tolist() == [[2, 2]] and compiled.plain(x) == module.plain(x) and compiled.count == 2
    compiled.eval()
    assert not compiled.training and not compiled.linear.training and module.training
    compiled(x).sum().backward()
    assert module.linear.weight.grad is not None
    assert "prim::CallMethod" in str(compiled.graph) and "aten::linear" in str(compiled.inlined_graph)
    assert list(compiled.state_dict()) == list(module.state_dict())
    copied = compiled.copy()
    assert copied.linear.weight is compiled.linear.weight
    loaded = torch.jit.load(io.BytesIO(compiled.save_to_buffer()))
    assert loaded.seen == [1] and loaded.table == {"a": 1} and loaded.count == 2 and torch.equal(loaded.twice(x), 2 * x)


class CallsPython(nn.Module):
    @torch.jit.ignore
    def python(self, x) -> torch.Tensor:
        return x + len(repr(x))

    @torch.jit.unused
    def never(self, x) -> torch.Tensor:
        return x

    def forward(self, x, way: bool):
        return self.python(x) if way else self.never(x)


def test_what_stays_python_runs_but_is_not_saved() -> None:
    compiled = torch.jit.script(CallsPython())
    assert compiled(torch.ones(1), True).item() > 1
    with pytest.raises(RuntimeError, match="Could not export Python function call 'python'"):
        compiled.save_to_buffer()


class Color(Enum):
    RED = 1
    BLUE = 2


def colored(x, color: Color):
    if color == Color.RED:
        return x + Color.RED.value
    return x


def test_enumerations() -> None:
    compiled = torch.jit.script(colored)
    assert compiled(torch.zeros(1), Color.RED).item() == 1 and "(Enum)" in "".join(compiled._script_unit.texts.values())


def commented(x, n):
    # type: (Tensor, int) -> Tuple[Tensor, int]
    return x * n, n


@torch.jit.script
class Counter:
    def __init__(self, start: int) -> None:
        self.start, self.items = start, torch.jit.annotate(list[int], [])

    def add(self, item: int) -> int:
        self.items.append(item)
        return self.total

    @property
    def total(self) -> int:
        return self.start + sum(self.items)

    def __add__(self, other: Counter) -> int:
        return self.total + other.total


class Pair(NamedTuple):
    first: torch.Tensor
    second: int = 3


def uses_classes(x: torch.Tensor, n: int):
    counter, other = Counter(n), Counter(1)
    counter.add(4)
    pair = Pair(x, second=counter.total)
    sizes = (n, *(2, 3))
    named = OrderedDict(one=x, two=x + 1)
    return counter + other, counter.add(5), pair.first * pair.second, Pair(x).second, sizes, named["two"], torch.sum(input=x, dim=0)


def test_classes_with_properties_operators_and_defaults_come_back() -> None:
    x = torch.tensor([1.0, 2.0])
    compiled = torch.jit.script(uses_classes)
    file = io.BytesIO(compiled.save_to_buffer())
    found = torch.jit.load(file)(x, 2)
    for got in (compiled(x, 2), found):
        assert [got[0], got[1], got[3], got[4]] == [7, 11, 3, (2, 2, 3)]
        assert got[2].tolist() == [6.0, 12.0] and got[5].tolist() == [2.0, 3.0] and got[6].item() == 3
    if HAS_ORACLE:
        real = pytorch()
        theirs = real.jit.load(io.BytesIO(compiled.save_to_buffer()))(real.tensor([1.0, 2.0]), 2)
        assert theirs[:2] == (7, 11) and theirs[2].tolist() == [6.0, 12.0] and theirs[3:5] == (3, (2, 2, 3))


def repeats(s: str) -> str:
    return s * 2


def inverts(n: int) -> int:
    return ~n


def adds_text(x: torch.Tensor) -> torch.Tensor:
    return torch.add(x, "a")


def guesses(x, y=3):  # type: ignore[no-untyped-def]
    return x + y


def returns_two_kinds(n: int):  # type: ignore[no-untyped-def]
    if n > 1:
        return 1
    return "one"


@pytest.mark.parametrize("function", [repeats, inverts, adds_text, guesses, returns_two_kinds])
def test_what_pytorch_refuses_is_refused(function: Any) -> None:
    with pytest.raises(RuntimeError):
        torch.jit.script(function)
    if HAS_ORACLE and function is not adds_text:  # which names this library
        with pytest.raises(RuntimeError):
            pytorch().jit.script(function)


def test_types_in_comments() -> None:
    assert "n: int) -> Tuple[Tensor, int]" in torch.jit.script(commented).code
    assert tuple is not None


def test_text_with_definitions() -> None:
    unit = torch.jit.CompilationUnit("def half(x):\n  return torch.div(x, 2)\ndef quarter(x):\n  return half(half(x))\n")
    assert unit.quarter(torch.ones(1)).item() == 0.25
    with pytest.raises(AttributeError):
        unit.third(torch.ones(1))


class Fails(nn.Module):
    def forward(self, x):
        with torch.no_grad():
            y = x.view(3, 5)
        return y

    @torch.jit.export
    def other(self, x):
        return self.forward(x)


def test_an_exception_in_code_leaves_grad_mode_as_it_was() -> None:
    loaded = torch.jit.load(io.BytesIO(torch.jit.script(Fails()).save_to_buffer()))
    for run in (loaded, loaded.other):
        with pytest.raises(RuntimeError, match="shape|size|view"):
            run(torch.ones(2))
        assert torch.is_grad_enabled()
    assert loaded.other(torch.ones(15)).shape == (3, 5)


def test_several_tensors_are_a_list_in_code() -> None:
    for call in ("torch.hsplit(x, 2)", "(x).hsplit(2)", "torch.where(x)", "torch.chunk(x, 2)", "(x).unbind(1)", "torch.atleast_1d([x, x])"):
        unit = torch.jit.CompilationUnit(f"def f(x: Tensor) -> List[Tensor]:\n  xs = {call}\n  (xs).append(x)\n  return xs\n")
        found = unit.f(torch.ones(2, 2))
        assert type(found) is list and len(found) == 3, call


def test_old_modules_with_marked_methods() -> None:
    class Old(torch.jit.ScriptModule):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

        @torch.jit.script_method
        def forward(self, x):
            return x * self.weight

    old = Old()
    assert old(torch.ones(2)).tolist() == [1, 1] and "self.weight" in torch.jit.script(old).code


def test_hooks_are_refused() -> None:
    module = nn.Linear(1, 1)
    module.register_forward_hook(lambda *args: None)
    with pytest.raises(NotImplementedError, match="hooks"):
        torch.jit.script(module)


def test_frozen_modules_have_constants_for_parameters() -> None:
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Dropout())
    x = torch.ones(2, 2)
    with pytest.raises(RuntimeError, match="eval mode"):
        torch.jit.freeze(torch.jit.script(module))
    with pytest.raises(RuntimeError, match="expects a ScriptModule"):
        torch.jit.freeze(module)
    for compiled in (torch.jit.script(module.eval()), torch.jit.trace(module.eval(), x)):
        frozen = torch.jit.freeze(compiled)
        assert not list(frozen.parameters()) and torch.equal(frozen(x), module(x))
        assert torch.equal(torch.jit.load(io.BytesIO(frozen.save_to_buffer()))(x), module(x))
        assert torch.equal(torch.jit.optimize_for_inference(compiled)(x), module(x))


def test_switches_say_what_pytorchs_do() -> None:
    with pytest.warns(UserWarning, match="Only works in script mode"):
        torch.jit.strict_fusion()
    with pytest.raises(ValueError, match="FusionBehavior only supported"):
        torch.jit.set_fusion_strategy([("OFTEN", 1)])
    with pytest.warns(FutureWarning, match="drop_on_export"):
        dropped = torch.jit.ignore(drop_on_export=True)(looped)
    assert dropped._torchscript_modifier == torch.jit.unused(looped)._torchscript_modifier
    del looped._torchscript_modifier
    with pytest.raises(TypeError, match="unexpected keyword argument 'name'"):
        torch.jit.ignore(name=1)


def test_forks_are_futures() -> None:
    future = torch.jit.fork(looped, torch.ones(1), 3)
    assert isinstance(future, torch.jit.Future) and torch.jit.wait(future).item() == 4


def test_files_beside_the_code(tmp_path: Any) -> None:
    path = tmp_path / "model.pt"
    torch.jit.save(torch.jit.script(nn.ReLU()), path, _extra_files={"note.txt": "hello"})
    extra = {"note.txt": "", "absent": "before"}
    torch.jit.load(str(path), map_location="cpu", _extra_files=extra)
    assert extra == {"note.txt": b"hello", "absent": b""}
    with pytest.raises(TypeError, match="expected str or bytes for the further file 'a', got int"):
        torch.jit.save(torch.jit.script(nn.ReLU()), io.BytesIO(), _extra_files={"a": 3})
    with pytest.raises(NotImplementedError, match="_restore_shapes"):
        torch.jit.load(str(path), _restore_shapes=True)
    for place, message in ((tmp_path / "nowhere" / "a.pt", "Parent directory .*nowhere does not exist"), (tmp_path, "got the directory")):
        with pytest.raises(RuntimeError, match=message):
            torch.jit.save(torch.jit.script(nn.ReLU()), place)
    with pytest.raises(ValueError, match="does not exist"):
        torch.jit.load(str(tmp_path / "nowhere.pt"))
    with pytest.raises(ValueError, match="map_location should be"):
        torch.jit.load(str(path), map_location=3)
    with pytest.warns(UserWarning, match="TorchScript archive"):
        assert torch.load(path, weights_only=False)(-torch.ones(1)).item() == 0


def test_powers_and_rounding_of_numbers_in_archives_are_floats() -> None:
    def numbers(n: int, x: float, y: torch.Tensor) -> tuple[float, float, float, float, torch.Tensor]:
        return n**2, n**-1, x**0.5, round(x), y**2

    torch.jit.save(torch.jit.script(numbers), file := io.BytesIO())
    file.seek(0)
    loaded = torch.jit.load(file)
    *found, squares = loaded(3, 2.5, torch.tensor([3]))
    assert repr(found) == repr([9.0, 1 / 3, 2.5**0.5, 2.0]) and squares.tolist() == [9] and squares.dtype == torch.int64
    assert repr(loaded(-10, -1.0, torch.ones(1))[:3]) == "(100.0, -0.1, nan)"
    with pytest.raises(RuntimeError, match="cannot be raised to a negative power"):
        loaded(0, 1.0, torch.ones(1))


def _spectrum(x: torch.Tensor) -> torch.Tensor:
    return torch.stft(x, 8, 2, window=torch.ones(8), return_complex=True)


def _runs(x: torch.Tensor) -> torch.Tensor:
    return torch.unique_consecutive(x)


def _cast(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x[:, None].bool(), (x * 2).bfloat16()


def test_casts_that_archives_have_no_method_for_are_conversions() -> None:
    file = io.BytesIO()
    scripted = torch.jit.script(_cast)
    torch.jit.save(scripted, file)
    assert ".bool" not in scripted.code and scripted.code.count(".to(") == 2
    x = torch.tensor([[0.0, 1.5]])
    for found, wanted in zip(torch.jit.load(io.BytesIO(file.getvalue()))(x), _cast(x), strict=True):
        assert found.dtype is wanted.dtype and torch.equal(found, wanted)


def _causal(x: torch.Tensor) -> torch.Tensor:
    return nn.Transformer.generate_square_subsequent_mask(x.shape[0])


def test_masks_of_transformers_have_types_that_pytorch_takes() -> None:
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(_causal), file)
    with zipfile.ZipFile(io.BytesIO(file.getvalue())) as archive:
        text = " ".join(archive.read(entry).decode() for entry in archive.namelist() if entry.endswith("transformer.py"))
    assert "device: Optional[Device]=None" in text and "dtype: Optional[int]=None" in text
    assert torch.equal(torch.jit.load(io.BytesIO(file.getvalue()))(torch.ones(4)), _causal(torch.ones(4)))


@pytest.mark.parametrize(("function", "name"), [(_spectrum, "stft"), (_runs, "unique_consecutive")])
def test_functions_whose_kernels_do_otherwise_are_written_as_functions(function: Any, name: str) -> None:
    """PyTorch's kernel ``stft`` has no ``center``, and its ``unique_consecutive`` returns three tensors."""
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(function), file)
    with zipfile.ZipFile(io.BytesIO(file.getvalue())) as archive:
        texts = [archive.read(entry).decode() for entry in archive.namelist() if entry.endswith(".py")]
    assert any(f"__torch__.torch.nn.functional.{name}(" in text for text in texts)
    x = torch.tensor([1.0, 1.0, 2.0, 3.0, 3.0, 1.0, 0.0, 5.0, 5.0, 2.0])
    loaded = torch.jit.load(io.BytesIO(file.getvalue()))
    assert torch.equal(_real(loaded(x)), _real(function(x)))


def _real(x: Any) -> Any:
    return torch.view_as_real(x) if x.is_complex() else x
