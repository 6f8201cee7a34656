"""Random programs of views, copies, in-place writes and backward passes, run side by side by flambeau and by real PyTorch.

A program is a list of lines of Python, executed in two namespaces: in one ``torch`` is flambeau, in the other PyTorch.  After each line
every live tensor is compared: dtype, shape, every stride (also of sizes of 0 and 1), storage offset, values, which tensors share a
storage, ``is_contiguous`` in each memory format, ``requires_grad``, ``is_leaf``, ``grad_fn``, ``_version``, ``_is_view``,
``is_inference`` and ``grad`` with its strides; and a line raises in one exactly if it raises in the other, the same type.

    python -m tests.view_programs --count 5000 --seed 0

prints each program that differs, then how many did, and is wrong if more than one in two hundred does.
"""

from __future__ import annotations

import argparse
import math
import random
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

import flambeau
from flambeau.core.state import active, thread
from tests.oracle import pytorch

MOST_TENSORS = 8
MOST_ELEMENTS = 60
MOST_DIMS = 5
LINES = 14
MODES = ["with torch.no_grad(): "] * 5 + ["with torch.inference_mode(): "] * 2
SHAPES = [
    (6,),
    (2, 3),
    (4, 3),
    (3, 1),
    (1, 4),
    (2, 3, 2),
    (3, 1, 4),
    (2, 1, 1),
    (1,),
    (),
    (2, 0, 3),
    (0,),
    (2, 3, 2, 2),
    (1, 2, 3, 1),
    (2, 2, 1, 2, 2),
]
RESTRICTED = re.compile("view|in-?place|leaf|[Ii]nference|single memory location")


# -- what is compared --------------------------------------------------------------------------------------------------------------
def fact(get: Callable[[], Any]) -> Any:
    """A property, or the exception that reading it raises."""
    try:
        return get()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def values_of(tensor: Any) -> np.ndarray:
    return np.asarray(tensor.detach().resolve_conj().resolve_neg().numpy())


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


class Difference(Exception):
    """flambeau and PyTorch differ; the first argument says in what, the second how."""


class Program:
    """One random program, drawn and executed line by line."""

    def __init__(self, seed: int, lines: int = LINES):
        torch = pytorch()

        self.draw = random.Random(seed)
        self.ours: dict[str, Any] = {"torch": flambeau}
        self.theirs: dict[str, Any] = {"torch": torch}
        self.names: list[str] = []
        self.lines: list[str] = []
        self.count = 0
        self.length = lines
        self.versions: tuple[dict[str, int], dict[str, int]] = (
            {},
            {},
        )  # the first ``_version`` of each tensor: PyTorch counts its own writes to results too
        self.settled = Counter[str]()  # what ``settle`` did

    def run(self) -> tuple[str, str] | None:
        """None where both agree, else what differs first and the program with both results."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                self.start()
                while len(self.lines) < self.length:
                    self.step()
            except Difference as difference:
                return difference.args[0], "\n".join([*self.lines, "", difference.args[1]])
            finally:
                self.ours.clear()
                self.theirs.clear()
        return None

    # -- running ---------------------------------------------------------------------------------------------------------------
    def settle(self, name: str) -> None:
        """Give a computed tensor row-major strides on both sides if the fast path, which leaves them to NumPy, differs from PyTorch there.

        NumPy decides otherwise about sizes of 1, and about operands that lie in memory in different orders. The slow path must not differ.
        """
        a, b = self.ours[name], self.theirs[name]
        if a.shape != b.shape or a.stride() == b.stride():
            return
        of_one = not a.numel() or all(n == 1 or x == y for n, x, y in zip(b.shape, a.stride(), b.stride(), strict=True))
        as_input = of_one and re.search(STRIDES_OF_INPUT, self.lines[-1])
        if is_elementwise(self.lines[-1]) and not as_input and self.computed_slowly(name).stride() != b.stride():
            return
        if of_one or is_elementwise(self.lines[-1]):
            self.settled["sizes of 1" if of_one else "orders"] += 1
            self.lines.append(f"{name} = {name}.clone(memory_format=torch.contiguous_format)    # has other strides")
            for space in (self.ours, self.theirs):
                exec(self.lines[-1], space)

    def computed_slowly(self, name: str) -> Any:
        """What the last line, which computed ``name``, gives where every call takes the slow path."""
        space = dict(self.ours)
        active.append(None)
        thread.modes += 1
        try:
            exec(self.lines[-1], space)
        finally:
            thread.modes -= 1
            active.pop()
        return space[name]

    def execute(self, line: str, new: tuple[str, ...] = (), then: Callable[[str], None] | None = None) -> None:
        errors: list[Exception | None] = []
        for space in (self.ours, self.theirs):
            try:
                exec(line, space)
                errors.append(None)
            except Exception as error:
                errors.append(error)
        ours, theirs = errors
        self.lines.append(line if theirs is None else f"{line}    # {type(theirs).__name__}: {str(theirs)[:100]}")
        if "update to inference tensor" in str(theirs) and ours is not None:
            self.length = 0  # PyTorch says so after it has written
            return
        if "update to inference tensor" in str(ours) and theirs is not None:
            return  # for which there are two reasons
        if ours is not None and theirs is not None and any("another view of its base" in str(error) for error in (ours, theirs)):
            self.lines[-1] += " and others"
            return self.compare()
        if type(ours) is not type(theirs):
            raise Difference("exception", f"flambeau: {ours!r}\nPyTorch:  {theirs!r}")
        if theirs is not None:
            wanted = str(theirs)
            if "another view of its base" not in wanted and RESTRICTED.search(wanted) and first_words(wanted) != first_words(str(ours)):
                raise Difference("message", f"flambeau: {ours!r}\nPyTorch:  {theirs!r}")
        else:
            self.names += [name for name in new if name not in self.names]
            if then is not None:
                then(new[0])
        self.compare()

    def compare(self) -> None:
        torch = self.theirs["torch"]
        for name in self.names:
            a, b = self.ours[name], self.theirs[name]
            have, want = facts_of(a, flambeau, name, self.versions[0]), facts_of(b, torch, name, self.versions[1])
            for key, value in want.items():
                if not same_fact(key, have[key], value, want["shape"], b._is_view()):
                    raise Difference(key, f"{key} of {name}\nflambeau: {have[key]}\nPyTorch:  {value}")
            if want["shape"].count(0) == 0 and not np.array_equal(
                *nearly(values_of(a), values_of(b)), equal_nan=a.is_floating_point() or a.is_complex()
            ):
                raise Difference("values", f"{name}\nflambeau: {values_of(a).tolist()}\nPyTorch:  {values_of(b).tolist()}")
            mine, other = fact(lambda a=a: gradient_of(a)), fact(lambda b=b: gradient_of(b))
            if isinstance(other, str) or isinstance(mine, str):
                if type(mine) is not type(other):
                    raise Difference("grad", f"{name}.grad\nflambeau: {mine}\nPyTorch:  {other}")
                continue
            if (mine is None) != (other is None):
                raise Difference("grad", f"{name}.grad\nflambeau: {mine}\nPyTorch:  {other}")
            if other is not None:
                if not np.allclose(values_of(mine), values_of(other), rtol=1e-5, atol=1e-6, equal_nan=True):
                    raise Difference("grad", f"{name}.grad\nflambeau: {mine}\nPyTorch:  {other}")
        have, want = sharing_of(self.ours, self.names), sharing_of(self.theirs, self.names)
        if have != want:
            raise Difference("sharing", f"of {self.names}\nflambeau: {have}\nPyTorch:  {want}")

    # -- drawing ---------------------------------------------------------------------------------------------------------------
    def chance(self, percent: int) -> bool:
        return self.draw.randrange(100) < percent

    def fresh(self, count: int = 1) -> tuple[str, ...]:
        """Names for new tensors; the oldest are dropped when there are many."""
        while len(self.names) + count > MOST_TENSORS:
            gone = self.names.pop(0)
            del self.ours[gone], self.theirs[gone]
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
            self.execute(f"{self.mode()}{name} = {line}", (name,), self.settle)

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
            del self.ours[name], self.theirs[name]
            self.lines.append(f"del {name}")


# -- drawing lines ---------------------------------------------------------------------------------------------------------------------
def first_words(text: str) -> str:
    """What messages are compared by."""
    text = re.sub(r"Output (\d+) of \w+", r"Output \1", text)
    text = re.sub(r"CPU(\w+)Type\b", r"torch.\1Tensor", text)  # PyTorch has two names for the same type
    return re.sub("is being modified|(its base or )?another view of its base has been modified", "modified", text).split(". ")[0][:100]


def nearly(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``a`` and ``b``, the former replaced by the latter where they are close."""
    if a.dtype.kind not in "fc" or a.shape != b.shape:
        return a, b
    return np.where(np.isclose(a, b, rtol=1e-5, atol=1e-6), b, a), b


def small_together(a: Any, b: Any) -> bool:
    try:
        shape = np.broadcast_shapes(tuple(a.shape), tuple(b.shape))
    except ValueError:
        return True
    return math.prod(shape) <= MOST_ELEMENTS and len(shape) <= MOST_DIMS


def broadcasts(source: tuple[int, ...], target: tuple[int, ...], into: bool) -> bool:
    try:
        shape = np.broadcast_shapes(source, target)
    except ValueError:
        return False
    return shape == target if into else math.prod(shape) <= MOST_ELEMENTS and len(shape) <= MOST_DIMS


def overlaps_itself(tensor: Any) -> bool:
    reach = 1
    for step, n in sorted((step, n) for step, n in zip(tensor.stride(), tensor.shape, strict=True) if n != 1):
        if step < reach:
            return tensor.numel() > 1
        reach += step * (n - 1)
    return False


def has_zero_step(tensor: Any) -> bool:
    return any(step == 0 and n > 1 for step, n in zip(tensor.stride(), tensor.shape, strict=True))


def factorization(draw: random.Random, count: int) -> tuple[int, ...]:
    """Sizes with the product ``count``; sometimes one of them as -1, sometimes with sizes of 1 between them."""
    if not count:
        return draw.choice([(0,), (0, 2), (3, 0), (1, 0, 2)])
    sizes, rest = [], count
    while rest > 1 and len(sizes) < 3:
        n = draw.choice([d for d in range(2, rest + 1) if rest % d == 0])
        sizes.append(n)
        rest //= n
    if rest > 1:
        sizes.append(rest)
    for _ in range(draw.choice([0, 0, 0, 1, 1, 2])):
        if len(sizes) < MOST_DIMS:
            sizes.insert(draw.randint(0, len(sizes)), 1)
    if sizes and draw.random() < 0.2:
        sizes[draw.randrange(len(sizes))] = -1
    return tuple(sizes)


def slice_text(draw: random.Random, length: int) -> str:
    start = draw.choice(["", str(draw.randint(-length - 1, length + 1))])
    stop = draw.choice(["", str(draw.randint(-length - 1, length + 2))])
    step = draw.choice(["", "", ":1", ":2", ":3"])
    return f"{start}:{stop}{step}"


def index_text(draw: random.Random, shape: tuple[int, ...]) -> str:
    """The inside of ``x[...]``: ints, slices, None, Ellipsis and sometimes index tensors, lists, masks and bools."""
    parts, dims, had_ellipsis = [], list(shape), False
    advanced = draw.random() < 0.3
    while dims and len(parts) < 6:
        kind = draw.choice(
            ["slice"] * 5
            + ["int"] * 4
            + ["none"] * 3
            + ["all"] * 4
            + ["ellipsis"]
            + (["index", "index", "list", "mask", "bool"] if advanced else [])
        )
        if kind == "none" or kind == "bool":
            parts.append("None" if kind == "none" else draw.choice(["True", "False"]))
            continue
        if kind == "ellipsis":
            if had_ellipsis:
                continue
            had_ellipsis = True
            parts.append("...")
            for _ in range(draw.randint(0, len(dims))):
                dims.pop(0)
            continue
        n = dims.pop(0)
        if kind == "slice":
            parts.append(slice_text(draw, n))
        elif kind == "all":
            parts.append(":")
        elif kind == "int":
            parts.append(str(draw.randint(-n, max(n - (draw.random() < 0.97), 0))))
        elif kind == "mask":
            parts.append(f"torch.tensor({[draw.random() < 0.6 for _ in range(n)]}, dtype=torch.bool)")
        else:
            places = [draw.randint(-n, n - 1) for _ in range(draw.randint(1, 3))] if n else []
            if kind == "index":
                parts.append(f"torch.tensor({[places, places] if draw.random() < 0.25 else places}, dtype=torch.long)")
            else:
                parts.append(str(places) if places else ":")
    if draw.random() < 0.1 or not parts:
        parts.append(draw.choice(["None", "...", "None"]) if "..." not in parts else "None")
    return ", ".join(parts)


def view_call(draw: random.Random, tensor: Any, others: list[Any], names: list[str]) -> str:
    """``.transpose(0, 1)`` or ``[1:3]`` or ``torch.real(x)``: something that makes one view or copy of a part."""
    shape = tuple(tensor.shape)
    ndim, count = len(shape), tensor.numel()
    room = ndim < MOST_DIMS
    dim, other = draw.randint(-ndim, max(ndim - 1, 0)), draw.randint(-ndim, max(ndim - 1, 0))
    size = shape[dim] if ndim else 1
    kinds = [
        "view",
        "view",
        "reshape",
        "squeeze",
        "squeeze dim",
        "squeeze dims",
        "expand",
        "expand",
        "index",
        "index",
        "index",
        "index",
        "index",
    ]
    kinds += [
        "select",
        "narrow",
        "transpose",
        "transpose",
        "permute",
        "permute",
        "t",
        "movedim",
        "swapaxes",
        "T",
        "mT",
        "diagonal",
        "unfold",
        "as_strided",
    ]
    kinds += [
        "view_as",
        "flatten",
        "ravel",
        "unflatten",
        "contiguous",
        "clone",
        "detach",
        "dtype",
        "complex",
        "real",
        "data",
        "expand_as",
        "H",
    ]
    if room:
        kinds += ["unsqueeze"] * 4 + ["none"] * 3
    kind = draw.choice(kinds)
    if tensor.is_inference() and kind in ("dtype", "data", "detach"):
        return ".t()"
    if kind == "dtype" and (tensor.is_complex() or not np.array_equal(values_of(tensor), values_of(tensor) // 1)):
        return ".t()"  # the last bits of a function's values, and whether a zero is negative, are free
    if kind in ("view", "reshape"):
        return f".{kind}({factorization(draw, count)})"
    if kind == "unsqueeze":
        return f".unsqueeze({draw.randint(-ndim - 1, ndim)})"
    if kind == "none":
        return draw.choice(["[None]", "[:, None]", "[..., None]", "[None, ...]", "[None, None]", "[None, 0]", "[0, None]"])
    if kind == "squeeze":
        return ".squeeze()"
    if kind == "squeeze dim":
        return f".squeeze({dim})"
    if kind == "squeeze dims":
        return f".squeeze({tuple(draw.sample(range(ndim), draw.randint(0, ndim)))})"
    if kind == "expand":
        lead = draw.choice([(), (), (2,), (1,), (3, 1)])
        sizes = [draw.choice([n, -1]) if n != 1 else draw.choice([1, -1, 2, 3]) for n in shape]
        if (
            len(lead) + ndim > MOST_DIMS
            or abs(math.prod((*lead, *(n if n > 0 else m for n, m in zip(sizes, shape, strict=True))))) > MOST_ELEMENTS
        ):
            return f".expand({shape})"
        return f".expand({(*lead, *sizes)})"
    if kind == "expand_as" or kind == "view_as":
        fits = [
            n
            for n, t in zip(names, others, strict=True)
            if (kind == "view_as" and t.numel() == count) or (kind == "expand_as" and broadcasts(shape, tuple(t.shape), True))
        ]
        return f".{kind}({draw.choice(fits)})" if fits else ".detach()"
    if kind == "index":
        return f"[{index_text(draw, shape)}]"
    if kind == "select":
        return f".select({dim}, {draw.randint(-size, size)})"
    if kind == "narrow":
        start = draw.randint(0, size)
        return f".narrow({dim}, {start}, {draw.randint(0, size - start)})"
    if kind in ("transpose", "swapaxes", "movedim"):
        return f".{kind}({dim}, {other})"
    if kind == "permute":
        return f".permute({tuple(draw.sample(range(ndim), ndim))})"
    if kind in ("T", "mT", "H", "data"):
        return ".mT" if kind == "H" and tensor.is_complex() else f".{kind}"  # conjugation is not lazy here
    if kind == "t":
        return ".t()"
    if kind == "diagonal":
        return f".diagonal({draw.randint(-2, 2)}, {dim}, {other})"
    if kind == "unfold":
        window, step = draw.randint(0, size), draw.randint(1, 2)
        return f".unfold({dim}, {window}, {step})" if room and count * window <= MOST_ELEMENTS else ".t()"
    if kind == "as_strided":
        extent = tensor.untyped_storage().nbytes() // tensor.element_size()
        start = draw.randint(0, max(extent - 1, 0))
        return _strided_call(draw, extent, start)
    if kind == "flatten":
        first = draw.randint(0, max(ndim - 1, 0))
        return f".flatten({first}, {draw.randint(first, max(ndim - 1, 0))})"
    if kind == "unflatten":
        return f".unflatten({dim}, {factorization(draw, size)})" if room and ndim else ".t()"
    if kind == "ravel" or kind == "detach":
        return f".{kind}()"
    if kind == "contiguous":
        form = _format(draw, ndim)
        return f".contiguous({'memory_format=' if form else ''}{form})"
    if kind == "clone":
        form = draw.choice(
            [
                "",
                "memory_format=torch.contiguous_format",
                "memory_format=torch.preserve_format",
                f"memory_format={_format(draw, ndim) or 'torch.preserve_format'}",
            ]
        )
        return f".clone({form})"
    if kind == "dtype":
        return f".view(torch.{draw.choice(['float64', 'int64', 'float32', 'int32', 'complex128', 'uint8'])})"
    if kind == "complex":
        return "torch.view_as_real(x)" if tensor.is_complex() else "torch.view_as_complex(x)" if ndim and shape[-1] == 2 else ".t()"
    return draw.choice([".real", ".imag"]) if tensor.is_complex() else ".real"


def _format(draw: random.Random, ndim: int) -> str:
    return {4: draw.choice(["", "torch.channels_last"]), 5: draw.choice(["", "torch.channels_last_3d"])}.get(ndim, "")


def _strided_call(draw: random.Random, extent: int, start: int) -> str:
    room = extent - start
    shape, strides = draw.choice(
        [
            ((room,), (1,)),
            ((min(room, 2), 1), (1, 3)),
            ((1, room), (5, 1)),
            (((room + 1) // 2,), (2,)),
            ((2, min(room, 5)), (0, 1)),
            ((0, 2), (3, 1)),
        ]
    )
    return f".as_strided({shape}, {strides}, {start})"


def write_line(draw: random.Random, target: str, tensor: Any, operand: str) -> str:
    """A line that writes into ``target``."""
    shape = tuple(tensor.shape)
    ndim = len(shape)
    dim = draw.randint(-ndim, max(ndim - 1, 0))
    size = shape[dim] if ndim else 1
    places = [draw.randint(0, size - 1) for _ in range(draw.randint(1, 2))] if size else []
    bits = np.array([draw.random() < 0.5 for _ in range(tensor.numel())], bool).reshape(shape).tolist()
    mask = draw.choice(
        [
            "torch.tensor(True)",
            f"torch.tensor({bits}, dtype=torch.bool).reshape({shape})",
        ]
    )
    number = operand if not operand.startswith("t") else "3"
    kinds = [
        "add_",
        "add_",
        "sub_",
        "mul_",
        "mul_",
        "copy_",
        "fill_",
        "zero_",
        "neg_",
        "masked_fill_",
        "index_fill_",
        "setitem",
        "setitem",
        "setitem",
        "all",
        "mask",
        "iadd",
    ]
    kinds += ["index_add_", "index_copy_", "addcmul_", "lerp_", "square_", "scatter_", "put_", "out"]
    kinds += [] if overlaps_itself(tensor) else ["tril_"]
    kinds += [] if tensor.is_complex() else ["clamp_", "abs_", "relu_"]
    kind = draw.choice(kinds)
    if kind in ("add_", "sub_", "mul_"):
        return f"{target}.{kind}({operand})"
    if kind == "copy_":
        return f"{target}.copy_({operand if operand.startswith('t') else f'torch.tensor({operand})'})"
    if kind == "iadd":
        return f"{target} += {operand}"
    if kind == "fill_":
        return f"{target}.fill_({number})"
    if kind in ("zero_", "neg_", "abs_", "square_", "relu_", "tril_"):
        return f"{target}.{kind}()"
    if kind == "clamp_":
        return f"{target}.clamp_(-2, 4)"
    if kind == "masked_fill_":
        return f"{target}.masked_fill_({mask}, {number})"
    if kind == "mask":
        return f"{target}[{mask}] = {number}"
    if kind == "all":
        return f"{target}[...] = {operand}"
    if kind == "index_fill_":
        return f"{target}.index_fill_({dim}, torch.tensor({places}, dtype=torch.long), {number})"
    if kind in ("index_add_", "index_copy_") and not ndim:
        return f"{target}.zero_()"
    if kind in ("index_add_", "index_copy_"):
        places = sorted(set(places))
        source = f"torch.ones({(*shape[: dim % ndim], len(places), *shape[dim % ndim + 1 :]) if ndim else (1,)}, dtype={tensor.dtype})"
        return f"{target}.{kind}({dim}, torch.tensor({places}, dtype=torch.long), {source})"
    if kind == "addcmul_":
        return f"{target}.addcmul_({operand if operand.startswith('t') else f'torch.tensor({operand})'}, torch.tensor(2))"
    if kind == "lerp_":
        return f"{target}.lerp_(torch.ones({shape}, dtype={tensor.dtype}), 0.5)"
    if kind == "scatter_":
        return f"{target}.scatter_({dim}, torch.zeros({(1,) * ndim if math.prod(shape) else shape}, dtype=torch.long), {number})"
    if kind == "put_":
        return f"{target}.put_(torch.tensor([0]), torch.ones(1, dtype={tensor.dtype}))"
    if kind == "out":
        return f"torch.add({target}.detach().clone(), {number}, out={target})"
    return f"{target}[{index_text(draw, shape)}] = {operand if draw.random() < 0.3 else number}"


def compute_line(draw: random.Random, a: str, tensor: Any, b: str, c: str) -> str:
    """A line that makes a tensor of memory of its own: element-wise operations, copies, reductions, joins."""
    shape = tuple(tensor.shape)
    ndim, own = len(shape), str(tensor.dtype)
    lines = GENERAL[:]
    if math.prod(shape) * 2 <= MOST_ELEMENTS and ndim < MOST_DIMS:
        lines += GROWING
    if not tensor.is_complex() and tensor.itemsize > 1:
        lines += REAL
    if tensor.is_floating_point():
        lines += FLOATING
    if tensor.numel():
        lines += NON_EMPTY
    return draw.choice(lines).format(
        a=a,
        b=b,
        two=f"{b}.to({own})" if re.match(r"t\d", b) else f"torch.tensor({b}, dtype={own})",
        three=f"{c}.to({own})" if re.match(r"t\d", c) else f"torch.tensor({c}, dtype={own})",
        dim=draw.randint(-ndim, max(ndim - 1, 0)),
        keep=draw.choice(["", ", keepdim=True"]),
        dtype=draw.choice(["float32", "float64", "int64", "bool", "complex128"]),
        shape=shape,
        last=shape[-1:],
        ones=(1,) * ndim,
        twice=(2, *(1,) * (ndim - 1)),
    )


def is_elementwise(line: str) -> bool:
    """Whether a line computes by an element-wise operation, whose fast path may lay its result out as NumPy does."""
    return re.search(ELEMENTWISE, line.partition(" = ")[2]) is not None


ELEMENTWISE = (
    r" ([-+*/<>]|==|!=) |torch\.(where|lerp|addcmul|maximum|atan2|fmod|hypot|nn)|"
    r"\.(neg|abs|exp|pow|square|reciprocal|isnan|logical_not|clamp|relu|sign|sigmoid|floor)\("
)


STRIDES_OF_INPUT = r"hardtanh|\.isnan|\.abs"  # PyTorch keeps those of sizes of 1 there


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


GENERAL = _lines("""
    {a} + {b}
    {a} * {b}
    {a} + {b}
    {a} * {b}
    {a} - {b}
    {a} / 2
    2 - {a}
    {a} == {b}
    {a} != {b}
    {a}.neg()
    {a}.abs()
    {a}.exp()
    {a}.pow(2)
    {a}.square()
    {a}.reciprocal()
    {a}.isnan()
    {a}.logical_not()
    {a}.T + 1
    {a}.unfold({dim}, 1, 1) + 1
    {a}.movedim({dim}, 0) * {a}.movedim({dim}, 0)
    torch.where({a} == 1, {a}, {two})
    torch.where({a} != 1, {two}, {three})
    torch.lerp({a}, {two}, 0.5)
    torch.addcmul({a}, {two}, {three})
    {a}.masked_fill({a} == 1, 5)
    {a}.to(torch.{dtype})
    {a}.to(torch.{dtype})
    {a}.to(torch.{dtype}, copy=True)
    {a}.clone()
    {a}.clone()
    {a}.clone()
    {a}.contiguous()
    torch.zeros_like({a})
    torch.zeros_like({a}, memory_format=torch.contiguous_format)
    torch.ones_like({a}, dtype=torch.{dtype})
    torch.full_like({a}, 3)
    torch.empty_like({a}).fill_(1)
    {a}.new_zeros({shape})
    {a}.sum()
    {a}.sum({dim}{keep})
    {a}.mean()
    {a}.prod({dim}{keep})
    {a}.any({dim}{keep})
    {a}.norm()
    {a}.cumsum({dim})
    {a}.flip({dim})
    {a}.roll(1, {dim})
    {a}.rot90()
    {a}.diff(dim={dim})
    {a}.tril()
    {a}.nonzero()
    {a}.masked_select({a} == 1)
    {a}.gather({dim}, torch.zeros({shape}, dtype=torch.long))
    {a}.take_along_dim(torch.zeros({ones}, dtype=torch.long), {dim})
    {a}.scatter({dim}, torch.zeros({shape}, dtype=torch.long), 3)
    {a}.index_add({dim}, torch.tensor([0]), {a}.narrow({dim}, 0, 1))
    {a}.narrow_copy({dim}, 0, 1)
    torch.cat([{a}, {two}], {dim})
""")
GROWING = _lines("""
    torch.cat([{a}, {a}], {dim})
    torch.stack([{a}, {a}], {dim})
    {a}.repeat({twice})
    {a}.diag_embed()
""")
REAL = _lines("""
    torch.maximum({a}, {two})
    torch.atan2({a}, {two})
    torch.fmod({a}, 3)
    {a} > {b}
    {a}.clamp(0, 3)
    {a}.relu()
    {a}.sign()
    {a}.amax({dim}{keep})
    {a}.argmax({dim}{keep})
    {a}.max({dim}{keep})[0]
    {a}.median({dim}{keep})[0]
    {a}.sort({dim})[0]
    {a}.topk(1, {dim})[0]
    {a}.cummax({dim})[0]
""")
FLOATING = _lines("""
    {a}.sigmoid()
    {a}.floor()
    {a}.softmax({dim})
    {a}.log_softmax({dim})
    {a}.logsumexp({dim}{keep})
    {a}.std({dim}{keep})
    torch.hypot({a}, {two})
    torch.nn.functional.gelu({a})
    torch.nn.functional.silu({a})
    torch.nn.functional.elu({a})
    torch.nn.functional.softplus({a})
    torch.nn.functional.hardtanh({a})
    torch.nn.functional.leaky_relu({a})
    torch.nn.functional.dropout({a}, 0.0)
""")
NON_EMPTY = _lines("""
    {a}.index_select({dim}, torch.tensor([0]))
    torch.nn.functional.layer_norm({a}, {last})
""")


# -- many programs ----------------------------------------------------------------------------------------------------------------------
def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="how many programs")
    parser.add_argument("--seed", type=int, default=0, help="the first program's seed; the others follow")
    given = parser.parse_args()
    pytorch()
    begin, kinds, settled = time.perf_counter(), Counter[str](), Counter[str]()
    for seed in range(given.seed, given.seed + given.count):
        program = Program(seed)
        difference = program.run()
        settled += program.settled
        if difference is not None:
            kinds[difference[0]] += 1
            print(f"-- seed {seed}: {difference[0]}\n{difference[1]}\n", flush=True)
    wrong, seconds = sum(kinds.values()), time.perf_counter() - begin
    print(f"{given.count} programs, seeds from {given.seed}: {given.count - wrong} equal, {wrong} differ {dict(kinds.most_common())}")
    print(f"strides of element-wise results that were not compared: {dict(settled)}; {seconds:.0f} s")
    return int(wrong * 200 > given.count)


if __name__ == "__main__":
    sys.exit(main())
