"""``torch.ops.aten``: packets, overloads and their schemas, beside PyTorch's."""

from __future__ import annotations

import copy
import pickle

import pytest
from oracle import pytorch

import flambeau
from flambeau.aten import overloads
from flambeau.aten.schema import parse_schema

aten = flambeau.ops.aten


def test_every_schema_of_the_table_is_read_and_written_as_it_stands():
    lines = overloads.aten_schemas()
    assert len(lines) > 700
    for texts in lines.values():
        for text, tags in texts:
            assert str(parse_schema(text)) == text
            assert all(tag in flambeau.Tag.__members__ for tag in tags.split())


@pytest.mark.oracle
def test_the_table_is_that_of_pytorch(oracle):
    for name, texts in overloads.aten_schemas().items():
        packet, theirs = getattr(aten, name), getattr(oracle.ops.aten, name)
        assert [overload for overload in theirs.overloads() if overload in packet.overloads()] == packet.overloads(), name
        assert len(packet.overloads()) == len(texts)
        last = packet.overloads()[-1]
        ours, other = getattr(packet, last), getattr(theirs, last)
        assert str(ours._schema) == str(other._schema)
        assert (str(ours), repr(ours), ours.name(), ours.__name__, ours.namespace) == (
            str(other),
            repr(other),
            other.name(),
            other.__name__,
            other.namespace,
        )
        assert ours.is_view == other.is_view, name
        assert sorted(map(str, ours.tags)) == sorted({*map(str, other.tags), "Tag.pt2_compliant_tag"})


CALLS = {
    "add": [(2, 1), (2, "x"), ("x", "x")],
    "pow": [("x", 2), (2, "x"), ("x", "x")],
    "sum": [("x",), ("x", 0), ("x", [0], True)],
    "max": [("x",), ("x", 0)],
    "mean": [("x",), ("x", [0])],
    "where": [("b", "x", "x"), ("b", 1, "x"), ("b", "x", 1), ("b", 1, 2), ("b",)],
    "clamp": [("x", 0, 1), ("x", "x", None)],
    "index_select": [("x", 0, "i")],
    "split": [("x", 2), ("x", [1, 2])],
    "div": [("x", 2), ("x", "x")],
    "normal": [("x", 1.0), (0.0, "x"), ("x", "x")],
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", CALLS)
def test_a_call_finds_the_overload_that_pytorch_finds(oracle, name):
    TorchDispatchMode = pytorch("torch.utils._python_dispatch").TorchDispatchMode

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    for call in CALLS[name]:

        def given(torch, call=call):
            values = {"x": torch.ones(3), "b": torch.ones(3, dtype=torch.bool), "i": torch.tensor([0])}
            return [values[part] if isinstance(part, str) else part for part in call]

        if not any(isinstance(part, str) for part in call) or (name, call) == ("add", (2, "x")):
            continue  # numbers alone are TorchScript's
        theirs = given(oracle)
        seen: list[str] = []
        with Seen():
            getattr(oracle.ops.aten, name)(*theirs)
        found = str(getattr(aten, name).fitting(given(flambeau), {}))
        assert found == seen[0] or name in ("where", "split"), (call, seen)  # PyTorch takes those apart before a mode sees them
        assert found.startswith(f"aten.{name}.")


def test_names_that_are_not_there():
    with pytest.raises(AttributeError, match="The underlying op of 'aten.add' has no overload name 'nope'"):
        aten.add.nope  # noqa: B018
    with pytest.raises(AttributeError, match="'_OpNamespace' 'aten' object has no attribute 'nope'"):
        aten.nope  # noqa: B018
    assert repr(flambeau.ops.nobodys) == "<module 'torch.ops.nobodys' from 'torch.ops'>"
    with pytest.raises(AttributeError, match="'_OpNamespace' 'nobodys' object has no attribute 'twice'"):
        flambeau.ops.nobodys.twice  # noqa: B018
    with pytest.raises(RuntimeError, match="Overloaded torch operator invoked from Python failed to match any schema:\naten::mm"):
        aten.mm.fitting((flambeau.ones(2),), {})


def test_overloads_are_one_object_each():
    assert aten.mm.default is aten.mm.default
    assert copy.deepcopy({"key": aten.add.Tensor})["key"] is aten.add.Tensor
    assert pickle.loads(pickle.dumps(aten.add.Tensor)) is aten.add.Tensor
    assert pickle.loads(pickle.dumps(aten.linalg_inv)) is aten.linalg_inv
    assert aten.add.Tensor in {aten.add.Tensor: 1}
    assert aten.add.Tensor != aten.add.Scalar


def test_calls_by_overload_and_by_the_schemas_names():
    x = flambeau.arange(4.0)
    assert aten.add.Tensor(self=x, other=x, alpha=2).tolist() == [0, 3, 6, 9]
    assert aten.linalg_vector_norm.default(x, 1).item() == 6
    assert aten.relu_.default(y := -x) is y


def test_subclasses_are_shown_what_was_called():
    seen = []

    class Sub(flambeau.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = flambeau.ones(2).as_subclass(Sub)
    assert type(aten.mul(x, 2)) is Sub
    assert type(aten.mul.Tensor(x, x)) is Sub
    assert seen == [aten.mul, aten.mul.Tensor]


SCHEMAS = r"""f(Tensor x) -> Tensor
ns::f(Tensor x, int y=3, float z=1, float w=0.5, bool b=True, str s="hi", str t='yo') -> Tensor
ns::f.over(Tensor(a!) x, Tensor[] xs, Tensor?[] ys, int[2] size=[1, 1], int[2] k=1, *, float? scale=None) -> (Tensor, Tensor)
ns::f(Tensor(a) x, SymInt[] n, Scalar s, ScalarType? d=None, Device? e=None, Layout? l=None, MemoryFormat? m=None) -> Tensor(a)
ns::f() -> ()
ns::f(Tensor x) -> (Tensor out, int n)
ns::f(Tensor(a!)[] xs) -> Tensor[]
ns::f(Tensor(a -> *) x) -> Tensor(a)[]
ns::f(float x=1e-5, float y=1e10, float z=-1, int k=-2, float[] v=[1.0, 2], bool[] bb=[True, False]) -> int
ns::f(Dict(str, Tensor) d) -> Any
ns::f(ScalarType d=float) -> int
ns::f(Tensor x, ...) -> ...
ns::f((Tensor, int) x) -> (Tensor, int)[]
ns::f(complex c=1j) -> complex
ns::f(float x=inf) -> int
ns::f(int[]? x=None) -> Tensor?
ns::f(str[] names=["a", "b"]) -> Tensor
ns::f(Tensor x -> Tensor
f
ns::f(Tensor x) -> Foo
ns::f(Tensor) -> Tensor
ns::f(Tensor x, int y=) -> Tensor
ns::f(Tensor x=3) -> Tensor
ns::f(Tensor x,) -> Tensor
ns::f(Tensor x) -> Tensor extra
ns::f(Tensor x)
ns::f(bool x=true) -> Tensor
ns::f(str s="a\"b\n") -> int""".splitlines()


@pytest.mark.oracle
@pytest.mark.parametrize("text", SCHEMAS)
def test_schemas_are_read_as_by_pytorch(oracle, text):
    def shown(parse):
        try:
            schema = parse(text)
        except RuntimeError as error:
            return str(error)
        arguments = [
            (
                a.name,
                str(a.type),
                a.N,
                a.kwarg_only,
                a.default_value,
                a.is_out,
                a.alias_info and (a.alias_info.is_write, a.alias_info.before_set),
            )
            for a in schema.arguments
        ]
        return str(schema), schema.name, schema.overload_name, arguments, [str(r.type) for r in schema.returns], schema.is_mutable

    assert shown(parse_schema) == shown(oracle._C.parse_schema)


@pytest.mark.oracle
def test_kernels_behind_views_and_histograms(oracle):
    found = []
    for library in (flambeau, oracle):
        x = library.arange(6.0)
        counts, edges = library.ops.aten.histogram.bin_ct(x)
        found.append([library.ops.aten._unsafe_view.default(x, [2, 3]).tolist(), counts.tolist(), edges.numpy().round(4).tolist()])
    assert found[0] == found[1]


def test_options_of_kernels_that_are_not_supported_are_refused() -> None:
    x = flambeau.ones(1, 1, 2, 4)
    with pytest.raises(RuntimeError, match="do not support dropout"):
        aten._scaled_dot_product_flash_attention_for_cpu(x, x, x, 0.5)
    with pytest.raises(NotImplementedError, match="generator"):
        aten.rrelu_with_noise(x, x.clone(), generator=flambeau.Generator())
