"""``torch.library``: programs with operations of their own, run with PyTorch and with flambeau, must see the same."""

from __future__ import annotations

import copy
import gc
import io
import itertools
import pickle
import sys
import warnings

import numpy as np
import pytest
from library_programs import PROGRAMS, shown

import flambeau as torch
from flambeau._library.opcheck import OpCheckError
from tests.helpers.threads import in_threads

counter = itertools.count()


def told(library, program):
    """What a program saw, as text; each run has a namespace of its own, which the text does not show."""
    namespace = f"own_{next(counter)}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seen = program(library, namespace)
    return [shown(lambda value=value: value).replace(namespace, "own") for value in seen]


@pytest.mark.oracle
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_sees_what_it_sees_with_pytorch(oracle, program):
    ours, theirs = told(torch, program), told(oracle, program)
    assert ours == theirs


def twice(name, **options):
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(np.multiply(x.numpy(force=True), 2, out=np.empty_like(x.numpy(force=True)), casting="unsafe"))

    return torch.library.custom_op(f"tests_library::{name}", function, mutates_args=(), **options)


def test_a_namespace_of_the_packages_own_name_hides_nothing():
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    for namespace in ("attention", "norm", "softmax"):
        operation = torch.library.custom_op(f"{namespace}::mine_alone", function, mutates_args=())
        assert getattr(torch.ops, namespace).mine_alone.default is operation._opoverload
    assert torch.ops.norm(torch.ones(4)).item() == 2  # the operation of flambeau
    q = torch.ones(1, 1, 2, 4)
    assert torch.nn.functional.scaled_dot_product_attention(q, q, q).shape == q.shape
    with pytest.raises(AttributeError, match="'_OpNamespace' 'norm' object has no attribute 'others'"):
        torch.ops.norm.others  # noqa: B018


def test_layouts_empties_and_scalars_pass_through():
    operation = twice("layouts")
    operation.register_autograd(lambda ctx, grad: grad * 2)
    base = torch.arange(24.0).view(2, 3, 4)
    for x in (base.transpose(0, 2), base[:, ::2], torch.ones(3, 1).expand(3, 4), torch.zeros(0, 3), torch.tensor(2.0), base[..., 1:3]):
        x = x.clone(memory_format=torch.preserve_format).requires_grad_() if x.numel() < 13 else x.detach().requires_grad_()
        y = operation(x)
        assert y.shape == x.shape
        assert torch.equal(y, x * 2)
        (grad,) = torch.autograd.grad(y.sum(), x)
        assert torch.equal(grad, torch.full_like(grad, 2))
    for dtype in (torch.float16, torch.int8, torch.complex64, torch.bool):
        assert twice("dtypes")(torch.ones(2, dtype=dtype)).shape == (2,)


def test_an_error_in_a_kernel_leaves_everything_as_it_was():
    broken = [True]

    def function(x: torch.Tensor) -> torch.Tensor:
        if broken[0]:
            raise KeyError("mine")
        return x * 2

    operation = torch.library.custom_op("tests_library::broken", function, mutates_args=())
    operation.register_autograd(lambda ctx, grad: grad * 2)
    operation.register_fake(function)
    x = torch.ones(2, requires_grad=True)
    for given in (x, x.detach(), x.detach().to("meta")):
        with pytest.raises(KeyError, match="mine"):
            operation(given)
    assert torch.is_grad_enabled()
    assert torch.library.get_ctx() is None
    broken[0] = False
    assert torch.autograd.grad(operation(x).sum(), x)[0].tolist() == [2, 2]
    lib = torch.library.Library("tests_library", "FRAGMENT")
    lib.define("sees(Tensor x) -> bool")
    lib.impl("sees", lambda x: torch.is_grad_enabled(), "CPU")
    assert torch.ops.tests_library.sees(x) is True  # below autograd no longer


def test_threads_call_and_define_at_once():
    operation = twice("threads")
    operation.register_autograd(lambda ctx, grad: grad * 2)

    def work(k):
        for i in range(20):
            own = twice(f"thread_{k}_{i}")
            x = torch.full((3,), float(k), requires_grad=True)
            assert own(x.detach())[0] == 2 * k
            assert torch.autograd.grad(operation(x).sum(), x)[0].tolist() == [2, 2, 2]
            assert getattr(torch.ops.tests_library, f"thread_{k}_{i}").default is own._opoverload

    in_threads(4, work)


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.operation = torch.ops.tests_library.pickled.default
        self.weight = torch.nn.Parameter(torch.ones(2))

    def forward(self, x):
        return self.operation(x * self.weight)


def test_modules_with_an_operation_are_copied_and_saved():
    definition = twice("pickled")
    layer = Layer()
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), torch.load(file, weights_only=False)):
        assert other.operation is layer.operation
        assert other(torch.ones(2)).tolist() == [2, 2]
    assert copy.deepcopy(definition) is definition
    assert pickle.loads(pickle.dumps(definition)) is definition


def test_a_library_takes_away_what_it_brought():
    lib = torch.library.Library("tests_gone", "DEF")
    lib.define("one(Tensor x) -> Tensor")
    fragment = torch.library.Library("tests_gone", "FRAGMENT")
    fragment.impl("one", lambda x: x + 1, "CPU")
    fragment.impl("later", lambda x: x + 2, "CPU")  # before its definition
    fragment.define("later(Tensor x) -> Tensor")
    x = torch.zeros(1)
    assert torch.ops.tests_gone.one(x).item() == 1
    assert torch.ops.tests_gone.later(x).item() == 2
    del fragment
    gc.collect()
    with pytest.raises(NotImplementedError, match="Could not run 'tests_gone::one'"):
        torch.ops.tests_gone.one(x)
    assert not hasattr(torch.ops.tests_gone, "later")
    lib._destroy()
    lib._destroy()
    assert not hasattr(torch.ops.tests_gone, "one")
    with torch.library._scoped_library("tests_gone", "DEF") as scoped:
        scoped.define("one(Tensor x) -> Tensor")
        assert torch.ops.tests_gone.one.overloads() == ["default"]
    assert not hasattr(torch.ops.tests_gone, "one")


def test_operations_of_flambeau_keep_their_kernels():
    lib = torch.library.Library("aten", "IMPL")
    with pytest.raises(NotImplementedError, match="aten::mul.Tensor: rules and kernels of operations that flambeau has itself"):
        lib.impl("mul.Tensor", lambda x, y: x, "CPU")
    with pytest.raises(NotImplementedError, match="with_keyset"):
        lib.impl("mul.Tensor", lambda x, y: x, "CPU", with_keyset=True)
    with pytest.raises(NotImplementedError, match="fallback"):
        lib.fallback(len)
    for waiting in (torch.library.triton_op, torch.library.wrap_triton, torch.library.get_kernel):
        with pytest.raises(NotImplementedError, match="is not supported yet"):
            waiting()


def test_saved_tensors_of_an_operation_are_checked_and_freed():
    operation = twice("saved")
    operation.register_autograd(
        lambda ctx, grad: grad * ctx.saved_tensors[1] / ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0], output),
    )
    x = torch.ones(2, requires_grad=True)
    y = operation(x)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.sum().backward()
    assert x.grad.tolist() == [4, 4]
    stale = operation(x)
    with torch.no_grad():
        x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        stale.sum().backward()
    before = sys.getrefcount(x)
    operation(x)
    gc.collect()
    assert sys.getrefcount(x) == before


def test_sizes_that_depend_on_values_have_no_fake_kernel():
    def nonzero(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(np.flatnonzero(x.numpy()))

    operation = torch.library.custom_op("tests_library::nonzero", nonzero, mutates_args=())
    operation.register_fake(lambda x: x.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64))
    assert operation(torch.tensor([0.0, 1.0])).tolist() == [1]
    with pytest.raises(RuntimeError, match="data-dependent shape"):
        operation(torch.ones(2, device="meta"))


def numpy_sine():
    def function(x: torch.Tensor, others: list[torch.Tensor], scale: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
        made = scale * np.sin(x.numpy(force=True)) + sum(other.numpy(force=True) for other in others)
        return torch.from_numpy(np.asarray(made)), x.long()

    operation = torch.library.custom_op(f"tests_library::sine_{next(counter)}", function, mutates_args=())

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.count, ctx.scale = len(inputs[1]), inputs[2]

    def backward(ctx, grad, *rest):
        return grad * ctx.scale * ctx.saved_tensors[0].cos(), [grad] * ctx.count, None

    operation.register_autograd(backward, setup_context=setup_context)
    return operation


def with_rule(operation, seen):
    @operation.register_vmap
    def rule(info, in_dims, x, others, scale=1.0):
        seen.append((info.batch_size, in_dims))
        size = info.batch_size
        parts = [part if dim is not None else part.expand(size, *part.shape) for part, dim in zip([x, *others], [in_dims[0], *in_dims[1]])]
        made = operation(parts[0], parts[1:], scale)
        return made, (0, 0)

    return operation


@pytest.mark.parametrize("has_rule", [False, True])
@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_transforms_see_an_operation_as_one_of_flambeau(has_rule):
    func, seen = torch.func, []
    operation = numpy_sine()
    if has_rule:
        with_rule(operation, seen)
    own = lambda x, y: operation(x, [y, x], 3.0)[0]  # noqa: E731
    known = lambda x, y: 3 * x.sin() + y + x  # noqa: E731
    x, y = torch.randn(3, 2, dtype=torch.float64), torch.randn(2, dtype=torch.float64)
    total = lambda f: lambda x, y: (f(x, y) ** 2).sum()  # noqa: E731
    for make in (
        lambda f: func.vmap(f, (0, None))(x, y),
        lambda f: func.vmap(f, (1, None), 1)(x, x[:, 0]),
        lambda f: func.vmap(func.vmap(f), (0, None))(x, y),
        lambda f: func.grad(total(f), (0, 1))(x, y),
        lambda f: func.vmap(func.grad(total(f)), (0, None))(x, y),
        lambda f: func.grad(lambda x: func.vmap(f, (0, None))(x, y).pow(2).sum())(x),
        lambda f: func.jvp(f, (x, y), (x * 2, y * 3)),
        lambda f: func.vmap(lambda x: func.jvp(f, (x, y), (x, y))[1])(x),
        lambda f: func.hessian(total(f))(x[0], y),
        lambda f: func.jacfwd(func.jacfwd(f))(y, y),
        lambda f: func.jacrev(f)(y, y),
        lambda f: func.vjp(f, x, y)[1](torch.ones_like(x)),
    ):
        torch.testing.assert_close(make(own), make(known))
    assert bool(seen) is has_rule
    z = x[0].clone().requires_grad_()
    (slope,) = torch.autograd.grad(func.jvp(own, (z, y), (y, y))[1].sum(), z)
    torch.testing.assert_close(slope, -3 * z.detach().sin() * y)
    made, tangents = func.jvp(lambda x: operation(x, []), (x,), (x,))
    assert (made[1].dtype, tangents[1].any().item()) == (torch.int64, False)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_transforms_refuse_what_they_cannot_do():
    lib = torch.library.Library("tests_library", "FRAGMENT")
    lib.define("increase(Tensor(a!) x) -> ()")
    lib.impl("increase", lambda x: None if x.add_(1) is x else 0, "CPU")
    lib.define("plain(Tensor x) -> Tensor")
    lib.impl("plain", lambda x: x * 2, "CPU")
    lib.define("composite(Tensor x) -> Tensor")
    lib.impl("composite", lambda x: x.sin(), "CompositeImplicitAutograd")
    ops, x = torch.ops.tests_library, torch.randn(3, 2)
    with pytest.raises(RuntimeError, match="Batching rule not implemented for tests_library::increase"):
        torch.func.vmap(ops.increase)(x)
    with pytest.raises(NotImplementedError, match="tests_library::plain: forward-mode differentiation needs a derivative"):
        torch.func.jvp(ops.plain, (x,), (x,))
    assert torch.equal(torch.func.vmap(ops.plain)(x), x * 2)
    assert torch.equal(torch.func.jvp(torch.func.vmap(ops.composite), (x,), (x,))[1], x * x.cos())
    broken = twice("broken_rule")
    broken.register_vmap(lambda info, in_dims, x: 3)
    with pytest.raises(RuntimeError, match="expected the vmap rule to return a tuple"):
        torch.func.vmap(broken)(x)


def outcomes(operation, *args, **options):
    return {
        name.removeprefix("test_"): str(value)
        for name, value in torch.library.opcheck(operation, args, raise_exception=False, **options).items()
    }


GOOD = dict.fromkeys(("schema", "autograd_registration", "faketensor", "aot_dispatch_dynamic"), "SUCCESS")
WHERE = "When comparing the output of tests_library.{}.default on FakeTensor and concrete Tensors, found mismatched tensor metadata: "


def test_opcheck_finds_registrations_that_are_wrong():
    """The words are PyTorch's; ``python -m tests.programs.library_programs`` compares."""
    x, moving = torch.randn(3), torch.randn(3, requires_grad=True)
    good = twice("good")
    good.register_fake(torch.empty_like)
    good.register_autograd(lambda ctx, grad: grad * 2)
    assert outcomes(good, x) == outcomes(torch.ops.tests_library.good, moving) == outcomes(good._opoverload, x.double()) == GOOD
    assert outcomes(torch.ops.aten.sin.default, x) == GOOD
    missing = "There was no fake impl registered for <CustomOpDef(tests_library::no_fake)>."
    found = outcomes(twice("no_fake"), x)
    assert found["faketensor"].startswith(missing) and found["aot_dispatch_dynamic"].startswith(missing)
    for name, fake, words in (
        ("shape", lambda x: x.new_empty(5), "Shapes torch.Size([3]) and torch.Size([5]) are not equal!"),
        ("dtype", torch.Tensor.double, "Dtypes torch.float32 and torch.float64 are not equal!"),
    ):
        operation = twice(name)
        operation.register_fake(fake)
        assert outcomes(operation, x) == {**GOOD, "faketensor": WHERE.format(name) + words}
        with pytest.raises(OpCheckError, match=r"opcheck\(op, ...\): test_faketensor failed with When comparing"):
            torch.library.opcheck(operation, (x,))
    lib = torch.library.Library("tests_library", "FRAGMENT")
    for name, kernel in (("writes", lambda x: x.add_(1).clone()), ("shares", lambda x: x[:2]), ("same", lambda x: x)):
        lib.define(f"{name}(Tensor x) -> Tensor")
        lib.impl(name, kernel, "CompositeExplicitAutograd")
    ops = torch.ops.tests_library
    assert outcomes(ops.writes, x)["schema"] == "Argument x is not defined as mutable but was mutated"
    assert (
        outcomes(ops.shares, x)["schema"] == outcomes(ops.same, x)["schema"] == "Argument x is not defined to alias output but was aliasing"
    )
    assert outcomes(ops.shares, moving)["autograd_registration"].startswith("tests_library::shares: at least one output")
    no_formula = twice("no_formula")
    no_formula.register_fake(torch.empty_like)
    assert outcomes(no_formula, moving)["aot_dispatch_dynamic"].startswith("Trying to backward through tests_library.no_formula.default")
    with pytest.raises(ValueError, match="expected test_utils to be subset of"):
        torch.library.opcheck(good, (x,), test_utils="nope")
    with pytest.raises(ValueError, match="op must be instance of"):
        torch.library.opcheck(torch.sin, (x,))
