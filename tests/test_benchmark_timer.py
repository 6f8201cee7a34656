"""``torch.utils.benchmark``: what measurements and tables print, against PyTorch's, and that timers measure."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from oracle import pytorch

import flambeau
from flambeau.utils import benchmark

TIMES: dict[str, tuple[list[float], dict[str, Any]]] = {
    "six": ([0.001] * 5 + [0.0011], {}),
    "one": ([0.5], {}),
    "scattered": ([0.001, 0.0012, 0.0015, 0.002, 0.004], {"label": "L", "sub_label": "sub", "description": "desc", "num_threads": 2}),
    "of lines": ([0.001] * 3, {"stmt": "a\nb\nc", "setup": "import torch\nx=1"}),
    "tiny": ([1e-8] * 2, {"env": "E"}),
    "four": ([0.001, 0.0013, 0.0014, 0.0012], {}),
    "with a setup": ([0.001], {"setup": "import a", "description": "D"}),
    "of lines, described": ([0.001], {"stmt": "a\nb", "description": "dd", "setup": "q\nw"}),
    "of lines, with a sub-label": ([0.001], {"stmt": "a\nb", "sub_label": "q"}),
    "none": ([], {}),
}


def measured(library: Any, times: list[float], number: int = 10, **spec: Any) -> Any:
    task = library.TaskSpec(**{"stmt": "x+1", "setup": "pass", **spec})
    return library.Measurement(number_per_run=number, raw_times=times, task_spec=task)


def theirs() -> Any:
    return pytorch("torch.utils.benchmark")


@pytest.mark.parametrize("name", TIMES)
def test_measurements_are_printed_as_pytorchs(name: str) -> None:
    times, spec = TIMES[name]
    ours, other = (measured(library, times, **spec) for library in (benchmark, theirs()))
    assert ours.median == pytest.approx(other.median) and ours.mean == pytest.approx(other.mean)
    assert (ours.title, ours.as_row_name, ours.num_threads, ours.env) == (other.title, other.as_row_name, other.num_threads, other.env)
    if times:
        assert repr(ours).splitlines()[1:] == repr(other).splitlines()[1:]
        assert ours.significant_figures == other.significant_figures and ours.has_warnings == other.has_warnings
        assert ours.iqr == pytest.approx(other.iqr)


def table(library: Any) -> Any:
    def of(time: float, label: str = "L", row: str = "s1", column: str = "d1", **spec: Any) -> Any:
        return measured(library, [time], label=label, sub_label=row, description=column, **spec)

    rows = [of(0.0011), of(0.002, column="d2"), of(0.11, row="s2"), of(0.0012, num_threads=4), of(0.001, label="K", env="e1")]
    rows.append(measured(library, [1, 2, 3, 4.0], label="L", sub_label="s3", description="d1"))
    return library.Compare([*rows, of(1.0, row="a long row name", column="a long column name"), of(0.0012)])


CHANGES: dict[str, Callable[[Any], Any]] = {
    "plain": lambda compare: None,
    "trimmed": lambda compare: compare.trim_significant_figures(),
    "colours of columns": lambda compare: compare.colorize(),
    "colours of rows": lambda compare: compare.colorize(rowwise=True),
    "warnings": lambda compare: compare.highlight_warnings(),
}


@pytest.mark.parametrize("name", CHANGES)
def test_tables_are_pytorchs(name: str) -> None:
    texts = []
    for library in (benchmark, theirs()):
        compare = table(library)
        CHANGES[name](compare)
        texts.append(str(compare))
    assert texts[0] == texts[1]


def test_small_functions_are_pytorchs() -> None:
    other = theirs()
    for seconds in (2, 1.1e-3, 3e-5, 3e-9, 0.9):
        assert benchmark.select_unit(seconds) == other.select_unit(seconds)
        assert benchmark.trim_sigfig(seconds, 2) == pytest.approx(other.trim_sigfig(seconds, 2))
    assert benchmark.unit_to_english("us") == other.unit_to_english("us") and benchmark.ordered_unique([3, 1, 3]) == [3, 1]


def test_a_statement_is_measured_on_its_threads() -> None:
    seen: list[int] = []

    def work() -> None:
        seen.append(flambeau.get_num_threads())
        time.sleep(0.001)

    before = flambeau.get_num_threads()
    timer = benchmark.Timer("work()", setup="y = 1", globals={"work": work}, num_threads=2, label="a", description="b")
    once = timer.timeit(3)
    assert once.number_per_run == 3 and len(once.times) == 1 and 0.001 <= once.median < 0.1
    blocks: list[tuple[int, float]] = []
    ranged = timer.blocked_autorange(callback=lambda number, taken: blocks.append((number, taken)), min_run_time=0.02)
    assert sum(ranged.raw_times) >= 0.02 and [taken for _, taken in blocks] == ranged.raw_times
    steady = timer.adaptive_autorange(threshold=10, min_run_time=0.005, max_run_time=60)
    assert len(steady.times) >= 4 and set(seen) == {2} and flambeau.get_num_threads() == before
    assert [m.number_per_run for m in benchmark.Measurement.merge([once, ranged])] == [1]
    x = flambeau.ones(3)
    assert benchmark.Timer("torch.add(x, x)", globals={"x": x}).blocked_autorange(min_run_time=0.005).number_per_run > 1


def test_what_cannot_be_measured_is_an_error() -> None:
    for arguments, error in (
        ({"stmt": 3}, ValueError),
        ({"global_setup": "#include <a>"}, ValueError),
        ({"language": "rust"}, ValueError),
        ({"language": benchmark.Language.CPP}, NotImplementedError),
    ):
        with pytest.raises(error):
            benchmark.Timer(**arguments)  # type: ignore[arg-type]
    for method in ("repeat", "autorange", "collect_callgrind"):
        with pytest.raises(NotImplementedError):
            getattr(benchmark.Timer(), method)()
    with pytest.raises(ValueError, match="Measurement"):
        benchmark.Compare([3])  # type: ignore[list-item]


def drawn(torch: Any) -> Any:
    """What a fuzzer draws for a seed."""
    b = __import__(f"{torch.__name__}.utils.benchmark", fromlist=["Fuzzer"])
    parameters = [
        b.FuzzedParameter("n", 1, 16, "loguniform"),
        [b.FuzzedParameter("m", 1, 16, "uniform"), b.FuzzedParameter("step", 2, 3, "uniform"), b.FuzzedParameter("z", 0.5, 2.5, "uniform")],
        b.FuzzedParameter("dim", 1, 2, "uniform", strict=True),
    ]
    tensors = [
        b.FuzzedTensor("x", size=("n", "m"), steps=("step", 1), probability_contiguous=0.6, min_elements=4, max_elements=128),
        b.FuzzedTensor("y", size=("m", 3), dtype=torch.int32, dim_parameter="dim", max_allocation_bytes=150),
    ]
    fuzzer = b.Fuzzer(parameters, tensors, constraints=[lambda params: params["m"] % 2 == 0], seed=4)
    found = [
        [{name: [list(each.shape), list(each.stride())] for name, each in made.items()}, [facts["x"]["numel"], facts["y"]["dtype"]], params]
        for made, facts, params in fuzzer.take(8)
    ]
    return found, fuzzer.rejection_rate


def test_fuzzers_draw_what_pytorch_draws(of_pytorch):
    assert drawn(flambeau) == of_pytorch(drawn)


def test_fuzzers_refuse_what_does_not_fit():
    b = flambeau.utils.benchmark
    for arguments in (
        {"distribution": {1: 0.5, 2: 0.2}},
        {"minval": 1, "maxval": 2},
        {"distribution": "uniform"},
        {"distribution": "normal"},
    ):
        with pytest.raises(AssertionError):
            b.FuzzedParameter("n", **arguments)
    chances = b.FuzzedParameter("k", distribution={b.ParameterAlias("n"): 0.5, 7: 0.5})
    values = [
        (params["n"], params["k"]) for _, _, params in b.Fuzzer([b.FuzzedParameter("n", 1, 3, "uniform"), chances], [], seed=0).take(20)
    ]
    assert {k for _, k in values} > {7} and all(k in (n, 7) for n, k in values)
    with pytest.raises(ValueError, match="same names"):
        b.Fuzzer([chances, chances], [])
    fair = b.FuzzedParameter("k", distribution={7: 1.0})
    with pytest.raises(ValueError, match="valid parameters"):
        next(b.Fuzzer([fair], [], constraints=[lambda params: False], seed=0).take(1))
