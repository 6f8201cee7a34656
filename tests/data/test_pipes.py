"""Pipes of data beside PyTorch's: the same samples in the same order, the same errors and warnings in the same words."""

from __future__ import annotations

import functools
import importlib
import pickle
import types
import warnings
from typing import Any

import pytest
from oracle import pytorch

import flambeau

torch = pytorch()
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore:This DataLoader will create")]


def odd(x: int) -> int:
    return x % 2


def added(a: int, b: int) -> int:
    return a + b


def failing(x: Any) -> Any:
    raise ValueError("no")


def nothing(x: Any) -> None:
    return None


def five(x: Any) -> int:
    return 5


def is_small(x: int) -> bool:
    return x < 2


def two_iterators(p: Any) -> Any:
    pipe = p.count(5)
    first = iter(pipe)
    taken = [next(first)]
    taken.append(next(iter(pipe)))
    return taken, next(first)


def forks_that_start_again(p: Any) -> Any:
    a, b = p.count(3).fork(2)
    first, second = iter(a), iter(b)
    taken = [next(first), next(second), next(iter(a))]
    return taken, next(second)


def in_turn(p: Any) -> Any:
    a, b = p.count(3).fork(2, buffer_size=1)
    return list(zip(a, b, strict=True)), list(zip(a, b, strict=True))


def named_pipe(p: Any) -> Any:
    class Doubled(p.data.IterDataPipe):
        def __init__(self, source: Any) -> None:
            self.source = source

        def __iter__(self) -> Any:
            for x in self.source:
                yield 2 * x

    name = "doubled_by_test"
    p.data.IterDataPipe.functions.pop(name, None)
    p.data.functional_datapipe(name)(Doubled)
    return list(getattr(p.count(3), name)()), p.data.functional_datapipe(name)(Doubled)


def changing(p: Any) -> Any:
    @p.data.non_deterministic
    class Changing(p.data.IterDataPipe):
        def __iter__(self) -> Any:
            return iter([])

    @p.data.non_deterministic(lambda flag: flag)
    class Maybe(p.data.IterDataPipe):
        def __init__(self, flag: bool) -> None:
            self.flag = flag

    repr(Changing())
    with p.data.guaranteed_datapipes_determinism():
        names = [repr(Maybe(False))]
        for make in (Changing, lambda: Maybe(True)):
            try:
                make()
            except TypeError as error:
                names.append(without_feedback(str(error)))
    return [name.split(".")[-1] for name in names]


def reset_each_time(p: Any) -> Any:
    class Counting(p.data.IterDataPipe):
        resets = 0

        def reset(self) -> None:
            self.resets += 1

        def __iter__(self) -> Any:
            return iter([self.resets])

    pipe = Counting()
    return list(pipe), list(pipe), len(list(zip(pipe, pipe, strict=True)))


def loaded(p: Any) -> Any:
    p.torch.manual_seed(1)
    load = p.data.DataLoader
    results = [
        list(load(p.count(10).shuffle().sharding_filter(), 2, num_workers=2)),
        list(load(p.count(10).shuffle().map(int).shuffle(), 2)),
        list(load(p.count(10).shuffle(), 2, shuffle=False)),
        list(load(p.map.SequenceWrapper(range(5)), 2, num_workers=1)),
    ]
    persistent = load(p.count(10).shuffle().sharding_filter(), 2, num_workers=2, persistent_workers=True)
    return results, list(persistent), list(persistent), p.torch.rand(1)


def settings(p: Any) -> Any:
    graph = importlib.import_module(p.data.__name__ + ".graph")
    settings = importlib.import_module(p.data.__name__ + ".graph_settings")
    first = p.count(6).shuffle()
    last = first.map(int).shuffle()
    settings.apply_random_seed(last, p.torch.Generator().manual_seed(0))
    names = [repr(pipe) for pipe in settings.get_all_graph_pipes(graph.traverse_dps(last))]
    twice = p.count(6).sharding_filter().sharding_filter()
    try:
        settings.apply_sharding(twice, 2, 0)
    except RuntimeError as error:
        names.append(without_feedback(str(error)))
    off = settings.apply_shuffle_settings(p.count(4).shuffle(), False)
    return first._seed, last._seed, names, list(off)


PROGRAMS = {
    "two iterators": two_iterators,
    "names": lambda p: (repr(p.count(1)), str(p.count(1).map(str)), repr(p.map.SequenceWrapper([1]))),
    "no such operation": lambda p: p.count(1).nothing,
    "no such operation of maps": lambda p: p.map.SequenceWrapper([1]).nothing,
    "no length": lambda p: len(p.count(1).filter(bool)),
    "copies": lambda p: (lambda values: (lambda pipe: (values.append(4), list(pipe), len(pipe)))(p.iter.IterableWrapper(values)))([1, 2]),
    "no length of iterators": lambda p: len(p.iter.IterableWrapper(iter([1]))),
    "batches": lambda p: [list(p.count(5).batch(2)), list(p.count(5).batch(2, drop_last=True)), len(p.count(5).batch(2))],
    "batches of none": lambda p: p.count(5).batch(0),
    "unbatched": lambda p: [list(p.count(5).batch(2).batch(2).unbatch()), list(p.count(5).batch(2).batch(2).unbatch(-1))],
    "unbatched too often": lambda p: list(p.count(5).batch(2).unbatch(2)),
    "unbatched wrongly": lambda p: list(p.count(5).batch(2).unbatch(-2)),
    "chunk": lambda p: (lambda c: (repr(c), str(c), c.as_str("-"), c.items, list(c.raw_iterator())))(p.data.DataChunk([1, 2])),
    "filter": lambda p: [list(p.count(5).filter(is_small)), list(p.of((1, 2), (0, 3)).filter(bool, input_col=0))],
    "filter without bool": lambda p: list(p.count(5).filter(lambda x: x)),
    "map": lambda p: [list(p.count(5).map(str)), len(p.count(5).map(str)), list(p.count(2).map(functools.partial(added, 1)))],
    "map failing": lambda p: list(p.count(5).map(failing)),
    "map of builtins": lambda p: list(p.count(5).map(functools.partial(divmod, 1))),
    "map without input": lambda p: p.count(5).map(str, output_col=1),
    "map to two": lambda p: p.count(5).map(str, input_col=0, output_col=[1, 2]),
    "map of two columns": lambda p: [
        list(p.of((1, 2, 3)).map(added, input_col=[0, 2])),
        list(p.of((1, 2, 3)).map(added, input_col=[0, 2], output_col=-1)),
        list(p.of([1, 2, 3]).map(odd, input_col=1)),
        list(p.of({"a": 1, "b": 2}).map(added, input_col=("a", "b"), output_col="c")),
    ],
    "map of too few columns": lambda p: list(p.of((1, 2, 3)).map(added, input_col=0)),
    "map of too many columns": lambda p: list(p.of((1, 2, 3)).map(odd, input_col=[0, 1])),
    "no function": lambda p: p.count(5).map(3),
    "zip": lambda p: [list(p.count(3).zip(p.count(2))), len(p.count(3).zip(p.count(2)))],
    "zip of a list": lambda p: p.iter.Zipper([1]),
    "concat": lambda p: [list(p.count(3).concat(p.count(2))), len(p.count(3).concat(p.count(2)))],
    "concat of none": lambda p: p.iter.Concater(),
    "concat of a list": lambda p: p.iter.Concater([1]),
    "mux": lambda p: [list(p.count(3).mux(p.of(*"abcd"))), len(p.count(3).mux(p.count(2)))],
    "fork": lambda p: [[list(pipe), len(pipe)] for pipe in p.count(3).fork(2)],
    "fork of few": lambda p: [list(pipe) for pipe in p.count(3).fork(2, buffer_size=2)],
    "fork of enough": lambda p: [list(pipe) for pipe in p.count(3).fork(2, buffer_size=3)],
    "fork in turn": in_turn,
    "fork without limit": lambda p: [list(pipe) for pipe in p.count(3).fork(2, buffer_size=-1)],
    "fork of copies": lambda p: [list(pipe) for pipe in p.of([1], [2]).fork(2, copy="deep")],
    "fork of other copies": lambda p: p.count(3).fork(2, copy="x"),
    "fork to none": lambda p: p.count(3).fork(0),
    "fork to one": lambda p: repr(p.count(3).fork(1)),
    "forks that start again": forks_that_start_again,
    "demux": lambda p: [list(pipe) for pipe in p.count(6).demux(2, odd)],
    "demux too far": lambda p: [list(pipe) for pipe in p.count(6).demux(2, five)],
    "demux of none": lambda p: [list(pipe) for pipe in p.count(6).demux(2, nothing)],
    "demux dropping": lambda p: [list(pipe) for pipe in p.count(6).demux(2, nothing, drop_none=True)],
    "demux of few": lambda p: [list(pipe) for pipe in p.count(6).demux(2, odd, buffer_size=1)],
    "groups": lambda p: [
        list(p.count(7).groupby(odd)),
        list(p.count(7).groupby(odd, group_size=2, keep_key=True)),
        list(p.count(7).groupby(odd, buffer_size=3)),
        list(p.count(5).groupby(str, buffer_size=3, group_size=2, guaranteed_group_size=2, drop_remaining=True)),
    ],
    "groups too small": lambda p: list(p.count(5).groupby(str, buffer_size=3, group_size=2, guaranteed_group_size=2)),
    "groups too large": lambda p: p.count(7).groupby(odd, buffer_size=3, group_size=4),
    "groups without a size": lambda p: p.count(7).groupby(odd, guaranteed_group_size=4),
    "shuffled": lambda p: [
        p.torch.manual_seed(0).initial_seed(),
        list(p.count(10).shuffle()),
        list(p.count(10).shuffle(buffer_size=3)),
        list(p.count(10).batch(2).shuffle(unbatch_level=1)),
        list(p.count(6).shuffle().set_shuffle(False)),
        list(p.count(6).shuffle().set_seed(3)),
        list(p.map.SequenceWrapper(range(6)).shuffle()),
        list(p.map.SequenceWrapper(range(6)).shuffle(indices=[1, 2, 3]).set_seed(1)),
        list(p.map.SequenceWrapper(range(3)).shuffle().set_shuffle(False)),
    ],
    "shuffled without a buffer": lambda p: p.count(10).shuffle(buffer_size=0),
    "shards": lambda p: [(lambda pipe: (pipe.apply_sharding(2, k), list(pipe), len(pipe)))(p.count(5).sharding_filter()) for k in range(2)],
    "no shard": lambda p: p.count(5).sharding_filter().apply_sharding(2, 2),
    "sampled": lambda p: [list(p.iter.Sampler(p.count(5))), len(p.iter.Sampler(p.count(5)))],
    "collated": lambda p: [batch.tolist() for batch in p.count(4).batch(2).collate()],
    "by index": lambda p: [
        list(p.map.SequenceWrapper([1, 2, 3]).map(str)),
        list(p.map.SequenceWrapper([1, 2, 3]).batch(2)),
        p.map.SequenceWrapper({"a": 1})["a"],
        list(p.map.SequenceWrapper("ab").concat(p.map.SequenceWrapper("c"))),
        list(p.map.SequenceWrapper("ab").zip(p.map.SequenceWrapper("cd"))),
        len(p.map.SequenceWrapper([1, 2, 3]).batch(2, drop_last=True)),
    ],
    "concat by index, outside": lambda p: p.map.SequenceWrapper([1]).concat(p.map.SequenceWrapper([2]))[5],
    "zip by index, outside": lambda p: p.map.SequenceWrapper([1]).zip(p.map.SequenceWrapper([2]))[5],
    "zip by index of none": lambda p: p.map.Zipper(),
    "batch by index, outside": lambda p: p.map.SequenceWrapper([1]).batch(2)[5],
    "named pipe": named_pipe,
    "changing": changing,
    "bad decorator": lambda p: p.data.non_deterministic(5),
    "reset": reset_each_time,
    "pickled": lambda p: list(pickle.loads(pickle.dumps(p.count(3).map(str)))),
    "loaded": loaded,
    "settings": settings,
}


def without_feedback(message: str) -> str:
    """PyTorch's message ends with the place in its own tracker where users may comment."""
    return message.partition("\nFor feedback regarding")[0]


def outcome(framework: Any, program: Any) -> Any:
    data = importlib.import_module(f"{framework.__name__}.utils.data")
    pipes = importlib.import_module(f"{framework.__name__}.utils.data.datapipes")
    iterable = pipes.iter.IterableWrapper
    p = types.SimpleNamespace(
        torch=framework, data=data, iter=pipes.iter, map=pipes.map, count=lambda n: iterable(range(n)), of=lambda *values: iterable(values)
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = plain(program(p))
        except Exception as error:
            result = type(error).__name__, [without_feedback(str(argument)) for argument in error.args]
    return result, [(warning.category.__name__, str(warning.message)) for warning in caught if "will create" not in str(warning.message)]


def plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


@pytest.mark.parametrize("name", PROGRAMS)
def test_pipes_do_what_those_of_pytorch_do(name):
    assert outcome(flambeau, PROGRAMS[name]) == outcome(torch, PROGRAMS[name])


def test_files_are_listed_opened_and_read(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("b.txt", "a.py", "sub/c.txt"):
        (tmp_path / name).write_text("hello")

    def program(p: Any) -> Any:
        lister = p.iter.FileLister
        opened = lister(str(tmp_path), "*.txt").open_files("rb")
        return [
            list(lister(str(tmp_path))),
            list(lister([str(tmp_path)], ["*.txt", "*.c"])),
            list(lister(str(tmp_path), "*.txt", recursive=True)),
            list(p.of(str(tmp_path)).list_files(length=3)),
            len(lister(length=3)),
            [name for name, _ in opened],
            list(lister(str(tmp_path), "*.txt").open_files("rb").read_from_stream()),
            list(lister(str(tmp_path), "*.txt").open_files().read_from_stream(2)),
        ]

    errors = [lambda p: p.iter.FileOpener(["a"], mode="q"), lambda p: list(p.iter.FileOpener([3])), lambda p: len(p.iter.FileLister("."))]
    for each in (program, *errors):
        assert outcome(flambeau, each) == outcome(torch, each)


def test_a_loader_shuffles_pipes_that_do_not():
    """PyTorch 2.13 says so, and forgets the pipe that it adds."""
    data = importlib.import_module("flambeau.utils.data")
    pipes = importlib.import_module("flambeau.utils.data.datapipes")
    flambeau.manual_seed(1)
    with pytest.warns(UserWarning, match="Adding one at the end"):
        loader = data.DataLoader(pipes.iter.IterableWrapper(range(20)), None, shuffle=True)
    order = list(loader)
    assert order != sorted(order) == list(range(20))


def test_all_names_of_pipes_are_there():
    ours, theirs = (importlib.import_module(f"{package}.utils.data") for package in ("flambeau", "torch"))
    missing = set(theirs.__all__) - set(ours.__all__)
    assert missing == {"argument_validation", "runtime_validation", "runtime_validation_disabled"}
