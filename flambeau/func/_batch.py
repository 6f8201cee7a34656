"""``vmap``'s interpreter: a value is a tensor with the batch as its first dimension, and a call is one call over all examples.

What an operation does with the further dimension is derived where its declaration says enough:

    element-wise     operands are aligned: the batch in front of the most dimensions that any of them has
    ``dim``          attributes that name dimensions count one on
    a word           ``batch="leading"`` and its like in the declaration (``operation.Op``)
    composites       nothing: their bodies make calls

Others have a rule in ``_batch_rules``; what has none of all these is called example by example and stacked, which is slower and as
right. What an operation does with values only (``item``, results whose shape depends on values) raises.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ..core.calls.dispatch import Call
from ..core.calls.operation import KEEP
from ..core.calls.promotion import common_dtype
from ..core.layout import contiguous_format, strided
from ..core.random.generator import drawn_here, unwatch, watch
from ..core.shape import element_strides
from ..core.tape.history import is_differentiable
from ..core.tensor import Tensor, storage_of
from ..ops import joining
from . import _batch_random
from ._adoption import extent_of, family_of, put_inside, release, take
from ._batch_dimensions import behind, dynamic
from ._levels import Interpreter, NoValues, Wrapped, below, call_entry, flat, highest, invoke, invoke_in_place, mapped, needs_grad

loops: dict[str, int] = {}  # how often an operation was called example by example, by its name; for tests

_ITEM = (
    "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a Tensor, please try to rewrite "
    "what you're doing with other operations."
)
_TRUTH = "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't support that yet."
_UNBATCHED = (
    "vmap: {0}_(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args that has more elements than "
    "`self`. This happened due to `other` being vmapped over but `self` not being vmapped over in a vmap. Please try to use out-of-place "
    "operators instead of {0}_."
)
_DIMS = frozenset(("dim", "dims", "dim0", "dim1", "dim2", "dimension", "axis"))


FRESH = 2  # ``_is_repeated`` of a new tensor that follows no other


class Batch(Interpreter):
    """One ``vmap`` that is running, over ``size`` examples."""

    def __init__(self, size: int, randomness: str = "error"):
        self.size, self.randomness = size, randomness
        self.adopted: list[tuple[Any, type]] = []
        watch(self)
        self.drawn = drawn_here.times  # how often this thread had drawn after the last numbers that this level knows of

    def __exit__(self, *exc_info: object) -> None:
        super().__exit__(*exc_info)
        for reference, kind in self.adopted:
            tensor = reference()
            if tensor is not None and tensor.__class__ is Wrapped and tensor._owner is self:
                tensor._inner = self._first(tensor)
                release(tensor, kind)
        unwatch(self)
        if exc_info[0] is None:
            _batch_random.check_all_seen(self)

    # -- what is the same for all examples ----------------------------------------------------------------------------------------
    # A variable of ``grad`` that is none of the batch's is spread over it all the same (``_reverse.spread``). Programs must not
    # notice: they may look at its values, and write it into new tensors. So what is computed from nothing else is marked.
    repeats = False  # whether any tensor is marked

    def repeated(self, value: Tensor, mark: Any = True) -> Any:
        """A tensor of a lower level as one of this level, the same for all examples."""
        with below(self):
            inner = self.inside(value)
        made = self.wrap(inner if mark is True else inner.clone(memory_format=contiguous_format))
        made._is_repeated = mark
        self.repeats = True
        return made

    def are_repeated(self, values: Any) -> bool:
        """Whether none among ``values`` can differ from example to example."""
        if not self.repeats:
            return False
        for each in values:
            if each.__class__ is Wrapped:
                if each._owner is self and not each._is_repeated:
                    return False
            elif (each.__class__ is list or each.__class__ is tuple) and not self.are_repeated(each):
                return False
        return True

    def marked(self, made: Any) -> Any:
        """``made``, computed from nothing that differs."""
        for each in flat((made,)):
            if self.has(each):
                each._is_repeated = True
        return made

    def leaves_out(self, value: Any) -> bool:
        if value._is_repeated != FRESH:
            return False
        value._inner = self._first(value)
        release(value)
        if value.__class__ is Wrapped:  # of another batch, as new to it
            value._is_repeated = FRESH
        return True

    def _first(self, value: Any) -> Any:
        return value._inner[0] if self.size else value._inner.new_empty(value._array.shape)

    def common(self, value: Any) -> Any:
        """The example that all are equal to; None where they differ."""
        if not value._is_repeated or not self.size:
            return None
        inner = value._inner.detach()
        return value._inner[0] if self.size == 1 or bool(((inner == inner[0]) | (inner != inner)).all()) else None

    def overwritten(self, name: str, target: Any, values: Any) -> None:
        """Before ``values`` are written into ``target``.

        Raises:
            RuntimeError: they differ from example to example, and it is not the batch's.
        """
        if not target._is_repeated or self.are_repeated(values):
            return
        if target._is_repeated == FRESH:
            raise RuntimeError(_UNBATCHED.format(name))
        target._is_repeated = False

    def adopt(self, name: str, target: Any, values: Any) -> None:
        """Before ``values`` are written into ``target``: if that is none of the batch's, it becomes one that all examples are equal to.

        So do all that share its memory.

        Raises:
            RuntimeError: values that differ from example to example.
            NotImplementedError: memory that other levels' tensors show too, or that is read as several dtypes.
        """
        if self.has(target):
            return
        if not self.are_repeated(values):
            raise RuntimeError(_UNBATCHED.format(name))
        self.repeats = True
        if target.__class__ is Wrapped:
            inside: dict[int, Any] = {}
            for member, parent, view in family_of(target):
                inner = put_inside(member, inside, parent, view)
                self._take(member, self.inside(inner).clone(memory_format=contiguous_format) if parent is None else view(parent)._inner)
            return
        sharing, start, stop = extent_of(storage_of(target)._live_aliases(), "vmap", "batch")
        memory = self.inside(target.as_strided((stop - start,), (1,), start)).clone(memory_format=contiguous_format)
        for each in sharing:
            steps = (stop - start, *element_strides(each._array))
            self._take(each, memory.as_strided((self.size, *each._array.shape), steps, each.storage_offset() - start))

    def _take(self, tensor: Any, inner: Any) -> None:
        self.adopted.append((weakref.ref(tensor), tensor.__class__))
        take(tensor, self, inner)
        tensor._is_repeated = FRESH

    # -- values -------------------------------------------------------------------------------------------------------------------
    def wrap(self, inner: Tensor, tangent: Any = None) -> Any:
        """``inner``, whose dimension 0 is the batch."""
        return self._wrapped(inner, None, 1)

    def inside(self, value: Any) -> Any:
        """A tensor with the batch in front, spread over it if it was none of the batch's."""
        return value._inner if value.__class__ is Wrapped and value._owner is self else value.expand(self.size, *value._array.shape)

    def inside_all(self, values: Sequence[Any]) -> list[Any]:
        """``values`` with the batch in front of every tensor, those in lists included."""
        return [
            self.inside(each)
            if isinstance(each, Tensor)
            else [self.inside(one) if isinstance(one, Tensor) else one for one in each]
            if each.__class__ in (list, tuple) and any(isinstance(one, Tensor) for one in each)
            else each
            for each in values
        ]

    def result(self, made: Any) -> Any:
        """Result of an operation on inner tensors, as a value of this level."""
        return mapped(made, self.wrap) if made.__class__ is not Tensor else self._wrapped(made, None, 1)

    def lead(self, inner: Tensor, rank: int) -> Tensor:
        """``inner`` with sizes of 1 behind the batch, so that an example has ``rank`` dimensions."""
        shape = inner._array.shape
        missing = rank + 1 - len(shape)
        return inner.reshape(shape[0], *(1,) * missing, *shape[1:]) if missing > 0 else inner

    def item(self, value: Any) -> Any:
        with below(self):
            if (one := self.common(value)) is not None:
                return one.item()
        raise NoValues(_ITEM)

    def truth(self, value: Any) -> Any:
        with below(self):
            if (one := self.common(value)) is not None:
                return bool(one)
        raise NoValues(_TRUTH)

    def shown(self, value: Any) -> str:
        return f"BatchedTensor(lvl={self.level}, bdim=0, value=\n    {repr(value._inner).replace(chr(10), chr(10) + '    ')}\n)"

    # -- calls ----------------------------------------------------------------------------------------------------------------------
    def call(self, op: Any, values: tuple[Any, ...]) -> Any:
        rule = _chosen.get(op)
        if rule is None:
            rule = _chosen[op] = _rule_for(op)
        made = rule(self, op, *values)
        if made is NotImplemented:
            made = self.looped(op, values)
        return self.marked(made) if self.repeats and self.are_repeated(values) else made

    def aligned(self, op: Any, values: Sequence[Any]) -> list[Any]:
        """Operands of an element-wise operation, the batch in front of the most dimensions that any has."""
        tensors, ranks, dtypes = [], [], set()
        for i in op.positions:
            each = values[i]
            if isinstance(each, Tensor):
                tensors.append(each)
                ranks.append(each._array.ndim)
                dtypes.add(each._array.dtype)
        rank = max(ranks)
        made = list(values)
        if not min(ranks) and op.promotion != KEEP and len(dtypes) > 1:
            dtype = common_dtype(tensors)  # a 0-d tensor must not raise the dtype as one with the batch's dimension does
            made = [each.to(dtype) if isinstance(each, Tensor) else each for each in made]
        for i in op.positions:
            each = made[i]
            if each.__class__ is Wrapped and each._owner is self:
                inner = each._inner
                made[i] = inner if inner._array.ndim > rank else self.lead(inner, rank)
        return made

    def write(self, op: Any, values: tuple[Any, ...]) -> Any:
        target = values[0]
        self.adopt(op.name, target, values)
        self.overwritten(op.name, target, values)
        rank = target._array.ndim
        if op.name == "copy" or op.name == "fill":
            source = values[1]
            if self.has(source) and source._array.ndim <= rank:
                target._inner.copy_(self.lead(source._inner, rank))
                return target
            if not isinstance(source, Tensor) or (not self.has(source) and source._array.ndim <= rank):
                invoke_in_place(op, (target._inner, source, *values[2:]))
                return target
        elif op.name == "zero":
            target._inner.zero_()
            return target
        elif op.name == "masked_fill" and self.has(values[2]):
            pass  # which is no 0-d tensor inside
        elif op.elementwise and max(each._array.ndim for each in flat(values) if isinstance(each, Tensor)) <= rank:
            invoke_in_place(op, self.aligned(op, values))
            return target
        if any(needs_grad(each) for each in flat(values) if isinstance(each, Tensor)):  # it may need what is about to be overwritten
            values = tuple([target.clone() if each is target else each for each in values])
        made = self.call(op, values)
        if made._array.shape != target._array.shape:
            raise RuntimeError(f"output with shape {list(target._array.shape)} doesn't match the broadcast shape {list(made._array.shape)}")
        target._inner.copy_(made._inner)
        return target

    # -- example by example ------------------------------------------------------------------------------------------------------------
    def looped(self, op: Any, values: Sequence[Any]) -> Any:
        """A primitive, example by example."""
        return self.examples(op.name, lambda *each: invoke(op, each), values)

    def composite(self, call: Call) -> Any:
        entry, before = call.op, drawn_here.times
        made = self.examples(entry.name, lambda *each: call_entry(entry, each), call.values)
        if drawn_here.times != before:
            _batch_random.refuse(self)
            if self.randomness == "same":
                raise RuntimeError(_batch_random._SAME)
            self.drawn = drawn_here.times
        return made

    def examples(self, name: str, function: Callable[..., Any], values: Sequence[Any]) -> Any:
        """``function(*values)`` for each example, stacked.

        Raises:
            RuntimeError: the results' shapes differ.
        """
        loops[name] = loops.get(name, 0) + 1

        def example(value: Any, i: int) -> Any:
            if value.__class__ is list or value.__class__ is tuple:
                return type(value)([example(each, i) for each in value])
            if not self.has(value):
                return value
            return value._inner[i] if self.size else value._inner.new_ones(value._array.shape)

        found = [function(*[example(each, i) for each in values]) for i in range(self.size or 1)]
        if not self.are_repeated(values):
            return self.stacked(name, found)
        is_plain = isinstance(found[0], (bool, int, float)) and all(each == found[0] for each in found)
        return found[0] if is_plain else self.marked(self.stacked(name, found))

    def stacked(self, name: str, found: list[Any]) -> Any:
        """Results of one call for each example, as this level's."""
        first = found[0]
        if isinstance(first, (tuple, list)):
            parts = [self.stacked(name, list(each)) for each in zip(*found, strict=True)]
            if isinstance(first, list) or first.__class__ is tuple:
                return type(first)(parts)
            return type(first)(parts) if hasattr(first, "n_fields") else type(first)(*parts)
        if first is None:
            return None
        if not isinstance(first, Tensor):
            raise NoValues(f"vmap: {name} returns a {type(first).__name__}, which may differ from example to example")
        if any(each._array.shape != first._array.shape for each in found):
            raise dynamic(name)
        stacked = joining.stack(found)
        return self.wrap(stacked if self.size else stacked[:0])

    # -- new tensors -------------------------------------------------------------------------------------------------------------------
    def factory(self, call: Call) -> Any:
        from . import _batch_rules

        if call.op.draws:
            return _batch_random.factory(self, call)
        made = _batch_rules.factory(self, call)
        if not self.repeats or call.out is not None:
            return made
        if made is not NotImplemented:
            return self.marked(made) if self.are_repeated(call.values) else made
        return self._fresh(call)

    def _fresh(self, call: Call) -> Any:
        """A new tensor into which variables may be written that are spread over the batch; NotImplemented where none can be."""
        if call.op.model is not None or highest(call.operands) is not None:
            return NotImplemented
        made = call_entry(call.op, call.values)
        is_open = isinstance(made, Tensor) and made.layout is strided and is_differentiable(made._array) and not made.requires_grad
        return self.repeated(made, FRESH) if is_open else made

    def composite_rule(self, call: Call) -> Any:
        from . import _batch_rules

        rule = _batch_rules.batching_whole.of(call.op)
        if rule is None:
            return _batch_random.composite(self, call)
        made = rule(self, call)
        return made if made is NotImplemented or not self.are_repeated(call.values) else self.marked(made)

    def drew(self, call: Call) -> Any:
        """After a composite's body: its result anew, example by example, where it drew numbers that are to be different; or None."""
        if self.randomness == "same" or drawn_here.times == self.drawn:
            return None
        _batch_random.refuse(self)
        with below(self):
            return self.composite(call)

    # -- indexing ----------------------------------------------------------------------------------------------------------------------
    def getitem(self, tensor: Any, key: Any) -> Any:
        from . import _batch_index

        made = _batch_index.getitem(self, tensor, key)
        return made if made is NotImplemented or not self.are_repeated((tensor, key)) else self.marked(made)

    def setitem(self, tensor: Any, key: Any, value: Any) -> Any:
        from . import _batch_index

        self.adopt("index_put", tensor, (key, value))
        self.overwritten("index_put", tensor, (tensor, key, value))
        return _batch_index.setitem(self, tensor, key, value)


# -- rules that follow from a declaration ---------------------------------------------------------------------------------
_chosen: dict[Any, Callable[..., Any]] = {}


def _rule_for(op: Any) -> Callable[..., Any]:
    """Function that calls an operation over all examples."""
    from . import _batch_index, _batch_layers, _batch_rules

    del _batch_index  # which declares rules
    rule = _batch_rules.batching.of(op)
    if rule is not None:
        return rule
    if op.elementwise:
        return _elementwise
    if op.batch == "folded":
        return _folded
    if op.batch in ("along", "along all", "along flat"):
        return _batch_rules.along
    by_word: dict[Any, Callable[..., Any]] = {"product": _batch_rules.product, "sized": _batch_rules.sized}
    by_word |= {"reduced": _batch_layers.reduced, "rows": _batch_layers.rows}
    if op.batch in by_word:
        return by_word[op.batch]
    if op.batch is not None:
        return _leading
    if any(p.kind == "attr" and p.name in _DIMS for p in op.params):
        return _shifted
    return _looped


def _looped(batch: Batch, op: Any, *values: Any) -> Any:
    return NotImplemented


def _elementwise(batch: Batch, op: Any, *values: Any) -> Any:
    return batch.result(invoke(op, batch.aligned(op, values)))


def _leading(batch: Batch, op: Any, *values: Any) -> Any:
    """The last dimensions of each operand are one problem (``op.batch`` says how many), those in front are batches, which broadcast."""
    problem = op.batch if op.batch.__class__ is tuple else (op.batch,) * len(op.positions)
    ranks = [values[i]._array.ndim - n if isinstance(values[i], Tensor) else 0 for i, n in zip(op.positions, problem, strict=True)]
    if min(ranks) < 0 or (op.draws and values[op.names.index("dropout")] is not None):  # which is of one example's shape
        return NotImplemented
    most = max(ranks)
    made = list(values)
    for i, n in zip(op.positions, problem, strict=True):
        if isinstance(values[i], Tensor):
            made[i] = batch.lead(batch.inside(values[i]), most + n)
    return batch.result(invoke(op, made))


def _folded(batch: Batch, op: Any, *values: Any) -> Any:
    """The first dimension of all operands is a batch, which takes the examples up."""
    made = list(values)
    rows = None
    for i in op.positions:
        if values[i] is None:
            continue
        inner = batch.inside(values[i])
        shape = inner._array.shape
        if len(shape) < 2 or (rows is not None and shape[1] != rows):
            return NotImplemented
        rows = shape[1]
        made[i] = inner.reshape(shape[0] * rows, *shape[2:])
    return mapped(invoke(op, made), lambda each: batch.wrap(each.reshape(batch.size, rows, *each._array.shape[1:])))


def _shifted(batch: Batch, op: Any, *values: Any) -> Any:
    """Attributes that name dimensions count one on; NotImplemented where None does not say which."""
    tensors = [each for each in flat(values) if isinstance(each, Tensor)]
    ranks = {each._array.ndim for each in tensors}
    if 0 in ranks or len(ranks) > 1:
        return NotImplemented
    rank = tensors[0]._array.ndim
    made = batch.inside_all(values)
    for i, param in enumerate(op.params):
        if param.kind != "attr" or param.name not in _DIMS:
            continue
        dims = behind(values[i], rank + (op.name in _ADD_ONE))
        if dims is None:
            return NotImplemented
        made[i] = dims
    return batch.result(invoke(op, made))


_ADD_ONE = frozenset(("unsqueeze", "stack", "diag_embed"))  # where dim counts in the result, which has one dimension more
