"""``linearize``: forward mode that is recorded, so that it can be done again with other tangents.

A function runs once with tangents that a ``Recorder`` notes the calls of: its level lies just below that of the tangents' ``Dual``.

    x ----> Dual(value, tangent) ----> f ----> Dual(value, tangent)
                        |                                  |
               Recorder: place 0   step, step, step ...   place n

A step is a function with its arguments, places among them; everything else is what the run found, and stays. ``push`` does the steps. Each
is a public call, so that other transforms may stand around. Tangents that a function writes in place are written again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..core.calls.dispatch import Call
from ..core.random.generator import drawn_here, unwatch, watch
from ..core.state import thread, tick, unwound
from ..core.tensor import Tensor
from ..ops import joining
from ..utils._pytree import tree_flatten, tree_unflatten
from ._batch import Batch
from ._dual import Dual
from ._jvp import jvp
from ._levels import Interpreter, below, call_entry, core_of, flat, highest, invoke, invoke_in_place, mapped
from ._reverse import Recording, batches_in, gradients, over_batches_of, spread, wrapped_at, zeros_of


class Place:
    """Place from which a step takes an argument, or in which it leaves a result, in each run."""

    __slots__ = ()


class Step(NamedTuple):
    """A call: ``function(*arguments)``, and its results with places for the tensors; ``time``: when it was made first."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    results: Any
    time: int


class Recorder(Interpreter):
    """The calls made with tangents.

    Args:
        copies: whether steps keep copies of the values that they were made with, because the function overwrites some.

    Attributes:
        differentiates: whether gradients of tangents are among the steps. batches: that ran outside; variables are spread over them.
    """

    records = True

    def __init__(self, copies: bool):
        self.copies = copies
        self.steps: list[Step] = []
        self.differentiates = False
        self.batches = [each for each in thread.levels if each.__class__ is Batch]

    def wrap(self, inner: Tensor, tangent: Any = None) -> Any:
        made = self._wrapped(inner, None, 0)
        made._place = Place()
        return made

    def step(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """``function(*arguments)``, noted; its results are of this level."""
        made = function(*[mapped(each, self._inside) for each in arguments])
        results = mapped(made, lambda each: self.wrap(each) if isinstance(each, Tensor) else each)
        self.steps.append(Step(function, tuple([mapped(each, self._kept) for each in arguments]), mapped(results, self._kept), tick()))
        return results

    def _inside(self, value: Any) -> Any:
        return value._inner if self.has(value) else value

    def _kept(self, value: Any) -> Any:
        if self.has(value):
            return value._place
        return value.clone() if self.copies and isinstance(value, Tensor) else value

    def constant(self, tensor: Any) -> Any:
        """A new tensor that tangents are written into, which each run gets anew."""
        return self.step(_fresh, tensor)

    # -- calls -------------------------------------------------------------------------------------------------------------------------
    def call(self, op: Any, values: tuple[Any, ...]) -> Any:
        return self.step(lambda *each: invoke(op, each), *values)

    def write(self, op: Any, values: tuple[Any, ...]) -> Any:
        self._check(values[0])
        self.step(lambda *each: _nothing(invoke_in_place(op, each)), *values)
        return values[0]

    def write_view(self, op: Any, values: tuple[Any, ...]) -> Any:
        made, target = self.call(op, values), values[0]
        target._inner, target._array, target._place = made._inner, made._array, made._place
        return target

    def composite(self, call: Call) -> Any:
        return self.step(lambda *each: call_entry(call.op, each), *call.values)

    def factory(self, call: Call) -> Any:
        if not any(self.has(each) for each in flat(call.values)):
            return NotImplemented
        return self.step(lambda *each: call_entry(call.op, each), *call.values)

    def getitem(self, tensor: Any, key: Any) -> Any:
        return self.step(lambda tensor, key: tensor[key], tensor, key)

    def setitem(self, tensor: Any, key: Any, value: Any) -> None:
        self._check(tensor)
        self.step(lambda tensor, key, value: _nothing(tensor.__setitem__(key, value)), tensor, key, value)

    def rewrapped(self, value: Any, function: Callable[[Tensor], Tensor]) -> Any:
        return self.step(function, value)

    def gradients(self, outs: Sequence[Any], inputs: Sequence[Any], seeds: Sequence[Any], sizes: tuple[int, ...] = ()) -> Any:
        """Gradients of tangents, at variables of the function's own.

        Seeds of higher levels (rows of a Jacobian) have those taken off, and the gradients get them again, which are linear in the seeds.

        Args:
            sizes: of the batches that were taken off, which are the seeds' first dimensions.
        """
        above = highest(seeds)
        if above is None or above.level <= self.level:
            self.differentiates = True
            with below(self):
                return self.step(lambda outs, seeds: _over_batches(outs, inputs, seeds, sizes), list(outs), list(seeds))
        if above.__class__ is Batch:
            inner = [None if each is None else above.inside(each) for each in seeds]
            found = self.gradients(outs, inputs, inner, (above.size, *sizes))
            return [None if each is None else above.wrap(each) for each in found]
        found = self.gradients(outs, inputs, [above.primal(each) for each in seeds], sizes)
        zeros_or = [None if each is None else zeros_of(each) if (t := above.tangent(each)) is None else t for each in seeds]
        slopes = self.gradients(outs, inputs, zeros_or, sizes)
        return [None if each is None else above.wrap(each, slope) for each, slope in zip(found, slopes, strict=True)]

    def applied(self, cls: Any, args: tuple[Any, ...]) -> Any:
        """``cls.apply(*args)`` of a user's ``Function``."""
        return self.step(lambda *each: cls.apply(*each), *args)

    def _check(self, target: Any) -> None:
        if not self.has(target):
            raise NotImplementedError("linearize: a tangent is written in place into a tensor that has none")

    # -- values ------------------------------------------------------------------------------------------------------------------------
    def item(self, value: Any) -> Any:
        raise RuntimeError("linearize: the values of a tangent were asked for, which are not known before the product is taken")

    def shown(self, value: Any) -> str:
        return f"Tangent(lvl={self.level}, shape={list(value._array.shape)}, dtype={value.dtype})"

    # -- again -------------------------------------------------------------------------------------------------------------------------
    def is_stale(self) -> bool:
        """Whether anything that a step was made with was overwritten after it."""
        return not self.copies and any(_changed(each) > step.time for step in self.steps for each in flat(step.arguments))

    def run(self, found: dict[Place, Any]) -> None:
        """Do all steps with what is ``found`` at places by now, the tangents, and put there what comes of them."""
        batches = batches_in(found.values())
        if self.differentiates and (more := [each for each in batches if each not in self.batches]):
            self._run_each(found, more[-1])
            return

        def value_of(kept: Any) -> Any:
            return found[kept] if kept.__class__ is Place else kept

        for step in self.steps:
            arguments = [mapped(each, value_of) for each in step.arguments]
            made = _fresh(spread(arguments[0], batches)) if step.function is _fresh else step.function(*arguments)
            _note(found, step.results, made)

    def _run_each(self, found: dict[Place, Any], batch: Batch) -> None:
        """``run`` example by example: there is one variable for all of them."""
        runs: list[dict[Place, Any]] = []
        for i in range(batch.size):
            runs.append({place: _example(batch, each, i) for place, each in found.items()})
            self.run(runs[-1])
        found.update({place: wrapped_at(batch, joining.stack([run[place] for run in runs])) for place in runs[0]})


def _over_batches(outs: Sequence[Any], inputs: Sequence[Any], seeds: Sequence[Any], sizes: tuple[int, ...]) -> list[Any]:
    """Gradients for seeds whose first dimensions are batches of these sizes; those of the gradients, too."""
    if not sizes:
        return gradients(outs, inputs, seeds, record=True)  # products may be differentiated
    with Batch(sizes[0]) as batch:
        found = _over_batches(outs, inputs, [None if each is None else batch.wrap(each) for each in seeds], sizes[1:])
        return [None if each is None else batch.inside(each) for each in found]


def _nothing(made: Any) -> None:
    """In place of a result that is known already."""


def _example(batch: Batch, value: Any, i: int) -> Any:
    """Example ``i`` of a batch, of tensors that may be wrapped by higher levels."""
    if batch not in batches_in([value]):
        return value
    if value._owner is batch:
        return value._inner[i]
    return value._owner.rewrapped(value, lambda each: _example(batch, each, i))


def _fresh(tensor: Any) -> Any:
    return tensor.clone()


def _changed(kept: Any) -> int:
    """Time of the last write to a tensor's memory."""
    kept = core_of(kept)
    return 0 if not isinstance(kept, Tensor) or kept._storage is None else kept._storage.changed


def _note(found: dict[Place, Any], results: Any, made: Any) -> None:
    """Put the tensors of ``made`` where ``results`` has places."""
    if results.__class__ is Place:
        found[results] = made
    elif isinstance(results, (list, tuple)):
        for place, each in zip(results, made, strict=True):
            _note(found, place, each)


# -- linearize -------------------------------------------------------------------------------------------------------------------------
class Recorded(NamedTuple):
    """A function that has run.

    Attributes:
        given: the places of the arguments' tangents. outs, spec: what it returned, values only, and the tree of that.
        places: where the tangents of ``outs`` stand; None where there is none.
    """

    recorder: Recorder
    given: list[Place]
    outs: list[Any]
    spec: Any
    places: list[Place | None]


def _recorded(func: Callable[..., Any], leaves: Sequence[Any], spec: Any, recorder: Recorder) -> Recorded:
    with recorder:
        tangents = [recorder.wrap(zeros_of(each)) for each in leaves]
        with Dual() as dual:
            for each in leaves:
                dual.lend(each)
            output = func(*tree_unflatten([wrapped_at(dual, x, t) for x, t in zip(leaves, tangents, strict=True)], spec))
            results, output_spec = tree_flatten(output)
            outs = [dual.primal(each) for each in results]
            slopes = [dual.tangent(each) for each in results]  # here, for what took its tangent in place is plain again afterwards
    places = [each._place if recorder.has(each) else None for each in slopes]
    return Recorded(recorder, [each._place for each in tangents], outs, output_spec, places)


@unwound
def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The value of ``func`` at ``primals``, and its linear approximation there: a function that multiplies the Jacobian with vectors.

    ``func`` is run once, by forward mode, and each product repeats what was done with the tangents, where ``jvp`` runs ``func`` again. A
    function that draws random numbers is run again for each product, and draws new ones, as in PyTorch; one that overwrites what its
    derivative needs is run once more to be recorded.

    Args:
        func: takes trees of tensors and returns a tree. What is no tensor there, products return as it is.
        primals: its arguments.
    Returns:
        ``(output, jvp_fn)``. ``jvp_fn`` takes trees like ``primals``, and returns a tree like the output.
    Raises:
        RuntimeError: from ``jvp_fn``: other trees, shapes or dtypes than the primals'.
        ValueError: a leaf of the primals is no floating point or complex tensor.
        NotImplementedError: an operation without derivative.
    Example:
        >>> value, push = torch.func.linearize(lambda x: x**2, torch.tensor([1.0, 2.0]))
        >>> push(torch.tensor([1.0, 10.0]))
        tensor([ 2., 40.])

    Source: torch.func.linearize.
    """
    from ._jacobians import check_primal

    leaves, spec = tree_flatten(primals)
    for each in leaves:
        check_primal(each)
    watch(recorder := Recorder(copies=False))
    before = drawn_here.times
    try:
        recorded = _recorded(func, leaves, spec, recorder)
        is_random = drawn_here.times != before
    finally:
        unwatch(recorder)
    output = tree_unflatten(recorded.outs, recorded.spec)
    if is_random:
        func(*primals)  # PyTorch runs it twice, and so the generator goes on
    elif recorder.is_stale():
        recorded = _recorded(func, leaves, spec, Recorder(copies=True))

    def push(*tangents: Any) -> Any:
        given, given_spec = tree_flatten(tangents)
        _check_tangents(given, given_spec, leaves, spec)
        if is_random:
            return jvp(func, primals, tangents)[1]
        return tree_unflatten(_products(recorded, given, leaves), recorded.spec)

    return output, push


@unwound
def _products(recorded: Recorded, given: Sequence[Any], leaves: Sequence[Any]) -> list[Any]:
    with Recording() as recording:
        own = [over_batches_of(x, t).clone() for t, x in zip(given, leaves, strict=True)]  # which the function may write into
        recorded.recorder.run(found := dict(zip(recorded.given, own, strict=True)))
    return [
        recording.result(found[place]) if place is not None else zeros_of(value.detach()) if isinstance(value, Tensor) else value
        for value, place in zip(recorded.outs, recorded.places, strict=True)
    ]


def _check_tangents(given: Sequence[Any], given_spec: Any, leaves: Sequence[Any], spec: Any) -> None:
    if given_spec != spec:
        raise RuntimeError(f"Expected the tangents {given_spec} to have the same argspec as the primals {spec}")
    for i, (tangent, primal) in enumerate(zip(given, leaves, strict=True)):
        for what in ("shape", "dtype"):
            if getattr(tangent, what) != getattr(primal, what):
                raise RuntimeError(
                    f"tangent:{i} with {what} {getattr(tangent, what)} in flattened pytree doesn't match the {what} "
                    f"{getattr(primal, what)} of the corresponding primal."
                )
