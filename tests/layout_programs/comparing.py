"""Running a program three ways, and what differs."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import flambeau
from flambeau.core.arrays import native
from tests.helpers.oracle import HAS_ORACLE, pytorch

from .drawing import Bound, Program, numpy_dtype
from .layouts import Arena, random_layout
from .operations import draw_program

MOST_OPERANDS = 6
_NONE = np.empty(0)  # a gradient that there is not
_arenas: list[Arena] = []


def _base(library: Any, values: np.ndarray) -> Any:
    if values.dtype == numpy_dtype("bfloat16") and library is not flambeau:
        return library.from_numpy(values.view(np.int16)).view(library.bfloat16)
    return library.from_numpy(values)


def _array(library: Any, tensor: Any) -> np.ndarray:
    tensor = tensor.detach()
    if library is flambeau:
        return tensor._array
    if tensor.dtype == library.bfloat16:
        return tensor.contiguous().view(library.int16).numpy().view(numpy_dtype("bfloat16"))
    return tensor.numpy()


def _results(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


class Run:
    """A program's operands, of which every run gets fresh copies, and the cotangents, which are drawn when results are known."""

    def __init__(self, program: Program, seed: int):
        self.program, self.seed = program, seed
        self.bases = [operand.base() for operand in program.operands]
        self.cotangents: list[Any] = []
        while len(_arenas) < MOST_OPERANDS + 3:
            _arenas.append(Arena())

    def _placed(self, library: Any, guarded: bool) -> list[np.ndarray]:
        if library is not flambeau:  # PyTorch's transposing copies end the process where elements are not aligned
            return [base.copy() for base in self.bases]
        if not guarded:
            return [_misaligned(base, operand.layout.shift) for base, operand in zip(self.bases, self.program.operands, strict=True)]
        given = zip(_arenas, self.bases, self.program.operands, strict=False)
        return [arena.place(base, operand.layout.shift, operand.at_end) for arena, base, operand in given]

    def __call__(self, library: Any, guarded: bool) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Results and gradients."""
        program = self.program
        bases, tensors, leaves = [], [], []
        for operand, values in zip(program.operands, self._placed(library, guarded), strict=True):
            base = _base(library, values)
            if operand.needs_grad and not operand.is_leaf:
                leaves.append(base.requires_grad_())
            tensor = operand.layout.of(base)
            if operand.needs_grad and operand.is_leaf:
                tensor = tensor.detach().requires_grad_()
                leaves.append(tensor)
            bases.append(base)
            tensors.append(tensor)
        is_plain = program.plain and library is not flambeau
        if is_plain:
            tensors = [tensor.contiguous() for tensor in tensors]
        results = _results(program.call(library, *tensors))
        outputs = [result for result in results if result.requires_grad]
        grads = []
        if outputs and leaves:
            while len(self.cotangents) < len(outputs):
                self.cotangents.append(self._cotangent(outputs[len(self.cotangents)]))
            given = []
            for i, (layout, values) in enumerate(self.cotangents):
                placed = _arenas[MOST_OPERANDS + i].place(values, layout.shift, bool(self.seed & 1)) if guarded else values.copy()
                cotangent = layout.of(_base(library, placed))
                given.append(cotangent.contiguous() if is_plain else cotangent)
            grads = library.autograd.grad(outputs, leaves, given, allow_unused=True)
        if program.inplace:
            results = [bases[0], *results]
        return [_array(library, result) for result in results], [_NONE if grad is None else _array(library, grad) for grad in grads]

    def _cotangent(self, output: Any) -> tuple[Any, np.ndarray]:
        from random import Random

        from .drawing import VALUES

        rng = Random(self.seed + len(self.cotangents))
        layout = random_layout(rng, tuple(output.shape))
        start = rng.randrange(1 << 19)
        name = str(output.dtype).removeprefix("torch.")
        return layout, VALUES["whole"][start : start + layout.size].astype(numpy_dtype(name))


def _misaligned(values: np.ndarray, shift: int) -> np.ndarray:
    """A copy that is off by as many bytes."""
    memory = np.empty(values.nbytes + shift, np.uint8)
    array = np.ndarray(values.shape, values.dtype, memory, shift)
    array[...] = values
    return array


def _apart(got: list[np.ndarray], want: list[np.ndarray], bounds: Bound | tuple[Bound, ...], what: str) -> list[str]:
    """What is wrong with results."""
    if len(got) != len(want):
        return [f"{len(got)} {what}s instead of {len(want)}"]
    wrong = []
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        bound = bounds if isinstance(bounds, Bound) else bounds[i]
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            wrong.append(f"{what} {i}: {a.dtype} {a.shape} instead of {b.dtype} {b.shape}")
            continue
        if a.tobytes() == b.tobytes():
            continue
        with np.errstate(all="ignore"):
            x, y = (array.astype(np.complex128 if a.dtype.kind == "c" else np.float64) for array in (a, b))
            far = np.abs(x - y)
            allowed = bound.of(y, a.dtype.name)
            bad = ~((x == y) | (far <= allowed) | (np.isnan(x) & np.isnan(y)))
        if bad.any():
            at = tuple(int(n) for n in np.argwhere(bad)[0])
            most = np.broadcast_to(allowed, far.shape)[at] if far.shape else allowed
            wrong.append(f"{what} {i}: {int(bad.sum())} of {bad.size} differ, first at {at}: {x[at]!r} for {y[at]!r}, allowed {most:.3g}")
    return wrong


def _attempt(run: Run, library: Any, guarded: bool = False) -> Any:
    """Results and gradients, or the exception."""
    try:
        return run(library, guarded)
    except Exception as error:
        return error


# On processors with bfloat16 units PyTorch hands gelu to oneDNN, which has no descriptor for the strides of some views of sizes of 1.
ONEDNN_REFUSAL = "could not construct a memory descriptor using strides"


def differences(seed: int) -> list[str]:
    """What is wrong with the program of a seed: nothing, or lines that say it."""
    program = draw_program(seed)
    run = Run(program, seed)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        got = _attempt(run, flambeau, True)
        with native.disabled():
            sides = {"reference": (_attempt(run, flambeau), 0)}
        if HAS_ORACLE:
            outcome = _attempt(run, pytorch())
            if not isinstance(outcome, RuntimeError) or ONEDNN_REFUSAL not in str(outcome):
                sides["PyTorch"] = (outcome, program.own)
    wrong = []
    for side, (want, left_out) in sides.items():
        if isinstance(got, Exception) or isinstance(want, Exception):
            wrong.append(f"{side}: {_told(got)} instead of {_told(want)}")
            continue
        end = len(got[0]) - left_out
        lines = _apart(got[0][:end], want[0][:end], program.bound, "result")
        lines += _apart(got[1], want[1], program.grad_bound or program.bound, "gradient")
        wrong += [f"{side}: {line}" for line in lines]
    return [f"program {seed}: {program}", *[f"    {line}" for line in wrong]] if wrong else []


def _told(outcome: Any) -> str:
    return repr(outcome) if isinstance(outcome, Exception) else "results"
