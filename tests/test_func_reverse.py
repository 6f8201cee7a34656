"""``torch.func``'s reverse mode: what is cut off the tape and what stays, errors, and ``rearrange``."""

from __future__ import annotations

import gc
import weakref

import pytest

import flambeau as torch
from flambeau.autograd import functional

func = torch.func
F64 = torch.float64


@pytest.fixture
def x():
    return torch.tensor([1.0, 2.0, 3.0], dtype=F64)


@pytest.fixture
def w():
    return torch.tensor([0.5, -1.0, 2.0], dtype=F64, requires_grad=True)


# -- what stays on the tape -----------------------------------------------------------------------------------------------------------
def test_results_are_cut_off_where_nobody_elses_variable_was_met(x):
    found, (value, aux) = func.grad_and_value(lambda x: ((x * x).sum(), x * 2), has_aux=True)(x)
    assert not (found.requires_grad or value.requires_grad or aux.requires_grad or x.requires_grad)
    value, back = func.vjp(lambda x: (x * x, x.sum()), x)
    assert not any(each.requires_grad for each in (*value, *back((x, x.sum()))))
    assert not func.jacrev(torch.sin)(x).requires_grad
    assert not func.hessian(lambda x: x.prod())(x).requires_grad


def test_a_closed_over_variable_keeps_the_graph_of_what_met_it(x, w):
    found, (value, aux) = func.grad_and_value(lambda x: ((x * x * w).sum(), x * 2), has_aux=True)(x)
    assert found.requires_grad and value.requires_grad and not aux.requires_grad
    assert torch.equal(torch.autograd.grad(found.sum(), w)[0], 2 * x)
    assert not func.grad(lambda x: (x * x * w.detach()).sum())(x).requires_grad
    value, back = func.vjp(lambda x: x * w, x)
    assert value.requires_grad and torch.equal(torch.autograd.grad(back(x)[0].sum(), w)[0], x)


def test_an_argument_that_requires_grad_is_differentiated_through(w):
    found = func.grad(lambda x: (x**3).sum())(w)
    assert torch.equal(torch.autograd.grad(found.sum(), w)[0], 6 * w.detach())
    assert w.grad is None
    assert not func.grad(lambda x: (x.detach() ** 3).sum() + 0 * x.sum())(w.detach()).requires_grad


def test_no_grad_counts_for_the_transforms_inside_of_which_it_stands(x, w):
    with torch.no_grad():
        found, value = func.grad_and_value(lambda x: (x * x * w).sum())(x)
        assert not found.requires_grad and not value.requires_grad
        assert torch.equal(found, 2 * x * w)
        outer = func.grad(lambda x: (func.grad(lambda y: (y**3).sum())(x) * x).sum())(x)  # grad switches recording on for itself
    assert torch.equal(outer, 9 * x**2)

    def f(x):
        with torch.no_grad():
            slope = func.grad(lambda y: (y**3).sum())(x)
        return (slope * x).sum()

    assert torch.equal(func.grad(f)(x), 3 * x**2)


def test_inference_mode_around_and_inside(x):
    with torch.inference_mode():
        assert torch.equal(func.grad(lambda x: (x * x).sum())(x), 2 * x)

    def f(x):
        with torch.inference_mode():
            return (x * x).sum()

    assert torch.equal(func.grad(f)(x), x * 0)


def test_a_transform_that_fails_leaves_everything_as_it_was(x):
    def f(x):
        raise KeyError("mine")

    for call in (lambda: func.grad(f)(x), lambda: func.jacrev(f)(x), lambda: func.jacfwd(f)(x), lambda: func.grad(func.jacfwd(f))(x)):
        with torch.no_grad(), pytest.raises(KeyError):
            call()
    assert torch.is_grad_enabled()
    (x.clone().requires_grad_() * 2).sum().backward()
    assert torch.equal(func.grad(torch.sum)(x), torch.ones(3, dtype=F64))


def test_the_graph_of_a_transform_is_freed(x):
    held = []

    def f(x):
        y = x.sin()
        held.append(weakref.ref(y))
        return (y * y).sum()

    gc.disable()
    try:
        func.grad(f)(x)
        func.jacrev(lambda x: f(x))(x)
        assert [each() for each in held] == [None, None]
    finally:
        gc.enable()


def test_an_argument_that_leaked_out_receives_no_gradient(x, w):
    leaked = []
    func.grad(lambda x: (leaked.append(x), (x * w).sum())[1])(x)
    (leaked[0] * w).sum().backward()
    assert leaked[0].grad is None and torch.equal(w.grad, x)


def test_what_vjp_returns_can_be_called_again_and_in_other_modes(x, w):
    _, back = func.vjp(lambda x: x * x, w)
    first = back(x)[0]
    assert first.requires_grad and torch.equal(first, back(x)[0])
    with torch.no_grad():
        assert not back(x)[0].requires_grad
    assert not back(x, create_graph=False)[0].requires_grad
    back(x, retain_graph=False)
    with pytest.raises(RuntimeError, match="second time"):
        back(x)


def test_writing_to_an_argument_is_refused_and_changes_nothing(x, w):
    for given in (x, w * 1.0):
        before = given.detach().clone()
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad is being used in an in-place operation"):
            func.grad(lambda x: x.mul_(2).sum())(given)
        assert torch.equal(given, before)


def test_backward_inside_is_refused(x, w):
    with pytest.raises(RuntimeError, match="backward\\(\\) called inside a functorch transform"):
        func.grad(lambda x: ((x * w).sum().backward(), x.sum())[1])(x)
    assert w.grad is None


def test_autograd_grad_inside_of_transforms(x):
    def f(x):
        (slope,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        return (slope * x).sum()

    assert torch.equal(func.grad(f)(x), 9 * x**2)
    assert torch.equal(func.jacrev(func.grad(f))(x), torch.diag(18 * x))


# -- arguments and errors -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: func.grad(lambda x: x)(x), RuntimeError, "return a scalar Tensor, got tensor with 1 dims"),
        (lambda x: func.grad(lambda x: 3.0)(x), RuntimeError, "to return a Tensor, got <class 'float'>"),
        (lambda x: func.grad(torch.sum, has_aux=True)(x), RuntimeError, "should be a tuple: \\(output, aux\\)"),
        (lambda x: func.grad(torch.sum, argnums=1)(x), RuntimeError, "Got argnum=1, but only 1 positional inputs"),
        (lambda x: func.grad(torch.sum, argnums=-2)(x), RuntimeError, "Got argnum=-2"),
        (lambda x: func.grad(torch.dot, argnums=(0, -2))(x, x), RuntimeError, "elements must be unique, got \\(0, 0\\)"),
        (lambda x: func.grad(torch.sum, argnums=())(x), RuntimeError, "must be non-empty"),
        (lambda x: func.grad(torch.sum, argnums=[0])(x), RuntimeError, "argnums must be int or Tuple"),
        (lambda x: func.grad(torch.sum, argnums=("0",))(x), RuntimeError, "argnum must be int"),
        (lambda x: func.grad(torch.sum)(x.long()), RuntimeError, "only Tensors of floating point dtype"),
        (lambda x: func.grad(lambda t: t[0].sum())([x, 3.0]), ValueError, "must be Tensor, got <class 'float'>"),
        (lambda x: func.grad(lambda x: (x * 1j).sum())(x), RuntimeError, "only for real scalar outputs but got torch.complex128"),
        (lambda x: func.grad(lambda x: (x.sum(), 3), has_aux=True)(x), RuntimeError, "Expected tensors, got unsupported type"),
        (lambda x: func.vjp(lambda x: 3.0, x), RuntimeError, "return only tensors, got unsupported type <class 'float'>"),
        (lambda x: func.vjp(lambda x: (), x), RuntimeError, "non-empty output \\(got output = \\[\\]\\)"),
        (lambda x: func.vjp(lambda x: (x, x), x)[1](x), RuntimeError, "cotangents: \\*, primal output: \\(\\*, \\*\\)"),
        (lambda x: func.vjp(torch.sin, x)[1](x[:2]), RuntimeError, "Mismatch in shape"),
        (lambda x: func.vjp(lambda x: x.long(), x)[1](x), RuntimeError, "must be floating-point or complex Tensors"),
        (lambda x: func.jacrev(torch.sin, chunk_size=0), ValueError, "`chunk_size` should be greater than 0"),
        (lambda x: func.jacrev(lambda x: x * 1j)(x), RuntimeError, "jacrev: Expected all outputs to be real"),
        (lambda x: func.jacfwd(torch.sin)(x * 1j), RuntimeError, "jacfwd: Expected all inputs to be real"),
        (lambda x: func.jacfwd(torch.sin)(x.long()), ValueError, "Expected primal to be floating point"),
        (lambda x: func.jacfwd(torch.sin, randomness="some")(x), RuntimeError, "Only allowed values for randomness"),
        (lambda x: func.linearize(torch.dot, x, x)[1](x), RuntimeError, "same argspec"),
        (lambda x: func.linearize(torch.sin, x)[1](x[:2]), RuntimeError, "tangent:0 with shape torch.Size\\(\\[2\\]\\)"),
        (lambda x: func.linearize(torch.sin, x)[1](x.float()), RuntimeError, "tangent:0 with dtype torch.float32"),
        (lambda x: func.functionalize(torch.sin, remove="all"), RuntimeError, "received invalid argument for remove=all"),
        (lambda x: func.debug_unwrap(3), TypeError, "expected a Tensor"),
    ],
)
def test_wrong_arguments(x, call, error, words):
    with pytest.raises(error, match=words):
        call(x)


def test_integer_results_and_none_that_depends_have_gradients_of_zeros(x):
    for f in (lambda x: torch.ones(()), lambda x: x.long().sum()):
        assert func.grad(f)(x).tolist() == [0, 0, 0]
    assert func.vjp(lambda x: torch.ones(2), x)[1](torch.ones(2))[0].tolist() == [0, 0, 0]


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (2, 1)])
def test_jacobians_of_unusual_shapes(shape):
    given = torch.ones(shape)
    for transform in (func.jacrev, func.jacfwd):
        assert transform(torch.sin)(given).shape == shape + shape
        assert transform(lambda x: (x.sum(), x * 2))(given)[0].shape == shape
    assert func.jacrev(torch.sin, chunk_size=1)(given).shape == shape + shape


def test_layouts_and_dtypes_of_arguments():
    given = torch.arange(12.0).view(3, 4).t()[::2]
    assert torch.equal(func.grad(lambda x: (x * x).sum())(given), 2 * given)
    assert torch.equal(func.grad(lambda x: (x * x).sum())(torch.ones(1).expand(3)), torch.full((3,), 2.0))
    assert func.grad(lambda x: x.double().sum())(given).dtype == torch.float32
    assert func.jacrev(lambda x: x.double() * 2)(given).dtype == torch.float32
    assert func.grad(lambda x: (x * x).float().sum())(given.bfloat16()).dtype == torch.bfloat16


def test_batches_of_cotangents_inside_of_a_batch(x):
    rows, vectors = torch.stack([x, x + 1]), torch.arange(12.0, dtype=F64).view(2, 2, 3)
    found = func.vmap(lambda x, v: func.vmap(func.vjp(torch.sin, x)[1])(v)[0])(rows, vectors)
    assert torch.allclose(found, rows.cos().unsqueeze(1) * vectors)


def test_rules_that_look_for_zeros_look_at_all_examples():
    rows = torch.tensor([[1.0, 2.0, 3.0], [4.0, 0.0, 5.0], [0.0, 6.0, 0.0]])
    expected = [[6, 3, 2], [0, 20, 0], [0, 0, 0]]
    for transform in (func.grad, func.jacrev, func.jacfwd):
        assert func.vmap(transform(torch.prod))(rows).tolist() == expected


# -- torch.autograd ----------------------------------------------------------------------------------------------------------------------
def test_batched_gradients(w):
    y, vectors = w**2, torch.arange(6.0, dtype=F64).view(2, 3)
    (found,) = torch.autograd.grad(y, w, vectors, is_grads_batched=True, retain_graph=True)
    assert torch.equal(found, vectors * 2 * w) and not found.requires_grad
    (found,) = torch.autograd.grad(y, w, vectors.float(), is_grads_batched=True, create_graph=True)
    assert torch.equal(torch.autograd.grad(found.sum(), w)[0], vectors.sum(0) * 2)
    other = torch.ones(2, requires_grad=True)
    assert torch.autograd.grad(y, (w, other), vectors, retain_graph=True, is_grads_batched=True, allow_unused=True)[1] is None
    with pytest.raises(RuntimeError, match="index 1 appears to not have been used"):
        torch.autograd.grad(y, (w, other), vectors, retain_graph=True, is_grads_batched=True)
    with pytest.raises(RuntimeError, match="we interpret the first dimension of each grad_output as the batch dimension"):
        torch.autograd.grad(y, w, vectors[0], is_grads_batched=True)
    with pytest.raises(ValueError, match="same size in the mapped dimension"):
        torch.autograd.grad((y, y), w, (vectors, vectors[:1]), is_grads_batched=True)


def test_vectorized_jacobians_are_those_row_by_row(x):
    def f(x, y):
        return (x * y.sum()).sin(), y.outer(x), torch.ones(2, dtype=F64)

    given = x, torch.tensor([0.5, 1.5], dtype=F64)
    plain = functional.jacobian(f, given)
    for options in ({}, {"strategy": "forward-mode"}):
        found = functional.jacobian(f, given, vectorize=True, **options)
        assert all(torch.allclose(a, b) for row, other in zip(found, plain, strict=True) for a, b in zip(row, other, strict=True))
    plain = functional.hessian(lambda x, y: f(x, y)[1].sin().prod(), given)
    for mode in ("reverse-mode", "forward-mode"):
        found = functional.hessian(lambda x, y: f(x, y)[1].sin().prod(), given, vectorize=True, outer_jacobian_strategy=mode)
        assert all(torch.allclose(a, b) for row, other in zip(found, plain, strict=True) for a, b in zip(row, other, strict=True))


def test_options_of_jacobians_that_do_not_go_together(x):
    forward = {"vectorize": True, "strategy": "forward-mode"}
    with pytest.raises(RuntimeError, match="`strict=True` and `vectorized=True`"):
        functional.jacobian(torch.sin, x, vectorize=True, strict=True)
    with pytest.raises(RuntimeError, match='`strict=True` and `strategy="forward-mode"`'):
        functional.jacobian(torch.sin, x, strict=True, **forward)
    with pytest.raises(NotImplementedError, match='`create_graph=True` and `strategy="forward-mode"`'):
        functional.jacobian(torch.sin, x, create_graph=True, **forward)
    with pytest.raises(NotImplementedError, match="only implemented for `vectorize=True`"):
        functional.hessian(torch.sum, x, outer_jacobian_strategy="forward-mode")
    with pytest.raises(AssertionError, match="Expected strategy"):
        functional.jacobian(torch.sin, x, strategy="both")


# -- rearrange and functionalize --------------------------------------------------------------------------------------------------------
IMAGES = torch.arange(24).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("pattern", "sizes", "expected"),
    [
        ("a b c -> c (a b)", {}, lambda x: x.permute(2, 0, 1).reshape(4, 6)),
        ("a ... -> (... a)", {}, lambda x: x.permute(1, 2, 0).reshape(24)),
        ("a (b c) d -> c () a 1 (d b)", {"c": 3}, lambda x: x.reshape(2, 3, 4).permute(1, 0, 2).reshape(3, 1, 2, 1, 4)),
        ("... (h w) -> w ... h", {"w": 2}, lambda x: x.reshape(2, 3, 2, 2).permute(3, 0, 1, 2)),
    ],
)
def test_rearrange(pattern, sizes, expected):
    assert torch.equal(func.rearrange(IMAGES, pattern, **sizes), expected(IMAGES))


def test_rearrange_gives_views_and_stacks_lists():
    assert func.rearrange(IMAGES, "a b c -> a (b c)").data_ptr() == IMAGES.data_ptr()
    assert torch.equal(func.rearrange([IMAGES, -IMAGES], "n a b c -> (n a) b c"), torch.cat([IMAGES, -IMAGES]))


@pytest.mark.parametrize(
    ("pattern", "sizes", "error", "words"),
    [
        ("a b c -> a b", {}, ValueError, "only on one side"),
        ("a b -> a b", {}, ValueError, "Number of dimensions in pattern \\(2\\)"),
        ("a b c", {}, ValueError, "single '->' separator"),
        ("a b a -> a b", {}, ValueError, "duplicate dimension 'a'"),
        ("a (b c -> a b c", {}, ValueError, "Imbalanced parentheses"),
        ("a b) c -> a b c", {}, ValueError, "not balanced"),
        ("a ((b)) c -> a b c", {}, ValueError, "one-level"),
        ("a _b c -> a _b c", {}, ValueError, "Invalid axis identifier: _b"),
        ("a 2 c -> a c", {}, ValueError, "unnamed axes of size 1"),
        ("a b-c -> a", {}, ValueError, "Unknown character '-'"),
        ("a. b c -> a b c", {}, ValueError, "dots only inside ellipsis"),
        ("a (...) -> a ...", {}, ValueError, "left side is not allowed"),
        ("a b c -> a b c ...", {}, ValueError, "Ellipsis found in right side"),
        ("a b c -> a b c", {"z": 1}, ValueError, "not found in rearrange expression"),
        ("(a x) b c -> a x b c", {"x": 2.0}, TypeError, "must be integers"),
        ("(a x) b c -> a x b c", {}, RuntimeError, "two dimensions at once"),
        ("(a x) b c -> a x b c", {"x": 5}, RuntimeError, "does not evenly fit"),
        ("a b c -> c b a", {"a": 3}, RuntimeError, "2 != 3"),
    ],
)
def test_patterns_that_do_not_fit(pattern, sizes, error, words):
    with pytest.raises(error, match=words):
        func.rearrange(IMAGES, pattern, **sizes)


@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
def test_functionalized_functions_write_to_their_arguments_and_share_no_views_when_told(x, remove):
    def f(x):
        x.add_(1)
        return x.view(3, 1), x

    given = x.clone()
    view, same = func.functionalize(f, remove=remove)(given)
    assert same is given and torch.equal(given, x + 1) and torch.equal(view.squeeze(1), given)
    assert (view.data_ptr() == given.data_ptr()) is (remove == "mutations")


def test_debug_unwrap_shows_what_a_batch_is_made_of(x):
    seen = []
    func.vmap(lambda r: (seen.append((func.debug_unwrap(r), func.debug_unwrap(r, recurse=False))), r)[1])(x.view(3, 1))
    assert all(each.shape == (3, 1) for each in seen[0])


def test_what_packages_ask_about_tensors_of_transforms(x):
    from flambeau._C import _functorch as questions
    from flambeau._functorch.apis import vmap
    from flambeau._functorch.eager_transforms import jvp

    def told(tensor):
        kinds = questions.is_batchedtensor(tensor), questions.is_gradtrackingtensor(tensor), questions.is_functorch_wrapped_tensor(tensor)
        return (*kinds, questions.maybe_get_bdim(tensor), questions.maybe_get_level(tensor), questions.maybe_current_level())

    answers = [told(x)]
    vmap(lambda row: (answers.append(told(row)), row)[1])(x.view(3, 1))
    jvp(lambda x: (answers.append(told(x)), x)[1], (x,), (x,))
    assert answers == [(False, False, False, -1, -1, None), (True, False, True, 0, 1, 1), (False, True, True, -1, 1, 1)]

    def summed(row):
        assert questions.get_unwrapped(row).shape == (3, 1)
        whole = questions._remove_batch_dim(row, 1, 3, 0)
        return questions._add_batch_dim(whole * 2, 0, 1)

    assert torch.equal(vmap(summed)(x.view(3, 1)), x.view(3, 1) * 2)
    with pytest.raises(RuntimeError, match="No wrappers"):
        questions.get_unwrapped(x)


def test_a_batch_whose_end_was_interrupted_is_not_watched_for_ever() -> None:
    from flambeau.core.random import generator
    from flambeau.func._batch import Batch

    batch = Batch(3)
    assert type(generator.default_generator) is not generator.Generator
    del batch
    torch.vmap(torch.sin)(torch.ones(3))
    assert type(generator.default_generator) is generator.Generator


def test_numbers_drawn_before_a_composite_are_noticed_after_it() -> None:
    from types import SimpleNamespace

    from flambeau.core.calls.registry import TABLES
    from flambeau.func._batch import Batch
    from flambeau.func._levels import below

    with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"), Batch(2) as batch:
        torch.empty(3).uniform_()  # of no batch
        with below(batch):  # example by example, drawing nothing
            call = SimpleNamespace(op=TABLES["torch"]["cov"], values=(batch.wrap(torch.randn(2, 3, 4)), 1, None, None))
            batch.composite(call)


# -- linearize ---------------------------------------------------------------------------------------------------------------------------
def in_no_grad(x):
    with torch.no_grad():
        c = x * 2
    return x + c


def written_by_index(x):
    x = x.clone()
    x[0] = x[-1].sin()
    return x


def written_through_unbind(x):
    x = x.clone()
    x.unbind()[0].mul_(x[1])
    return x * 3


def overwritten(x):
    y = x.clone()
    z = y * y.sin()  # whose derivative needs what is overwritten now
    y.zero_().add_(1)
    return z * y


def buffered(x):
    made = torch.zeros(3, dtype=x.dtype)
    for i in range(3):
        made[i] = x[i] * x.sum()
    return made.cumsum(0)


def transposed_in_place(x):
    return (x.outer(x).t_() * x).sum(1)


class Cube(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_forward(inputs[0])
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def jvp(ctx, tangent):
        return 3 * ctx.saved_tensors[0] ** 2 * tangent

    @staticmethod
    def backward(ctx, grad):
        return 3 * ctx.saved_tensors[0] ** 2 * grad


LINEARIZED = [
    in_no_grad,
    written_by_index,
    written_through_unbind,
    overwritten,
    buffered,
    transposed_in_place,
    Cube.apply,
    lambda x: func.grad(lambda x: (x.sin() * x.exp()).sum() * x.prod())(x),
    lambda x: func.jacrev(lambda x: torch.stack([x.prod(), x.sin().sum()]))(x),
    lambda x: func.hessian(lambda x: x.prod() * x.sum())(x),
    lambda x: func.grad(lambda x: func.jacrev(lambda x: (x * 2).var())(x).sum())(x),
    lambda x: func.vmap(lambda y: (x * y).sin())(x),
    lambda x: func.jvp(lambda x: x.sin() * x.sum(), (x,), (x * 2,))[1],
    lambda x: func.linearize(lambda x: x.sin() * x.sum(), x)[1](x * 2),
    lambda x: {"a": (x.softmax(0), [x.logsumexp(0)]), "b": torch.linalg.norm(x)},
    lambda x: torch.linalg.inv(x.outer(x) + torch.eye(3, dtype=x.dtype)),
    lambda x: x.sort(descending=True)[0].cumprod(0),
]


def leaves(tree):
    return torch.utils._pytree.tree_flatten(tree)[0]


@pytest.mark.parametrize("number", range(len(LINEARIZED)))
def test_linearized_functions_have_the_products_of_jvp(number, x):
    f = LINEARIZED[number]
    value, push = func.linearize(f, x)
    for direction in (x.cos(), x * 0, x - 2):
        wanted, slopes = func.jvp(f, (x,), (direction,))
        for a, b in zip(leaves((value, push(direction))), leaves((wanted, slopes)), strict=True):
            torch.testing.assert_close(a, b)
            assert not a.requires_grad
    directions = torch.stack([x, x.cos()])
    for a, b in zip(leaves(func.vmap(push)(directions)), leaves(push(x)), strict=True):
        torch.testing.assert_close(a[0], b)
    for a, b in zip(leaves(func.jvp(push, (x,), (x,))), leaves((push(x), push(x))), strict=True):
        torch.testing.assert_close(a, b)
    if f is written_through_unbind:  # which reverse mode refuses
        return
    first = lambda tree: leaves(tree)[0]  # noqa: E731
    columns = torch.stack([first(push(each)) for each in torch.eye(3, dtype=x.dtype)], -1)
    torch.testing.assert_close(func.jacrev(lambda t: first(push(t)))(x), columns)
    torch.testing.assert_close(func.jacfwd(lambda t: first(push(t)))(x), columns)


@pytest.mark.parametrize("number", range(len(LINEARIZED)))
def test_functions_are_linearized_inside_of_transforms(number, x):
    f = LINEARIZED[number]
    inside = lambda x: func.linearize(f, x)[1](x.cos())  # noqa: E731
    outside = lambda x: func.jvp(f, (x,), (x.cos(),))[1]  # noqa: E731
    batch = torch.stack([x, x.sin() + 2])
    transforms = [lambda f: lambda x: func.jvp(f, (x,), (x,))]
    if f is not overwritten:
        transforms.append(func.jacfwd)
    if f is not buffered:  # of no batch
        transforms.append(func.vmap)
    if f not in (in_no_grad, written_by_index, written_through_unbind, overwritten):  # of which reverse mode has no derivative, or another
        transforms.append(func.jacrev)
    for transform in transforms:
        given = batch if transform is func.vmap else x
        for a, b in zip(leaves(transform(inside)(given)), leaves(transform(outside)(given)), strict=True):
            torch.testing.assert_close(a, b)


def test_a_function_is_linearized_by_one_run(x):
    runs = []
    value, push = func.linearize(lambda x: (runs.append(1), x.sin())[1], x)
    assert torch.equal(push(x), push(x)) and len(runs) == 1
    assert torch.equal(value, x.sin())


def test_products_of_a_linearized_function_leave_the_tangents_as_they_are(x):
    tangent = x.clone()
    _, push = func.linearize(lambda x: x.mul_(2), x.clone())
    assert torch.equal(push(tangent), 2 * x) and torch.equal(tangent, x)


def test_random_numbers_of_linearized_functions_are_drawn_for_each_product():
    x = torch.ones(3)
    torch.manual_seed(0)
    value, push = func.linearize(lambda x: x * torch.rand(3), x)
    found = [value, push(x), push(x), torch.rand(3)]
    torch.manual_seed(0)
    drawn = [torch.rand(3) for _ in range(5)]
    assert all(torch.equal(a, b) for a, b in zip(found, (drawn[0], *drawn[2:]), strict=True))  # the second is drawn in recording


def test_what_a_linearized_function_returns_beside_tensors(x):
    value, push = func.linearize(lambda x: (x, 3.0, None, x > 1, torch.ones(2)), x)
    assert value[1:3] == (3.0, None)
    product = push(x)
    assert torch.equal(product[0], x) and product[1:3] == (3.0, None)
    assert product[3].tolist() == [False] * 3 and product[4].tolist() == [0, 0]
    assert func.linearize(lambda x: None, x)[1](x) is None


def test_values_of_tangents_are_not_known_when_a_function_is_linearized(x):
    def looks(x):
        return x * func.jvp(torch.sin, (x.detach(),), (func.jvp(torch.sin, (x,), (x,))[1],))[1].sum().item()

    assert torch.equal(func.linearize(lambda x: x * x.sum().item(), x)[1](x), x * x.sum())
    func.linearize(looks, x)  # which looks at values only


@pytest.mark.parametrize("made", [3.0, None, (), {}, "text", [None]])
def test_transforms_refuse_functions_that_return_no_tensors(made, x):
    for call in (
        lambda f: func.vjp(f, x),
        lambda f: func.jvp(f, (x,), (x,)),
        lambda f: func.jacrev(f)(x),
        lambda f: func.jacfwd(f)(x),
    ):
        with pytest.raises(RuntimeError, match="non-empty output|return only tensors"):
            call(lambda x: made)


def test_jacobians_of_one_number_are_numbers():
    assert func.hessian(lambda x: x**3)(torch.tensor(2.0)) == 12
    assert func.jacrev(torch.sin)(torch.tensor(0.0)).shape == func.jacfwd(torch.sin)(torch.tensor(0.0)).shape == ()


# -- constants that are written into ------------------------------------------------------------------------------------------------------
CONSTANT = torch.arange(3.0, dtype=F64)


def first_from(x):
    c = CONSTANT.clone()
    c[0] = x[0]
    return (c * x * x).sum()


def multiplied(x):
    return (CONSTANT.clone().mul_(x) * x * x).sum()


def viewed(x):
    c = CONSTANT.clone()
    c[1:].unsqueeze(0).copy_(x[1:])
    return (c * c * x).sum()


@pytest.mark.parametrize(
    "f, slopes, diagonal",
    [
        (first_from, lambda x: [3 * x[0] ** 2, 2 * x[1], 4 * x[2]], lambda x: [6 * x[0], 2, 4]),
        (multiplied, lambda x: 3 * CONSTANT * x**2, lambda x: 6 * CONSTANT * x),
        (viewed, lambda x: [0, 3 * x[1] ** 2, 3 * x[2] ** 2], lambda x: [0, 6 * x[1], 6 * x[2]]),
    ],
    ids=["first_from", "multiplied", "viewed"],
)
def test_copies_of_constants_take_variables_that_are_no_batchs(f, slopes, diagonal, x):
    first, second = (torch.tensor([float(each) for each in part(x)], dtype=F64) for part in (slopes, diagonal))
    before = CONSTANT.clone()
    torch.testing.assert_close(func.hessian(f)(x), second.diag())
    torch.testing.assert_close(func.jacrev(func.grad(f))(x), second.diag())
    torch.testing.assert_close(func.jacfwd(func.jacfwd(f))(x), second.diag())
    weights = torch.tensor([1.0, 2.0], dtype=F64)
    torch.testing.assert_close(func.vmap(lambda s: func.grad(f)(x) * s)(weights), weights[:, None] * first)
    torch.testing.assert_close(func.vmap(lambda s: func.jacfwd(f)(x) * s)(weights), weights[:, None] * first)
    with pytest.raises(RuntimeError, match="vmapped over but `self` not being vmapped over"):
        func.vmap(f)(torch.stack([x, x]))
    assert torch.equal(CONSTANT, before)


def test_tensors_that_took_a_variable_of_no_batch_are_plain_afterwards(x):
    kept = []

    def f(x):
        c = CONSTANT.clone()
        d = c[1:]
        c.add_(x)
        kept[:] = [c, d]
        return (c * c).sum()

    func.hessian(f)(x)
    assert all(type(each) is torch.Tensor for each in kept)
    assert torch.equal(kept[0], CONSTANT + x) and torch.equal(kept[1], (CONSTANT + x)[1:])


# -- views that are written in place in nested forward mode -------------------------------------------------------------------------------
def copied_and_cut(x):
    c = x.clone()
    c[0].copy_(x[-1].sin())
    return c * x


def cut_twice(x):
    c = x.clone()
    whole = c.view(1, -1)
    row = whole[0]
    row[1:].mul_(x[:-1])
    return whole.sum() * c


def new_and_cut(x):
    c = torch.zeros(3, dtype=F64)
    a, b = c.split([1, 2])
    b.copy_(x[:2] * x[1:])
    a.add_(x[0].exp())
    return c * x


def filled(x):
    c = x.clone()
    c.zero_().add_(x * x, alpha=2)
    return c * x.clone().fill_(0.5)


FORWARD = {
    "jacfwd of jacfwd": lambda f: func.jacfwd(func.jacfwd(f)),
    "jvp of jvp": lambda f: lambda x: func.jvp(lambda x: func.jvp(f, (x,), (x.cos(),))[1], (x,), (x.sin(),))[1],
    "jacfwd of vmap of jacfwd": lambda f: func.jacfwd(lambda x: func.vmap(lambda s: func.jacfwd(f)(x) * s)(x.detach())),
    "vmap of vmap of jvp": lambda f: (
        lambda x: func.vmap(lambda x: func.vmap(lambda t: func.jvp(f, (x,), (t,))[1])(x.diag()))(torch.stack([x, x.sin()]))
    ),
    "jacfwd of linearize": lambda f: func.jacfwd(lambda x: func.linearize(f, x)[1](x.cos())),
}


def plainly(f):
    """``f`` without writing in place."""
    return {
        copied_and_cut: lambda x: torch.cat([x[-1:].sin(), x[1:]]) * x,
        cut_twice: lambda x: (c := torch.cat([x[:1], x[1:] * x[:-1]])).sum() * c,
        new_and_cut: lambda x: torch.cat([x[:1].exp(), x[:2] * x[1:]]) * x,
        filled: lambda x: x * x,
    }[f]


@pytest.mark.parametrize("name", FORWARD)
@pytest.mark.parametrize("f", [copied_and_cut, cut_twice, new_and_cut, filled])
def test_views_are_written_in_place_in_nested_forward_mode(f, name, x):
    if f is new_and_cut and name == "vmap of vmap of jvp":
        pytest.skip("a new tensor is of no batch")
    for a, b in zip(leaves(FORWARD[name](f)(x)), leaves(FORWARD[name](plainly(f))(x)), strict=True):
        torch.testing.assert_close(a, b)


def test_a_view_of_an_outer_transforms_tensor_takes_tangents(x):
    def outer(x):
        c = x.clone()
        view = c[:2]

        def inner(z):
            view.mul_(z)
            return view * z + c[:2]

        return func.jvp(inner, (x[:2],), (x[1:],))[1]

    wanted = lambda x: func.jvp(lambda z: x[:2] * z * z + x[:2] * z, (x[:2],), (x[1:],))[1]  # noqa: E731
    for a, b in zip(func.jvp(outer, (x,), (x.cos(),)), func.jvp(wanted, (x,), (x.cos(),)), strict=True):
        torch.testing.assert_close(a, b)


def test_parameters_are_made_inside_of_transforms(x):
    def f(x):
        layer = torch.nn.LayerNorm(3, dtype=F64)
        return func.functional_call(layer, {"weight": x, "bias": x * x}, (torch.ones(3, dtype=F64),)).sum()

    torch.testing.assert_close(func.hessian(f)(x), 2 * torch.eye(3, dtype=F64))
    assert not func.hessian(func.hessian(f))(x).any()


def test_many_views_that_live_are_looked_through_few_times():
    class Counting(list):
        seen = 0

        def __iter__(self):
            Counting.seen += len(self)
            return super().__iter__()

    def f(x):
        y = x.clone()
        y.__dict__["_views"] = views = Counting()
        parts = y.unbind(0)
        assert len(views) >= len(parts) == 3000
        return y * 2

    torch.func.jvp(f, (torch.ones(3000),), (torch.ones(3000),))
    assert 0 < Counting.seen < 3 * 3000


def test_a_tangent_over_two_batches_is_written_into_at_two_levels() -> None:
    def write(v):
        target = torch.zeros_like(v.transpose(-1, -2))
        return target.add_(v.transpose(-1, -2))

    ones = torch.ones(1, 3, 5, 2)

    def inner(v):
        return torch.func.vmap(lambda t: torch.func.jvp(write, (v,), (t,)))(ones)

    def outer(v):
        return torch.func.vmap(lambda t: torch.func.jvp(inner, (v,), (t,)))(ones)

    (values, first), (second, zero) = outer(torch.full((3, 5, 2), 2.5))
    assert values.tolist() == torch.full((1, 1, 3, 2, 5), 2.5).tolist()
    assert first.tolist() == second.tolist() == torch.ones(1, 1, 3, 2, 5).tolist()
    assert not zero.any()
