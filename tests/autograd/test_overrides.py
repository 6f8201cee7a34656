"""``__torch_function__``: subclasses, foreign types, modes, and the helpers of ``torch.overrides``."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import overrides


class Named(torch.Tensor):
    """A subclass with an attribute that results inherit."""

    name = None

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs or {})
        names = [arg.name for arg in args if isinstance(arg, Named) and arg.name]
        if isinstance(result, Named) and names:
            result.name = names[0]
        return result


class Plain(torch.Tensor):
    pass


@pytest.fixture
def s():
    return torch.arange(4.0).reshape(2, 2).as_subclass(Plain)


P = torch.ones(2, 2)
CALLS = {
    "operator": lambda s: s + P,
    "reflected operator": lambda s: P + s,
    "number": lambda s: 1 - s,
    "comparison": lambda s: s == P,
    "negation": lambda s: -s,
    "function": lambda s: torch.add(P, s),
    "list argument": lambda s: torch.cat([P, s]),
    "reduction": lambda s: s.sum(),
    "matrix product": lambda s: P @ s,
    "functional": lambda s: torch.nn.functional.relu(s),
    "select": lambda s: s[0],
    "mask": lambda s: s[s > 1],
    "view": lambda s: s.view(-1),
    "reshape": lambda s: s.reshape(4, 1),
    "permute": lambda s: s.permute(1, 0),
    "transpose": lambda s: s.T,
    "expand": lambda s: s.expand(2, 2, 2),
    "as_strided": lambda s: s.as_strided((2,), (1,)),
    "clone": lambda s: s.clone(),
    "detach": lambda s: s.detach(),
    "to": lambda s: s.to(torch.float64),
    "zeros_like": lambda s: torch.zeros_like(s),
    "new_zeros": lambda s: s.new_zeros(3),
    "in place": lambda s: s.add_(1),
    "where": lambda s: torch.where(P > 0, P, s),
}


@pytest.mark.parametrize("name", CALLS)
def test_results_have_the_subclass(s, name):
    assert type(CALLS[name](s)) is Plain


def test_tuples_of_results_have_the_subclass(s):
    assert all(type(tensor) is Plain for tensor in s.unbind())
    result = s.max(0)
    assert type(result.values) is Plain and type(result.indices) is Plain


def test_writing_a_subclass_into_a_plain_tensor_leaves_it_plain(s):
    target = torch.zeros(2, 2)
    target.copy_(s)
    assert type(target) is torch.Tensor
    target[0] = s[1]
    assert target[0].tolist() == [2, 3]


def test_numbers_and_shapes_are_not_wrapped(s):
    assert s.sum().item() == 6 and s.tolist() == [[0, 1], [2, 3]] and type(s.shape) is torch.Size and len(s) == 2


def test_attribute_follows_operations_views_and_writes():
    m = torch.ones(2, 2).as_subclass(Named)
    m.name = "mine"
    for result in (m + 1, 1 + m, m.view(4), m[0], m.clone(), m.t(), torch.exp(m), m.reshape(4)):
        assert type(result) is Named and result.name == "mine"
    assert m.add_(1) is m and m.name == "mine"


def test_gradients_through_a_subclass_are_plain():
    x = torch.ones(2, requires_grad=True)
    y = (x * 2).as_subclass(Plain) * 3
    assert type(y) is Plain
    y.sum().backward()
    assert type(x.grad) is torch.Tensor and x.grad.tolist() == [6, 6]
    leaf = torch.ones(2).as_subclass(Plain).requires_grad_()
    (leaf * leaf).sum().backward()
    assert type(leaf.grad) is torch.Tensor and leaf.grad.tolist() == [2, 2]


def test_backward_is_no_business_of_modes_and_subclasses():
    calls = []

    class Counting(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            calls.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.ones(2).as_subclass(Counting).requires_grad_()
    y = torch.exp(x) * x
    calls.clear()
    torch.autograd.backward([y], [torch.ones(2)])
    assert calls == []


def test_subclass_as_parameter(s):
    p = torch.nn.Parameter(s)
    assert isinstance(p, torch.nn.Parameter) and isinstance(p, Plain) and p.requires_grad
    assert not isinstance(s, torch.nn.Parameter)


HANDLED = {}


def implements(func):
    def register(implementation):
        HANDLED[func] = implementation
        return implementation

    return register


class Diagonal:
    """A type of its own that answers for the functions it knows."""

    def __init__(self, n, value):
        self.n, self.value = n, value

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func not in HANDLED or not all(issubclass(kind, (torch.Tensor, Diagonal)) for kind in types):
            return NotImplemented
        return HANDLED[func](*args, **(kwargs or {}))


@implements(torch.mean)
def diagonal_mean(input):
    return input.value / input.n


@implements(torch.matmul)
def diagonal_matmul(input, other):
    return "product"


def test_foreign_type_takes_calls():
    d = Diagonal(5, 2.0)
    assert torch.mean(d) == 0.4
    assert torch.matmul(torch.ones(5, 5), d) == "product"
    for call in (lambda: torch.mul(d, d), lambda: torch.cat([d, d])):
        with pytest.raises(TypeError, match="__torch_function__"):
            call()
    with pytest.raises(TypeError):
        d + d
    with pytest.raises(TypeError, match="must be Tensor"):
        torch.mean(object())


def test_subclasses_are_asked_before_their_bases():
    asked = []

    class A(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            asked.append((cls.__name__, [kind.__name__ for kind in types]))
            return NotImplemented

    class B(A):
        pass

    with pytest.raises(TypeError):
        torch.add(torch.ones(1).as_subclass(A), torch.ones(1).as_subclass(B))
    assert asked == [("B", ["B", "A"]), ("A", ["B", "A"])]


def test_function_is_the_one_that_was_called():
    log = []

    class Logging(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            log.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    t = torch.ones(2, 2).as_subclass(Logging)
    log.clear()
    torch.add(t, 1)
    torch.nn.functional.relu(t)
    t.view(4)
    t[0]
    t.sum(dim=0)
    t.mul_(2)
    assert log == [torch.add, torch.nn.functional.relu, torch.Tensor.view, torch.Tensor.__getitem__, torch.Tensor.sum, torch.Tensor.mul_]


def test_modes_see_functions_and_nest():
    class Mode(overrides.TorchFunctionMode):
        def __init__(self, name):
            self.name = name

        def __torch_function__(self, func, types, args=(), kwargs=None):
            log.append((self.name, func.__name__))
            return func(*args, **(kwargs or {}))

    log = []
    with Mode("outer"), Mode("inner"):
        torch.add(P, 1)
    assert log == [("inner", "add"), ("outer", "add")]
    log.clear()
    with Mode("one"):
        torch.cat([P])
        torch.nn.functional.relu(P)
        P.clone().mul_(1)
        torch.zeros(2)
    assert [name for _, name in log] == ["cat", "relu", "clone", "mul_", "zeros"]
    log.clear()
    torch.add(P, 1)
    assert log == []


def test_mode_may_replace_results():
    class Twice(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            return result * 2 if func is torch.add else result

    with Twice():
        assert torch.add(torch.ones(1), 1).item() == 4
    with overrides.BaseTorchFunctionMode():
        assert torch.add(torch.ones(1), 1).item() == 2


def test_overriding_can_be_switched_off(s):
    with overrides.DisableTorchFunctionSubclass():
        assert type(s + 1) is torch.Tensor
    assert type(s + 1) is Plain


def test_helpers(s):
    d = Diagonal(1, 1)
    assert not overrides.has_torch_function((P,)) and overrides.has_torch_function((P, s)) and overrides.has_torch_function((d,))
    assert overrides.is_tensor_like(P) and overrides.is_tensor_like(d) and not overrides.is_tensor_like(3)
    assert overrides.resolve_name(torch.add) == "torch.add" and overrides.resolve_name(print) is None
    assert overrides.resolve_name(torch.nn.functional.relu) == "torch.nn.functional.relu"
    assert overrides.is_tensor_method_or_property(torch.Tensor.view) and not overrides.is_tensor_method_or_property(torch.cat)
    functions = overrides.get_overridable_functions()
    assert torch.add in functions[torch] and torch.Tensor.view in functions[torch.Tensor]
    assert torch.zeros in overrides.get_ignored_functions() and torch.zeros not in functions[torch]


def test_own_functions_can_be_made_overridable():
    @overrides.wrap_torch_function(lambda x: (x,))
    def double(x):
        return x * 2

    class Answer:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return 42 if func is double else NotImplemented

    assert double(torch.ones(1)).item() == 2 and double(Answer()) == 42

    def triple(x):
        if overrides.has_torch_function((x,)):
            return overrides.handle_torch_function(triple, (x,), x)
        return x * 3

    assert triple(torch.ones(1)).item() == 3
    with pytest.raises(TypeError):
        triple(Answer())


def test_results_of_a_subclass_of_parameter_are_plain():
    class Weight(torch.nn.Parameter):
        pass

    weight, sub = Weight(torch.ones(2)), torch.ones(2).as_subclass(type("Sub", (torch.Tensor,), {}))
    for result in (weight * 2, weight.detach(), weight.data, weight[0], weight.double(), torch.stack([weight, weight])):
        assert type(result) is torch.Tensor
    assert type(weight * sub) is type(torch.cat([weight, sub])) is type(sub)
    assert type(weight.requires_grad_(False).add_(1)) is Weight
    assert torch.overrides.is_tensor_like(weight) and not torch.overrides.has_torch_function((weight,))


def test_a_subclass_of_parameter_may_override_functions():
    class Weight(torch.nn.Parameter):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    seen = []
    assert type(Weight(torch.ones(2)) * 2) is torch.Tensor
    assert seen == ["mul"]
