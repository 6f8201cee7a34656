"""Kernels of forked children compute on shared memory, with threads of their own."""

from __future__ import annotations

import pytest

import flambeau
import flambeau.multiprocessing as mp
from flambeau.core.arrays.native import switch

SIZE = 1 << 18


@pytest.fixture
def two_threads():
    before = flambeau.get_num_threads()
    flambeau.set_num_threads(2)
    yield
    flambeau.set_num_threads(before)


def work(rank, tensor, weights, results):
    flambeau.set_num_threads(rank + 1)
    part = tensor[rank]
    part.mul_(2).add_(weights.exp())
    results[rank] = part.sum()
    assert flambeau.get_num_threads() == rank + 1
    assert switch.on


def test_children_compute_on_shared_tensors_with_native_kernels(two_threads):
    tensor = flambeau.ones(2, SIZE).share_memory_()
    weights = flambeau.linspace(0, 1, SIZE)
    weights.exp().sum()  # the pool's threads run in the parent; a child has none
    results = flambeau.zeros(2).share_memory_()
    mp.start_processes(work, (tensor, weights, results), nprocs=2, start_method="fork")
    expected = 2 + weights.exp()
    assert flambeau.equal(tensor[0], expected)
    assert flambeau.equal(tensor[1], expected)
    assert results.tolist() == [expected.sum()] * 2
