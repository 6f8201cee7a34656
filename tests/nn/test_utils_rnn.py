"""nn.utils.rnn: padding and packing of sequences, as PyTorch does it."""

from __future__ import annotations

import copy
import pickle

import pytest

import flambeau
from flambeau.nn.utils import rnn


def _numbers(torch, *shape, **kwargs):
    count = 1
    for size in shape:
        count *= size
    return torch.arange(count, **kwargs).reshape(*shape)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("features", [(), (2,), (2, 3)])
@pytest.mark.parametrize("lengths", [[4, 3, 1], [4, 4, 4], [2, 2, 1]])
def test_packing_padded_sequences(same, batch_first, features, lengths):
    def program(torch):
        x = _numbers(torch, 3, 4, *features, dtype=torch.float32).requires_grad_()
        x_in = x if batch_first else x.transpose(0, 1)
        packed = torch.nn.utils.rnn.pack_padded_sequence(x_in, lengths, batch_first)
        padded, counts = torch.nn.utils.rnn.pad_packed_sequence(packed, batch_first, -1.0, 6)
        (padded * _numbers(torch, *padded.shape)).sum().backward()
        return [list(packed), padded, padded.stride(), counts, x.grad, packed.data.is_contiguous()]

    same(program)


def test_sequences_in_any_order(same):
    def program(torch):
        r = torch.nn.utils.rnn
        sequences = [_numbers(torch, length, 2, dtype=torch.float64) + 10 * length for length in (2, 4, 1, 4)]
        packed = r.pack_sequence(sequences, enforce_sorted=False)
        return [
            list(packed),
            r.pad_packed_sequence(packed),
            r.pad_packed_sequence(packed, True, 0.5),
            r.unpack_sequence(packed),
            list(r.pack_sequence([sequences[1], sequences[0]])),
            list(r.pack_padded_sequence(r.pad_sequence(sequences), torch.tensor([2.0, 4.0, 1.0, 4.0]), enforce_sorted=False)),
            list(r.pack_padded_sequence(r.pad_sequence(sequences), [4, 2], enforce_sorted=False)),
        ]

    same(program)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding(same, batch_first, side):
    def program(torch):
        r = torch.nn.utils.rnn
        sequences = [_numbers(torch, length, 2, dtype=torch.float32).requires_grad_() for length in (2, 4, 0)]
        padded = r.pad_sequence(sequences, batch_first, 9.0, side)
        (padded * _numbers(torch, *padded.shape)).sum().backward()
        return [
            padded,
            padded.stride(),
            [sequence.grad for sequence in sequences],
            r.pad_sequence(iter([torch.ones(2), torch.ones(3)])),
            r.pad_sequence(torch.ones(2, 3)),
            r.pad_sequence([torch.tensor([1, 2]), torch.tensor([3])], padding_value=1.5),
            r.unpad_sequence(padded.detach().clone(), torch.tensor([2, 4, 0]), batch_first),  # PyTorch transposes its argument in place
            r.invert_permutation(torch.tensor([2, 0, 1])),
            r.invert_permutation(None),
        ]

    same(program)


def test_the_packed_sequence_itself(same):
    def program(torch):
        r = torch.nn.utils.rnn
        x = _numbers(torch, 4, 3, dtype=torch.float32)
        packed = r.pack_padded_sequence(x, [3, 4, 2], enforce_sorted=False)
        converted = [getattr(packed, name)() for name in "double float half long int short char byte".split()]
        sizes = torch.tensor([3, 1])
        return [
            repr(packed),
            packed._fields,
            [list(one) for one in converted],
            [one is packed for one in converted],
            packed.to(torch.float32) is packed,
            list(packed.to(torch.float64)),
            list(packed.to("cpu", torch.int32)),
            packed.cpu() is packed,
            (packed.is_cuda, packed.is_pinned()),
            list(r.PackedSequence((x, sizes))),
            list(r.PackedSequence(x, sizes, torch.tensor([0, 2, 1]))),
            lambda: r.PackedSequence(x),
            lambda: r.PackedSequence((x,)),
            lambda: packed.to(torch.float64, copy=True),
            isinstance(packed, tuple),
            list(copy.deepcopy(packed)),
        ]

    same(program)


def test_errors(same):
    def program(torch):
        r = torch.nn.utils.rnn
        x = _numbers(torch, 4, 3, dtype=torch.float32)
        packed = r.pack_padded_sequence(x, [4, 3, 2])
        return [
            lambda: r.pack_padded_sequence(x, [3, 4, 2]),
            lambda: r.pack_padded_sequence(x, [4, 0, 2], enforce_sorted=False),
            lambda: r.pack_padded_sequence(x, [4, 2]),
            lambda: r.pack_padded_sequence(x, torch.tensor([[4, 4, 4]])),
            lambda: r.pack_padded_sequence(x[:, :0], []),
            lambda: r.pad_packed_sequence(packed, total_length=3),
            lambda: r.pack_sequence([x[1][:2], x[0]]),
            lambda: r.pad_sequence([]),
            lambda: r.pad_sequence(3),
            lambda: r.pad_sequence([x[0], x[1]], padding_side="middle"),
            lambda: torch._pack_padded_sequence(x, torch.tensor([4, 2, 1], dtype=torch.int32), False),
            lambda: torch._pad_packed_sequence(packed.data, packed.batch_sizes, False, 0.0, 2),
        ]

    same(program)


def test_lengths_beyond_the_input_are_refused():
    with pytest.raises(RuntimeError, match="at most 4"):
        rnn.pack_padded_sequence(flambeau.zeros(4, 2), [5, 1])


def test_a_packed_sequence_survives_pickling():
    packed = rnn.pack_sequence([flambeau.ones(2), flambeau.ones(3)], enforce_sorted=False)
    loaded = pickle.loads(pickle.dumps(packed))
    assert type(loaded) is rnn.PackedSequence
    assert all(flambeau.equal(a, b) for a, b in zip(packed, loaded, strict=True))
