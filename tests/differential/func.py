"""Transforms of functions in each other, around every element-wise and reducing operation, at sizes around every threshold of the kernels.

A program is an operation on a tensor, and one to three transforms around it:

    operand, sizes, layout -> f0, the operation -> f1, f2, ... one transform each, from the inside out -> the result, which is compared

The operand is given as it is (``v``), or ``v`` has a few elements that scale a large one: for Jacobians by columns. With
``FLAMBEAU_KERNELS_FROM=1`` sizes are small, since kernels are used from one element on; otherwise they lie around the sizes from which
kernels are used, or work otherwise. What PyTorch refuses is compared with loops over its reverse mode.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import random
import re
import signal
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np
from oracle import pytorch

import flambeau

from .area import Area, Difference, Known, Run, attempt, described
from .func_operations import ALL, DOMAINS, Operation
from .func_reference import functions, loops, with_products_by_jvp

TRANSFORMS = (
    "vmap", "vmap_closed", "vmap_two", "grad", "vjp", "jvp", "jacrev", "jacfwd", "hessian", "linearize", "functional_call",
    "vmap_vjp", "vmap_jvp",
)  # fmt: skip
FEW = 6  # elements of an argument, or of a result, of which a whole Jacobian is made
# Sizes from which on kernels are used, or are cut otherwise: small vectors, rows, products of matrices, element-wise operations, those with
# vector instructions, chunks, results in memory that is used again.
THRESHOLDS = (1, 2, 4, 16, 24, 64, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 1_000_000)
FEWEST = (1, 2, 3, 5, 8, 16, 17, 24, 33, 64, 100, 255)  # with kernels from one element on
USUAL, MOST = 400_000, 6_000_000  # elements of all examples and derivatives of a program; of one in thirty
LAYOUTS = ("plain", "plain", "plain", "flat", "transposed", "strided", "expanded")
KINDS: dict[str, list[Operation]] = {kind: [each for each in ALL if each.kind == kind] for kind in ("one", "two", "reduction", "write")}

# Of the largest element: for rounding, the number of terms, and what derivatives make of both.
BOUNDS = {"float64": 1e-9, "float32": 2e-4}
RESULT = "result = "
LONGEST = 40.0  # seconds for loops over PyTorch's reverse mode, of which products of Jacobians may need thousands


class Unfit(Exception):
    """No program: a Jacobian that is too large, an operation that does not take the shape."""


class Drawn:
    """A program while it is drawn: its statements, the shape of what ``f{number}`` takes (``at``) and of what it returns (``out``)."""

    def __init__(self, draw: random.Random):
        self.draw, self.lines = draw, list[str]()
        self.number = 0
        self.dtype = draw.choice(("float64", "float32"))
        count = draw.choices((1, 2, 3), (10, 60, 30))[0]
        chain = [draw.choice(TRANSFORMS) for _ in range(count)]
        small = any(each in ("jacfwd", "hessian") for each in chain) or draw.random() < 0.15
        steps = [self.step(kind, small) for kind in chain]
        operation = draw.choice(draw.choice((ALL, ALL, *KINDS.values())))
        shape = self.shape(self.size(steps, small), operation.rank or draw.choice((1, 1, 2, 2, 3)))
        if "prod" in operation.name and count > 1 and math.prod(shape) > (256 if count + chain.count("hessian") > 2 else 2048):
            raise Unfit  # PyTorch's higher derivatives of products of many take minutes
        self.at, made, self.bounds = self.argument(operation, shape, draw.choice((1, 2, 3)) if small else 0)
        self.innermost(operation, made)
        for i, step in enumerate(steps):
            getattr(self, step["kind"])(step, i == len(steps) - 1)
        self.lines.append(f"v = {self.numbers(self.at, *self.bounds)}")
        self.lines.append(f"{RESULT}f{self.number}(v)")

    # -- sizes -------------------------------------------------------------------------------------------------------------------
    def step(self, kind: str, small: bool) -> dict[str, Any]:
        draw, step = self.draw, dict[str, Any](kind=kind)
        if kind.startswith("vmap"):
            step["batch"] = draw.choice((1, 2, 2, 3) if small else (1, 2, 3, 3, 5))
        if kind in ("jacrev", "jacfwd", "hessian"):
            step["results"] = draw.choice((1, 2, 3))
        step["copies"] = step.get("batch", 1) * step.get("results", 1) * (4 if small and kind in ("jacfwd", "hessian") else 1)
        return step

    def size(self, steps: list[dict[str, Any]], small: bool) -> int:
        draw, copies = self.draw, math.prod(step["copies"] for step in steps)
        if os.environ.get("FLAMBEAU_KERNELS_FROM") == "1":
            return draw.choice(FEWEST)
        most = MOST if draw.random() < 1 / 30 else USUAL
        fitting = [size for size in THRESHOLDS if size * copies <= most]
        size = max(1, draw.choice(fitting[-7:] or [1]) + draw.choice((-1, 0, 0, 1)))
        return max(1, size // copies) if draw.random() < 0.3 else size  # sometimes all examples together are the threshold

    def shape(self, size: int, rank: int) -> tuple[int, ...]:
        """``rank`` sizes whose product is about ``size``."""
        draw, shape = self.draw, []
        for _ in range(rank - 1):
            rows = draw.choice((1, 2, 3, 4, 5, 8, 10, 16, 64, 100))
            if draw.random() < 0.7:
                rows = next(n for n in range(rows, 0, -1) if size % n == 0)
            shape.append(min(rows, size))
            size = max(1, size // rows)
        return (*shape, size)

    # -- text --------------------------------------------------------------------------------------------------------------------
    def numbers(self, shape: tuple[int, ...], low: float, high: float) -> str:
        return f'numbers({self.draw.randrange(10**6)}, {shape}, {low}, {high}, "{self.dtype}")'

    def named(self, name: str, shape: tuple[int, ...], low: float = -1.0, high: float = 1.0) -> str:
        """The name of a new tensor."""
        self.lines.append(f"{name}{self.number} = {self.numbers(shape, low, high)}")
        return f"{name}{self.number}"

    def function(self, text: str) -> None:
        """``text`` is the next function; ``{f}`` in it the last."""
        text = text.replace("{f}", f"f{self.number}")
        self.number += 1
        self.lines.append(f"f{self.number} = {text}")

    def argument(self, operation: Operation, shape: tuple[int, ...], few: int) -> tuple[Any, str, tuple[float, float]]:
        """Shape and bounds of ``v``, and how the operand is made of it; the other operands are among the statements then."""
        low, high = DOMAINS[operation.domain]
        made = "v"
        bounds = low, high
        given = shape
        layout = self.draw.choice(LAYOUTS)
        if few:  # v, near 1, scales a base that lies in the domain
            if math.prod(shape) % few:
                shape = (*shape[:-1], shape[-1] * few)
            given, bounds = (few,), {"above one": (1.0, 1.03), "near one": (1.0, 1.0001)}.get(operation.domain, (0.97, 1.0))
            self.lines.append(f"base = {self.numbers((few, math.prod(shape) // few), low, high)}")
            made = f"(v.unsqueeze(1) * base).reshape({shape})"
        elif layout == "flat" and len(shape) > 1:
            given, made = (math.prod(shape),), f"v.reshape({shape})"
        elif layout == "transposed" and len(shape) > 1:
            given, made = (*shape[:-2], shape[-1], shape[-2]), "v.transpose(-1, -2)"
        elif layout == "strided":
            given, made = (*shape[:-1], 2 * shape[-1]), "v[..., ::2]"
        elif layout == "expanded" and len(shape) > 1:
            given, made = (1, *shape[1:]), f"v.expand({shape})"
        for name, its in (("y", shape), ("z", shape), ("row", shape[-1:])):
            if name in operation.text:
                self.lines.append(f"{name} = {self.numbers(its, low, high)}")
        for name, most in (("mask", 2), ("places", shape[-1])):
            if name in operation.text:
                words = f"whole_numbers({self.draw.randrange(10**6)}, {shape}, {most})"
                self.lines.append(f"{name} = {words} > 0" if name == "mask" else f"{name} = {words}")
        return given, made, bounds

    def innermost(self, operation: Operation, made: str) -> None:
        """``f0``, and the shape of what it returns, which PyTorch is asked for."""
        self.lines.append(f"def f0(v):\n    x = {made}\n    return {operation.text}")
        space = AREA.space(pytorch())
        for line in [*self.lines, f"v = {self.numbers(self.at, *self.bounds)}", "out = f0(v)"]:
            error = attempt(line, space)
            if error is not None:
                raise Unfit(f"{type(error).__name__}: {error}")
        if not isinstance(space["out"], pytorch().Tensor) or not space["out"].is_floating_point():
            raise Unfit("no tensor of numbers")
        self.out = tuple(space["out"].shape)

    def reduce(self, results: int, most: int = FEW) -> None:
        """Make the result small enough: one number (``most`` of 0), or a few."""
        if not self.out or math.prod(self.out) <= most:
            return
        product = f"{{f}}(v) * {self.named('w', self.out, 0.5, 1.5)}"
        if not most:
            self.function(f"lambda v: ({product}).sum()")
            self.out = ()
            return
        if math.prod(self.out) % results == 0:
            self.function(f"lambda v: ({product}).reshape({results}, -1).sum(1)")
        else:
            self.function(f"lambda v: torch.stack([({product}).sum()] * {results})")
        self.out = (results,)

    # -- one transform around the last function -------------------------------------------------------------------------------------
    def grad(self, step: dict[str, Any], last: bool) -> None:
        self.reduce(1, 0)
        self.function("func.grad({f})")
        self.out = self.at

    def jacrev(self, step: dict[str, Any], last: bool) -> None:
        self.reduce(step["results"])
        chunk = self.draw.choice((None, None, 1, 2))
        self.function("func.jacrev({f})" if chunk is None else f"func.jacrev({{f}}, chunk_size={chunk})")
        self.out = (*self.out, *self.at)

    def jacfwd(self, step: dict[str, Any], last: bool) -> None:
        if math.prod(self.at) > FEW:
            raise Unfit("too large for columns of a Jacobian")
        self.reduce(step["results"])
        self.function("func.jacfwd({f})")
        self.out = (*self.out, *self.at)

    def hessian(self, step: dict[str, Any], last: bool) -> None:
        if math.prod(self.at) > FEW:
            raise Unfit("too large for columns of a Jacobian")
        self.reduce(step["results"])
        self.function("func.hessian({f})")
        self.out = (*self.out, *self.at, *self.at)

    def vjp(self, step: dict[str, Any], last: bool) -> None:
        self.function(f"lambda v: func.vjp({{f}}, v)[1]({self.named('c', self.out)})[0]")
        self.out = self.at

    def vmap_vjp(self, step: dict[str, Any], last: bool) -> None:
        self.function(f"lambda v: func.vmap(func.vjp({{f}}, v)[1])({self.named('c', (step['batch'], *self.out))})[0]")
        self.out = (step["batch"], *self.at)

    def jvp(self, step: dict[str, Any], last: bool) -> None:
        pair = f"func.jvp({{f}}, (v,), ({self.named('t', self.at)},))"
        self.function(f"lambda v: {pair}" if last else f"lambda v: (lambda a, b: a + 0.5 * b)(*{pair})")

    def vmap_jvp(self, step: dict[str, Any], last: bool) -> None:
        tangents = self.named("t", (step["batch"], *self.at))
        self.function(f"lambda v: func.vmap(lambda t: func.jvp({{f}}, (v,), (t,))[1])({tangents})")
        self.out = (step["batch"], *self.out)

    def linearize(self, step: dict[str, Any], last: bool) -> None:
        self.function(f"lambda v: func.linearize({{f}}, v)[1]({self.named('t', self.at)})")

    def functional_call(self, step: dict[str, Any], last: bool) -> None:
        scale = "1 + 0.01 * v.mean()" if self.draw.random() < 0.4 else self.named("p", (), 0.5, 1.5)
        self.function(f'lambda v: func.functional_call(Scaled({{f}}), {{"scale": {scale}}}, (v,))')

    def vmap_closed(self, step: dict[str, Any], last: bool) -> None:
        """A batch that the argument is not of."""
        self.function(f"lambda v: func.vmap(lambda s: {{f}}(v) * s)({self.named('s', (step['batch'],), 0.9, 1.1)})")
        self.out = (step["batch"], *self.out)

    def vmap(self, step: dict[str, Any], last: bool, two: bool = False) -> None:
        draw, batch = self.draw, step["batch"]
        in_dim, out_dim = (min(draw.choice((0, 0, 0, 1, -1)), len(shape)) for shape in (self.at, self.out))
        words = f", in_dims=({in_dim}, 0)" if two else f", in_dims={in_dim}" if in_dim else ""
        words += f", out_dims={out_dim}" if out_dim else ""
        if last:  # forward mode around it ends PyTorch's process
            words += draw.choice(("", "", "", ", chunk_size=1", ", chunk_size=2"))
        if two:
            scales = self.named("s", (batch,), 0.9, 1.1)
            self.function(f"lambda v: func.vmap(lambda v, s: {{f}}(v) * s{words})(v, {scales})")
        else:
            self.function(f"func.vmap({{f}}{words})")
        self.at, self.out = _inserted(self.at, in_dim, batch), _inserted(self.out, out_dim, batch)

    def vmap_two(self, step: dict[str, Any], last: bool) -> None:
        self.vmap(step, last, True)


def _inserted(shape: tuple[int, ...], dim: int, size: int) -> tuple[int, ...]:
    place = len(shape) if dim == -1 else dim
    return (*shape[:place], size, *shape[place:])


# -- what comes of it ------------------------------------------------------------------------------------------------------------------
class Transforms(Area):
    """Programs of transforms in transforms."""

    known: Sequence[Known] = (
        Known("PyTorch's tangents are float64 in places where its values are float32", "^dtype$", theirs="float64"),
        Known(
            "PyTorch's derivative is none: loops over its reverse mode, and flambeau, have another one",
            kind="^values of PyTorch alone$",
        ),
        Known("PyTorch refuses or has no derivative, and loops over its reverse mode take too long to compare with", kind="^time$"),
        Known(
            "PyTorch takes the size of an unbatched 0-d result at out_dims=-1 from elsewhere in memory",
            kind="^shape$",
            program="out_dims=-1",
            theirs=r"\d{10,}",
        ),
        Known(
            "of equal elements PyTorch takes any one for the mode, the median and the k-th: float32 has some among thousands",
            kind="^values$",
            program=r"\.(mode|median|nanmedian|kthvalue)\(",
            when=lambda difference: "float32" in difference.program,
        ),
        Known(
            "PyTorch's median along an expanded dimension reads other memory",
            kind="^values( of PyTorch alone)?$",
            program=r"expand\((.|\n)*\.(median|nanmedian)\(",
        ),
        Known(
            "a variance without a degree of freedom has the gradient NaN, inside vmap not as a constant",
            kind="^values( of PyTorch alone)?$",
            program=r"vmap\(",
            when=lambda difference: "inf from" in difference.ours and bool(re.search(r"\.(var|std)\(", difference.program)),
        ),
        Known(
            "whether a copy of an expanded batch of one may be seen as another shape: PyTorch lays it out otherwise than larger batches",
            kind="^exception$",
            ours="view size is not compatible",
            theirs="^computes",
            program=r"(?s)expand\(.*vmap\(",
        ),
        Known(
            "of several values that are scattered to one place any one stays, and each has the place's derivative",
            kind="^values( of PyTorch alone)?$",
            program=r"y\.scatter\(",
        ),
        Known(
            "of equal elements PyTorch's sort takes any order, and so do its derivatives",
            kind="^values$",
            program=r"sort\(",
            when=lambda difference: agrees_when_stable(difference.program),
        ),
    )

    def generate(self, draw: random.Random) -> list[str]:
        while True:
            try:
                return Drawn(draw).lines
            except Unfit:
                continue

    def space(self, torch: ModuleType) -> dict[str, Any]:
        return space_of(torch)

    def compare(self, run: Run) -> Difference | None:
        lines = run.notes.setdefault("lines", [])
        lines.append(run.line)
        ours, theirs = run.errors
        if not run.line.startswith(RESULT):
            return self.compare_exceptions(run) if ours or theirs else None
        if ours is not None:
            return None if theirs is not None else run.differs("exception", described(ours), "computes")
        found = arrays_of(run.ours["result"])
        bound = BOUNDS["float32" if any(array.dtype == np.float32 for array in found) else "float64"]
        distance = math.inf
        if theirs is None:
            wanted = arrays_of(run.theirs["result"])
            for fact in ("shape", "dtype"):
                facts = [[getattr(array, fact) for array in arrays] for arrays in (found, wanted)]
                if facts[0] != facts[1]:
                    return run.differs(fact, *facts)
            distance = distance_of(found, wanted)
            if distance <= bound or self.is_rounding(found, wanted, bound, lines):
                return None
        try:
            return self.compare_with_loops(run, found, bound, distance, lines)
        except TooLong:
            return run.differs("time", "computes", described(theirs) if theirs is not None else f"{distance:.1e} from flambeau")

    def compare_with_loops(self, run: Run, found: list[np.ndarray], bound: float, distance: float, lines: list[str]) -> Difference | None:
        theirs, by_loops = run.errors[1], self.again(lines, loops())
        refuses = theirs is not None or "func.linearize" in "".join(lines)  # whose products PyTorch cuts off the tape
        if by_loops is not None and refuses and not all(np.isfinite(array).all() for array in by_loops):
            by_loops = None  # some derivatives of derivatives are NaN in PyTorch
        if "under_no_grad" in "".join(lines) and "func.linearize" in "".join(lines):  # of which reverse mode has another derivative
            by_loops = self.again(lines, with_products_by_jvp())
        if by_loops is None:
            return None if refuses else run.differs("values", f"{distance:.1e} from PyTorch", "")
        apart = distance_of(found, by_loops)
        if theirs is not None:
            is_same = apart <= bound or "under_no_grad" in "".join(lines)  # of which reverse mode has another derivative
            is_same = is_same or apart <= 8 * self.rounding_of(by_loops, bound, lines)
            return None if is_same else run.differs("values", f"{apart:.1e} from loops", described(theirs))
        if apart <= max(5 * bound, 8 * self.rounding_of(by_loops, bound, lines)):
            return run.differs("values of PyTorch alone", f"{apart:.1e} from loops", f"{distance:.1e} from flambeau")
        return run.differs("values", f"{distance:.1e} from PyTorch, {apart:.1e} from loops", "")

    def is_rounding(self, found: list[np.ndarray], wanted: list[np.ndarray], bound: float, lines: list[str]) -> bool:
        """Whether float32's results are as near to float64's of the same numbers as PyTorch's are."""
        if bound != BOUNDS["float32"]:
            return False
        exact = self.again(lines, None)
        return exact is not None and distance_of(found, exact) <= max(bound, 8 * distance_of(wanted, exact))

    def rounding_of(self, by_loops: list[np.ndarray], bound: float, lines: list[str]) -> float:
        """How far loops in the program's own dtype, over numbers that differ in the last bit, are from those in float64."""
        is_narrow, step = bound == BOUNDS["float32"], 2.0**-22 if bound == BOUNDS["float32"] else 2.0**-51
        found = [self.again(lines, loops(), not is_narrow, nudge) for nudge in (0.0, step, -step)]
        return max((distance_of(near, by_loops) for near in found if near is not None), default=0.0)

    def again(self, lines: list[str], transforms: Any, exact: bool = True, nudge: float = 0.0) -> list[np.ndarray] | None:
        """The result by PyTorch in float64 of the same numbers; with other ``transforms``, where given. None where it refuses."""
        space = space_of(pytorch(), exact, nudge)
        if transforms is not None:
            space.update(func=transforms, F=functions())
        with limited(LONGEST):
            if any(attempt(line, space) is not None for line in lines):
                return None
        return arrays_of(space["result"])


def space_of(torch: Any, exact: bool = False, nudge: float = 0.0) -> dict[str, Any]:
    """The names of a program; ``exact``: float32's numbers as float64; ``nudge``: by what part of itself each number is larger."""

    def numbers(seed: int, shape: tuple[int, ...], low: float, high: float, dtype: str) -> Any:
        array = np.asarray(np.random.default_rng(seed).uniform(low, high, shape)).astype(dtype)
        array += array * array.dtype.type(nudge)
        return torch.from_numpy(array.astype("float64") if exact else array)

    def whole_numbers(seed: int, shape: tuple[int, ...], most: int) -> Any:
        return torch.from_numpy(np.asarray(np.random.default_rng(seed).integers(0, most, shape)))

    def written(x: Any, change: Any) -> Any:
        """A copy of ``x`` after ``change``."""
        return into(x.clone(), change)

    def into(made: Any, change: Any) -> Any:
        change(made)
        return made

    def under_no_grad(make: Any) -> Any:
        with torch.no_grad():
            return make()

    class Scaled(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self, function: Any):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(()))
            self.function = function

        def forward(self, v: Any) -> Any:
            return self.function(v) * self.scale

    functional = importlib.import_module(f"{torch.__name__}.nn.functional")
    helpers = (numbers, whole_numbers, written, into, under_no_grad, Scaled)
    return {"torch": torch, "func": torch.func, "F": functional, **{each.__name__: each for each in helpers}}


class TooLong(BaseException):
    """Loops over PyTorch's reverse mode take too long; no program's own ``except`` sees it."""


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """A context that ends after so many seconds, by ``TooLong``."""

    def end(signum: int, frame: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def agrees_when_stable(program: str) -> bool:
    """Whether the libraries agree on a program once its sorts are stable ones; where PyTorch refuses it, loops over its reverse mode."""
    program = re.sub(r"\.sort\((-?\d)", r".sort(stable=True, dim=\1", program).replace(".msort()", ".sort(dim=0, stable=True)[0]")
    found = []
    for library, transforms in ((flambeau, None), (pytorch(), None), (pytorch(), loops())):
        space = space_of(library) | ({} if transforms is None else {"func": transforms})
        if attempt(program, space) is None:
            found.append(arrays_of(space["result"]))
    bound = BOUNDS["float32" if any(array.dtype == np.float32 for array in found[0]) else "float64"]
    return any(distance_of(found[0], others) <= bound for others in found[1:])


def arrays_of(result: Any) -> list[np.ndarray]:
    return [each.detach().numpy(force=True) for each in (result if isinstance(result, tuple) else (result,))]


def distance_of(got: list[np.ndarray], want: list[np.ndarray]) -> float:
    """The largest difference, of the largest finite element of a result; infinity where one has NaN and the other not."""
    worst = 0.0
    for a, b in zip(got, want, strict=True):
        a, b = a.astype("float64"), b.astype("float64")
        finite = np.isfinite(b)
        if not np.array_equal(finite, np.isfinite(a)) or not np.array_equal(a[~finite], b[~finite], equal_nan=True):
            return math.inf
        if finite.any():
            worst = max(worst, float(np.abs(a - b)[finite].max()) / max(1e-2, float(np.abs(b[finite]).max())))
    return worst


AREA = Transforms()
