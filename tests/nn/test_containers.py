"""Sequential, ModuleList, ModuleDict, ParameterList and ParameterDict behave as lists and dictionaries."""

from __future__ import annotations

from collections import OrderedDict

import pytest

import flambeau
from flambeau import nn


def do(operation, *args):
    """An operation as a value: what it returned or raised."""
    return lambda: operation(*args)


def delete(container, key):
    del container[key]


def assign(container, key, value):
    container[key] = value


def test_sequential_is_a_list(same):
    def program(torch):
        nn = torch.nn
        s = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 2))
        return [
            do(lambda: s + nn.Sequential(nn.ReLU())),
            do(lambda: s * 2),
            do(lambda: 2 * s),
            do(lambda: s * 0),
            do(lambda: s * "a"),
            do(lambda: s + [1]),
            *[do(s.__getitem__, idx) for idx in (0, -1, 5, -9, "0", 1.5, slice(0, 2), slice(None, None, -1))],
            do(s.insert, 1, nn.Tanh()),
            do(s.insert, -1, nn.Tanh()),
            do(s.insert, 9, nn.Tanh()),
            do(repr, s),
            do(s.append, nn.ReLU()),
            do(s.append, 3),
            do(s.extend, [nn.ReLU(), nn.Tanh()]),
            do(s.pop, 0),
            do(s.pop, 100),
            do(s.pop, slice(0, 1)),
            do(delete, s, 0),
            do(repr, s),
            do(delete, s, slice(0, 2)),
            do(repr, s),
            do(assign, s, 0, nn.Identity()),
            do(assign, s, 9, nn.Identity()),
            do(s.__iadd__, nn.Sequential(nn.Identity())),
            do(s.__imul__, 2),
            do(s.__imul__, -1),
            do(len, s),
            do(lambda: [type(m).__name__ for m in s]),
            do(lambda: list(s.state_dict())),
        ]

    same(program)


def test_sequential_of_names(same):
    def program(torch):
        nn = torch.nn
        s = nn.Sequential(OrderedDict(a=nn.Linear(1, 1), b=nn.ReLU()))
        return [
            do(lambda: s.a),
            do(lambda: s[1:]),
            do(lambda: s + s),
            do(nn.Sequential, {"a": nn.ReLU()}),
            do(nn.Sequential, [nn.ReLU()]),
            do(nn.Sequential),
            do(delete, s, 0),
            do(repr, s),
            do(s.append, nn.Tanh()),
            do(repr, s),
        ]

    same(program)


def test_sequential_calls_in_order():
    class Add(nn.Module):
        def __init__(self, number):
            super().__init__()
            self.number = number

        def forward(self, input):
            return [*input, self.number]

    assert nn.Sequential(Add(1), Add(2), Add(3))([]) == [1, 2, 3]
    assert nn.Sequential()([]) == []
    with pytest.raises(TypeError):
        nn.Sequential(Add(1))(1, 2)


def test_sequential_insert_wants_a_module():
    with pytest.raises(AssertionError, match="module should be of type"):
        nn.Sequential().insert(0, 3)


def test_module_list_is_a_list(same):
    def program(torch):
        nn = torch.nn
        m = nn.ModuleList([nn.Linear(1, 1), nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 2)])
        return [
            do(repr, m),
            do(lambda: nn.ModuleList([nn.Sequential(nn.Linear(1, 1)) for _ in range(2)])),
            do(nn.ModuleList),
            do(nn.ModuleList, 3),
            do(nn.ModuleList, [3]),
            *[do(m.__getitem__, idx) for idx in (0, -1, 9, "0", slice(1, None))],
            do(lambda: m + [nn.ReLU()]),
            do(lambda: m + 3),
            do(m.__iadd__, [nn.ReLU()]),
            do(m.insert, 1, nn.ReLU()),
            do(m.extend, 3),
            do(m.extend, [1]),
            do(m.pop, 1),
            do(m.pop, slice(0, 1)),
            do(m.append, None),
            do(assign, m, 0, nn.Tanh()),
            do(assign, m, 99, nn.Tanh()),
            do(repr, m),
            do(delete, m, slice(0, 2)),
            do(delete, m, -1),
            do(repr, m),
            do(m, 1),
            do(lambda: [name for name in dir(m) if name.isdigit()]),
        ]

    same(program)


def test_module_dict_is_a_dictionary(same):
    def program(torch):
        nn = torch.nn
        d = nn.ModuleDict({"b": nn.Linear(1, 1), "a": nn.ReLU()})
        other = nn.ModuleDict([["x", nn.ReLU()], ["y", nn.Tanh()]])
        return [
            do(repr, d),
            do(repr, other),
            do(nn.ModuleDict),
            do(d.update, 3),
            do(d.update, [[1, 2, 3]]),
            do(d.update, {"c": 3}),
            do(d.update, {"a.b": nn.ReLU()}),
            do(d.update, other),
            do(d.update, {"keys": nn.ReLU()}),
            do(d.__getitem__, "b"),
            do(d.__getitem__, "zz"),
            do(d.pop, "b"),
            do(d.pop, "zz"),
            do(lambda: ["a" in d, "zz" in d, len(d), list(d)]),
            do(d.keys),
            do(d.values),
            do(d.items),
            do(assign, d, "new", nn.Tanh()),
            do(delete, d, "new"),
            do(repr, d),
            do(d.clear),
            do(repr, d),
        ]

    same(program)


def test_parameter_list(same):
    def program(torch):
        nn = torch.nn
        p = nn.ParameterList([torch.ones(2), nn.Parameter(torch.zeros(1, 3)), 3, "x"])
        return [
            do(repr, p),
            do(nn.ParameterList),
            do(repr, nn.ParameterList([torch.ones(2)])),
            do(nn.ParameterList, 3),
            *[do(p.__getitem__, idx) for idx in (0, 2, -1, 9, slice(1, None))],
            do(p.append, torch.ones(1)),
            do(p.extend, [torch.ones(1)]),
            do(p.extend, torch.ones(1)),
            do(p.__iadd__, [torch.ones(1)]),
            do(assign, p, 0, torch.ones(5)),
            do(assign, p, 99, torch.ones(5)),
            do(p),
            do(lambda: [len(p), list(p.state_dict()), [type(parameter).__name__ for parameter in p]]),
            do(p.to, torch.float64),
            do(delete, p, 0),
        ]

    same(program)


def test_parameter_dict(same):
    def program(torch):
        nn = torch.nn
        p = nn.ParameterDict({"b": torch.ones(2), "a": nn.Parameter(torch.zeros(1)), "c": 7})
        return [
            do(repr, p),
            do(nn.ParameterDict),
            do(p.__getitem__, "zz"),
            do(p.get, "zz"),
            do(p.get, "a"),
            do(p.setdefault, "q", torch.ones(1)),
            do(p.pop, "q"),
            do(p.popitem),
            do(p.fromkeys, ["x", "y"], torch.ones(1)),
            do(p.copy),
            do(p.items),
            do(p.values),
            do(p.keys),
            do(lambda: p | {"z": torch.ones(1)}),
            do(lambda: list({"z": torch.ones(1)} | p)),
            do(p.__ior__, {"w": torch.ones(1)}),
            do(lambda: list(reversed(p))),
            do(p.update, [("k", torch.ones(1)), ("j", torch.ones(1))]),
            do(p.update, {"n": 1, "d": torch.ones(1)}),
            do(p.update, 3),
            do(lambda: ["a" in p, "zz" in p, len(p), list(p)]),
            do(p, 1),
            do(repr, p),
            do(delete, p, "zz"),
            do(delete, p, "a"),
            do(p.clear),
            do(repr, p),
        ]

    same(program)


def test_parameter_dict_wants_strings():
    with pytest.raises(TypeError, match="not a string"):
        nn.ParameterDict()[3] = flambeau.ones(1)


def test_container_is_deprecated():
    with pytest.warns(FutureWarning, match=r"nn\.Container"):
        assert isinstance(nn.Container(a=nn.Identity()).a, nn.Identity)
