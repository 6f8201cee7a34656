"""Properties of loaders and datasets that hold without a reference."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import flambeau
from flambeau.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
    get_worker_info,
)


class Squares(Dataset[int]):
    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> int:
        return i * i


def test_more_workers_than_processors_are_warned_about():
    with pytest.warns(UserWarning, match="worker processes in total"):
        DataLoader(Squares(3), num_workers=100_000)


def test_no_worker_info_in_the_main_process():
    seen = []

    class Stream(IterableDataset[int]):
        def __iter__(self):
            seen.append(get_worker_info())
            return iter(range(2))

    assert len(list(DataLoader(Stream()))) == 2
    assert seen == [None]


def test_collated_batches_own_their_memory():
    x = flambeau.arange(4)
    batch = next(iter(DataLoader(TensorDataset(x), batch_size=2)))[0]
    batch.zero_()
    assert x.tolist() == [0, 1, 2, 3]


def test_batched_lookup_is_preferred():
    class Batched(Squares):
        def __getitems__(self, indices: list[int]) -> list[int]:
            return [-i for i in indices]

    (batch,) = DataLoader(Batched(3), batch_size=3)
    assert batch.tolist() == [0, -1, -2]
    (batch,) = DataLoader(Subset(Batched(3), [2, 1]), batch_size=2)
    assert batch.tolist() == [-2, -1]


def test_every_index_comes_once():
    loader = DataLoader(Squares(17), batch_size=5, shuffle=True)
    first, second = ([i for batch in loader for i in batch.tolist()] for _ in range(2))
    assert sorted(first) == sorted(second) == [i * i for i in range(17)]
    assert first != second


def test_sampler_length_follows_the_dataset():
    data = [1, 2]
    sampler = RandomSampler(data)
    data.append(3)
    assert sorted(sampler) == [0, 1, 2]


def test_former_sampler_spellings():
    class Own(Sampler[int]):
        def __init__(self, data: Any) -> None:
            super().__init__(data)

    Own([1])
    assert sorted(WeightedRandomSampler([1.0, 1.0, 1.0], 3, replace=False)) == [0, 1, 2]
    with pytest.raises(TypeError, match="replace"):
        WeightedRandomSampler([1.0], 1, False, replace=True)


def test_dataset_type_alias():
    assert Dataset[int].__origin__ is Dataset
    assert DataLoader[int].__origin__ is DataLoader


def test_loaders_are_copied_and_pickled_but_not_their_iterators():
    loader = DataLoader(TensorDataset(flambeau.arange(6)), batch_size=2, shuffle=True)
    for again in (copy.deepcopy(loader), pickle.loads(pickle.dumps(loader))):
        flambeau.manual_seed(1)
        expected = [batch[0].tolist() for batch in loader]
        flambeau.manual_seed(1)
        assert [batch[0].tolist() for batch in again] == expected
    with pytest.raises(NotImplementedError):
        pickle.dumps(iter(loader))


def test_unknown_submodule_of_utils_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        flambeau.utils.nonsense  # noqa: B018
