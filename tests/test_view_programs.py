"""Random programs of views, in-place writes and backward passes, run side by side by flambeau and by a reference.

A program is a list of lines of Python, executed in two namespaces: in one ``torch`` is flambeau, in the other real PyTorch.  After each
line every live tensor is compared: values, shape, strides, storage offset, ``requires_grad``, ``is_leaf``, name of ``grad_fn``, growth
of ``_version``, ``.grad``; and a line fails in one exactly if it fails in the other, with the same type of exception.  Where PyTorch
is not installed the reference is the handful of NumPy calls in ``StridedModel``, and programs have no gradients.

Every failure prints the program.  A larger run: ``HYPOTHESIS_PROFILE=fuzz pytest tests/test_view_programs.py``;
programs with more in them and every stride compared, beside PyTorch: ``python -m tests.differential --area views``.
"""

from __future__ import annotations

import math
import os
import re
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from oracle import HAS_ORACLE, pytorch

import flambeau
from flambeau.core.shape import overlaps_itself
from flambeau.core.tensor import storage_of

pytestmark = pytest.mark.slow

MOST_TENSORS = 9
_AS_ROWS = ".clone(memory_format=torch.contiguous_format)" if HAS_ORACLE else ".contiguous()"  # layouts of results are tested elsewhere
MOST_ELEMENTS = 48


class StridedModel:
    """What the reference is without PyTorch: tensors' views and in-place writes, by NumPy."""

    def __init__(self, array: np.ndarray):
        self.array = array

    def __getattr__(self, name: str) -> Any:
        function = _MODEL[name]
        return lambda *args: self._wrapped(function(self.array, *[_plain(arg) for arg in args]))

    def _wrapped(self, result: Any) -> Any:
        if isinstance(result, (list, tuple)):
            return tuple(StridedModel(array) for array in result)
        return self if result is None else StridedModel(np.asarray(result))

    def __getitem__(self, key: Any) -> StridedModel:
        key = _plain(key)
        part = self.array[key]
        return StridedModel(part if isinstance(part, np.ndarray) else self.array[(key, ...)])

    def __setitem__(self, key: Any, value: Any) -> None:
        key, value = _plain(key), np.asarray(_plain(value))
        while value.ndim > self.array[key].ndim and value.shape[0] == 1:
            value = value[0]
        self.array[key] = value

    def __add__(self, other: Any) -> StridedModel:
        return StridedModel(np.asarray(self.array + _plain(other)))

    def __mul__(self, other: Any) -> StridedModel:
        return StridedModel(np.asarray(self.array * _plain(other)))


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_plain(item) for item in value)
    return value.array if isinstance(value, StridedModel) else value


def _viewed(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    try:
        return array.reshape(shape, copy=False)
    except ValueError:
        raise RuntimeError("the strides do not allow this view") from None


def _unfolded(array: np.ndarray, dim: int, size: int, step: int) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(array, size, axis=dim, writeable=True)
    return windows[(slice(None),) * dim + (slice(None, None, step),)]


def _diagonal(array: np.ndarray, offset: int, i: int, j: int) -> np.ndarray:
    shown = np.diagonal(array, offset, i, j)
    begin = [slice(None)] * array.ndim
    begin[j if offset >= 0 else i] = slice(abs(offset), None)
    return np.lib.stride_tricks.as_strided(array[tuple(begin)], shown.shape, shown.strides)  # np.diagonal's own result is read-only


def _store(array: np.ndarray, value: Any) -> None:
    if np.broadcast_shapes(array.shape, np.shape(value)) != array.shape:
        raise RuntimeError("the value has more dimensions than its place")
    array[...] = value


def _pieces(array: np.ndarray, size: int, dim: int) -> list[np.ndarray]:
    return np.split(array, range(size, array.shape[dim], size), dim)


_MODEL: dict[str, Any] = {
    "view": _viewed,
    "reshape": lambda a, shape: a.reshape(shape),
    "transpose": lambda a, i, j: a.swapaxes(i, j),
    "permute": lambda a, dims: a.transpose(dims),
    "narrow": lambda a, dim, start, length: a[(slice(None),) * dim + (slice(start, start + length), ...)],
    "select": lambda a, dim, i: a[(slice(None),) * dim + (i, ...)],
    "expand": lambda a, shape: np.lib.stride_tricks.as_strided(
        a, shape, [0] * (len(shape) - a.ndim) + [s if n == m else 0 for s, n, m in zip(a.strides, a.shape, shape[len(shape) - a.ndim :])]
    ),
    "squeeze": lambda a: a.squeeze(),
    "unsqueeze": np.expand_dims,
    "diagonal": _diagonal,
    "unfold": _unfolded,
    "split": _pieces,
    "chunk": lambda a, n, dim: _pieces(a, -(-a.shape[dim] // n), dim),
    "unbind": lambda a, dim: [np.moveaxis(a, dim, 0)[i, ...] for i in range(a.shape[dim])],
    "detach": lambda a: a,
    "clone": lambda a: a.copy(order="K"),
    "contiguous": lambda a: np.ascontiguousarray(a).reshape(a.shape),
    "add_": lambda a, b: _store(a, a + b),
    "sub_": lambda a, b: _store(a, a - b),
    "mul_": lambda a, b: _store(a, a * b),
    "copy_": lambda a, b: _store(a, np.array(b)),
    "fill_": lambda a, value: a.fill(value),
    "zero_": lambda a: a.fill(0),
    "masked_fill_": lambda a, mask, value: _store(a, np.where(mask, value, a)),
    "index_fill_": lambda a, dim, index, value: a.__setitem__((slice(None),) * dim + (index,), value),
    "index_add_": lambda a, dim, index, b: np.add.at(a, (slice(None),) * dim + (index,), np.array(b)),
}


class _ModelModule:
    """What stands for ``torch`` in programs run by ``StridedModel``."""

    float64 = np.float64

    @staticmethod
    def arange(stop: int, dtype: Any = None) -> StridedModel:
        return StridedModel(np.arange(stop, dtype=dtype))

    @staticmethod
    def tensor(values: Any) -> StridedModel:
        return StridedModel(np.array(values))


def reference_module() -> Any:
    if not HAS_ORACLE:
        return _ModelModule
    return pytorch()


# -- what is compared --------------------------------------------------------------------------------------------------------------
def values_of(tensor: Any) -> np.ndarray:
    if isinstance(tensor, StridedModel):
        return tensor.array
    return np.asarray(tensor.detach().numpy())


def layout_of(tensor: Any) -> Any:
    """Shape, and strides where they mean something."""
    if isinstance(tensor, StridedModel):
        shape, strides = tensor.array.shape, [step // tensor.array.itemsize for step in tensor.array.strides]
    else:
        shape, strides = tuple(tensor.shape), tensor.stride()
    return shape, [step for n, step in zip(shape, strides, strict=True) if n != 1 and 0 not in shape]


def facts_of(tensor: Any) -> dict[str, Any]:
    """The properties that are equal in both libraries."""
    facts: dict[str, Any] = {"layout": layout_of(tensor)}
    if isinstance(tensor, StridedModel):
        return facts
    if tensor.numel():
        facts["offset"] = tensor.storage_offset()
    facts["requires_grad"] = tensor.requires_grad
    facts["is_view"] = tensor._is_view()
    facts["is_leaf"] = tensor.is_leaf
    if not tensor.is_leaf:
        facts["output_nr"], facts["retains_grad"] = tensor.output_nr, tensor.retains_grad
    # PyTorch makes every view's node again after any write to shared memory, flambeau after recorded ones
    facts["grad_fn"] = None if tensor.grad_fn is None else "a view's" if tensor._is_view() else family(tensor.grad_fn.name())
    return facts


def family(name: str) -> str:
    """The name of a node, where the two libraries use one: taking parts has one derivative here and several there."""
    name = re.sub(r"Backward\d*$", "", name.rpartition("::")[2])
    return name if name in _SAME_NAMES else "another"


_SAME_NAMES = frozenset(("Add", "Mul", "Clone", "CopySlices"))


def gradient_of(tensor: Any) -> np.ndarray | None:
    if not tensor.is_leaf and not tensor.retains_grad:
        return None
    grad = tensor.grad
    return None if grad is None else values_of(grad)


class ViewPrograms(RuleBasedStateMachine):
    """Draws a program line by line and compares after each."""

    def __init__(self) -> None:
        super().__init__()
        reference = reference_module()
        self.spaces: tuple[dict[str, Any], dict[str, Any]] = ({"torch": flambeau}, {"torch": reference})
        self.program: list[str] = []
        self.names: list[str] = []
        self.count = 0
        self.has_inherited = self.ended = False

    # -- running ---------------------------------------------------------------------------------------------------------------
    def versions(self, side: int) -> dict[str, int]:
        return {name: self.spaces[side][name]._version for name in self.names} if HAS_ORACLE else {}

    def execute(self, line: str, new: tuple[str, ...] = (), no_grad: bool = False) -> None:
        """Run a line on both sides and compare; ``new`` are names that it assigns."""
        if no_grad and HAS_ORACLE:
            line = f"with torch.no_grad(): {line}"
        if self.ended:
            return
        self.has_inherited |= line.startswith("with torch.no_grad()")
        before = (self.versions(0), self.versions(1))
        errors = []
        for space in self.spaces:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    exec(line, space)
                    errors.append(None)
                except ValueError as error:
                    errors.append(error if HAS_ORACLE else RuntimeError(str(error)))  # NumPy's word for shapes that do not fit
                except Exception as error:
                    errors.append(error)
        self.program.append(line if errors[1] is None else f"{line}    # {type(errors[1]).__name__}: {str(errors[1])[:90]}")
        if errors[1] is None and self.has_inherited and re.search("second time|modified by an inplace", str(errors[0])):
            # nothing flows to a view made without grad mode, so PyTorch does not look at what was saved for it
            self.ended = True
            return
        ours, theirs = (None if error is None else type(error) for error in errors)
        assert ours is theirs, self.report(f"flambeau: {errors[0]!r}\nreference: {errors[1]!r}")
        if errors[1] is None:
            self.names += [name for name in new if name not in self.names]
        self.drop_stale()
        self.compare(before)

    def drop_stale(self) -> None:
        """Forget views that may not be used any more: PyTorch finds out at the next use, flambeau only after recorded writes."""
        for name in self.names[:] if HAS_ORACLE else ():
            try:
                _ = self.spaces[1][name].grad_fn
            except RuntimeError:
                self.names.remove(name)
                for space in self.spaces:
                    del space[name]
                self.program.append(f"del {name}    # stale")

    def compare(self, before: tuple[dict[str, int], dict[str, int]]) -> None:
        ours, theirs = self.spaces
        after = (self.versions(0), self.versions(1))
        for name in self.names:
            a, b = ours[name], theirs[name]
            if isinstance(b, StridedModel):
                assert tuple(a.shape) == b.array.shape, self.report(f"shape of {name}: {a.shape}, reference has {b.array.shape}")
            else:
                have, want = facts_of(a), facts_of(b)
                assert have == want, self.report(f"{name}: {have}\nreference: {want}")
                growth = [after[i][name] - before[i].get(name, after[i][name]) for i in (0, 1)]
                assert growth[0] == growth[1], self.report(f"_version of {name} grew by {growth[0]}, reference: by {growth[1]}")
                have, want = gradient_of(a), gradient_of(b)
                assert (have is None) == (want is None), self.report(f"{name}.grad: {have}\nreference: {want}")
                if want is not None:
                    np.testing.assert_allclose(have, want, rtol=1e-9, atol=1e-9, err_msg=self.report(f"{name}.grad"))
            np.testing.assert_allclose(values_of(a), values_of(b), rtol=1e-9, atol=1e-9, err_msg=self.report(f"values of {name}"))

    def report(self, what: str) -> str:
        return "\n".join([*self.program, "", what])

    def fresh(self, count: int = 1) -> tuple[str, ...]:
        """Names for new tensors; when there are many tensors, the oldest ones are dropped or taken again."""
        names = []
        for _ in range(count):
            names.append(f"t{self.count}")
            self.count += 1
        while len(self.names) + count > MOST_TENSORS:
            gone = self.names.pop(0)
            for space in self.spaces:
                del space[gone]
            self.program.append(f"del {gone}")
        return tuple(names)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.spaces[0][name].shape)

    def share_memory(self, a: str, b: str) -> bool:
        return storage_of(self.spaces[0][a]) is storage_of(self.spaces[0][b])

    def pick(self, data: Any) -> str:
        if not self.names:
            self.make((3,), False)
        return data.draw(st.sampled_from(self.names[::-1]), label="tensor")

    # -- rules -----------------------------------------------------------------------------------------------------------------
    @initialize(shape=st.sampled_from([(6,), (2, 3), (4, 3), (2, 3, 2), (3, 1, 4), (1,), ()]), requires_grad=st.booleans())
    def start(self, shape: tuple[int, ...], requires_grad: bool) -> None:
        self.make(shape, requires_grad)

    def make(self, shape: tuple[int, ...], requires_grad: bool) -> None:
        (name,) = self.fresh()
        tail = ".requires_grad_()" if requires_grad and HAS_ORACLE else ""
        self.execute(f"{name} = torch.arange({math.prod(shape)}, dtype=torch.float64).reshape({shape}).clone(){tail}", (name,))

    @rule(shape=st.sampled_from([(3,), (2, 2), (2, 3)]), requires_grad=st.booleans())
    def another(self, shape: tuple[int, ...], requires_grad: bool) -> None:
        self.make(shape, requires_grad)

    @rule(data=st.data(), no_grad=st.integers(0, 7))
    def view(self, data: Any, no_grad: int) -> None:
        source = self.pick(data)
        call = data.draw(view_calls(self.shape(source)), label="view")
        (name,) = self.fresh()
        if source in self.names:
            self.execute(f"{name} = {source}{call}", (name,), no_grad == 7)

    @rule(data=st.data(), no_grad=st.integers(0, 7))
    def several_views(self, data: Any, no_grad: int) -> None:
        source = self.pick(data)
        shape = self.shape(source)
        if not shape:
            return
        dim = data.draw(st.integers(0, len(shape) - 1))
        call = data.draw(st.sampled_from([f"unbind({dim})", f"split(2, {dim})", f"chunk(2, {dim})"]))
        first, last = self.fresh(2)
        if source in self.names and shape[dim]:
            self.execute(f"{first}, *_, {last} = ({source}.{call} * 2)[:{data.draw(st.integers(2, 3))}]", (first, last), no_grad == 7)

    @rule(data=st.data(), no_grad=st.integers(0, 5))
    def write(self, data: Any, no_grad: int) -> None:
        target = self.pick(data)
        shape = self.shape(target)
        operand = data.draw(st.one_of(st.integers(-2, 3).map(float), st.sampled_from(self.names)), label="operand")
        if isinstance(operand, str) and not broadcasts(self.shape(operand), shape) and data.draw(st.integers(0, 9)):
            operand = 2.0
        if isinstance(operand, str) and self.share_memory(operand, target):
            operand = f"{operand}.clone()"  # whether sharing is noticed hangs on strides that mean nothing, and results are undefined
        line = data.draw(write_lines(target, shape, operand), label="write")
        array = self.spaces[0][target]._array
        if overlaps_itself(array) and (not has_zero_step(array) or "torch.tensor" in line or not HAS_ORACLE):
            return  # undefined in PyTorch, which notices repeats by a zero stride only, and not with masks and index tensors
        self.execute(line, (), no_grad == 5)

    @rule(data=st.data(), no_grad=st.integers(0, 7))
    def compute(self, data: Any, no_grad: int) -> None:
        a = self.pick(data)
        others = [name for name in self.names if broadcasts_with(self.shape(a), self.shape(name))]
        b = data.draw(st.one_of(st.just("0.5"), st.sampled_from(others)))
        cloned = f"{a}.contiguous()" if overlaps_itself(self.spaces[0][a]._array) else f"{a}.clone()"
        line = data.draw(st.sampled_from([f"({a} * {b}){_AS_ROWS}", f"({a} + {b}){_AS_ROWS}", cloned, f"{a}.contiguous()"]))
        (name,) = self.fresh()
        if a in self.names and (b in self.names or b == "0.5"):
            self.execute(f"{name} = {line}", (name,), no_grad == 7)

    @precondition(lambda self: HAS_ORACLE)
    @rule(data=st.data(), change=st.sampled_from(["requires_grad_()", "requires_grad_(False)", "retain_grad()"]))
    def change_flag(self, data: Any, change: str) -> None:
        name = self.pick(data)
        # A view made before its base required grad is a leaf in PyTorch until the next write, and then is none.
        if change != "requires_grad_()" or sum(self.share_memory(name, other) for other in self.names) == 1:
            if change != "retain_grad()" or not self.spaces[1][name]._is_view():  # PyTorch leaves made-again views out of the way
                self.execute(f"{name}.{change}")

    @precondition(lambda self: HAS_ORACLE)
    @rule(data=st.data(), keep=st.booleans())
    def backward(self, data: Any, keep: bool) -> None:
        name = self.pick(data)
        shape = self.shape(name)
        weight = f"torch.arange({math.prod(shape)}, dtype=torch.float64).reshape({shape}) + 1"
        self.execute(f"{name}.backward({weight}, retain_graph={keep})")

    @rule(data=st.data())
    def forget(self, data: Any) -> None:
        if len(self.names) > 2:
            name = self.pick(data)
            self.names.remove(name)
            for space in self.spaces:
                del space[name]
            self.program.append(f"del {name}")


# -- strategies ------------------------------------------------------------------------------------------------------------------------
def broadcasts_with(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        return math.prod(np.broadcast_shapes(a, b)) <= MOST_ELEMENTS
    except ValueError:
        return False


def has_zero_step(array: np.ndarray) -> bool:
    return any(step == 0 and n > 1 for step, n in zip(array.strides, array.shape, strict=True))


def broadcasts(source: tuple[int, ...], target: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(source, target) == target
    except ValueError:
        return False


def factorizations(count: int) -> list[tuple[int, ...]]:
    shapes = [(count,), (1, count), (count, 1)]
    shapes += [(i, count // i) for i in range(2, count) if count % i == 0]
    shapes += [(i, j, count // i // j) for i in range(2, count) for j in range(2, count) if count % (i * j) == 0]
    return [*shapes, ()] if count == 1 else shapes


@st.composite
def slices(draw: Any, length: int) -> str:
    start = draw(st.integers(0, length))
    stop = draw(st.integers(start, length + 1))
    step = draw(st.sampled_from([1, 1, 2]))
    return f"{start}:{stop}:{step}" if step > 1 else f"{start}:{stop}"


@st.composite
def view_calls(draw: Any, shape: tuple[int, ...]) -> str:
    """``.transpose(0, 1)`` or ``[1:3]``: something that makes one view (mostly) of a tensor of this shape."""
    ndim, count = len(shape), math.prod(shape)
    kinds = ["view", "reshape", "unsqueeze", "squeeze", "detach", "expand", "none", "ellipsis"]
    if ndim:
        kinds += ["select", "slice", "narrow", "index", "unfold", "permute"]
    if ndim > 1:
        kinds += ["transpose", "diagonal", "inner"]
    if count and HAS_ORACLE:
        kinds.append("as_strided")
    kind = draw(st.sampled_from(kinds))
    dim = draw(st.integers(0, max(ndim - 1, 0)))
    length = shape[dim] if ndim else 1
    if kind in ("view", "reshape"):
        return f".{kind}({draw(st.sampled_from(factorizations(count)))})"
    if kind == "unsqueeze":
        return f".unsqueeze({draw(st.integers(0, ndim))})"
    if kind in ("squeeze", "detach"):
        return f".{kind}()"
    if kind == "expand":
        lead = draw(st.sampled_from([(), (2,)])) if count * 2 <= MOST_ELEMENTS else ()
        return f".expand({(*lead, *(2 if n == 1 and count * 4 <= MOST_ELEMENTS else n for n in shape))})"
    if kind == "none":
        return "[None]"
    if kind == "ellipsis":
        return "[...]"
    if kind in ("select", "index"):
        position = draw(st.integers(0, length))  # one too far is an error
        return f".select({dim}, {position})" if kind == "select" else f"[{':, ' * dim}{position}]"
    if kind == "slice":
        return f"[{':, ' * dim}{draw(slices(length))}]"
    if kind == "narrow":
        start = draw(st.integers(0, length))
        return f".narrow({dim}, {start}, {draw(st.integers(0, length - start))})"
    if kind == "unfold":
        size = draw(st.integers(1, max(length, 1)))
        return f".unfold({dim}, {size}, {draw(st.integers(1, 2))})" if length and count * size <= MOST_ELEMENTS else ".detach()"
    if kind == "permute":
        return f".permute({tuple(draw(st.permutations(range(ndim))))})"
    if kind == "inner":
        return f"[{draw(slices(shape[0]))}, {draw(slices(shape[1]))}]"
    if kind == "as_strided":
        n = draw(st.integers(1, max(count, 1)))
        return f".as_strided(({n},), (1,), 0)" if draw(st.booleans()) else f".as_strided(({min(n, 2)}, 1), (1, 1), {n - min(n, 2)})"
    other = draw(st.integers(0, ndim - 1))
    if kind == "transpose":
        return f".transpose({dim}, {other})"
    return f".diagonal({draw(st.integers(-1, 1))}, 0, 1)"


@st.composite
def write_lines(draw: Any, target: str, shape: tuple[int, ...], operand: Any) -> str:
    """A line that writes into ``target``."""
    kinds = ["add_", "sub_", "mul_", "fill_", "zero_", "setitem_all", "masked_fill_", "iadd", "setitem_mask"]
    if isinstance(operand, str):
        kinds += ["copy_", "copy_"]
    if shape:
        kinds += ["setitem_int", "setitem_slice", "setitem_index", "index_fill_"]
    kind = draw(st.sampled_from(kinds))
    dim = draw(st.integers(0, max(len(shape) - 1, 0)))
    length = shape[dim] if shape else 1
    if kind in ("add_", "sub_", "mul_", "copy_"):
        return f"{target}.{kind}({operand})"
    if kind == "iadd":
        return f"{target}.add_({operand})"
    if kind == "fill_":
        return f"{target}.fill_({operand if isinstance(operand, float) else 1.5})"
    if kind == "zero_":
        return f"{target}.zero_()"
    if kind == "setitem_all":
        return f"{target}[...] = {operand}"
    if kind in ("masked_fill_", "setitem_mask"):
        bits = draw(st.integers(0, 2 ** min(math.prod(shape), 16) - 1))
        mask = np.array([bits >> i & 1 for i in range(math.prod(shape))], bool).reshape(shape).tolist()
        if not math.prod(shape):
            return f"{target}.zero_()"
        return f"{target}.masked_fill_(torch.tensor({mask}), 7.0)" if kind == "masked_fill_" else f"{target}[torch.tensor({mask})] = 5.0"
    positions = draw(st.lists(st.integers(0, max(length - 1, 0)), min_size=1, max_size=3, unique=True)) if length else []
    if kind == "setitem_int":
        return f"{target}[{':, ' * dim}{draw(st.integers(0, length))}] = {operand}"
    if kind == "setitem_slice":
        return f"{target}[{':, ' * dim}{draw(slices(length))}] = {operand}"
    if not positions:
        return f"{target}.zero_()"
    if kind == "setitem_index":
        return f"{target}[{':, ' * dim}torch.tensor({positions})] = {operand}"
    return f"{target}.index_fill_({dim}, torch.tensor({positions}), 4.0)"


_PROGRAMS = settings().max_examples if os.environ.get("HYPOTHESIS_PROFILE") else 240
ViewPrograms.TestCase.settings = settings(max_examples=_PROGRAMS, stateful_step_count=18)
TestViewPrograms = ViewPrograms.TestCase
