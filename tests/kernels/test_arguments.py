"""Arguments by name: both sides of a launch take their order from one record, and no name can be missed."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

pytest.importorskip("llvmlite")
from flambeau.kernels.compiler.arguments import Array, Integer, Number, Record
from flambeau.kernels.compiler.build import GENERATORS, kernel, source_of
from flambeau.kernels.compiler.target import ALL, AVX2


class Size(Record):
    rows: Integer
    columns: Integer


class FillArguments(Record):
    x: Array
    y: Array
    plus: Array
    factor: Number
    size: Size


@pytest.fixture
def fill():
    """``y = x * factor + plus``, a row a chunk; without ``plus`` nothing is added."""

    @kernel
    def fill(k, has_plus):
        a = k.arguments(FillArguments, without=() if has_plus else ("plus",))
        factor, columns = k.cast(a.factor, "f32"), a.size.columns

        def element(i):
            value = k.load(a.x, i, "f32") * factor
            k.store(value if a.plus is None else value + k.load(a.plus, i % columns, "f32"), a.y, i, "f32")

        k.for_chunks(lambda row: k.loop(row * columns, (row + 1) * columns, element))

    yield fill
    del GENERATORS[fill.generator]


X = np.arange(12, dtype=np.float32)
PLUS = np.float32([1, 2, 3, 4])
SIZE = Size(rows=3, columns=4)


def test_numbers_are_bound_once_and_arrays_given_at_each_launch(fill):
    y = np.empty_like(X)
    run = fill(True).bind(3, factor=3.0, size=SIZE)
    run(plus=PLUS, y=y, x=X)  # in any order
    np.testing.assert_array_equal(y, X * 3 + np.tile(PLUS, 3))
    run(x=y, y=y, plus=PLUS)
    np.testing.assert_array_equal(y, (X * 3 + np.tile(PLUS, 3)) * 3 + np.tile(PLUS, 3))


def test_everything_in_one_launch(fill):
    y = np.empty_like(X)
    fill(False).launch(3, size=SIZE, factor=2.0, x=X, y=y)
    np.testing.assert_array_equal(y, X * 2)


def test_a_bound_array_is_kept(fill):
    y = np.empty_like(X)
    run = fill(True).bind(3, plus=PLUS.copy(), factor=0.0, size=SIZE)
    np.full(4, 7.0, np.float32)  # where the copy would be, had it gone
    run(x=X, y=y)
    np.testing.assert_array_equal(y, np.tile(PLUS, 3))


@pytest.mark.parametrize(
    "values, words",
    [
        ({"factor": 2.0}, "missing: .'size'"),
        ({"size": SIZE}, "missing: .'factor'"),
        ({"size": SIZE, "factor": 2.0, "rows": 3}, "unknown: .'rows'"),
        ({"size": SIZE, "factor": 2.0, "x": X}, "first"),  # arrays of each launch are the record's first
        ({"size": 3, "factor": 2.0}, "expected Size, got int"),
    ],
    ids=["no size", "no factor", "an unknown name", "an array of the launch", "another type"],
)
def test_binding_refuses_wrong_names(fill, values, words):
    with pytest.raises(TypeError, match=words):
        fill(True).bind(3, **values)


def test_an_argument_that_a_specification_is_without_is_no_name_of_it(fill):
    with pytest.raises(TypeError, match="unknown: .'plus'"):
        fill(False).bind(3, factor=2.0, size=SIZE, plus=PLUS)


def test_a_launch_refuses_wrong_names(fill):
    run, y = fill(False).bind(3, factor=2.0, size=SIZE), np.zeros_like(X)
    for arrays in ({"x": X}, {"x": X, "y": y, "z": y}, {"x": X, "y": y, "plus": PLUS}):
        with pytest.raises(TypeError, match="argument"):
            run(**arrays)
    with pytest.raises(TypeError, match="argument"):
        fill(False).launch(3, x=X, y=y, factor=2.0)
    assert not y.any()


def test_a_record_refuses_wrong_names():
    with pytest.raises(TypeError, match="missing: .'columns'"):
        Size(rows=3)
    with pytest.raises(TypeError, match="unknown: .'depth'"):
        Size(rows=3, columns=4, depth=5)
    changed = SIZE.replace(rows=5)
    assert (changed.rows, changed.columns, SIZE.rows) == (5, 4, 3)


def test_a_record_has_all_arguments():
    def before(k):
        k.integer()
        k.arguments(Size)

    def behind(k):
        k.arguments(Size)
        k.integer()

    def misspelt(k):
        return k.arguments(Size).colums

    for generator in (before, behind):
        with pytest.raises(TypeError, match="beside those of Size"):
            source_of(generator, (), AVX2)
    with pytest.raises(AttributeError):
        source_of(misspelt, (), AVX2)


@pytest.mark.parametrize("target", ALL.values(), ids=lambda target: target.name)
def test_the_machine_code_is_that_of_arguments_by_position(target):
    def by_name(k):
        a = k.arguments(FillArguments)
        k.store(k.load(a.x, a.size.rows, "f64") + a.factor, a.y, a.size.columns, "f64")

    def by_position(k):
        x, y, _, factor, rows, columns = k.array(), k.array(), k.array(), k.number(), k.integer(), k.integer()
        k.store(k.load(x, rows, "f64") + factor, y, columns, "f64")

    by_position.__name__ = by_name.__name__
    assert source_of(by_name, (), target).text() == source_of(by_position, (), target).text()


def test_a_launch_is_one_call_of_python(fill):
    run = fill(False).bind(3, factor=2.0, size=SIZE)
    assert inspect.isfunction(run) and not run.__code__.co_flags & inspect.CO_VARKEYWORDS
