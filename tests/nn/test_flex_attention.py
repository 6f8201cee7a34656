"""Flexible attention: PyTorch's values, masks by blocks, gradients; the functions of scores in the kernels, and what stays with tensors."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import flambeau
from flambeau.core.arrays.native import disabled, switch
from flambeau.nn.attention import flex_attention as flex, varlen

LENGTH, KEYS, HEADS = 37, 29, 4
needs_kernels = pytest.mark.skipif(not switch.on, reason="kernels are off")


def of(library):
    """The module of that name; PyTorch's runs as it stands, without its compiler."""
    if library is flambeau:
        return flex
    import importlib

    module = importlib.import_module(f"{library.__name__}.nn.attention.flex_attention")
    module._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = True
    return module


def operands(library, dtype="float32", length=LENGTH, heads=HEADS, shared=HEADS, batches=2, depth=8, out_depth=8):
    rng = np.random.default_rng(3)
    shapes = (batches, heads, length, depth), (batches, shared, KEYS, depth), (batches, shared, KEYS, out_depth)
    return [library.tensor(rng.standard_normal(shape)).to(getattr(library, dtype)) for shape in shapes]


def tables(library):
    """What functions of scores look into."""
    rng = np.random.default_rng(4)
    return {
        "slopes": library.tensor(rng.random(HEADS, np.float32)),
        "bias": library.tensor(rng.standard_normal((HEADS, LENGTH + KEYS)).astype(np.float32)),
        "whole": library.tensor(rng.standard_normal((2, HEADS, LENGTH, KEYS)).astype(np.float32)),
        "document": library.tensor(np.arange(LENGTH) // 11),
        "offset": library.tensor(rng.integers(-3, 3, LENGTH).astype(np.int32)),
        "temperature": library.tensor(1.7),
    }


def score_mods(library):
    t = tables(library)
    return {
        "alibi": lambda s, b, h, q, kv: s - t["slopes"][h] * (q - kv).abs(),
        "relative": lambda s, b, h, q, kv: s + t["bias"][h, q - kv + KEYS],
        "from the end": lambda s, b, h, q, kv: s + t["bias"][h][q - kv],
        "whole": lambda s, b, h, q, kv: s + t["whole"][b, h, q, kv],
        "capped": lambda s, b, h, q, kv: library.tanh(s / 2) * 2,
        "temperature": lambda s, b, h, q, kv: s / t["temperature"],
        "documents": lambda s, b, h, q, kv: library.where(t["document"][q] == t["document"][kv], s, -math.inf),
        "looked up twice": lambda s, b, h, q, kv: s + t["slopes"][(t["offset"][q] + 3) // 2] * (kv % 3),
        "heavy": lambda s, b, h, q, kv: library.nn.functional.softplus(s) * library.sqrt(s.abs() + 1) - library.log1p((q - kv).abs()),
        "without the score": lambda s, b, h, q, kv: (q - kv) * 0.1,
        "in place": lambda s, b, h, q, kv: (s * 2).add_(q),
    }


def mask_mods(library):
    document = tables(library)["document"]
    return {
        "causal": lambda b, h, q, kv: q >= kv,
        "strictly causal": lambda b, h, q, kv: q > kv,
        "window": of(library).and_masks(lambda b, h, q, kv: q >= kv, lambda b, h, q, kv: q - kv < 9),
        "prefix": of(library).or_masks(lambda b, h, q, kv: q >= kv, lambda b, h, q, kv: kv < 7),
        "documents": lambda b, h, q, kv: document[q] == document[kv],
        "by head": lambda b, h, q, kv: (q >= kv) | (h == 1),
        "nothing at all": lambda b, h, q, kv: q < 0 * kv,
    }


MODS = tuple(score_mods(flambeau))
MASKS = tuple(mask_mods(flambeau))
FUSED = tuple(name for name in MODS if name != "in place")
ADDING = ("alibi", "relative", "from the end", "whole", "looked up twice")  # whose derivative is 1


def attention(library, mod=None, mask=None, block=16, dtype="float32", **options):
    fl = of(library)
    query, key, value = operands(library, dtype)
    block_mask = None
    if mask is not None:
        heads = HEADS if mask == "by head" else None
        block_mask = fl.create_block_mask(mask_mods(library)[mask], None, heads, LENGTH, KEYS, device="cpu", BLOCK_SIZE=block)
    score_mod = None if mod is None else score_mods(library)[mod]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out, log_sums = fl.flex_attention(query, key, value, score_mod, block_mask, return_lse=True, **options)
    return [out[:, :, ::3, ::3].double(), log_sums[:, ::2].double()]  # as much as is recorded


@pytest.mark.parametrize(("mod", "mask"), [*[(mod, "causal") for mod in MODS], *[(None, mask) for mask in MASKS], ("alibi", None)])
def test_values_are_pytorchs(of_pytorch, mod, mask):
    expected = of_pytorch(attention, mod, mask)
    with disabled():
        for got, wanted in zip(attention(flambeau, mod, mask), expected, strict=True):
            np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=2e-5, atol=2e-5)


def both_ways(mod, block_mask, query, key, value, scale=0.3):
    """Result, logarithms and gradients by the kernels, and by tensors."""
    call = flex._Call(mod, block_mask, flex._states_of(block_mask, query.size(0), query.size(1)), scale)
    given = [tensor.detach().requires_grad_() for tensor in (query, key, value)]
    made = []
    groups = query.size(1) // key.size(1)
    for way in (flex._fused, lambda q, k, v, call: flex._attended(q, *(each.repeat_interleave(groups, 1) for each in (k, v)), call)):
        result = way(*given, call)
        if result is None:
            return None
        weights = flambeau.linspace(-1, 1, result[0].numel()).reshape(result[0].shape).to(query.dtype)
        made.append([*result, *flambeau.autograd.grad((result[0] * weights).sum(), given, allow_unused=True)])
    return made


@needs_kernels
@pytest.mark.parametrize("mod", FUSED)
def test_functions_of_scores_are_programs(mod):
    query, key, value = operands(flambeau)
    mask = flex.create_block_mask(mask_mods(flambeau)["documents"], None, None, LENGTH, KEYS, BLOCK_SIZE=16)
    call = flex._Call(score_mods(flambeau)[mod], mask, flex._states_of(mask, 2, HEADS), 0.3)
    scored = flex._scored(query.requires_grad_(), key, value, call)[0].scored
    assert (scored.score is not None, scored.slope is not None, scored.mask is not None) == (True, mod not in ADDING, True)


@needs_kernels
@pytest.mark.parametrize(
    ("mod", "mask", "block"),
    [
        ("relative", "causal", 16),
        ("documents", "by head", (32, 64)),
        ("looked up twice", None, 0),
        ("heavy", "window", 128),
        (None, "prefix", 16),
        ("whole", "nothing at all", 16),
    ],
)
def test_kernels_give_what_tensors_give(mod, mask, block):
    score_mod = None if mod is None else score_mods(flambeau)[mod]
    block_mask = None
    if mask is not None:
        block_mask = flex.create_block_mask(mask_mods(flambeau)[mask], None, HEADS, LENGTH, KEYS, BLOCK_SIZE=block)
    kernels, tensors = both_ways(score_mod, block_mask, *operands(flambeau, out_depth=5))
    for got, wanted in zip(kernels, tensors, strict=True):
        np.testing.assert_allclose(got.detach().numpy(), wanted.detach().numpy(), rtol=2e-4, atol=2e-5)


@needs_kernels
def test_shared_heads_several_batches_and_long_sequences_in_the_kernels():
    slopes = flambeau.rand(6, dtype=flambeau.float64)
    rng = np.random.default_rng(0)
    shapes = (3, 6, 150, 16), (1, 2, 170, 16), (1, 2, 170, 24)
    query, key, value = (flambeau.tensor(rng.standard_normal(shape)) for shape in shapes)
    mask = flex.create_block_mask(lambda b, h, q, kv: (q + b * 20 >= kv) & (h != 3), 3, 6, 150, 170, BLOCK_SIZE=64)
    kernels, tensors = both_ways(lambda s, b, h, q, kv: s - slopes[h] * (q - kv).abs() + b, mask, query, key, value)
    for got, wanted in zip(kernels, tensors, strict=True):
        np.testing.assert_allclose(got.detach().numpy(), wanted.detach().numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "mod",
    [
        lambda s, b, h, q, kv: s if q > 3 else s * 2,
        lambda s, b, h, q, kv: s + flambeau.rand(()),
        lambda s, b, h, q, kv: s + flambeau.ones(5)[q],
        lambda s, b, h, q, kv: s + s.unsqueeze(0).expand(3).sum(),
        lambda s, b, h, q, kv: s * s.item(),
        lambda s, b, h, q, kv: 3.0,
    ],
)
def test_what_is_no_program_is_left_to_tensors(mod):
    assert both_ways(mod, None, *operands(flambeau)) is None


def test_captured_parameters_get_gradients():
    query, key, value = operands(flambeau, "float64")
    bias = flambeau.zeros(HEADS, LENGTH + KEYS, dtype=flambeau.float64, requires_grad=True)
    flex.flex_attention(query, key, value, lambda s, b, h, q, kv: s + bias[h, q - kv + KEYS]).sin().sum().backward()
    places = flambeau.arange(LENGTH)[:, None] - flambeau.arange(KEYS) + KEYS
    weights = (query @ key.mT / math.sqrt(8) + bias[:, places]).softmax(-1)
    (expected,) = flambeau.autograd.grad((weights @ value).sin().sum(), bias)
    np.testing.assert_allclose(bias.grad.numpy(), expected.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("shared", [HEADS, 2])
def test_captured_parameters_are_fused_too(monkeypatch, shared):
    query, key, value = operands(flambeau, "float64", shared=shared)
    bias, raw = (flambeau.randn(*shape, dtype=flambeau.float64, requires_grad=True) for shape in ((HEADS, LENGTH + KEYS), (3,)))
    mask = flex.create_block_mask(lambda b, h, q, kv: q >= kv, None, None, LENGTH, KEYS, BLOCK_SIZE=16)

    def gradients(with_logarithms):
        factors = raw.exp()  # a part of the graph, of which the function takes parts

        def mod(s, b, h, q, kv):
            return flambeau.tanh(s * factors[0]) + bias[h][q - kv + KEYS] * factors[1:][1]

        out, aux = flex.flex_attention(query, key, value, mod, mask, enable_gqa=True, return_aux=flex.AuxRequest(lse=True))
        return flambeau.autograd.grad(out.sin().sum() + aux.lse.sum() * with_logarithms, (query, key, value, bias, raw))

    for tensor in (query, key, value):
        tensor.requires_grad_()
    for with_logarithms in (0, 1):
        with disabled():
            expected = gradients(with_logarithms)
        found = [gradients(with_logarithms)]
        monkeypatch.setattr(flex, "_WHOLE", 1)
        found.append(gradients(with_logarithms))
        for each in found:
            for got, wanted in zip(each, expected, strict=True):
                np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-9, atol=1e-11)
        monkeypatch.undo()
    x, table = (flambeau.randn(*shape, dtype=flambeau.float64, requires_grad=True) for shape in ((1, 2, 4, 2), (2, 9)))

    def function(x, table):
        return flex.flex_attention(x, x, x, lambda s, b, h, q, kv: s + table[h, q - kv + 4] * s)

    assert flambeau.autograd.gradgradcheck(function, (x, table), fast_mode=True)


def test_captured_numbers_and_tensors_may_change_between_calls():
    query, key, value = operands(flambeau)
    factor, bias = 1.0, flambeau.zeros(HEADS)
    seen = []
    for factor in (1.0, 2.0):
        bias.add_(flambeau.arange(HEADS))
        result = flex.flex_attention(query, key, value, lambda s, b, h, q, kv, f=factor: s * f + bias[h] * kv)
        scores = query @ key.mT / math.sqrt(8) * factor + bias[:, None, None] * flambeau.arange(KEYS)
        np.testing.assert_allclose(result.numpy(), (scores.softmax(-1) @ value).numpy(), rtol=1e-5, atol=1e-5)
        seen.append(result)
    assert not flambeau.equal(*seen)


def test_gradcheck_to_second_order_and_through_the_logarithms():
    bias = flambeau.linspace(0, 1, 2, dtype=flambeau.float64)
    mask = flex.create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 4, 4, BLOCK_SIZE=2)

    def function(x):
        request = flex.AuxRequest(lse=True)
        out, aux = flex.flex_attention(x, x.sin(), x, lambda s, b, h, q, kv: s.tanh() - bias[h] * (q - kv), mask, return_aux=request)
        return out.sum(-1) + aux.lse

    x = flambeau.randn(1, 2, 4, 2, dtype=flambeau.float64, requires_grad=True)
    assert flambeau.autograd.gradcheck(function, (x,)) and flambeau.autograd.gradgradcheck(function, (x,), fast_mode=True)


@pytest.mark.parametrize("rows", [70, 7000])
def test_blocks_that_are_left_out_are_not_computed(monkeypatch, rows):
    query, key, value = (flambeau.randn(1, 2, n, 8) for n in (rows, 128, 128))
    key[:, :, 64:] = value[:, :, 64:] = math.nan
    count = -(-rows // 64)
    counts, places = flambeau.ones(1, 1, count, dtype=flambeau.int32), flambeau.tensor([0, 1], dtype=flambeau.int32).expand(1, 1, count, 2)
    mask = flex.BlockMask.from_kv_blocks(counts, places, BLOCK_SIZE=64, seq_lengths=(rows, 128))
    expected = (query @ key[:, :, :64].mT / math.sqrt(8)).softmax(-1) @ value[:, :, :64]
    np.testing.assert_allclose(flex.flex_attention(query, key, value, block_mask=mask).numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)
    monkeypatch.setattr(flex, "_WHOLE", 40 * 2 * 64)
    with disabled():
        alone = flex.flex_attention(query[:, :, :70], key[:, :, :64], value[:, :, :64])
        np.testing.assert_allclose(alone.numpy(), expected[:, :, :70].numpy(), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(flex.flex_attention(query, key, value, block_mask=mask).numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)


def test_blocks_left_out_between_others_do_not_count(monkeypatch):
    listed = flambeau.tensor([[[1, 0, 1], [1, 0, 1]], [[0, 1, 1], [0, 1, 0]]]).bool()  # of two heads, by rows
    mask = flex.create_block_mask(lambda b, h, q, kv: listed[h, q // 64, kv // 64], None, 2, 128, 192, "cpu", BLOCK_SIZE=64)
    factor = flambeau.ones((), dtype=flambeau.float64, requires_grad=True)
    operands = [flambeau.randn(2, 2, n, 4, dtype=flambeau.float64) for n in (128, 192, 192)]
    made = []
    for unseen in (0.0, math.nan):
        query, key, value = (each.clone() for each in operands)
        key[:, 0, 64:128] = value[:, 0, 64:128] = unseen
        given = [each.requires_grad_() for each in (query, key, value)]
        for way in ((), ("_scored",)):
            with monkeypatch.context() as patched:
                for name in way:  # tensors do all of it
                    patched.setattr(flex, name, lambda *args: None)
                out, aux = flex.flex_attention(*given, lambda s, b, h, q, kv: s * factor, mask, return_aux=flex.AuxRequest(lse=True))
                made.append([out, aux.lse, *flambeau.autograd.grad(out.sin().sum(), [*given, factor])])
    for results in made[1:]:
        for got, wanted in zip(results, made[0], strict=True):
            np.testing.assert_allclose(got.detach().numpy(), wanted.detach().numpy(), rtol=1e-9, atol=1e-11)


def masks_told(library):
    fl = of(library)

    def causal(b, h, q, kv):
        return q >= kv

    mask = fl.create_block_mask(causal, 2, 3, 1000, 700, device="cpu")
    found = [repr(mask).replace("torch.", ""), str(mask), mask.to_string((5, 5), 2), mask.to_string(-1, 1), mask.to_string(3, limit=0)]
    for index in ((0,), (slice(None), 1), (0, 1), (slice(None), slice(None), 2), (1, slice(None), slice(0, 3)), (-1,)):
        part = mask[index]
        found += [list(part.shape), part.to_dense().tolist(), part.kv_indices.tolist(), part.mask_mod.__name__]
    found += [mask.sparsity(), mask.numel(), list(mask._adjust(300, 200).shape), mask._adjust(300, 200).to_dense().tolist()]
    small = fl.create_block_mask(causal, None, None, 300, 200, device="cpu", BLOCK_SIZE=(128, 64))
    whole = fl.create_block_mask(causal, None, None, 300, 200, device="cpu", BLOCK_SIZE=(128, 64), separate_full_blocks=False)
    for each in (small, whole, fl._create_empty_block_mask(library.ones(1, 1, 2, 3), library.ones(1, 1, 2, 3))):
        found += [
            [part.tolist() if isinstance(part, library.Tensor) else str(part)[:9] for part in each.as_tuple()],
            len(each.as_tuple(False)),
        ]
    listed = [library.tensor([[[1, 2]]], dtype=library.int32), library.tensor([[[[0, 1], [0, 1]]]], dtype=library.int32)]
    part = fl.BlockMask.from_kv_blocks(*listed, BLOCK_SIZE=(4, 8), seq_lengths=(7, 15), compute_q_blocks=False)
    found += [list(part.shape), part.q_indices is None, part.sparsity(), fl.BlockMask.from_kv_blocks(*listed).q_indices.tolist()]
    found += [fl.create_mask(causal, 1, 1, 3, 4, device="cpu").tolist()]
    found += [fl.create_mask(lambda s, b, h, q, kv: s.masked_fill(q < kv, -math.inf), 1, None, 3, 4, device="cpu").tolist()]
    return found


def test_masks_are_pytorchs(of_pytorch):
    assert masks_told(flambeau) == of_pytorch(masks_told)


@pytest.mark.parametrize("sizes", [(0, 2, 4, 4), (1, 0, 4, 4), (1, 1, 0, 4), (1, 1, 4, 0)])
def test_masks_of_nothing(sizes):
    mask = flex.create_block_mask(lambda b, h, q, kv: q >= kv, *sizes, BLOCK_SIZE=2)
    blocks = tuple(-(-size // 2) for size in sizes[2:])
    assert mask.shape == sizes and mask.kv_indices.shape == (*sizes[:2], *blocks) and mask.q_indices.shape == (*sizes[:2], *blocks[::-1])
    assert flex.create_mask(lambda b, h, q, kv: q >= kv, *sizes).shape == sizes
    if sizes[1]:  # without heads PyTorch's divides by zero
        query, key = (flambeau.ones(*sizes[:2], n, 3) for n in sizes[2:])
        assert flambeau.equal(flex.flex_attention(query, key, key, block_mask=mask), flambeau.zeros(*sizes[:3], 3))


def errors_told(library):
    fl = of(library)
    query, key, value = operands(library)
    mask = fl.create_block_mask(lambda b, h, q, kv: q >= kv, 1, 1, LENGTH, KEYS, device="cpu", BLOCK_SIZE=16)
    counts, places = mask.kv_num_blocks, mask.kv_indices
    calls = [
        lambda: fl.flex_attention(query[0], key[0], value[0]),
        lambda: fl.flex_attention(query, key[..., :3], value),
        lambda: fl.flex_attention(query, key[:, :1], value[:, :1]),
        lambda: fl.flex_attention(query[:, :3], key[:, :2], value[:, :2], enable_gqa=True),
        lambda: fl.flex_attention(query, key[:1], value[:1]),
        lambda: fl.flex_attention(query, key[:1], value[:1], block_mask=mask),
        lambda: fl.flex_attention(query[:, :, :9], key, value, block_mask=mask),
        lambda: fl.flex_attention(library.cat([query, query], 2), key, value, block_mask=mask),
        lambda: fl.flex_attention(query, key, value, return_lse=True, return_aux=fl.AuxRequest()),
        lambda: fl.flex_attention(query, key, value, return_aux=fl.AuxRequest(max_scores=True)),
        lambda: fl.create_block_mask(lambda s, b, h, q, kv: s, 1, 1, 8, 8, device="cpu"),
        lambda: fl.create_mask(lambda b, q, kv: q, 1, 1, 3, 4, device="cpu"),
        lambda: fl.and_masks(3),
        lambda: fl.BlockMask.from_kv_blocks(counts[0, 0], places[0, 0, 0]),
        lambda: fl.BlockMask.from_kv_blocks(counts, places, counts),
        lambda: fl.BlockMask((5, 5), None, places, None, None, None, None, None, None),
    ]
    found = []
    for call in calls:
        try:
            call()
            found.append("nothing")
        except Exception as error:
            found.append(f"{type(error).__name__}: {str(error).split('Got <')[0]}")
    return found


def test_errors_are_pytorchs(of_pytorch):
    assert errors_told(flambeau) == of_pytorch(errors_told)
    with pytest.raises(RuntimeError, match="sliced BlockMask"):
        mask = flex.create_block_mask(lambda b, h, q, kv: q >= kv, 1, 1, 8, 8, BLOCK_SIZE=4)[:, :, :1]
        mask.mask_mod(0, 0, 0, 0)
    query, key, value = operands(flambeau)
    with pytest.raises(RuntimeError, match="keys and values differ"):
        flex.flex_attention(query, key[:, :, :4], value)


def test_narrow_operands_and_the_order_in_memory():
    query, key, value = operands(flambeau, "bfloat16")
    result, aux = flex.flex_attention(query, key, value, score_mods(flambeau)["alibi"], return_aux=flex.AuxRequest(lse=True))
    wide = flex.flex_attention(query.float(), key.float(), value.float(), score_mods(flambeau)["alibi"])
    assert result.dtype is flambeau.bfloat16 and aux.lse.dtype is flambeau.float32
    np.testing.assert_allclose(result.float().numpy(), wide.numpy(), atol=2e-2)
    across = flambeau.randn(2, LENGTH, HEADS, 8).transpose(1, 2)
    assert flex.flex_attention(across, across, across).stride() == across.stride()


def test_compiled_it_follows_what_is_captured():
    query, key, value = operands(flambeau)
    bias = flambeau.ones(HEADS, LENGTH + KEYS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = flambeau.compile(lambda q: flex.flex_attention(q * 2, key, value, lambda s, b, h, i, j: s + bias[h, i - j + KEYS]) + 1)
    for _ in range(3):
        bias.copy_(flambeau.randn_like(bias))
        expected = flex.flex_attention(query * 2, key, value, lambda s, b, h, i, j: s + bias[h, i - j + KEYS]) + 1
        np.testing.assert_allclose(compiled(query).numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (2, 0), (1, 2)])
def test_sequences_of_several_lengths(window):
    bounds, of_keys = [0, 3, 3, 10], [0, 4, 6, 11]
    query, key, value = (flambeau.randn(n, h, 6, requires_grad=True) for n, h in ((10, 4), (11, 2), (11, 2)))
    out, log_sums = varlen.varlen_attn(
        query, key, value, flambeau.tensor(bounds), flambeau.tensor(of_keys), 7, 5, window_size=window, enable_gqa=True,
        return_aux=varlen.AuxRequest(lse=True),
    )  # fmt: skip
    parts = []
    for i in range(3):
        q, k, v = (each[a[i] : a[i + 1]].transpose(0, 1) for each, a in ((query, bounds), (key, of_keys), (value, of_keys)))
        if not q.size(1):
            continue
        scores = q @ k.repeat_interleave(2, 0).mT / math.sqrt(6)
        apart = flambeau.arange(k.size(1)) - flambeau.arange(q.size(1))[:, None] - (k.size(1) - q.size(1))
        hidden = (apart < -window[0] if window[0] >= 0 else apart < -99) | (apart > window[1] if window[1] >= 0 else apart > 99)
        scores = scores.masked_fill(hidden, -math.inf)
        weights = scores.softmax(-1).nan_to_num(0.0)
        parts.append(((weights @ v.repeat_interleave(2, 0)).transpose(0, 1), scores.logsumexp(-1).t()))
    wanted = [flambeau.cat(list(each)) for each in zip(*parts, strict=True)]
    np.testing.assert_allclose(out.detach().numpy(), wanted[0].detach().numpy(), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(log_sums.detach().numpy(), wanted[1].detach().numpy(), rtol=1e-5, atol=1e-5)
    grads = [flambeau.autograd.grad(each.sin().sum(), (query, key, value)) for each in (out, wanted[0])]
    for got, expected in zip(*grads, strict=True):
        np.testing.assert_allclose(got.numpy(), expected.nan_to_num(0.0).numpy(), rtol=1e-4, atol=1e-5)


def test_pages_of_keys_are_put_together():
    query, key = flambeau.randn(2, 2, 4), flambeau.randn(5, 3, 2, 4)
    table, used = flambeau.tensor([[3, 1], [0, 4]], dtype=flambeau.int32), flambeau.tensor([5, 2], dtype=flambeau.int32)
    out = varlen.varlen_attn(query, key, key, flambeau.tensor([0, 1, 2]), None, 1, 6, seqused_k=used, block_table=table)
    rows = [flambeau.cat([key[3], key[1]])[:5], key[0][:2]]
    expected = [((query[i] * row).sum(-1) / 2).softmax(0).unsqueeze(-1).mul(row).sum(0) for i, row in enumerate(rows)]
    np.testing.assert_allclose(out.numpy(), flambeau.stack(expected).numpy(), rtol=1e-5, atol=1e-5)


def test_rows_of_no_sequence_are_zeros_and_sequences_have_to_fit():
    query, bounds = flambeau.randn(6, 2, 4), flambeau.tensor([1, 3, 4])
    request = {"return_aux": varlen.AuxRequest(lse=True)}
    out, log_sums = varlen.varlen_attn(query, query, query, bounds, bounds, 2, 2, **request)
    alone, sums = varlen.varlen_attn(query[1:4], query[1:4], query[1:4], bounds - 1, bounds - 1, 2, 2, **request)
    assert flambeau.equal(out[1:4], alone) and flambeau.equal(log_sums[1:4], sums)
    assert not out[0].any() and not out[4:].any() and out.shape == query.shape and log_sums.shape == (6, 2)
    nothing = flambeau.tensor([0])
    made = varlen.varlen_attn(query[:0], query[:0], query[:0], nothing, nothing, 0, 0, **request)
    assert [tuple(each.shape) for each in made] == [(0, 2, 4), (0, 2)]
    for more, of_keys in (({}, None), ({}, nothing), ({"window_size": (1,)}, bounds), ({"block_table": bounds}, None)):
        with pytest.raises(ValueError, match=r"varlen_attn: |window_size"):
            varlen.varlen_attn(query, query, query, bounds, of_keys, 2, 2, **more)
    for shared, enable_gqa in ((1, False), (3, True)):
        with pytest.raises(ValueError, match=f"got Hq=2 and Hkv={shared}"):
            key = query[:, :1].expand(6, shared, 4)
            varlen.varlen_attn(query, key, key, bounds, bounds, 2, 2, enable_gqa=enable_gqa)
