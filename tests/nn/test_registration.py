"""What assigning, deleting and registering members of a module does."""

from __future__ import annotations

import pytest

import flambeau
from flambeau import nn


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(flambeau.ones(2))
        self.register_buffer("offset", flambeau.zeros(2))
        self.register_buffer("scratch", flambeau.zeros(1), persistent=False)
        self.inner = nn.Identity()
        self.plain = flambeau.ones(3)
        self.items = [1, 2]

    def forward(self, input):
        return self.inner(input) * self.factor + self.offset


def test_parameters_buffers_and_modules_are_kept_out_of_dict():
    module = Scaled()
    assert list(module._parameters) == ["factor"]
    assert list(module._buffers) == ["offset", "scratch"]
    assert list(module._modules) == ["inner"]
    assert {"plain", "items"} <= module.__dict__.keys()
    assert not {"factor", "offset", "inner"} & module.__dict__.keys()


def test_members_are_attributes():
    module = Scaled()
    assert module.factor is module._parameters["factor"]
    assert module.offset is module._buffers["offset"]
    assert module.inner is module._modules["inner"]
    assert {"factor", "offset", "inner", "plain"} <= set(dir(module))


def test_reads_follow_the_registries_when_these_are_changed_directly():
    module = Scaled()
    other = nn.Parameter(flambeau.zeros(2))
    module._parameters["factor"] = other
    assert module.factor is other
    del module._parameters["factor"]
    assert not hasattr(module, "factor")
    module.__dict__["factor"] = 3
    assert module.factor == 3


def test_a_members_name_is_not_an_attribute_of_the_class():
    Scaled()
    assert not hasattr(Scaled, "factor")
    with pytest.raises(AttributeError, match="factor"):
        _ = Scaled.factor


def test_a_member_of_one_instance_is_not_one_of_another():
    class Optional(nn.Module):
        def __init__(self, full):
            super().__init__()
            if full:
                self.extra = nn.Identity()

    full, bare = Optional(True), Optional(False)
    assert isinstance(full.extra, nn.Identity)
    assert not hasattr(bare, "extra")
    assert "extra" in dir(full) and "extra" not in dir(bare)
    bare.extra = 5
    assert bare.extra == 5


def test_an_own_getattr_sees_every_read():
    class Doubling(nn.Linear):
        def __getattr__(self, name):
            value = super().__getattr__(name)
            return value * 2 if name == "weight" else value

    plain = nn.Linear(1, 1, bias=False)
    module = Doubling(1, 1, bias=False)
    assert plain.weight is plain._parameters["weight"]
    assert module.weight.item() == 2 * module._parameters["weight"].item()


def test_a_class_attribute_hides_a_member_of_its_name():
    class Defaulted(nn.Module):
        head = None

        def __init__(self):
            super().__init__()
            self._modules["head"] = nn.Identity()

    assert Defaulted().head is None


def test_a_property_of_a_subclass_hides_the_member():
    class Base(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(flambeau.ones(1))

    base = Base()

    class Derived(Base):
        @property
        def weight(self):
            return "property"

        @weight.setter
        def weight(self, value):
            pass

    derived = base
    derived.__class__ = Derived
    assert derived.weight == "property"


def test_a_later_base_is_heard_past_a_members_name():
    class Base(nn.Module):
        def __init__(self):
            super().__init__()
            if type(self) is Base:
                self.head = nn.Identity()

    class Mixin:
        head = "mixin"

    class Both(Base, Mixin):
        pass

    assert isinstance(Base().head, nn.Identity)
    assert Both().head == "mixin"


def test_members_before_init_are_an_error(same):
    def program(torch):
        class Early(torch.nn.Module):
            def __init__(self, kind):
                if kind == "parameter":
                    self.x = torch.nn.Parameter(torch.ones(1))
                if kind == "module":
                    self.x = torch.nn.Identity()
                if kind == "buffer":
                    self.register_buffer("x", torch.ones(1))
                if kind == "register":
                    self.register_parameter("x", None)
                self.value = 3

        return [
            lambda: Early("parameter"),
            lambda: Early("module"),
            lambda: Early("buffer"),
            lambda: Early("register"),
            lambda: Early("").value,
        ]

    same(program)


def test_names_and_types_are_checked(same):
    def program(torch):
        m = torch.nn.Module()
        p = torch.nn.Parameter(torch.ones(1))
        m.taken = 1
        computed = torch.ones(1, requires_grad=True) * 2
        kinds = ((m.register_parameter, p), (m.register_buffer, torch.ones(1)), (m.add_module, torch.nn.Identity()))
        return [
            [(lambda f=f, name=name, value=value: f(name, value)) for name in (1, None, "", "a.b", "taken", "forward")]
            for f, value in kinds
        ] + [
            lambda: m.register_parameter("q", torch.ones(1)),
            lambda: m.register_parameter("q", 3),
            lambda: m.register_parameter("q", computed),
            lambda: m.register_buffer("q", 3),
            lambda: m.add_module("q", 3),
            lambda: m.register_parameter("none", None),
            lambda: m.none,
            lambda: m.register_buffer("none2", None),
            lambda: m.add_module("none3", None),
            lambda: [m.none2, m.none3, dict(m._modules), dict(m._buffers)],
        ]

    same(program)


def test_assignment_moves_names_between_registries(same):
    def program(torch):
        nn = torch.nn
        m = nn.Module()
        states = []

        def note():
            states.append(
                [sorted(m._parameters), sorted(m._buffers), sorted(m._modules), "x" in m.__dict__, sorted(m._non_persistent_buffers_set)]
            )

        m.x = 3
        note()
        m.x = nn.Identity()
        note()
        m.x = nn.Parameter(torch.ones(1))
        note()
        del m.x
        m.register_buffer("x", torch.ones(1), persistent=False)
        note()
        m.x = nn.Parameter(torch.ones(1))
        note()
        m.x = None
        note()
        del m.x
        note()
        m.x = nn.Buffer(torch.ones(1), persistent=False)
        note()
        m.x = torch.zeros(2)
        note()
        m.x = None
        note()
        return states

    same(program)


def test_assigning_the_wrong_kind_is_an_error(same):
    def program(torch):
        nn = torch.nn
        m = nn.Module()
        m.p, m.m = nn.Parameter(torch.ones(1)), nn.Identity()
        m.register_buffer("b", torch.ones(1))

        def assign(name, value):
            setattr(m, name, value)

        values = (3, "x", torch.ones(1), nn.Tanh(), None)
        return [lambda name=name, value=value: assign(name, value) for name in "pmb" for value in values] + [
            lambda: delattr(m, "nothing"),
            lambda: m.nothing,
            lambda: nn.Module(3),
            lambda: nn.Module(a=1),
            lambda: nn.Module()(1),
        ]

    same(program)


def test_paths_lead_to_members(same):
    def program(torch):
        nn = torch.nn
        net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        net.register_buffer("b", torch.ones(1))
        getters = (net.get_submodule, net.get_parameter, net.get_buffer)
        paths = ("", "0", "1", "b", "0.weight", "0.bias", "0.zz", "zz", "0.weight.x", "b.x")
        return [(lambda get=get, path=path: get(path)) for get in getters for path in paths] + [
            lambda: net.set_submodule("", nn.Tanh()),
            lambda: net.set_submodule("1", 3),
            lambda: net.set_submodule("1", nn.Tanh()),
            lambda: net.set_submodule("2", nn.Tanh(), strict=True),
            lambda: net.set_submodule("0.weight", nn.Tanh()),
            lambda: net.set_submodule("0.new", nn.Tanh()),
            lambda: net.set_submodule("z.z", nn.Tanh()),
            lambda: net,
        ]

    same(program)


def test_registration_hooks_may_replace(same):
    def program(torch):
        from importlib import import_module

        register = import_module(torch.nn.Module.__module__)
        seen = []
        handles = [
            register.register_module_parameter_registration_hook(lambda m, name, p: seen.append(("p", name))),
            register.register_module_buffer_registration_hook(lambda m, name, b: (seen.append(("b", name)), b + 1)[1]),
            register.register_module_module_registration_hook(lambda m, name, c: torch.nn.Tanh() if name == "swap" else None),
        ]
        try:
            m = torch.nn.Module()
            m.p = torch.nn.Parameter(torch.ones(1))
            m.register_buffer("b", torch.ones(1))
            m.swap = torch.nn.Identity()
            m.add_module("keep", torch.nn.Identity())
        finally:
            for handle in handles:
                handle.remove()
        m.q = torch.nn.Parameter(torch.ones(1))
        return [seen, m, m.b]

    same(program)


def test_traversal_orders_prefixes_and_duplicates(same):
    def program(torch):
        nn = torch.nn
        shared = nn.Linear(1, 1)
        net = nn.Sequential(shared, nn.Sequential(shared, nn.BatchNorm1d(1)), nn.ReLU())
        net.tied = shared.weight
        net.none = None
        net.add_module("absent", None)
        names = [
            [name for name, _ in members]
            for members in (
                net.named_modules(),
                net.named_modules(prefix="p", remove_duplicate=False),
                net.named_children(),
                net.named_parameters(),
                net.named_parameters("p", recurse=False),
                net.named_parameters(remove_duplicate=False),
                net.named_buffers(),
                net.named_buffers("q", remove_duplicate=False),
            )
        ]
        counts = [
            len(list(items)) for items in (net.modules(), net.children(), net.parameters(), net.parameters(recurse=False), net.buffers())
        ]
        order = []
        net.apply(lambda m: order.append(type(m).__name__))
        return [names, counts, order]

    same(program)


def test_modes_reach_every_descendant(same):
    def program(torch):
        net = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Sequential(torch.nn.Dropout()))
        modes = [[m.training for m in net.modules()] for _ in (net.eval(), net.train(), net[1].eval())]
        net.requires_grad_(False)
        return [modes, [p.requires_grad for p in net.parameters()], lambda: net.train(1)]

    same(program)


def test_printing(same):
    def program(torch):
        nn = torch.nn

        class Lines(nn.Module):
            def __init__(self, text, children):
                super().__init__()
                self.text = text
                for number in range(children):
                    self.add_module(f"c{number}", nn.Identity())

            def extra_repr(self):
                return self.text

        return [repr(Lines(text, children)) for text in ("", "one", "one\ntwo") for children in (0, 1, 2)] + [
            repr(nn.Sequential(nn.Sequential(nn.Linear(1, 2)), Lines("a\nb", 1)))
        ]

    same(program)
