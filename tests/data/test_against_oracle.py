"""Loaders, samplers and splits beside PyTorch's: under the same seed the same samples in the same order."""

from __future__ import annotations

import collections
import collections.abc
import importlib
import random
import types
import warnings
from typing import Any

import numpy as np
import pytest
from oracle import pytorch

import flambeau
import flambeau.utils.data

torch = pytorch()
pytestmark = pytest.mark.oracle

Pair = collections.namedtuple("Pair", "first second")


def plain(value: Any) -> Any:
    """Tensors as (dtype, list), so that results of two frameworks compare."""
    if isinstance(value, (flambeau.Tensor, torch.Tensor)):
        return str(value.dtype), value.tolist()
    if isinstance(value, np.ndarray):
        return "array", value.tolist()
    if isinstance(value, collections.abc.Mapping):
        return type(value).__name__, {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple, collections.deque)):
        return type(value).__name__, [plain(entry) for entry in value]
    return value


def outcome(function: Any) -> Any:
    """What a function gives: its value, or the type of its error; and the categories of its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = plain(function())
        except Exception as error:
            result = type(error).__name__
    return result, [warning.category for warning in caught]


def same(program: Any) -> Any:
    """Run one program on both frameworks; the outcome, which has to be the same."""
    ours, theirs = outcome(lambda: program(flambeau)), outcome(lambda: program(torch))
    assert ours == theirs
    return ours


SAMPLERS = {
    "sequential": lambda d: d.SequentialSampler(range(7)),
    "random": lambda d: d.RandomSampler(range(7)),
    "random with replacement": lambda d: d.RandomSampler(range(7), replacement=True, num_samples=70),
    "random with replacement, whole blocks": lambda d: d.RandomSampler(range(7), replacement=True, num_samples=64),
    "random more than once": lambda d: d.RandomSampler(range(7), num_samples=17),
    "random some": lambda d: d.RandomSampler(range(7), num_samples=3),
    "subset": lambda d: d.SubsetRandomSampler([4, 2, 9, 11]),
    "weighted": lambda d: d.WeightedRandomSampler([0.1, 0.9, 0.4, 0.0, 3.0], 20),
    "weighted without replacement": lambda d: d.WeightedRandomSampler([0.1, 0.9, 0.4, 0.2, 3.0], 4, replacement=False),
    "batches": lambda d: d.BatchSampler(d.RandomSampler(range(7)), 3, False),
    "whole batches": lambda d: d.BatchSampler(d.RandomSampler(range(7)), 3, True),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_samplers_give_the_same_indices(name):
    def program(framework):
        framework.manual_seed(3)
        sampler = SAMPLERS[name](framework.utils.data)
        return list(sampler), list(sampler), len(sampler), framework.rand(2)

    same(program)


@pytest.mark.parametrize("replacement", [False, True])
def test_random_sampler_uses_the_given_generator(replacement):
    def program(framework):
        generator = framework.Generator()
        generator.manual_seed(5)
        sampler = framework.utils.data.RandomSampler(range(9), replacement=replacement, generator=generator)
        return list(sampler), list(sampler)

    same(program)


@pytest.mark.parametrize("replicas", [1, 2, 3, 8])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_distributed_sampler_gives_the_same_parts(replicas, drop_last, shuffle):
    def program(framework):
        parts = []
        for rank in range(replicas):
            sampler = framework.utils.data.DistributedSampler(range(7), replicas, rank, shuffle=shuffle, seed=2, drop_last=drop_last)
            sampler.set_epoch(4)
            parts.append((list(sampler), len(sampler)))
        return parts

    same(program)


@pytest.mark.parametrize("lengths", [[3, 7], [0.5, 0.5], [0.34, 0.33, 0.33], [0.99, 0.01], [3, 3], [1.5, -0.5], [0.0, 1.0], [10]])
def test_random_split_gives_the_same_parts(lengths):
    def program(framework):
        framework.manual_seed(1)
        first = [part.indices for part in framework.utils.data.random_split(range(10), lengths)]
        generator = framework.Generator()
        generator.manual_seed(42)
        return first, [part.indices for part in framework.utils.data.random_split(range(10), lengths, generator)]

    same(program)


LOADERS: dict[str, dict[str, Any]] = {
    "one by one": {},
    "batches": {"batch_size": 4},
    "whole batches": {"batch_size": 4, "drop_last": True},
    "shuffled": {"batch_size": 4, "shuffle": True},
    "unbatched": {"batch_size": None, "shuffle": True},
    "own collate": {"batch_size": 4, "collate_fn": len},
    "own order": {"batch_size": 3, "sampler": [5, 1, 1, 0]},
    "own batches": {"batch_sampler": [[0, 1], [5], [2, 3, 4]]},
    "sampler and shuffle": {"sampler": [1], "shuffle": True},
    "batch sampler and batch size": {"batch_sampler": [[1]], "batch_size": 2},
    "batch sampler and shuffle": {"batch_sampler": [[1]], "shuffle": True},
    "batch sampler and sampler": {"batch_sampler": [[1]], "sampler": [1]},
    "batch sampler and drop_last": {"batch_sampler": [[1]], "drop_last": True},
    "unbatched drop_last": {"batch_size": None, "drop_last": True},
    "no batch size": {"batch_size": 0},
    "float batch size": {"batch_size": 1.5},
    "negative workers": {"num_workers": -1},
    "negative timeout": {"timeout": -1},
    "timeout without workers": {"timeout": 1},
    "prefetch without workers": {"prefetch_factor": 2},
    "negative prefetch": {"num_workers": 1, "prefetch_factor": -1},
    "persistent without workers": {"persistent_workers": True},
    "context without workers": {"multiprocessing_context": "spawn"},
    "unknown context": {"multiprocessing_context": "teleport", "num_workers": 1},
    "no context": {"multiprocessing_context": 3, "num_workers": 1},
    "unknown option": {"bath_size": 2},
    "pinned": {"batch_size": 4, "pin_memory": True},
    "pinned device": {"batch_size": 4, "pin_memory": True, "pin_memory_device": "cuda"},
}


@pytest.mark.parametrize("name", LOADERS)
def test_loaders_give_the_same_batches_or_errors(name):
    def program(framework):
        data = framework.utils.data
        framework.manual_seed(7)
        dataset = data.TensorDataset(framework.arange(10), framework.arange(20.0).reshape(10, 2))
        loader = data.DataLoader(dataset, **LOADERS[name])
        return len(loader), list(loader), list(loader), framework.rand(2)

    same(program)


def test_shuffled_training_loop_draws_the_same_numbers():
    def program(framework):
        data = framework.utils.data
        framework.manual_seed(11)
        dataset = data.TensorDataset(framework.rand(10, 2))
        generator = framework.Generator()
        generator.manual_seed(1)
        seen = []
        for loader in (
            data.DataLoader(dataset, batch_size=3, shuffle=True),
            data.DataLoader(dataset, batch_size=3, shuffle=True, generator=generator),
        ):
            for _ in range(2):
                for (batch,) in loader:
                    seen.append((batch, framework.rand(1)))
        return seen

    same(program)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch_size": 4},
        {"batch_size": 4, "drop_last": True},
        {"batch_size": None},
        {"shuffle": True},
        {"shuffle": False},
        {"sampler": [1]},
        {"batch_sampler": [[1]]},
    ],
)
@pytest.mark.parametrize("length", [None, 10, 3])
def test_streams_give_the_same_batches_warnings_and_errors(options, length):
    def program(framework):
        data = framework.utils.data

        class Stream(data.IterableDataset):
            def __iter__(self):
                return iter(range(10))

        if length is not None:
            Stream.__len__ = lambda self: length
        loader = data.DataLoader(Stream(), **options)
        promised = len(loader) if length is not None else None
        return promised, list(loader)

    same(program)


def batches_to_collate(framework: Any) -> dict[str, Any]:
    tensor = framework.tensor([1.0, 2.0])

    class OwnDict(dict):
        pass

    class OwnList(list):
        pass

    marked = OwnDict(a=1)
    marked.mark = 3
    return {
        "tensors": [tensor, tensor * 2],
        "different shapes": [tensor, tensor[:1]],
        "ints": [1, 2],
        "bools": [True, False],
        "floats": [1.5, 2.5],
        "strings": ["a", "b"],
        "bytes": [b"a", b"b"],
        "complex": [1j, 2j],
        "none": [None, None],
        "objects": [object(), object()],
        "arrays": [np.ones((2, 2), dtype=np.float32), np.zeros((2, 2), dtype=np.float32)],
        "text arrays": [np.array(["a"]), np.array(["b"])],
        "object arrays": [np.array([None]), np.array([None])],
        "float64s": [np.float64(1), np.float64(2)],
        "float32s": [np.float32(1), np.float32(2)],
        "numpy bools": [np.bool_(True), np.bool_(False)],
        "int8s": [np.int8(1), np.int8(2)],
        "0-d arrays": [np.array(1.0), np.array(2.0)],
        "tuples": [(1, 2.0), (3, 4.0)],
        "lists": [[1, 2.0], [3, 4.0]],
        "named tuples": [Pair(1, "a"), Pair(2, "b")],
        "dicts": [{"x": tensor, "y": [1, 2]}, {"x": tensor, "y": [3, 4]}],
        "ordered dicts": [collections.OrderedDict(a=1), collections.OrderedDict(a=2)],
        "default dicts": [collections.defaultdict(int, a=1), collections.defaultdict(int, a=2)],
        "read-only dicts": [types.MappingProxyType({"a": 1}), types.MappingProxyType({"a": 2})],
        "own dicts": [marked, OwnDict(a=2)],
        "own lists": [OwnList([1, 2]), OwnList([3, 4])],
        "deques": [collections.deque([1, 2]), collections.deque([3, 4])],
        "ranges": [range(3), range(1, 4)],
        "unequal lengths": [[1, 2], [3]],
        "missing key": [{"a": 1}, {"b": 1}],
        "empty tuples": [(), ()],
        "mixed numbers": [1, 2.5],
        "nested": [({"a": (1, [2])},), ({"a": (3, [4])},)],
    }


@pytest.mark.parametrize("name", batches_to_collate(flambeau))
def test_default_collate_and_convert_give_the_same(name):
    same(lambda framework: framework.utils.data.default_collate(batches_to_collate(framework)[name]))
    if name not in ("objects",):
        same(lambda framework: framework.utils.data.default_convert(batches_to_collate(framework)[name]))


def test_collate_accepts_own_types():
    class Word:
        pass

    def program(framework):
        parts = importlib.import_module(f"{framework.__name__}.utils.data._utils.collate")

        def of_words(batch, *, collate_fn_map=None):
            return len(batch)

        table = {**parts.default_collate_fn_map, Word: of_words}
        return parts.collate([(Word(), 1), (Word(), 2)], collate_fn_map=table)

    assert same(program)[0] == ("list", [2, ("torch.int64", [1, 2])])


BAD_CALLS = {
    "no length": lambda d: d.RandomSampler([]),
    "replacement not a bool": lambda d: d.RandomSampler([1], replacement=1),
    "num_samples 0": lambda d: d.RandomSampler([1], num_samples=0),
    "weights 2-d": lambda d: d.WeightedRandomSampler([[1.0]], 1),
    "weighted num_samples": lambda d: d.WeightedRandomSampler([1.0], True),
    "weighted replacement": lambda d: d.WeightedRandomSampler([1.0], 1, 1),
    "batch size": lambda d: d.BatchSampler([1], 0, False),
    "bool batch size": lambda d: d.BatchSampler([1], True, False),
    "drop_last": lambda d: d.BatchSampler([1], 1, 1),
    "rank": lambda d: d.DistributedSampler([1], 2, 2),
    "empty concatenation": lambda d: d.ConcatDataset([]),
    "empty stack": lambda d: d.StackDataset(),
    "stack of both": lambda d: d.StackDataset([1], a=[1]),
    "stack of lengths": lambda d: d.StackDataset([1], [1, 2]),
    "stack of dict lengths": lambda d: d.StackDataset(a=[1], b=[1, 2]),
    "abstract dataset": lambda d: d.Dataset()[0],
    "abstract length": lambda d: len(d.Dataset()),
    "abstract stream": lambda d: iter(d.IterableDataset()),
    "abstract sampler": lambda d: iter(d.Sampler()),
    "chain of lists": lambda d: list(d.ChainDataset([[1]])),
    "concatenation out of range": lambda d: d.ConcatDataset([[1], [2]])[-3],
    "subclass of Subset": lambda d: type("Own", (d.Subset,), {"__getitem__": lambda self, i: 0})([1], [0]),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_mistakes_get_the_same_error_types(name):
    def program(framework):
        BAD_CALLS[name](framework.utils.data)

    assert isinstance(same(program)[0], str)


def test_sizes_of_tensors_must_match():
    def program(framework):
        framework.utils.data.TensorDataset(framework.ones(2), framework.ones(3))

    assert same(program)[0] == "AssertionError"


def test_composed_datasets_give_the_same_samples():
    def program(framework):
        data = framework.utils.data
        a = data.TensorDataset(framework.arange(4), framework.arange(4) * 10)
        b = data.Subset(a, [3, 1])
        joined = data.ConcatDataset([a, b]) + a
        pairs = data.StackDataset(a, data.Subset(a, [0, 0, 1, 2]))
        named = data.StackDataset(x=a, y=[1, 2, 3, 4])
        return (
            [joined[i] for i in range(len(joined))],
            joined[-1],
            joined.cumulative_sizes,
            joined.cummulative_sizes if hasattr(joined, "cummulative_sizes") else None,
            [pairs[2], pairs.__getitems__([0, 3])],
            [named[2], named.__getitems__([0, 3]), len(named)],
            list(data.DataLoader(joined, batch_size=3)),
            list(data.DataLoader(named, batch_size=3)),
            b[[0, 1]],
            b.__getitems__([0, 1]),
        )

    same(program)


def test_chained_streams():
    def program(framework):
        data = framework.utils.data

        class Stream(data.IterableDataset):
            def __init__(self, n):
                self.n = n

            def __iter__(self):
                return iter(range(self.n))

            def __len__(self):
                return self.n

        chain = Stream(3) + Stream(2)
        return list(chain), len(chain), list(data.DataLoader(chain, batch_size=2))

    same(program)


@pytest.mark.parametrize("name", ["batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers", "num_workers"])
def test_samplers_and_sizes_are_fixed(name):
    def program(framework):
        setattr(framework.utils.data.DataLoader([1, 2]), name, 0)

    same(program)


# -- workers ----------------------------------------------------------------------------------------------------------------
def seeded(framework: Any) -> None:
    framework.manual_seed(11)
    random.seed(11)
    np.random.seed(11)


def draws_of(framework: Any) -> Any:
    """A dataset whose samples are what a worker knows, and random numbers of all three kinds."""

    class Draws(framework.utils.data.Dataset):
        def __len__(self):
            return 10

        def __getitem__(self, i):
            info = framework.utils.data.get_worker_info()
            known = (info.id, info.num_workers, info.seed, info.worker_method, info.rng)
            return (
                i,
                known,
                framework.initial_seed(),
                framework.rand(2).tolist(),
                random.random(),
                np.random.rand(),
                framework.get_num_threads(),
            )

    return Draws()


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("options", [{}, {"persistent_workers": True, "prefetch_factor": 1}, {"own": True, "drop_last": True}], ids=str)
def test_workers_get_the_same_seeds_numbers_and_samples(options):
    def program(framework):
        seeded(framework)
        rest = dict(options)
        if rest.pop("own", False):
            rest["generator"] = framework.Generator().manual_seed(4)
        loader = framework.utils.data.DataLoader(draws_of(framework), 3, True, num_workers=2, collate_fn=list, **rest)
        return [list(loader), list(loader), framework.rand(1), random.random(), np.random.rand()]

    same(program)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_streams_of_unequal_length_come_in_the_same_order():
    def program(framework):
        data = framework.utils.data

        class Stream(data.IterableDataset):
            def __iter__(self):
                info = data.get_worker_info()
                return iter(range(info.id * 100, info.id * 100 + (7, 2, 4)[info.id]))

            def __len__(self):
                return 5

        results = []
        for options in ({"drop_last": True}, {"persistent_workers": True}):
            loader = data.DataLoader(Stream(), **{"batch_size": 2, "num_workers": 3, **options})
            results.append([len(loader), list(loader), list(loader)])
        return results

    same(program)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_what_goes_through_a_worker_is_the_same():
    def program(framework):
        x = framework.arange(12.0)
        odd = [
            {
                "a": x[i],
                "b": (i, float(i), "t"),
                "c": Pair(x[i : i + 2], np.float32(i)),
                "d": np.full(2, i),
                "e": b"x",
                "f": None,
                "g": i > 1,
            }
            for i in range(4)
        ]
        data = framework.utils.data
        return [
            list(data.DataLoader(odd, None, num_workers=1)),
            list(data.DataLoader([{k: v for k, v in sample.items() if k != "f"} for sample in odd], 3, num_workers=1)),
            list(data.DataLoader(x.view(6, 2), 4, num_workers=1)),
            [batch.stride() for batch in data.DataLoader(framework.zeros(2, 3, 4).mT, None, num_workers=1)],
        ]

    same(program)


def failing(framework: Any, error: Any) -> Any:
    class Failing(framework.utils.data.Dataset):
        def __len__(self):
            return 3

        def __getitem__(self, i):
            raise error

    return Failing()


class Two(Exception):
    def __init__(self, first: Any, second: Any) -> None:
        super().__init__(first)


@pytest.mark.parametrize("error", [OSError(2, "gone"), KeyError("k"), Two(1, 2)], ids=repr)
def test_errors_of_workers_have_the_same_type_and_message(error):
    def program(framework):
        try:
            list(framework.utils.data.DataLoader(failing(framework, error), num_workers=1))
        except Exception as raised:
            lines = str(raised).splitlines()
            return type(raised).__name__, lines[0], lines[1], lines[-1]

    assert same(program)[0][1][1].startswith("Caught ")


def test_warnings_and_refusals_have_the_same_words():
    def program(framework):
        data, words = framework.utils.data, []

        class Stream(data.IterableDataset):
            def __len__(self):
                return 1

            def __iter__(self):
                return iter(range(3))

        def too_long(workers):
            loader = data.DataLoader(Stream(), num_workers=workers)
            len(loader)
            return list(loader)

        for attempt in (
            lambda: data.DataLoader([1], num_workers=1000),
            lambda: too_long(0),
            lambda: too_long(1),
            lambda: list(data.DataLoader([1], num_workers=1, pin_memory=True)),
            lambda: data.DataLoader([1], multiprocessing_context="fork"),
            lambda: data.DataLoader([1], num_workers=1, multiprocessing_context="threads"),
            lambda: data.DataLoader([1], num_workers=1, multiprocessing_context=3),
            lambda: data.DataLoader([1], num_workers=-1),
            lambda: data.DataLoader([1], timeout=-1),
            lambda: data.DataLoader([1], prefetch_factor=2),
            lambda: data.DataLoader([1], num_workers=1, prefetch_factor=-2),
            lambda: data.DataLoader([1], persistent_workers=True),
            lambda: iter(data.DataLoader([1], timeout=1)),
            lambda: data.StackDataset([1], a=[1]),
            lambda: data.RandomSampler([1], replacement=3),
            lambda: data.BatchSampler([1], 0, False),
            lambda: data.DistributedSampler([1], 2, 2),
            lambda: data.random_split([1, 2], [0.5, 0.6]),
            lambda: data.random_split([1, 2], [-0.5, 1.5]),
            lambda: data.ConcatDataset([[1, 2]])[-3],
            lambda: data.default_collate([None]),
            lambda: data.default_collate([[1], [1, 2]]),
            lambda: data.DataLoader([1], 2, sampler=[0], shuffle=True),
            lambda: data.DataLoader([1], 2, batch_sampler=[[0]]),
            lambda: data.DataLoader([1], None, drop_last=True),
            lambda: data.DataLoader(Stream(), shuffle=True),
            lambda: data.DataLoader(Stream(), sampler=[0]),
            lambda: data.DataLoader(Stream(), batch_sampler=[[0]]),
        ):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    attempt()
                except Exception as error:
                    words.append(f"{type(error).__name__}: {error}")
                words += [str(warning.message).split(" object at ")[0] for warning in caught]
        return words

    same(program)
