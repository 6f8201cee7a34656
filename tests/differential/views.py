"""Programs of views, copies, element-wise operations, in-place writes, changes of mode and backward passes.

After each line every live tensor is compared: dtype, shape, every stride (also of sizes of 1), storage offset, values, which tensors share
a storage, ``is_contiguous`` in each memory format, ``requires_grad``, ``is_leaf``, ``grad_fn``, ``_version``, ``_is_view``,
``is_inference`` and ``grad``; and a line raises in one exactly if it raises in the other, the same type.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from oracle import pytorch

from .area import Area, Difference, Known, Run, agrees_in_float64, attempt, described, differ_little
from .comparing import values_of
from .view_lines import (
    LINES,
    MODES,
    MOST_DIMS,
    MOST_TENSORS,
    SHAPES,
    broadcasts,
    compute_line,
    has_zero_step,
    overlaps_itself,
    small_together,
    view_call,
    write_line,
)

RESTRICTED = re.compile("view|in-?place|leaf|[Ii]nference|single memory location")


def first_words(text: str) -> str:
    """What messages are compared by."""
    text = re.sub(r"Output (\d+) of \w+", r"Output \1", text)
    text = re.sub(r"CPU(\w+)Type\b", r"torch.\1Tensor", text)  # PyTorch has two names for the same type
    return re.sub("is being modified|(its base or )?another view of its base has been modified", "modified", text).split(". ")[0][:100]


def nearly(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``a`` and ``b``, the former replaced by the latter where they are close; large integers may have been floats in their last bits."""
    if a.shape != b.shape or a.dtype.kind == "b":
        return a, b
    exact = a.dtype.kind not in "fc"
    return np.where(np.isclose(a, b, rtol=1e-6 if exact else 1e-5, atol=0 if exact else 1e-6), b, a), b


def fact(get: Callable[[], Any]) -> Any:
    """A property, or the exception that reading it raises."""
    try:
        return get()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def node_name(tensor: Any) -> str | None:
    """The name of ``grad_fn`` without its number: PyTorch numbers the overloads of a function."""
    node = tensor.grad_fn
    return None if node is None else re.sub(r"\d+$", "", node.name().rpartition("::")[2])


def facts_of(tensor: Any, torch: Any, name: str, before: dict[str, int]) -> dict[str, Any]:
    facts = {
        "dtype": str(tensor.dtype),
        "shape": tuple(tensor.shape),
        "stride": tuple(tensor.stride()),
        "storage_offset": tensor.storage_offset() if tensor.numel() else None,
        "is_contiguous": tensor.is_contiguous(),
        "grad_fn": fact(lambda: tensor.grad_fn is not None),
        "node": fact(lambda: node_name(tensor)),
        "requires_grad": fact(lambda: tensor.requires_grad),
        "is_leaf": fact(lambda: tensor.is_leaf),
        "is_view": None if tensor.is_inference() else tensor._is_view(),
        "is_inference": tensor.is_inference(),
        "version": None if tensor.is_inference() else tensor._version - before.setdefault(name, tensor._version),
    }
    if tensor.ndim in (4, 5):
        form = torch.channels_last if tensor.ndim == 4 else torch.channels_last_3d
        facts["is_channels_last"] = tensor.is_contiguous(memory_format=form)
    return facts


def gradient_of(tensor: Any) -> Any:
    if (tensor._is_view() and not tensor.requires_grad) or (not tensor.is_leaf and not tensor.retains_grad):
        return None
    return tensor.grad


def sharing_of(space: dict[str, Any], names: list[str]) -> list[int]:
    """Which tensors share a storage: for each the place of the first that shares its own."""
    pointers = [space[name].untyped_storage().data_ptr() or -i for i, name in enumerate(names, 1)]
    return [pointers.index(pointer) for pointer in pointers]


# Where one library has a derivative of its own, the other composes: names of nodes that stand for one another.
SAME_NODES = frozenset(
    [
        ("SquareBackward", "PowBackward"),
        ("TransposeBackward", "Rot90Backward"),
        ("CloneBackward", "NarrowCopyBackward"),
        ("MaskedFillBackward", "IndexPutBackward"),
        ("ViewBackward", "ReshapeAliasBackward"),
        ("FillBackward", "CopyBackwards"),
        ("CopyBackwards", "FillBackward"),
        ("SliceBackward", "AliasBackward"),
        ("SliceBackward", "SelectBackward"),
        ("AsStridedBackward", "ViewAsRealBackward"),
        ("AsStridedBackward", "ViewAsComplexBackward"),
        ("AliasBackward", "SliceBackward"),
    ]
)


def same_fact(key: str, have: Any, want: Any, shape: tuple[int, ...], is_view: bool) -> bool:
    if have == want:
        return True
    if key == "node" and (have, want) in SAME_NODES:
        return True
    if key == "stride" and isinstance(want, tuple) and not any(want):
        return 0 in shape  # an empty tensor has nothing to tell zeros and forgotten strides apart
    if key == "node" and is_view and want == "AsStridedBackward":
        return have is not None  # PyTorch makes every view's node again after any write to shared memory, flambeau after recorded ones
    return isinstance(want, str) and first_words(str(have)) == first_words(want)


class Views(Area):
    known = (
        Known(
            "strides of empty tensors: NumPy keeps none of fresh ones, so that results and slices of these are row-major",
            kind="stride|contiguous|channels_last",
            theirs=r"of shape \((.*\D)?0\D",
        ),
        Known(
            "values that are not needed for the backward pass may be written to before it",
            kind="exception|message",
            ours="^no exception|second time",
            theirs="modified by an inplace operation|has been modified inplace",
            program=r"\.(gather|take_along_dim|masked_select|take|cummax|index_add)\(",
        ),
        Known(
            "nothing flows to a view made without grad mode, so PyTorch does not look at what was saved for it",
            kind="exception",
            ours="second time|modified by an inplace",
            theirs="^no exception",
            program=r"no_grad\(\): t\d+ = ",
        ),
        Known(
            "a leaf whose shape was changed in place without grad mode: its new one is compared with gradients",
            kind="exception",
            ours="invalid gradient",
            program=r"mode\(\): t\d+\.\w+_\(|no_grad\(\): t\d+\.\w+_\(",
        ),
        Known(
            "a leaf whose shape was changed in place without grad mode: PyTorch remembers the old one as long as an older graph lives",
            kind="exception",
            theirs="invalid gradient",
            program=r"(no_grad|inference_mode)\(\): t\d+\.\w+_\(",
        ),
        Known(
            "a leaf whose shape was changed in place without grad mode: PyTorch makes its views' nodes again, for the new shape",
            kind="grad|exception|message",
            theirs="grad|doesn't match the broadcast shape|modified by an inplace operation",
            program=r"(no_grad|inference_mode)\(\):\s+t\d+\.(\w*squeeze|transpose|swap\w+|t|as_strided|resize)_\(",
        ),
        Known(
            "after a write without grad mode PyTorch makes the nodes of views again: from what a leaf that is a view is a view of, "
            "and of a view's view by as_strided from the base",
            kind="grad",
            program=r"(\.requires_grad_\((True)?\)|as_strided)(.|\n)*no_grad\(\):\s+t\d+(\.\w+_\(|\[)",
            when=lambda difference: re.search("None$|as_strided", difference.theirs + difference.program) is not None,
        ),
        Known(
            "what is copied into integers is not asked for its history by PyTorch, even where that is refused",
            kind="exception",
            line=r"\] = |\.copy_\(",
            ours="A view was created in no_grad mode",
            theirs="^no exception",
        ),
        Known(
            "which of several views of views is named where one may not be written to",
            kind="message",
            ours="function that returns multiple views",
            theirs="function that returns multiple views",
        ),
        Known(
            "of two errors in one call, which is named", kind="message", ours="broadcast shape", theirs="Inference tensors cannot be saved"
        ),
        Known(
            "what a division leaves over has as few digits as the numbers have more than it",
            kind="^values$",
            line=r"fmod|remainder| % ",
            when=lambda difference: agrees_in_float64(AREA, difference.program),
        ),
        Known(
            "roundings of float32, enlarged where numbers cancel: off by little, and the same program has no difference in float64",
            kind="^values$",
            when=lambda difference: differ_little(difference, 1e-3) and agrees_in_float64(AREA, difference.program),
        ),
        Known("an error inside of PyTorch", kind="exception|grad_fn|node", theirs=r"INTERNAL ASSERT FAILED|Expected isFloatingType\(grad"),
        Known(
            "what was saved keeps its history when the tensor is detached in place, where PyTorch refuses",
            kind="exception",
            ours="^no exception",
            theirs="has been detached in-place",
            program=r"\.detach_\(",
        ),
        Known(
            "bytes of an empty slice: NumPy keeps neither its strides nor its offset, which PyTorch looks at",
            kind="of an empty tensor",
            theirs=r"^no exception|self\.(stride\(-?\d+\)|storage_offset\(\)) must be",
        ),
        Known(
            "the gradient of an empty cummax is its input itself in PyTorch",
            kind="version",
            theirs=r"of shape \((.*\D)?0\D",
            program="cummax",
        ),
        Known(
            "a base of another shape, changed in place, than its view of complex numbers was made of: PyTorch makes that again, and fails",
            kind="grad_fn|node",
            theirs="RuntimeError: Tensor must have a",
            program=r"view_as_complex\(",
        ),
        Known("PyTorch's gelu of infinity is NaN in float32", kind="values", line=r"\.gelu\(", ours="inf", theirs="nan"),
        Known("PyTorch adds complex numbers times one, which makes NaN of infinite parts", kind="values", line=r" [-+] ", theirs="nanj"),
        Known(
            "PyTorch adds complex gradients times one, which makes NaN beside NaN",
            kind="^grad",
            program="complex",
            ours="nan",
            theirs="nan",
        ),
        Known(
            "roundings of float32: the gradient is off by as little, and the same program has no difference in float64",
            kind="last bits",
            when=lambda difference: agrees_in_float64(AREA, difference.program),
        ),
        Known("which of equal elements the median is, and so where its gradient goes, is left open", kind="grad", program="median"),
        Known("PyTorch's median of expanded tensors is wrong", kind="values", line=r"\.median\("),
        Known(
            "PyTorch takes joins of inference tensors, made outside of inference mode, for views",
            kind="is_view",
            line=r"torch\.stack|\.(repeat|tile|roll)\(",
            program="inference_mode",
        ),
        Known(
            "integers that require grad: in PyTorch those do that are written through a view", kind="grad_fn|requires_grad", line=r"\] ="
        ),
        Known(
            "integers that require grad: PyTorch refuses to write them into one of several views of others",
            kind="exception",
            line=r"\] =",
            ours="^no exception",
            theirs="function that returns multiple views",
            program=r"chunk|split|unbind",
        ),
    )

    def generate(self, draw: random.Random) -> list[str]:
        return Drawing(draw).program()

    def compare(self, run: Run) -> Difference | None:
        ours, theirs = run.errors
        if "update to inference tensor" in str(theirs) and ours is not None:
            run.ended = True  # PyTorch says so after it has written
            return None
        if "update to inference tensor" in str(ours) and theirs is not None:
            return None  # for which there are two reasons
        if ours is not None and theirs is not None and any("another view of its base" in str(error) for error in (ours, theirs)):
            return compare_tensors(run)
        if type(ours) is not type(theirs):
            return run.differs(f"exception{of_empty(run)}", described(ours), described(theirs))
        if theirs is not None and ".backward(" in run.line:
            run.ended = True  # PyTorch has then written some gradients, flambeau none
        if isinstance(theirs, IndexError) and "is out of bounds" in str(theirs) and "] = " in run.line:
            run.ended = True  # PyTorch has then written to the places before
        if theirs is not None:
            wanted = str(theirs)
            if "another view of its base" not in wanted and RESTRICTED.search(wanted) and first_words(wanted) != first_words(str(ours)):
                return run.differs(f"message{of_empty(run)}", described(ours), described(theirs))
        return None if run.ended else compare_tensors(run)


def of_empty(run: Run) -> str:
    """What is added to the kind of a difference where an empty tensor's bytes were to be read as another dtype."""
    read = re.search(r"= (t\d+)\.view\(torch\.", run.line)
    return " of an empty tensor" if read and read[1] in run.theirs and not run.theirs[read[1]].numel() else ""


def compare_tensors(run: Run) -> Difference | None:
    """The first tensor that differs, and in what."""
    # the first ``_version`` of each tensor: PyTorch counts its own writes to results too
    before, before_theirs = run.notes.setdefault("versions", ({}, {}))
    names = tensors_of(run.theirs)
    for name in names:
        a, b = run.ours[name], run.theirs[name]
        have, want = facts_of(a, run.ours["torch"], name, before), facts_of(b, run.theirs["torch"], name, before_theirs)
        for key, value in want.items():
            if not same_fact(key, have[key], value, want["shape"], b._is_view()):
                return run.differs(key, f"{name} of shape {want['shape']}: {have[key]}", f"{name} of shape {want['shape']}: {value}")
        floating = a.is_floating_point() or a.is_complex()
        if want["shape"].count(0) == 0 and not np.array_equal(*nearly(values_of(a), values_of(b)), equal_nan=floating):
            return run.differs("values", f"{name}: {values_of(a).tolist()}", f"{name}: {values_of(b).tolist()}")
        mine, other = fact(lambda a=a: gradient_of(a)), fact(lambda b=b: gradient_of(b))
        if not same_gradient(mine, other):
            return run.differs(
                "grad" if not nearly_same(mine, other) else "last bits of grad", f"{name}.grad: {mine}", f"{name}.grad: {other}"
            )
    have, want = sharing_of(run.ours, names), sharing_of(run.theirs, names)
    return None if have == want else run.differs("sharing", f"of {names}: {have}", f"of {names}: {want}")


def same_gradient(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, str) or isinstance(theirs, str):
        return type(ours) is type(theirs)
    if ours is None or theirs is None:
        return ours is theirs
    return np.allclose(values_of(ours), values_of(theirs), rtol=1e-5, atol=1e-6, equal_nan=True)


def nearly_same(ours: Any, theirs: Any) -> bool:
    """Whether two gradients may differ by roundings of float32: cotangents are up to 60, and their sums cancel."""
    if any(isinstance(grad, str) or grad is None for grad in (ours, theirs)) or str(theirs.dtype) != "torch.float32":
        return False
    return np.allclose(values_of(ours), values_of(theirs), rtol=1e-4, atol=1e-4, equal_nan=True)


def tensors_of(space: dict[str, Any]) -> list[str]:
    return [name for name, value in space.items() if re.fullmatch(r"t\d+", name) and hasattr(value, "untyped_storage")]


class Drawing:
    """One random program, drawn line by line beside PyTorch, which tells the shapes and what may be written."""

    def __init__(self, draw: random.Random):
        self.draw = draw
        self.theirs: dict[str, Any] = {"torch": pytorch()}
        self.names: list[str] = []
        self.lines: list[str] = []
        self.count, self.length = 0, LINES

    def program(self) -> list[str]:
        self.start()
        while len(self.lines) < self.length:
            self.step()
        self.theirs.clear()
        return self.lines

    def execute(self, line: str, new: tuple[str, ...] = ()) -> None:
        error = attempt(line, self.theirs)
        self.lines.append(line)
        if "update to inference tensor" in str(error):
            self.length = 0  # after which nothing is compared
        if error is None:
            self.names += [name for name in new if name not in self.names]

    def chance(self, percent: int) -> bool:
        return self.draw.randrange(100) < percent

    def fresh(self, count: int = 1) -> tuple[str, ...]:
        """Names for new tensors; the oldest are dropped when there are many."""
        while len(self.names) + count > MOST_TENSORS:
            gone = self.names.pop(0)
            del self.theirs[gone]
            self.lines.append(f"del {gone}")
            self.length += 1
        names = tuple(f"t{self.count + i}" for i in range(count))
        self.count += count
        return names

    def pick(self) -> str:
        """A live tensor, more often a late one."""
        return self.names[max(self.draw.randrange(len(self.names)) for _ in range(2))]

    def at(self, name: str) -> Any:
        return self.theirs[name]

    def start(self) -> None:
        self.make(self.draw.choice(SHAPES))
        if self.chance(30):
            self.make(self.draw.choice(SHAPES))

    def make(self, shape: tuple[int, ...]) -> None:
        (name,) = self.fresh()
        dtype = self.draw.choice(["float64"] * 5 + ["float32", "float32", "int64", "complex128"])
        form = ""
        if len(shape) in (4, 5) and self.chance(50):
            form = f"memory_format=torch.channels_last{'_3d' if len(shape) == 5 else ''}"
        grad = ".requires_grad_()" if dtype != "int64" and self.chance(50) else ""
        self.execute(f"{name} = torch.arange({math.prod(shape)}).to(torch.{dtype}).reshape({shape}).clone({form}){grad}", (name,))

    def step(self) -> None:
        kinds = [
            (self.view, 34),
            (self.several, 8),
            (self.write, 22),
            (self.compute, 16),
            (self.restride, 4),
            (self.change, 4),
            (self.backward, 6),
        ]
        kinds += [(lambda: self.make(self.draw.choice(SHAPES)), 3), (self.forget, 3)]
        kind = self.draw.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]
        kind()

    def mode(self) -> str:
        return self.draw.choice(MODES) if self.chance(14) else ""

    def view(self) -> None:
        source = self.pick()
        call = view_call(self.draw, self.at(source), [self.at(name) for name in self.names], self.names)
        (name,) = self.fresh()
        if source not in self.names or any(name not in self.names for name in re.findall(r"\bt\d+\b", call)):
            return
        mode = "" if ".view(torch" in call else self.mode()
        self.execute(f"{mode}{name} = {call.replace('(x)', f'({source})') if call.startswith('torch') else source + call}", (name,))

    def several(self) -> None:
        source = self.pick()
        shape, draw = tuple(self.at(source).shape), self.draw
        ndim = len(shape)
        dim = draw.randint(-ndim, max(ndim - 1, 0))
        calls = [
            f"unbind({dim})",
            f"split(2, {dim})",
            f"split(1, {dim})",
            f"chunk(2, {dim})",
            f"tensor_split(2, {dim})",
            f"tensor_split((1, 2), {dim})",
        ]
        calls += [f"chunk(3, {dim})", "hsplit(2)", "vsplit(2)", "dsplit(2)", "hsplit((1,))"]
        if ndim:
            first = draw.randint(0, shape[dim])
            calls.append(f"split([{first}, {shape[dim] - first}], {dim})")
        call = draw.choice(calls)
        first_name, last = self.fresh(2)
        if source in self.names:
            self.execute(f"{self.mode()}{first_name}, *_, {last} = ({source}.{call} * 2)[:{draw.randint(2, 3)}]", (first_name, last))

    def operand(self, shape: tuple[int, ...], target: str | None, dtype: Any) -> str:
        """A number or a tensor that broadcasts to ``shape`` (or with it, where there is no target)."""
        draw = self.draw
        if self.chance(40):
            return str(draw.randint(-2, 3)) if not dtype.is_floating_point else str(float(draw.randint(-2, 3)))
        fits = [n for n in self.names if broadcasts(tuple(self.at(n).shape), shape, target is not None) or self.chance(4)]
        if not fits:
            return "2"
        name = draw.choice(fits)
        if target is not None and self.at(name).untyped_storage().data_ptr() == self.at(target).untyped_storage().data_ptr():
            return f"{name}.clone()"  # what a write that reads shared memory gives is undefined
        return name

    def write(self) -> None:
        target = self.pick()
        tensor = self.at(target)
        shape = tuple(tensor.shape)
        line = write_line(self.draw, target, tensor, self.operand(shape, target, tensor.dtype))
        if overlaps_itself(tensor) and (not has_zero_step(tensor) or "torch.tensor" in line):
            return  # undefined in PyTorch, which notices repeats by a stride of 0 only, and not with index tensors
        self.execute(f"{self.mode()}{line}")

    def restride(self) -> None:
        """In-place forms of views."""
        target, draw = self.pick(), self.draw
        shape = tuple(self.at(target).shape)
        ndim = len(shape)
        a, b = draw.randint(-ndim, max(ndim - 1, 0)), draw.randint(-ndim, max(ndim - 1, 0))
        calls = ["t_()", f"transpose_({a}, {b})", f"swapaxes_({a}, {b})", "squeeze_()", f"squeeze_({a})"]
        if ndim < MOST_DIMS:
            calls.append(f"unsqueeze_({draw.randint(-ndim - 1, ndim)})")
        if not self.at(target).is_inference():
            calls.append("detach_()")
        if math.prod(shape):
            calls.append(f"as_strided_({tuple(reversed(shape))}, {tuple(reversed(self.at(target).stride()))})")
        call = draw.choice(calls)
        self.execute(f"{'' if call == 'detach_()' else self.mode()}{target}.{call}")

    def compute(self) -> None:
        a, draw = self.pick(), self.draw
        tensor = self.at(a)
        b = self.operand(tuple(tensor.shape), None, tensor.dtype)
        c = self.operand(tuple(tensor.shape), None, tensor.dtype)
        if any(name in self.names and not small_together(tensor, self.at(name)) for name in (b, c)):
            b = c = "2"
        line = compute_line(draw, a, tensor, b, c)
        (name,) = self.fresh()
        if all(name in self.names for name in re.findall(r"\bt\d+\b", line)):
            self.execute(f"{self.mode()}{name} = {line}", (name,))

    def change(self) -> None:
        name = self.pick()
        change = self.draw.choice(["requires_grad_()", "requires_grad_(False)", "retain_grad()"])
        places = sharing_of(self.theirs, self.names)
        tensor = self.at(name)
        if fact(lambda: tensor.grad_fn).__class__ is str:
            return
        # A view made before its base required grad is a leaf in PyTorch until the next write, and then is none.
        has_views = any(self.at(other)._base is tensor for other in self.names)
        if change != "retain_grad()" and (tensor._is_view() or has_views or places.count(places[self.names.index(name)]) > 1):
            return
        if change == "retain_grad()" and tensor._is_view():  # PyTorch leaves made-again views out of the way
            return
        self.execute(f"{name}.{change}")

    def backward(self) -> None:
        name = self.pick()
        tensor = self.at(name)
        shape = tuple(tensor.shape)
        dtype = str(tensor.dtype)
        weight = f"torch.arange({math.prod(shape)}).to({dtype}).reshape({shape}) + 1"
        self.execute(f"{name}.backward({weight}, retain_graph={self.chance(50)})")

    def forget(self) -> None:
        if len(self.names) > 2:
            name = self.pick()
            self.names.remove(name)
            del self.theirs[name]
            self.lines.append(f"del {name}")


AREA = Views()
