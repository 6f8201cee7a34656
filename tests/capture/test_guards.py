"""``torch.compile``: what is looked at before a program is replayed, and what is never replayed."""

from __future__ import annotations

import argparse
import array
import collections
import contextlib
import contextvars
import functools
import gc
import itertools
import operator
import os
import sys
import threading
import types
import weakref
from typing import Any

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from tests.capture.agreement import agree, programs


@pytest.fixture(autouse=True)
def _from_the_beginning() -> None:
    torch.manual_seed(0)


# -- what is looked at before each call ------------------------------------------------------------------------------------------
SCALE = 2.0
OPTIONS = {"shift": 1.0}


class Config:
    bias = 0.5

    def __init__(self) -> None:
        self.power = 2
        self.unused = 0


CONFIG = Config()


def test_globals_closures_and_attributes_are_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    local = 1

    def function(x: Any) -> Any:
        return x.abs() ** CONFIG.power * SCALE + OPTIONS["shift"] + local

    compiled = torch.compile(function)
    x = torch.randn(3)

    def check() -> None:
        for _ in range(2):
            assert torch.equal(compiled(x), function(x))

    check()
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 3.0)
    check()
    monkeypatch.setitem(OPTIONS, "shift", 7.0)
    check()
    monkeypatch.setattr(CONFIG, "power", 3)
    check()
    local = 5
    check()
    count = len(programs(compiled))
    CONFIG.unused += 1  # no code names it
    check()
    assert len(programs(compiled)) == count == 5


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm, self.scale = nn.Linear(3, 3), nn.BatchNorm1d(3), 2.0

    def forward(self, x: Any) -> Any:
        return F.dropout(self.norm(self.layer(x)), 0.5, self.training) * self.scale


def test_changes_of_modules_are_noticed() -> None:
    model = Scaled()
    compiled = torch.compile(model)
    x = torch.randn(4, 3)

    def check(**changes: Any) -> None:
        for _ in range(2):
            state = {key: value.clone() for key, value in model.state_dict().items()}
            torch.manual_seed(3)
            want = model(x)
            model.load_state_dict(state)
            torch.manual_seed(3)
            assert torch.allclose(compiled(x), want, rtol=1e-5, atol=1e-6), changes

    check()
    model.eval()
    check(training=False)
    model.train()
    check(training=True)
    model.scale = 3.0
    check(scale=3)
    model.layer.weight = nn.Parameter(torch.randn(3, 3))
    check(parameter="another")
    model.layer.weight.data = torch.randn(3, 3)
    check(data="other memory")
    model.layer = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    check(layer="another")
    handle = model.norm.register_forward_hook(lambda module, args, result: result + 1)
    check(hook=True)
    handle.remove()
    check(hook=False)
    with torch.no_grad():
        model.scale = 1.0
        for parameter in model.parameters():
            parameter.add_(1)
        check(values="in place")


def test_calls_with_other_parameters() -> None:
    model, x = nn.Linear(2, 2), torch.ones(1, 2)
    compiled = torch.compile(model)
    zeros = {f"_orig_mod.{name}": torch.zeros_like(parameter) for name, parameter in model.named_parameters()}
    for _ in range(3):
        assert torch.equal(compiled(x), model(x))
        assert not torch.func.functional_call(compiled, zeros, (x,)).any()
    inside = torch.compile(lambda parameters, x: torch.func.functional_call(model, parameters, (x,)))
    for value in (1.0, 2.0, 3.0):
        given = {name: torch.full_like(parameter, value) for name, parameter in model.named_parameters()}
        assert torch.equal(inside(given, x), torch.full((1, 2), 3 * value))
    assert len(programs(inside)) == 1


def test_grad_mode_and_requires_grad_are_part_of_the_guard() -> None:
    weight = torch.randn(3, requires_grad=True)
    compiled = torch.compile(lambda x: x * weight)
    x = torch.randn(3)
    for _ in range(2):
        assert compiled(x).requires_grad
        with torch.no_grad():
            assert not compiled(x).requires_grad
        with torch.inference_mode():
            assert compiled(x).is_inference()
    weight.requires_grad_(False)
    assert not compiled(x).requires_grad
    assert compiled(x.clone().requires_grad_()).requires_grad


def test_guards_of_a_module_of_a_hundred_parameters_are_cheap() -> None:
    import time

    model = nn.Sequential(*[nn.Linear(2, 2) for _ in range(50)]).eval()
    compiled = torch.compile(model)
    x = torch.randn(1, 2)
    with torch.no_grad():
        compiled(x)
        program = programs(compiled)[0]
        best = float("inf")
        for _ in range(20):
            start = time.perf_counter()
            for _ in range(100):
                program.fits((x,), {})
            best = min(best, time.perf_counter() - start)
    assert best / 100 < 6e-6, "2 microseconds where nothing else runs"


def test_zeros_of_both_signs_are_two_numbers() -> None:
    global SIGNED
    compiled = torch.compile(lambda x, zero: torch.copysign(x, torch.tensor(zero)) + torch.copysign(x, torch.tensor(SIGNED)))
    for i in range(8):
        zero, SIGNED = (0.0, -0.0)[i % 2], (0.0, -0.0)[i // 2 % 2]
        assert compiled(torch.ones(1), zero).item() == (1 - 2 * (i % 2)) + (1 - 2 * (i // 2 % 2))


def test_modules_that_a_function_imports_itself_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("imported_by_the_function")
    module.factor = 2.0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def function(x: Any) -> Any:
        import os

        from imported_by_the_function import factor

        return x * factor * float(os.environ.get("FLAMBEAU_TEST_FACTOR", "1"))

    compiled = torch.compile(function)
    for _ in range(4):
        assert compiled(torch.ones(1)).item() == 2
    module.factor = 3.0  # type: ignore[attr-defined]
    assert compiled(torch.ones(1)).item() == 3
    monkeypatch.setenv("FLAMBEAU_TEST_FACTOR", "5")
    assert compiled(torch.ones(1)).item() == 15


def test_containers_of_modules_tell_of_what_goes() -> None:
    layers = torch.nn.ModuleList([torch.nn.Linear(2, 2) for _ in range(3)])
    named = torch.nn.ModuleDict({"a": torch.nn.Linear(2, 2), "b": torch.nn.Linear(2, 2)})

    def function(x: Any) -> Any:
        for layer in (*layers, *named.values()):
            x = layer(x)
        return x

    compiled, x = torch.compile(function), torch.randn(2, 2)
    changes = [lambda: layers.pop(0), lambda: layers.insert(0, torch.nn.Tanh()), lambda: named.pop("a"), named.clear]
    for change in (lambda: None, lambda: None, *changes):
        change()
        torch.testing.assert_close(compiled(x), function(x), rtol=1e-5, atol=1e-6)


def test_arguments_that_share_memory_are_not_taken_for_others() -> None:
    def function(x: Any, y: Any) -> Any:
        x.add_(1)
        return x + y

    compiled = torch.compile(function)
    base = torch.zeros(4)
    for pair in ((torch.zeros(2), torch.zeros(2)), (base[:2], base[2:]), (base[:2], base[:2]), (base[:2], base[1:3])):
        for _ in range(2):
            mine, theirs = [each.clone() for each in pair], None
            root = base.clone()
            if pair[0]._base is base:
                mine = [root[each.storage_offset() : each.storage_offset() + 2] for each in pair]
            got = compiled(*mine)
            root = base.clone()
            theirs = [each.clone() for each in pair]
            if pair[0]._base is base:
                theirs = [root[each.storage_offset() : each.storage_offset() + 2] for each in pair]
            assert torch.equal(got, function(*theirs))
    w = nn.Parameter(torch.ones(2))
    doubled = torch.compile(lambda x: x * 2 + w.detach())
    assert torch.equal(doubled(w.detach()), torch.full((2,), 3.0)) and torch.equal(doubled(torch.zeros(2)), torch.ones(2))


def test_limits_of_programs() -> None:
    compiled = torch.compile(lambda x: x * 2, recompile_limit=3, dynamic=False)
    for n in range(1, 8):
        assert torch.equal(compiled(torch.ones(n)), torch.full((n,), 2.0))
    assert len(programs(compiled)) == 3
    strict = torch.compile(lambda x: x * 2, recompile_limit=1, fullgraph=True)
    strict(torch.ones(1))
    with pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit):
        strict(torch.ones(2))
    torch.compiler.reset()
    assert not programs(compiled)


# -- what runs as it is written ---------------------------------------------------------------------------------------------------
def test_side_effects_of_python_happen_in_every_call(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Any] = []

    def appending(x: Any) -> Any:
        seen.append(x.sum())
        return x + 1

    def printing(x: Any) -> Any:
        print("called")
        return x + 1

    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.count = 0

        def forward(self, x: Any) -> Any:
            self.count += 1
            return x + self.count

    for function in (appending, printing):
        compiled = torch.compile(function)
        for _ in range(4):
            compiled(torch.ones(2))
    assert len(seen) == 4 and capsys.readouterr().out == "called\n" * 4
    model = Counting()
    compiled = torch.compile(model)
    assert [compiled(torch.zeros(1)).item() for _ in range(5)] == [1, 2, 3, 4, 5] and model.count == 5


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + float(np.asarray(x.numpy()).sum()),
        lambda x: x + np.random.rand(),
        lambda x: x + torch.from_numpy(np.ones(3, np.float32)),
        lambda x: torch.compiler.disable(lambda y: y + 1)(x),
        lambda x: x + len(repr(x)),
    ],
    ids=["numpy", "random", "from_numpy", "disabled", "repr"],
)
def test_what_cannot_be_replayed_is_not_and_fullgraph_says_why(function: Any) -> None:
    compiled = torch.compile(function)
    for i in range(4):
        x = torch.full((3,), float(i))
        np.random.seed(0)
        got = compiled(x)
        np.random.seed(0)
        assert torch.equal(got, function(x))
    assert not any(program.failure is None for program in programs(compiled))
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(function, fullgraph=True)(torch.ones(3))


class Slotted:
    __slots__ = ("value",)
    total = 0

    def __init__(self) -> None:
        self.value = 0


SLOTTED, ITERATOR, ARRAY = Slotted(), itertools.count(1), np.zeros(1)


def _counting_in_slots(x: Any) -> Any:
    SLOTTED.value += 1
    return x + SLOTTED.value


def _counting_in_a_class(x: Any) -> Any:
    Slotted.total += 1
    return x + Slotted.total


def _counting_in_an_array(x: Any) -> Any:
    ARRAY[0] += 1
    return x + float(ARRAY[0])


def _counting_by_an_iterator(x: Any) -> Any:
    return x + next(ITERATOR)


def _counting_in_the_environment(x: Any) -> Any:
    os.environ["FLAMBEAU_TEST_COUNT"] = str(int(os.environ.get("FLAMBEAU_TEST_COUNT", "0")) + 1)
    return x + int(os.environ["FLAMBEAU_TEST_COUNT"])


@pytest.mark.parametrize(
    "function",
    [_counting_in_slots, _counting_in_a_class, _counting_in_an_array, _counting_by_an_iterator, _counting_in_the_environment],
)
def test_counts_of_python_go_on(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLAMBEAU_TEST_COUNT", raising=False)
    compiled = torch.compile(function)
    assert [compiled(torch.zeros(1)).item() for _ in range(5)] == [1, 2, 3, 4, 5]


def test_schedulers_and_files_are_not_forgotten(tmp_path: Any) -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1.0)

    @torch.compile
    def step(x: Any) -> Any:
        model(x).sum().backward()
        optimizer.step()
        scheduler.step()
        torch.save(x, tmp_path / "x.pt")

    for i in range(4):
        step(torch.full((1, 2), float(i)))
        assert scheduler.last_epoch == i + 1 and torch.load(tmp_path / "x.pt")[0, 0] == i


def test_an_object_that_is_made_inside_may_change() -> None:
    class Box:
        def __init__(self, x: Any):
            self.x = x
            self.items: list[Any] = []

        def add(self, y: Any) -> None:
            self.items.append(y)
            self.x = self.x + y

    def function(x: Any) -> Any:
        box = Box(x)
        for i in range(3):
            box.add(x * i)
        return box.x, len(box.items)

    agree(function, (torch.randn(3),), (torch.randn(3),), most=1)


def test_functions_may_name_each_other_at_any_depth() -> None:
    scope: dict[str, Any] = {"__name__": "program"}
    exec("def f0(x):\n    return x + 1", scope)
    for i in range(1, 1500):
        exec(f"def f{i}(x):\n    return f{i - 1}(x) if x is None else x + {i}", scope)
    step = torch.compile(scope["f1499"])
    assert [step(torch.zeros(2)).tolist() for _ in range(3)] == [[1499.0, 1499.0]] * 3


def test_hooks_of_imports_are_no_part_of_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hook:
        """Looks at the world before a module is found, as hooks for coverage and assertions do."""

        asked = 0

        def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
            self.asked += name == "antigravity_of_no_weight"
            os.stat(".")
            os.path.join("a", "b")

    def function(x: Any) -> Any:
        with contextlib.suppress(ImportError):
            import antigravity_of_no_weight  # noqa: F401
        return x * 2

    hook = Hook()
    monkeypatch.setattr(sys, "meta_path", [hook, *sys.meta_path])
    compiled = torch.compile(function, fullgraph=True)
    x = torch.randn(3)
    assert torch.equal(compiled(x), x * 2) and torch.equal(compiled(x), x * 2)
    assert hook.asked and programs(compiled)[0].failure is None


def test_callbacks_of_the_collector_are_no_part_of_a_program() -> None:
    import time

    moments = []

    def told(phase: str, info: dict[str, int]) -> None:
        moments.append(time.perf_counter())

    def function(x: Any) -> Any:
        gc.collect()
        return x * 2

    compiled = torch.compile(function, fullgraph=True)
    gc.callbacks.append(told)
    try:
        x = torch.randn(3)
        for _ in range(3):
            assert torch.equal(compiled(x), x * 2)
    finally:
        gc.callbacks.remove(told)
    assert moments and programs(compiled)[0].failure is None


# -- how far guards see ----------------------------------------------------------------------------------------------------------
REACHED: list[Any] = []
FACTOR = 1.0


def reached(function: Any) -> Any:
    """A function that gives a program, its second argument, and changes that the program has to see."""
    REACHED.append(function)
    return function


def set_factor(value: float) -> None:
    global FACTOR
    FACTOR = value


def scaled(x: Any, by: Any = (1.0,), *, more: float = 1.0) -> Any:
    return x * FACTOR * by[0] * more


@reached
def functions_that_are_given() -> Any:
    return lambda x, given: given(x), scaled, [lambda: set_factor(3.0)]


@reached
def what_functions_that_are_given_hold() -> Any:
    factors = [1.0]
    return lambda x, given: given(x), functools.partial(scaled, by=factors), [lambda: factors.__setitem__(0, 3.0)]


@reached
def variables_of_functions_that_are_given() -> Any:
    factor = 1.0

    def function(x: Any) -> Any:
        return x * factor

    def change() -> None:
        nonlocal factor
        factor = 3.0

    return lambda x, given: given(x), function, [change]


@reached
def containers_of_other_classes() -> Any:
    given = collections.deque([1.0]), {2.0}, collections.OrderedDict(a=1.0), np.ones(1), bytearray(b"\1"), array.array("d", [1.0])
    places = [given[0], given[3], given[4], given[5]]
    changes = [lambda place=place: place.__setitem__(0, 3) for place in places]
    changes += [lambda: given[1].add(3.0), lambda: given[2].update(a=3.0)]
    return lambda x, g: x * g[0][0] * sum(g[1]) * g[2]["a"] * float(g[3][0]) * g[4][0] * g[5][0], given, changes


@reached
def namespaces_and_variables_of_contexts_and_threads() -> Any:
    space = argparse.Namespace(lr=1.0, more=types.SimpleNamespace(factor=1.0))
    variable, of_thread = contextvars.ContextVar("factor", default=1.0), threading.local()
    of_thread.factor = 1.0
    changes = [lambda: setattr(space, "lr", 2.0), lambda: setattr(space.more, "factor", 2.0)]
    changes += [lambda: variable.set(3.0), lambda: setattr(of_thread, "factor", 5.0)]
    return lambda x, given: x * space.lr * given.more.factor * variable.get() * of_thread.factor, space, changes


@reached
def modules_in_modules() -> Any:
    outer, inner = types.ModuleType("outer"), types.ModuleType("inner")
    outer.inner, inner.config, inner.table, inner.function = inner, Config(), {"a": 1.0}, scaled  # type: ignore[attr-defined]
    changes = [lambda: setattr(inner.config, "power", 3), lambda: inner.table.update(a=3.0)]
    changes += [lambda: setattr(inner, "function", torch.neg)]
    return lambda x, _: outer.inner.function(x * outer.inner.config.power * outer.inner.table["a"]), None, changes


@reached
def large_dictionaries() -> Any:
    table = {i: float(i) for i in range(200)}
    return lambda x, _: x * table[5], None, [lambda: table.update({5: 3.0})]


@reached
def what_code_has_no_names_of() -> Any:
    table, some, made = {f"n{i}": float(i) for i in range(200)}, set(range(200)), Config()
    changes = [lambda: table.update(n3=7.0), lambda: some.discard(4), lambda: setattr(made, "power", 3)]

    def function(x: Any, key: str) -> Any:
        return x * table["n" + key] * (2 if int(key) + 1 in some else 5) + getattr(made, "pow" + f"{key[:0]}er")

    return function, "3", changes


@reached
def defaults() -> Any:
    def function(x: Any, by: Any = (2.0,), *, more: float = 1.0) -> Any:
        return x * by[0] * more

    class Holder:
        @staticmethod
        def method(x: Any, by: Any = [2.0]) -> Any:  # noqa: B006
            return x * by[0]

    changes = [lambda: setattr(function, "__defaults__", ((3.0,),)), lambda: function.__kwdefaults__.update(more=3.0)]
    changes += [lambda: setattr(function, "__kwdefaults__", {"more": 5.0}), lambda: Holder.method.__defaults__[0].__setitem__(0, 3.0)]
    return lambda x, _: function(x) + Holder.method(x), None, changes


@reached
def attributes_that_hide_others_and_methods() -> Any:
    class Base:
        factor = 1.0

        def method(self, x: Any) -> Any:
            return x * self.factor

    class Derived(Base):
        pass

    made = Derived()
    changes = [lambda: setattr(Derived, "factor", 2.0), lambda: setattr(made, "factor", 3.0), lambda: delattr(made, "factor")]
    return lambda x, _: made.method(x), None, [*changes, lambda: setattr(Base, "method", lambda _self, x: x * 7)]


@pytest.mark.parametrize("case", REACHED, ids=lambda case: case.__name__)
def test_what_a_program_reaches_is_looked_at(case: Any) -> None:
    set_factor(1.0)
    function, given, changes = case()
    compiled, found = torch.compile(function), [0.0]
    for change in (lambda: None, *changes):
        change()
        for _ in range(3):
            x = torch.full((2,), 2.0)
            assert torch.equal(compiled(x, given), function(x, given))
        found.append(compiled(x, given)[0].item())
    assert all(map(operator.ne, found, found[1:])), "a change is none"
    assert any(program.failure is None for program in programs(compiled))


def test_modules_and_optimizers_that_are_given_are_compiled() -> None:
    def step(optimizer: Any, module: Any, x: Any) -> Any:
        optimizer.zero_grad()
        loss = module(x).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    compiled, model, x = torch.compile(step), nn.Linear(3, 2), torch.randn(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        before = model.weight.detach().clone()
        want = model(x).sum().detach()
        torch.testing.assert_close(compiled(optimizer, model, x), want, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(model.weight, before - 0.1 * x.sum(0))
    assert not any(program.failure for program in programs(compiled))


def test_programs_are_for_one_precision_of_products() -> None:
    x, w = torch.randn(512, 512), torch.randn(512, 512)  # so large that both are packed
    compiled = torch.compile(lambda x: x @ w)
    try:
        for precision in ("medium", "highest", "medium"):
            torch.set_float32_matmul_precision(precision)
            for _ in range(3):
                assert torch.equal(compiled(x), x @ w)
    finally:
        torch.set_float32_matmul_precision("highest")
    assert len(programs(compiled)) == 2


def test_equal_code_of_other_globals_is_another_function() -> None:
    spaces: list[dict[str, Any]] = [{"k": float(i), "__name__": f"program{i}"} for i in range(2)]
    for space in spaces:
        exec("def f(x):\n    return x * k\n", space)
    compiled = torch.compile(lambda x: spaces[0]["f"](x) + spaces[1]["f"](x))
    x = torch.ones(3)
    for place, value in ((1, 10.0), (0, 5.0), (1, 2.0)):
        compiled(x)
        spaces[place]["k"] = value
        assert torch.equal(compiled(x), x * sum(space["k"] for space in spaces))


def test_one_of_many_equal_functions_is_told_by_what_it_holds() -> None:
    def made(k: float) -> tuple[Any, Any]:
        def scaled(x: Any) -> Any:
            return x * k

        def change(value: float) -> None:
            nonlocal k
            k = value

        return scaled, change

    pairs = [made(float(i)) for i in range(40)]
    reference = weakref.ref(pairs[26][0])
    compiled = torch.compile(lambda x: reference()(x))
    x = torch.ones(3)
    assert all(torch.equal(compiled(x), x * 26) for _ in range(3))
    pairs[26][1](7.0)
    assert torch.equal(compiled(x), x * 7)


@pytest.mark.parametrize("kind", ["register_hook", "register_post_accumulate_grad_hook"])
@pytest.mark.parametrize("is_argument", [False, True])
def test_hooks_of_leaves_that_come_and_go(kind: str, is_argument: bool) -> None:
    weight = torch.ones(3, requires_grad=True)

    def halve(tensor: Any) -> Any:
        if tensor is not weight:
            return tensor * 0.5
        weight.grad.mul_(0.5)
        return None

    def function(x: Any, *more: Any) -> None:
        (more or (weight,))[0].grad = None
        ((more or (weight,))[0] * x).sum().backward()

    compiled = torch.compile(function)
    for has_hook in (False, True, False, True):
        handle = getattr(weight, kind)(halve) if has_hook else None
        for _ in range(4):
            compiled(torch.ones(3), *([weight] if is_argument else []))
            assert weight.grad[0].item() == (0.5 if has_hook else 1.0)
        if handle is not None:
            handle.remove()
