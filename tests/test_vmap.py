"""``vmap``: its arguments, random numbers, indexing, what raises, what it leaves behind, and layers without a loop over examples."""

from __future__ import annotations

import re
import threading
import warnings

import numpy as np
import pytest
from oracle import pytorch

import flambeau as torch
from flambeau.core import state
from flambeau.func import _batch
from flambeau.func._reverse import alias, gradients, spread

F = torch.nn.functional
vmap = torch.vmap


@pytest.fixture
def x() -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).standard_normal((3, 4, 5)).astype("f4"))


@pytest.fixture
def loops() -> dict[str, int]:
    _batch.loops.clear()
    return _batch.loops


def by_loop(function, *args, dims=0, out=0):
    dims = dims if isinstance(dims, tuple) else (dims,) * len(args)
    size = next(each.shape[d] for each, d in zip(args, dims) if d is not None)
    return torch.stack([function(*[e if d is None else e.select(d, i) for e, d in zip(args, dims)]) for i in range(size)], out)


def agree(got, want) -> None:
    assert got.dtype is want.dtype
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-5, atol=1e-6)


# -- arguments ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dim", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("out", [0, 1, -1])
def test_the_batch_is_anywhere(x, dim, out):
    agree(vmap(lambda a: a.sin() @ a.T, in_dims=dim, out_dims=out)(x), by_loop(lambda a: a.sin() @ a.T, x, dims=dim, out=out))


def test_trees_of_arguments_and_results(x):
    def function(tree, shared, number):
        return {"a": tree["p"] * shared, "b": (tree["q"][0] + number, [shared])}

    made = vmap(function, in_dims=({"p": 0, "q": 1}, None, None), out_dims={"a": 1, "b": (0, [None])})(
        {"p": x, "q": (x.transpose(0, 1),)}, x[0], 2
    )
    agree(made["a"], (x * x[0]).movedim(0, 1))
    agree(made["b"][0], x + 2)
    assert made["b"][1][0].shape == x[0].shape


def test_what_is_passed_by_keyword_has_no_batch(x):
    assert vmap(lambda a, b=None: a.sum() + b)(x, b=x).shape == (3, 3, 4, 5)


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_chunks_are_joined_where_the_batch_comes(x, size):
    agree(
        vmap(lambda a, b: (a * b).cumsum(1), (0, None), 2, chunk_size=size)(x, x[1]),
        by_loop(lambda a, b: (a * b).cumsum(1), x, x[1], dims=(0, None), out=2),
    )


def test_an_empty_batch_has_the_results_shape():
    assert vmap(lambda a: a.sum(1))(torch.ones(0, 3, 2)).shape == (0, 3)
    assert vmap(torch.cov)(torch.ones(0, 3, 2)).shape == (0, 3, 3)


ERRORS = {
    "structure": (lambda L, x: L.vmap(lambda a, b: a, in_dims=(0,))(x, x), ValueError),
    "in_dims of another type": (lambda L, x: L.vmap(lambda a: a, in_dims=[0])(x), ValueError),
    "out of range": (lambda L, x: L.vmap(lambda a: a, in_dims=3)(x), ValueError),
    "no tensor": (lambda L, x: L.vmap(lambda a: a)(3), ValueError),
    "nothing mapped": (lambda L, x: L.vmap(lambda a: a, in_dims=(None,))(x), ValueError),
    "no input": (lambda L, x: L.vmap(lambda: x)(), ValueError),
    "two sizes": (lambda L, x: L.vmap(lambda a, b: a, in_dims=(0, 1))(x, x), ValueError),
    "a number returned": (lambda L, x: L.vmap(lambda a: (a, 3))(x), ValueError),
    "a batch for None": (lambda L, x: L.vmap(lambda a: a, out_dims=None)(x), ValueError),
    "out_dims too many": (lambda L, x: L.vmap(lambda a: (a, a), out_dims=(0, 0, 0))(x), ValueError),
    "out_dims of another type": (lambda L, x: L.vmap(lambda a: a, out_dims="a")(x), ValueError),
    "out_dims out of range": (lambda L, x: L.vmap(lambda a: a, out_dims=5)(x), IndexError),
    "chunk_size": (lambda L, x: L.vmap(lambda a: a, chunk_size=0)(x), ValueError),
    "randomness": (lambda L, x: L.vmap(lambda a: a, randomness="often")(x), RuntimeError),
    "item": (lambda L, x: L.vmap(lambda a: a.sum().item())(x), RuntimeError),
    "float": (lambda L, x: L.vmap(lambda a: float(a.sum()))(x), RuntimeError),
    "control flow": (lambda L, x: L.vmap(lambda a: a if a.sum() > 0 else -a)(x), RuntimeError),
    "nonzero": (lambda L, x: L.vmap(lambda a: a.nonzero())(x), RuntimeError),
    "mask": (lambda L, x: L.vmap(lambda a: a[a > 0])(x), RuntimeError),
    "masked_select": (lambda L, x: L.vmap(lambda a: a.masked_select(a > 0))(x), RuntimeError),
    "random": (lambda L, x: L.vmap(lambda a: a + L.randn(5))(x), RuntimeError),
    "dropout": (lambda L, x: L.vmap(lambda a: L.nn.functional.dropout(a))(x), RuntimeError),
    "fill": (lambda L, x: L.vmap(lambda a: L.ones(3).uniform_())(x), RuntimeError),
    "one tensor filled differently": (lambda L, x: L.vmap(lambda a: L.ones(3).normal_(), randomness="different")(x), RuntimeError),
    "the same of several": (lambda L, x: L.vmap(lambda a: L.bernoulli(a.sigmoid()), randomness="same")(x), RuntimeError),
    "scatter_add_": (lambda L, x: L.vmap(lambda a: L.zeros(4).scatter_add_(0, L.arange(4), a[:, 0]))(x), RuntimeError),
    "moments": (lambda L, x: L.vmap(lambda a: L.nn.functional.batch_norm(a, L.zeros(5), L.ones(5), training=True))(x), RuntimeError),
}


@pytest.mark.oracle
@pytest.mark.parametrize("case", ERRORS)
def test_errors_are_pytorchs(x, case):
    oracle = pytorch()
    call, kind = ERRORS[case]
    with pytest.raises(kind) as theirs:
        call(oracle, oracle.from_numpy(x.numpy()))
    with pytest.raises(kind) as ours:
        call(torch, x)
    to_its_tracker = r"\W*(If (error|said operator|this is necessary)[^.]*)?[Pp]lease file .*"
    assert str(ours.value).rstrip(".") == re.sub(to_its_tracker, "", str(theirs.value)).rstrip(".")
    assert not state.thread.levels


@pytest.mark.parametrize("name", ["add_", "copy_"])
def test_a_batch_is_not_written_into_what_has_none(x, name):
    with pytest.raises(RuntimeError, match=f"vmap: {name}.* `self` not being vmapped over"):
        vmap(lambda a: getattr(torch.zeros(4, 5), name)(a))(x)


def test_no_operation_writes_to_out(x):
    with pytest.raises(RuntimeError, match=r"add.out"):
        vmap(lambda a: torch.add(a, a, out=torch.empty(4, 5)))(x)


# -- levels -------------------------------------------------------------------------------------------------------------------
def test_nothing_is_left_behind_whatever_happens(x):
    def fails(a):
        vmap(lambda b: b.sin())(a)
        raise KeyError("inside")

    with pytest.raises(KeyError):
        vmap(fails)(x)
    assert not state.thread.levels and not state.thread.modes and not state.active and not state.interpreters


@pytest.mark.parametrize(
    "use", [lambda a: a + 1, lambda a: a.sum(), lambda a: a[0], lambda a: float(a.sum()), lambda a: a.mul_(2)], ids=range(5)
)
def test_a_tensor_that_escapes_raises(x, use):
    kept = []
    vmap(lambda a: (kept.append(a), a)[1])(x)
    with pytest.raises(RuntimeError):
        use(kept[0])
    with pytest.raises(RuntimeError):
        vmap(lambda a: a * use(kept[0]))(x)


def test_levels_are_a_threads_own(x):
    seen = []

    def function(a):
        worker = threading.Thread(target=lambda: seen.append((torch.randn(2).sum().item() is not None, state.thread.levels)))
        worker.start()
        worker.join()
        return a * 2

    agree(vmap(function, randomness="same")(x), x * 2)
    assert seen == [(True, ())]


def test_nested_batches_meet_in_one_call(x):
    made = vmap(lambda a: vmap(lambda b, c: torch.outer(b, c).sum(0), in_dims=(0, None))(a, a[0]))(x)
    agree(made, torch.stack([torch.stack([torch.outer(b, a[0]).sum(0) for b in a]) for a in x]))


# -- values -----------------------------------------------------------------------------------------------------------------------
def test_a_batch_of_scalars_promotes_as_scalars():
    small, wide = torch.arange(3, dtype=torch.float16), torch.ones(2, dtype=torch.float32)
    scalars = torch.arange(3, dtype=torch.float64)
    agree(vmap(lambda a, b: a * b, in_dims=(0, None))(scalars, wide), by_loop(lambda a, b: a * b, scalars, wide, dims=(0, None)))
    agree(vmap(lambda a, b: a + b)(small, scalars), by_loop(lambda a, b: a + b, small, scalars))
    agree(vmap(lambda a: torch.where(a > 1, a, 2.5))(small), by_loop(lambda a: torch.where(a > 1, a, 2.5), small))


@pytest.mark.parametrize("dim", [2, -3, (0, 2)])
def test_a_dimension_that_an_example_lacks_is_an_error(x, dim):
    with pytest.raises(IndexError, match="range of \\[-2, 1\\]"):
        vmap(lambda a: a.sum(dim))(x)


@pytest.mark.parametrize(
    "function",
    [
        lambda a, i: a[i],
        lambda a, i: a[:, i],
        lambda a, i: a[i, i],
        lambda a, i: a[..., i],
        lambda a, i: a[i[0]],
        lambda a, i: a[:, i[0]],
        lambda a, i: a[i[:, None], i],
        lambda a, i: a[None, i, 1:3],
        lambda a, i: a.unsqueeze(1).expand(4, 2, 5)[i, :, i],
        lambda a, i: a[[0, 2]],
        lambda a, i: a.unsqueeze(1).expand(4, 2, 5)[[0, 1], :, [2, 3]],
        lambda a, i: a[torch.tensor([True, False, True, True])],
        lambda a, i: a.gather(1, i.expand(4, 2)),
        lambda a, i: a.index_select(-1, i),
        lambda a, i: a.index_add(0, i, a[:2] * 2, alpha=3),
        lambda a, i: a.take(i),
        lambda a, i: a.scatter_add(0, i.unsqueeze(1).expand(2, 5), a[:2]),
        lambda a, i: F.embedding(i, a),
    ],
    ids=range(18),
)
@pytest.mark.parametrize("batched", [(0, 0), (0, None), (None, 0)])
def test_indexing(x, function, batched):
    places = torch.tensor([[0, 1], [3, 2], [1, 1]])
    args = [each if d == 0 else each[0] for each, d in zip((x, places), batched)]
    agree(vmap(function, in_dims=batched)(*args), by_loop(function, *args, dims=batched) if any(d == 0 for d in batched) else None)


def _put(a, i, how):
    a = a.clone()
    if how == 0:
        a[i] = 7.0
    elif how == 1:
        a[:, i[0]] = a[0, 0]
    elif how == 2:
        a[a > 0.5] = 0.0
    elif how == 3:
        a[i] = a[2:].clone()
    elif how == 4:
        a[1:3].mul_(2)
        a.t()[0].add_(a[:, 1])
        a.view(20)[3] = a.sum()
    elif how == 5:
        a.unsqueeze_(0).transpose_(1, 2)
        a.squeeze_(0)
        a[0].copy_(i[0].to(a.dtype))
    elif how == 6:
        a[[0, 2]] = a[1].clone()
    return a


@pytest.mark.parametrize("how", range(7))
def test_writing_in_place_through_views(x, how):
    places = torch.tensor([[0, 1], [3, 2], [1, 2]])
    agree(vmap(lambda a, i: _put(a, i, how))(x, places), by_loop(lambda a, i: _put(a, i, how), x, places))


def test_gradients_go_through(x):
    given = x.clone().requires_grad_()
    again = x.clone().requires_grad_()
    shared, too = (x[0].T.clone().requires_grad_() for _ in range(2))

    def function(a, b):
        a = a.clone()
        a[1:3].mul_(2)
        return (a @ b).softmax(-1)[0]

    vmap(function, in_dims=(0, None))(given, shared).pow(2).sum().backward()
    by_loop(function, again, too, dims=(0, None)).pow(2).sum().backward()
    agree(given.grad, again.grad)
    agree(shared.grad, too.grad)


# -- random numbers ------------------------------------------------------------------------------------------------------------------
DRAWS = {
    "rand": lambda a: torch.rand(8),
    "rand_like": torch.rand_like,
    "randn": lambda a: torch.randn((2, 4)),
    "randint": lambda a: torch.randint(0, 1000, (8,)),
    "normal": lambda a: torch.normal(0.0, 1.0, (8,)),
    "normal_": lambda a: a.clone().normal_(),
    "uniform_": lambda a: a.clone().uniform_(),
    "dropout": lambda a: F.dropout(a),
    "dropout1d": lambda a: F.dropout1d(a.reshape(1, 8, 1)),
    "gumbel": lambda a: torch.empty_like(a).exponential_(),
    "randperm": lambda a: torch.randperm(20),
}


@pytest.mark.parametrize("name", DRAWS)
def test_random_numbers_are_different_or_the_same(name):
    torch.manual_seed(3)
    ones = torch.ones(40, 8)
    different = vmap(DRAWS[name], randomness="different")(ones).flatten(1)
    assert len({tuple(row.tolist()) for row in different}) > 20
    same = vmap(DRAWS[name], randomness="same")(ones).flatten(1)
    assert bool((same == same[0]).all())


def test_chunks_can_have_the_same_numbers():
    made = vmap(lambda a: a * torch.rand(3), randomness="same", chunk_size=2)(torch.ones(5, 3))
    assert bool((made == made[0]).all())


def test_what_draws_nothing_is_no_error(x):
    agree(vmap(lambda a: F.dropout(a, 0.5, False) + F.dropout(a, 0.0))(x), 2 * x)


# -- layers --------------------------------------------------------------------------------------------------------------------------
def per_sample(loss):
    def call(parameters, *args):
        with torch.enable_grad():
            fresh = {name: alias(spread(value)) for name, value in parameters.items()}
            value = loss(fresh, *args)
        return dict(zip(fresh, gradients([value], list(fresh.values()), [value.detach().new_ones(())], False)))

    return call


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.out = torch.nn.Embedding(7, 8), torch.nn.Linear(8, 3)
        self.layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)

    def forward(self, tokens):
        return self.out(self.layer(self.embedding(tokens)).mean(1))


def network():
    nn = torch.nn
    norms = nn.GroupNorm(2, 4), nn.BatchNorm2d(4, track_running_stats=False)
    return nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), norms[1], nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3), norms[0]).append(
        nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(4), nn.Linear(4, 3))
    )


@pytest.mark.parametrize("make", [network, Encoder])
def test_gradients_of_each_sample_without_a_loop(loops, make):
    torch.manual_seed(0)
    model = make()
    given = torch.randn(4, 2, 8, 8) if make is network else torch.randint(0, 7, (4, 5))
    labels = torch.tensor([0, 2, 1, 0])
    parameters = {name: value.detach() for name, value in model.named_parameters()}

    def loss(parameters, sample, label):
        return F.cross_entropy(torch.func.functional_call(model, parameters, (sample[None],)), label[None])

    found = vmap(per_sample(loss), in_dims=(None, 0, 0))(parameters, given, labels)
    assert not loops
    for i in range(4):
        model.zero_grad()
        F.cross_entropy(model(given[i : i + 1]), labels[i : i + 1]).backward()
        for name, value in model.named_parameters():
            np.testing.assert_allclose(found[name][i].numpy(), value.grad.numpy(), rtol=1e-3, atol=2e-5)


def test_an_ensemble_of_models(loops):
    torch.manual_seed(0)
    models = [network().eval() for _ in range(3)]
    parameters, buffers = torch.func.stack_module_state(models)
    images = torch.randn(2, 2, 8, 8)
    made = vmap(lambda p, b, x: torch.func.functional_call(models[0], (p, b), (x,)), in_dims=(0, 0, None))(parameters, buffers, images)
    np.testing.assert_allclose(made.detach().numpy(), torch.stack([m(images) for m in models]).detach().numpy(), rtol=1e-3, atol=1e-5)
    assert not loops


# -- the database ------------------------------------------------------------------------------------------------------------------
@pytest.mark.oracle
@pytest.mark.parametrize("part", range(4))
def test_vmap_equals_a_loop_over_the_database(part):
    pytorch()
    pytest.importorskip("expecttest")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import vmap_operations as database

        problems, right = [], 0
        for k, name in enumerate(sorted(database.FUNCTIONS)[part::28]):
            outcome = database.outcome_of(name, 1, ("mixed", "nested") if k % 2 else ("front", "in place"))
            problems += outcome.wrong + [line for line in outcome.raised if "view size" not in line]
            right += outcome.right
    assert not problems and right > 20


def test_multinomial_numbers_of_weights_that_are_no_batchs_are_drawn_for_each_example():
    weights, rows = torch.tensor([0.1, 0.2, 0.7]), torch.ones(2, 3)
    for w, shape in ((weights, (4, 2)), (rows, (4, 2, 2))):
        torch.manual_seed(1)
        found = torch.vmap(lambda x: torch.multinomial(w, 2), randomness="different")(torch.ones(4))  # noqa: B023
        after = torch.rand(2)
        torch.manual_seed(1)
        assert torch.equal(found, torch.multinomial(w.expand(4, *w.shape).reshape(-1, 3), 2).reshape(shape))
        assert torch.equal(after, torch.rand(2))
    torch.manual_seed(1)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        torch.vmap(lambda x: torch.multinomial(weights, 2))(torch.ones(4))
    after = torch.rand(2)
    torch.manual_seed(1)
    assert torch.equal(after, torch.rand(2))


@pytest.mark.parametrize("in_dims", [(0, None, 0), (0, None, None), (None, None, 0), (0, 0, 0), (None, 0, None)])
@pytest.mark.parametrize("reduce", ["mean", "amax", "amin", "prod"])
@pytest.mark.parametrize("include_self", [True, False])
def test_index_reduce(reduce: str, include_self: bool, in_dims: tuple[int | None, ...]) -> None:
    x, index, y = torch.rand(3, 4, 5), torch.randint(5, (3, 6)), torch.rand(3, 4, 6)
    operands = [each if d == 0 else each[0] for each, d in zip((x, index, y), in_dims, strict=True)]

    def f(x, index, y):
        return x.index_reduce(-1, index, y, reduce, include_self=include_self)

    wanted = [f(*(each[k] if d == 0 else each for each, d in zip(operands, in_dims, strict=True))) for k in range(3)]
    torch.testing.assert_close(torch.vmap(f, in_dims=in_dims)(*operands), torch.stack(wanted))
