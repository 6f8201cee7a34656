"""Forms of calls whose result shows the memory of their first argument: its strides, and the storage's list of who shows it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...core import state
from ...core.storage import UntypedStorage
from ...core.tensor import Tensor, ViewMeta
from ..compiler.language import Value
from .code import Code
from .forms import Form
from .interpreter import FLAGS

MOST_DIMS = 32  # PyTorch has no limit and NumPy 64: views of more are the Python wrapper's
_NO_GRAD, INFERENCE_WORD = "no_grad", "inference"  # words by which views are marked


def require_usual_storage(k: Form, x: Value) -> None:
    """Go on if the list of who shows a tensor's memory is there, or can be made here."""
    have, none = k.slot(x, Tensor, "_storage"), k.object(None)

    def is_usual() -> Value:
        aliases = k.slot(have, UntypedStorage, "_aliases")
        fresh = k.same(aliases, k.object(())) & k.same(k.slot(have, UntypedStorage, "_room"), k.object(32))
        return fresh | (k.same(k.type_of(aliases), k.object(list)) & (k.field(aliases, 16, "i64") > 0))

    k.require(k.when(k.same(have, none), lambda: k.const(True, "b1"), is_usual))


def _shared_storage(k: Form, x: Value) -> Value:
    """The storage (owned) of a tensor that is about to get a view, with its list of aliases: as ``tensor.storage_of`` makes it."""
    have, at = k.slot(x, Tensor, "_storage"), k.interpreter.slot(UntypedStorage, "_aliases")
    storage = k.when(k.same(have, k.object(None)), lambda: k.new_storage(x, k.slot(x, Tensor, "_array")), lambda: have)
    k.own(k.incref(storage))

    def first() -> None:
        made = k.own(k.call_c("PyList_New", "ptr", k.i64(1)))
        k.check(k.exists(made))
        reference = k.call_c("PyWeakref_NewRef", "ptr", x, k.null)
        k.check(k.exists(reference))
        k.store(reference, k.field(made, k.interpreter.list_items), 0, "ptr")
        before = k.field(storage, at)
        k.put(k.disown(made), storage, at)
        k.call_c("Py_DecRef", None, before)
        k.put(k.incref(k.object(31)), storage, k.interpreter.slot(UntypedStorage, "_room"))
        k.call_c("Py_DecRef", None, k.object(32))  # which the slot held

    k.when(k.same(k.field(storage, at), k.object(())), first)
    return storage


def _add_alias(k: Form, storage: Value, made: Value) -> None:
    """Let the storage know a view: in the place of the last one if that is dead, else behind it."""
    reference = k.own(k.call_c("PyWeakref_NewRef", "ptr", made, k.null))
    k.check(k.exists(reference))
    aliases = k.slot(storage, UntypedStorage, "_aliases")  # now: what was allocated may have run Python code
    size = k.field(aliases, 16, "i64")

    def last() -> Value:
        return k.load(k.field(aliases, k.interpreter.list_items), size - 1, "ptr")

    def is_dead() -> Value:
        return k.same(k.field(last(), k.interpreter.referent), k.object(None))

    dead = k.when(size > 0, is_dead, lambda: k.const(False, "b1"))

    def replace() -> None:
        before = last()
        k.store(k.incref(reference), k.field(aliases, k.interpreter.list_items), size - 1, "ptr")
        k.call_c("Py_DecRef", None, before)

    def append() -> None:
        k.check(k.call_c("PyList_Append", "i32", aliases, reference).eq(0))
        at = k.interpreter.slot(UntypedStorage, "_room")
        before = k.field(storage, at)
        room = k.call_c("PyLong_AsLong", "i64", before) - 1
        number = k.call_c("PyLong_FromSsize_t", "ptr", room)
        k.check(k.exists(number))
        k.put(number, storage, at)
        k.call_c("Py_DecRef", None, before)

        def prune() -> None:
            vector = k.scratch(1, "ptr")
            k.store(storage, vector, 0, "ptr")
            answer = k.call_c("PyObject_Vectorcall", "ptr", k.object(UntypedStorage._prune), vector, k.i64(1), k.null)
            k.check(k.exists(answer))
            k.call_c("Py_DecRef", None, answer)

        k.when(room <= 0, prune)

    k.when(dead, replace, append)
    k.disown(reference)
    k.call_c("Py_DecRef", None, reference)


def meta_word(k: Form, x: Value) -> Value:
    """The word by which ``x`` is marked as a view, or null."""
    shown = k.slot(x, Tensor, "_view_of")
    return k.when(k.is_exactly(shown, ViewMeta), lambda: k.slot(shown, ViewMeta, "creation_meta"), lambda: k.null)


def _marking(k: Form, x: Value) -> tuple[Value, Value]:
    """Whether this thread records, and the word by which it marks views of ``x``, or null.

    Without recording, views of what requires grad are the wrapper's, and those of tensors of inference mode have no word.
    """

    def ask() -> tuple[Value, Value]:
        grad, have = k.grad_word(), meta_word(k, x)
        on, own = k.same(grad, k.object(True)), k.is_inference(x)
        no_grad, inference = k.object(_NO_GRAD), k.object(INFERENCE_WORD)
        was_inferred = k.same(have, inference)
        usual = ~k.exists(have) | (~own & (k.same(have, no_grad) | was_inferred))
        k.require(on | (usual & ~k.requires_grad(x, may_be_inference=True)))
        word = k.pick(was_inferred | k.same(grad, k.object(state.INFERENCE)), inference, no_grad)
        return on, k.pick(on | own, k.null, word)

    return k.when(k.is_empty(state.without_grad), lambda: (k.const(True, "b1"), k.null), ask)


def view_around(k: Form, r: Value, x: Value, word: Value) -> Value:
    """A tensor (owned) around array ``r`` (owned), a view of ``x``, marked by a word if that is not null; its history is still empty."""
    storage, marked = _shared_storage(k, x), k.exists(word)
    mark = k.own(k.when(marked, lambda: k.new(k.object(ViewMeta)), lambda: k.null))
    made = k.new(k.object(Tensor), Tensor)
    k.disown(r)
    shown = k.slot(x, Tensor, "_view_of")
    is_mark = k.is_exactly(shown, ViewMeta)

    def fill() -> Value:
        root = k.when(is_mark, lambda: k.slot(shown, ViewMeta, "root"), lambda: k.pick(k.same(shown, k.object(None)), x, shown))
        k.fill(mark, ViewMeta, root=k.incref(root), creation_meta=k.incref(word))
        return mark

    view_of = k.when(marked, fill, lambda: k.incref(k.pick(k.same(shown, k.object(None)), x, shown)))
    k.disown(mark)
    k.fill(made, Tensor, _array=r, _storage=k.disown(storage), _view_of=view_of)
    k.own(made)
    _add_alias(k, storage, made)
    return made


def _answer_view(k: Form, r: Value, x: Value, bits: Value, word: Value) -> None:
    """Return array ``r`` (owned) as a view of ``x``, recorded, or marked by a word."""
    k.answer(view_around(k, r, x, word), r, bits, k.is_inference(x))


def unrecorded_view(k: Form, r: Value, x: Value) -> Value:
    """A tensor (owned) around array ``r`` (owned), a view of ``x`` made in a backward pass."""
    k.own(k.incref(x))
    made = view_around(k, r, x, k.object(_NO_GRAD))
    k.fill(made, Tensor, _node=k.incref(k.object(None)), _requires_grad=k.incref(k.object(False)))
    k.drop(x)
    return made


def view(code: Code) -> str:
    """A view that NumPy has made, as a tensor, recorded: of its array and the operation's arguments, the first of which it shows."""
    k = Form(code, "view")
    bits = k.needed()
    r, x = k.argument(0), k.argument(1)
    k.require(k.is_exactly(r, np.ndarray))
    _, word = _marking(k, x)
    require_usual_storage(k, x)
    _answer_view(k, k.own(k.incref(r)), x, bits, word)
    return k.finish()


class View(Form):
    """A form that finds out the geometry of a view itself: dims and strides are written down, and ``show`` makes it."""

    def enter_view(self, count: int | Value) -> tuple[Value, Value, Value]:
        """The tensor, its array, and the bits of the edges to record."""
        x, bits = self.enter(count)
        self.records, self.mark = _marking(self, x)
        require_usual_storage(self, x)
        a = self.any_array_of(x)
        self.make_room(a)
        return x, a, bits

    def enter_turned(self) -> tuple[Value, Value, Value]:
        """``enter_view`` of a call with a matrix alone, whose dimensions are written down the other way round."""
        x, a, bits = self.enter_view(1)
        self.require(self.ndim(a).eq(2))
        self.copy_dims(a, 1, lambda i: self.i64(1) - i)
        return x, a, bits

    def make_room(self, a: Value) -> None:
        """Let there be places for the dimensions."""
        self.require(self.ndim(a) < MOST_DIMS)
        self.new_dims, self.new_strides = self.scratch(MOST_DIMS, "i64"), self.scratch(MOST_DIMS, "i64")

    def put_dim(self, place: Value, size: Value, step: Value) -> None:
        self.store(size, self.new_dims, place, "i64")
        self.store(step, self.new_strides, place, "i64")

    def copy_dims(self, a: Value, least: int, place: Callable[[Value], Value] = lambda i: i, first: Value | int = 0) -> None:
        """Write down dimensions of an array, none of which may have a size below ``least``."""
        dims, strides = self.dims(a), self.strides(a)

        def copy(i: Value) -> None:
            size = self.load(dims, i, "i64")
            self.require(size >= least)
            self.put_dim(place(i), size, self.load(strides, i, "i64"))

        self.loop(first, self.ndim(a), copy)

    def show(self, x: Value, a: Value, bits: Value, ndim: Value, offset: Value, strides: Value | None = None) -> None:
        """Return the view of those dimensions, ``offset`` bytes from the array's first element; what else is owned is given back."""
        _answer_view(self, self.shown(a, ndim, offset, strides), x, bits, self.mark)

    def shown(self, a: Value, ndim: Value, offset: Value, strides: Value | None = None) -> Value:
        """An array (owned) of those dimensions, over the memory of ``a``."""
        dtype, data = self.incref(self.dtype(a)), self.at(self.data(a), offset, "i8")
        flags, steps = self.field(a, FLAGS, "i32"), self.new_strides if strides is None else strides
        given = (self.object(np.ndarray), dtype, self.cast(ndim, "i32"), self.new_dims, steps, data, flags, self.null)
        r = self.call_c("PyArray_NewFromDescr", "ptr", *given)
        self.check(self.exists(r))
        self.own(r)
        self.check(self.call_c("PyArray_SetBaseObject", "i32", r, self.incref(a)).eq(0))
        return r


def transposed(code: Code) -> str:
    """``transpose(x, dim0, dim1)``."""
    k = View(code, "transposed")
    x, a, bits = k.enter_view(3)
    one, other = (k.index(k.argument(place), k.ndim(a)) for place in (1, 2))
    k.copy_dims(a, 1)
    dims, strides = k.dims(a), k.strides(a)
    for to, source in ((one, other), (other, one)):
        k.put_dim(to, k.load(dims, source, "i64"), k.load(strides, source, "i64"))
    k.show(x, a, bits, k.ndim(a), k.i64(0))
    return k.finish()


def turned(code: Code) -> str:
    """``t(x)`` of a matrix."""
    k = View(code, "turned")
    x, a, bits = k.enter_turned()
    k.show(x, a, bits, k.i64(2), k.i64(0))
    return k.finish()


def unsqueezed(code: Code) -> str:
    """``unsqueeze(x, dim)`` where no size is below 2."""
    k = View(code, "unsqueezed")
    x, a, bits = k.enter_view(2)
    n = k.ndim(a)
    k.require(n > 0)
    dim = k.index(k.argument(1), n + 1)
    k.copy_dims(a, 2, lambda i: i + k.cast(i >= dim, "i64"))
    dims, strides = k.dims(a), k.strides(a)

    def behind() -> Value:
        k.require(k.is_row_major(a))
        return k.load(strides, n - 1, "i64")

    def before() -> Value:
        return k.load(dims, dim, "i64") * k.load(strides, dim, "i64")

    k.put_dim(dim, k.i64(1), k.when(dim.eq(n), behind, before))
    k.show(x, a, bits, n + 1, k.i64(0))
    return k.finish()


def squeezed(code: Code) -> str:
    """``squeeze(x, dim)`` for one dimension or all."""
    k = View(code, "squeezed")
    x, a, bits = k.enter_view(2)
    dim, dims, strides = k.argument(1), k.dims(a), k.strides(a)
    everywhere = k.same(dim, k.object(None))
    here = k.when(everywhere, lambda: k.i64(-1), lambda: k.index(dim, k.ndim(a)))

    def copy(i: Value, out: Value) -> Value:
        size = k.load(dims, i, "i64")
        k.require(size > 0)
        k.put_dim(out, size, k.load(strides, i, "i64"))
        return out + k.cast(~(size.eq(1) & (everywhere | i.eq(here))), "i64")

    ndim = k.loop(0, k.ndim(a), copy, carried=(k.i64(0),))
    k.show(x, a, bits, ndim, k.i64(0))
    return k.finish()


def permuted(code: Code) -> str:
    """``permute(x, dims)``, the dimensions as a tuple."""
    k = View(code, "permuted")
    x, a, bits = k.enter_view(2)
    n = k.ndim(a)
    k.require(k.is_exactly(k.argument(1), tuple) & (n > 0))
    first, count = k.sequence(k.argument(1))
    k.require(count.eq(n))
    k.copy_dims(a, 1)

    def put(i: Value, seen: Value) -> Value:
        source = k.index(k.load(first, i, "ptr"), n)
        k.put_dim(i, k.load(k.dims(a), source, "i64"), k.load(k.strides(a), source, "i64"))
        return seen | (k.i64(1) << source)

    seen = k.loop(0, n, put, carried=(k.i64(0),))
    k.require(seen.eq((k.i64(1) << n) - 1))
    k.show(x, a, bits, n, k.i64(0))
    return k.finish()


def reversed_(code: Code) -> str:
    """``x.T`` of a matrix."""
    k = View(code, "reversed_")
    x, a, bits = k.enter_turned()
    k.given = k.scratch(2, "ptr")
    for place, thing in enumerate((x, k.object((1, 0)))):
        k.store(thing, k.given, place, "ptr")
    k.show(x, a, bits, k.i64(2), k.i64(0))
    return k.finish()


def expanded(code: Code) -> str:
    """``expand(x, sizes)``: sizes one by one, as a tuple or list in a tuple, or those of a tensor."""
    k = View(code, "expanded")
    x, a, bits = k.enter_view(2)
    k.require(k.is_row_major(a))
    given, n, old, steps = k.argument(1), k.ndim(a), k.dims(a), k.strides(a)
    sizes = k.scratch(MOST_DIMS, "i64")

    def of_tensor() -> Value:
        b = k.any_array_of(given)
        k.require(k.ndim(b) < MOST_DIMS)
        k.loop(0, k.ndim(b), lambda i: k.store(k.load(k.dims(b), i, "i64"), sizes, i, "i64"))
        return k.ndim(b)

    def of_numbers() -> Value:
        first, count = k.sequence(given)
        k.require(count > 0)
        one = k.load(first, 0, "ptr")

        def inner() -> tuple[Value, Value]:
            k.require(count.eq(1))
            return k.sequence(one)

        first, count = k.when(k.is_exactly(one, int), lambda: (first, count), inner)
        k.require(count < MOST_DIMS)
        k.loop(0, count, lambda i: k.store(k.integer_of(k.load(first, i, "ptr")), sizes, i, "i64"))
        return count

    count = k.when(k.is_plain(given), of_tensor, of_numbers)
    lead = count - n
    k.require(lead >= 0)

    def put(i: Value) -> None:
        size = k.load(sizes, i, "i64")

        def ahead() -> tuple[Value, Value]:
            k.require((size > 0) & (size.ne(1) | n.eq(0)))  # PyTorch's stride there is not 0
            return size, k.i64(0)

        def existing() -> tuple[Value, Value]:
            have = k.load(old, i - lead, "i64")
            want = k.pick(size.eq(-1), have, size)
            k.require((want > 0) & (want.eq(have) | have.eq(1)))
            return want, k.pick(want.eq(have), k.load(steps, i - lead, "i64"), k.i64(0))

        k.put_dim(i, *k.when(i < lead, ahead, existing))

    k.loop(0, count, put)
    k.show(x, a, bits, count, k.i64(0))
    return k.finish()


def flattened(code: Code) -> str:
    """``flatten(x, start, end)`` of row-major memory."""
    k = View(code, "flattened")
    x, a, bits = k.enter_view(3)
    n = k.ndim(a)
    start, end = (k.index(k.argument(place), n) for place in (1, 2))
    k.case(start.eq(end), lambda: k.give(k.incref(x)))
    _, no_short = k.measured(a)
    k.require((start < end) & k.is_row_major(a))
    k.require(no_short | (k.same(k.slot(x, Tensor, "_view_of"), k.object(None)) & k.owns_its_memory(a)))
    k.store(k.i64(1), k.new_dims, start, "i64")

    def put(i: Value) -> None:
        size = k.load(k.dims(a), i, "i64")
        k.require(size > 0)
        merged = (i >= start) & (i <= end)

        def merge() -> None:
            k.store(k.load(k.new_dims, start, "i64") * size, k.new_dims, start, "i64")

        def keep() -> None:
            k.store(size, k.new_dims, i - k.pick(i > end, end - start, k.i64(0)), "i64")

        k.when(merged, merge, keep)

    k.loop(0, n, put)
    k.show(x, a, bits, n - (end - start), k.i64(0), k.null)
    return k.finish()


def _cut_blocks(k: View, a: Value, count: Value) -> None:
    """Write down the strides of other dimensions, which are written down, as ``shape.view_strides`` finds them; go on if there are any."""
    ndim, dims, strides = k.ndim(a), k.dims(a), k.strides(a)
    k.require(ndim > 0)

    def dimension(behind: Value, place: Value, base: Value, size: Value) -> tuple[Value, Value, Value]:
        dim = ndim - 1 - behind
        whole = size * k.load(dims, dim, "i64")
        before = k.when(dim > 0, lambda: k.load(strides, dim - 1, "i64"), lambda: k.i64(0))

        def is_joined() -> Value:
            return k.load(dims, dim - 1, "i64").eq(1) | before.eq(whole * base)

        def more(place: Value, filled: Value) -> Value:
            is_one = k.load(k.new_dims, k.pick(place >= 0, place, k.i64(0)), "i64").eq(1)
            return (place >= 0) & ((filled < whole) | is_one)

        def fill(place: Value, filled: Value) -> tuple[Value, Value]:
            k.store(filled * base, k.new_strides, place, "i64")
            return place - 1, filled * k.load(k.new_dims, place, "i64")

        def cut() -> tuple[Value, Value, Value]:
            left, filled = k.repeat(more, fill, (place, k.i64(1)))
            k.require(filled.eq(whole))
            return left, before, k.i64(1)

        return k.when(k.when(dim > 0, is_joined, lambda: k.const(False, "b1")), lambda: (place, base, whole), cut)

    k.loop(0, ndim, dimension, carried=(count - 1, k.load(strides, ndim - 1, "i64"), k.i64(1)))


def reshaped(code: Code) -> str:
    """``view(x, sizes)``, one of the sizes perhaps -1."""
    k = View(code, "reshaped")
    x, a, bits = k.enter_view(2)
    sizes = k.argument(1)
    k.require(k.is_exactly(sizes, tuple))
    count = k.field(sizes, 16, "i64")
    k.require((count > 0) & (count < MOST_DIMS))
    n, no_short = k.measured(a)
    k.require(n < 1 << 31)  # so that the product of two sizes is no more than 64 bits
    plain = no_short | (k.same(k.slot(x, Tensor, "_view_of"), k.object(None)) & k.owns_its_memory(a))
    plain = plain & k.is_row_major(a)  # a view may have any stride where its size is 1

    def item(i: Value, known: Value, open_: Value) -> tuple[Value, Value]:
        size = k.integer_of(k.load(k.at(sizes, k.interpreter.tuple_items, "i8"), i, "ptr"))
        is_open = size.eq(-1)
        k.require(((size > 0) & (size <= n)) | (is_open & (open_ < 0)))
        k.store(size, k.new_dims, i, "i64")
        known = known * k.pick(is_open, k.i64(1), size)
        k.require(known <= n)
        return known, k.pick(is_open, i, open_)

    known, open_ = k.loop(0, count, item, carried=(k.i64(1), k.i64(-1)))
    k.when(open_ >= 0, lambda: k.store(n // known, k.new_dims, open_, "i64"))
    k.require(k.pick(open_ >= 0, (n // known) * known, known).eq(n))
    k.when(~plain, lambda: _cut_blocks(k, a, count))
    k.show(x, a, bits, count, k.i64(0), k.pick(plain, k.null, k.new_strides))
    return k.finish()


def detached(code: Code) -> str:
    """``detach(x)``."""
    k = Form(code, "detached")
    k.require_count(1)
    x = k.argument(0)
    k.require(k.is_plain(x) & k.is_empty(state.profiling))
    k.requires_grad(x, may_be_inference=True)
    k.any_array_of(x)
    require_usual_storage(k, x)
    storage = _shared_storage(k, x)
    made = k.new(k.object(Tensor), Tensor)
    none = k.object(None)
    k.fill(made, Tensor, _array=k.incref(k.slot(x, Tensor, "_array")), _storage=k.incref(storage), _view_of=k.incref(none))
    k.fill_unrecorded(made, k.is_inference(x))
    k.own(made)

    def note() -> None:
        at = k.interpreter.slot(UntypedStorage, "uneven")  # perhaps: what is no view any more is looked at all the same
        before = k.field(storage, at)
        k.put(k.incref(k.object(True)), storage, at)
        k.call_c("Py_DecRef", None, before)

    k.when(~k.same(k.slot(x, Tensor, "_view_of"), none), note)
    _add_alias(k, storage, made)
    k.call_c("Py_DecRef", None, k.disown(storage))
    k.give(k.disown(made))
    return k.finish()
