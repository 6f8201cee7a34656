"""The stack of running transforms, and the tensors that belong to them.

A transform that is running (``vmap``, ``jvp``, ...) is an interpreter with a level: its place in this thread's stack, ``thread.levels``.
Its values are ``Wrapped`` tensors. They are no plain tensors, so that every generated wrapper sends their calls to ``dispatch``, which
asks ``interpret``: the interpreter of the highest level among the operands gets the call, and answers it with calls on what is inside
its values. That may be wrapped by lower levels, or is plain and recorded on the one tape.

    call ----> dispatch ----> Batch (level 2) ----> wrapper ----> dispatch ----> Dual (level 1) ----> wrapper (plain, recorded)

While a call is interpreted the levels from its own up are not running, so that what a rule draws at random or makes is of the levels below;
the body of a composite is part of the function, and they run on. A level is taken off whatever happens, and a tensor that escapes it
raises when it is used.

An interpreter is a subclass of ``Interpreter``; the methods say what it has to answer. ``torch.func.grad`` and its like need none: a
fresh variable on the tape is their level.
"""

from __future__ import annotations

import builtins
import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from ..autograd.api import backward
from ..core.arrays.kinds import perhaps, surely
from ..core.calls.dispatch import COMPOSITE, FACTORY, FUNCTION, IN_PLACE, Call
from ..core.calls.interruption import NoArray
from ..core.calls.override import plainly
from ..core.calls.tables import Rules
from ..core.layout import strided
from ..core.protocols.wrapper import of_inner
from ..core.shape import Size
from ..core.state import active, interpreters, modes, thread
from ..core.tensor import Tensor

forward = Rules("jvp")  # (dual, operation, values, primals, the result of these)
_new = object.__new__


class NoValues(RuntimeError):
    """Something asked for the array of a wrapped tensor: what it computes has to be computed by calls, or example by example."""


_REFUSED = (
    "the values of a tensor inside torch.func transforms were asked for, where only the transform can compute with them; or the tensor has "
    "escaped from a transform that has ended"
)


class Frame:
    """Stand-in for the array of a wrapped tensor: shape, strides and dtype, without the first ``drop`` dimensions of what is inside.

    It refuses to be computed with, so that nothing passes a transform by.
    """

    __slots__ = ("dtype", "ndim", "shape", "strides")
    __hash__ = None  # type: ignore[assignment]
    layout = strided

    def __init__(self, array: Any, drop: int):
        self.dtype, self.shape, self.strides = array.dtype, array.shape[drop:], array.strides[drop:]
        self.ndim = len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def flags(self) -> Any:
        return self._like.flags

    @property
    def _like(self) -> np.ndarray:
        """An array of one element in these strides, which nobody may read."""
        return np.lib.stride_tricks.as_strided(np.empty(1, self.dtype), self.shape, self.strides)

    def reshape(self, shape: Any, copy: bool = False) -> Any:
        """Whether a view can have that shape is a question about strides: ValueError where it cannot."""
        return Frame(self._like.reshape(shape, copy=False), 0)

    def __len__(self) -> int:
        return self.shape[0]

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NoValues(_REFUSED)

    __array__ = __array_function__ = __array_ufunc__ = __getitem__ = __setitem__ = __bool__ = _refuse
    __add__ = __radd__ = __mul__ = __rmul__ = __lt__ = __gt__ = _refuse
    __iter__ = __eq__ = __ne__ = __sub__ = __rsub__ = __truediv__ = __le__ = __ge__ = __int__ = __float__ = __neg__ = _refuse
    __getattr__ = _refuse


class Wrapped(Tensor):
    """A tensor at a level. Its ``_array`` is a ``Frame``: shape, strides and dtype of what the level shows.

    Attributes:
        _owner: the level's interpreter. _inner: what it computes with. _tangent: in forward mode, the tangent; else None.
        _is_repeated: whether all examples of a batch are known to be the same; ``FRESH`` for a new tensor that follows no other.
    """

    __slots__ = ()  # so that a plain tensor can become one where it stands
    __module__ = "flambeau"
    __qualname__ = "Tensor"
    __torch_function__ = staticmethod(plainly)
    _inner: Tensor
    _owner: Any
    _tangent: Any
    _viewed: Any  # of a view: what it is one of, and how (``note_view``)
    _is_repeated: Any = False

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return Tensor(*args, **kwargs)

    # -- what it is --------------------------------------------------------------------------------------------------------------
    @property
    def _has_tangent(self) -> bool:  # type: ignore[override]
        return self._tangent is not None or self._inner._has_tangent

    @property
    def requires_grad(self) -> bool:
        return needs_grad(self)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        if self._owner.shows_tape:
            self._inner.requires_grad_(requires_grad)
            return self
        if self._owner.leaves_out(self):
            return self.requires_grad_(requires_grad)
        raise RuntimeError(
            "You are attempting to call Tensor.requires_grad_() (or perhaps using torch.autograd.functional.* APIs) inside of a function "
            "being transformed by a functorch transform. This is unsupported, please attempt to use the functorch transforms (e.g. grad, "
            "vjp, jacrev, jacfwd, hessian) or call requires_grad_() outside of a function being transformed instead."
        )

    @property  # type: ignore[misc]
    def grad(self) -> Any:
        return self._inner.grad if self._owner.shows_tape else None

    def is_inference(self) -> bool:
        return self._inner.is_inference()

    def is_pinned(self, device: Any = None) -> bool:
        return self._inner.is_pinned()

    def is_shared(self) -> bool:
        return self._inner.is_shared()

    # -- its values --------------------------------------------------------------------------------------------------------------
    def item(self) -> Any:
        return self._owner.item(self)

    def tolist(self) -> Any:
        if not self._array.ndim:
            return self.item()
        return [each.tolist() for each in self.unbind(0)]

    def __bool__(self) -> bool:
        return bool(self._owner.truth(self))

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        if self._array.size != 1 or self._array.dtype.kind not in "iub":
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def numpy(self, *, force: bool = False) -> Any:
        raise RuntimeError(
            "Cannot access data pointer of Tensor that doesn't have storage: .numpy() is not possible inside torch.func transforms"
        )

    def data_ptr(self) -> int:
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

    def untyped_storage(self) -> Any:
        raise NotImplementedError("Cannot access storage of a tensor inside torch.func transforms")

    storage = _typed_storage = untyped_storage

    def storage_offset(self) -> int:
        return self._inner.storage_offset()

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        return self._owner.shown(self)

    def __format__(self, spec: str) -> str:
        return self.item().__format__(spec) if self._array.size == 1 and spec else repr(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = self.clone().detach()
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise RuntimeError("a tensor inside torch.func transforms cannot be pickled")

    # -- what would pass the transforms by -----------------------------------------------------------------------------------------------
    def detach(self) -> Any:
        return self._owner.detached(self)

    def detach_(self) -> Any:
        for each in (self._inner, self._tangent):
            if each is not None:
                each.detach_()
        return self

    @property
    def data(self) -> Any:
        return self.detach()

    @data.setter
    def data(self, value: Any) -> None:
        raise RuntimeError("the .data of a tensor inside torch.func transforms cannot be assigned")

    def backward(self, *args: Any, **kwargs: Any) -> None:
        backward(self, *args, **kwargs)

    def register_hook(self, hook: Any) -> Any:
        if self._owner.shows_tape:
            return self._inner.register_hook(hook)
        raise RuntimeError("register_hook: hooks of tensors inside torch.func transforms are not supported")

    register_post_accumulate_grad_hook = register_hook

    def retain_grad(self) -> None:
        if self._owner.shows_tape:
            return self._inner.retain_grad()
        raise RuntimeError("retain_grad: gradients of tensors inside torch.func transforms are not kept")

    def share_memory_(self) -> Any:
        raise RuntimeError("share_memory_: a tensor inside torch.func transforms has no storage")


class _Nothing:
    """A slot of ``Wrapped`` tensors that has always the same value."""

    def __init__(self, value: Any):
        self.value = value

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self.value

    def __set__(self, instance: Any, value: Any) -> None:
        pass


def _no_storage(self: Any, storage: Any) -> None:
    raise NoValues("a tensor inside torch.func transforms has no storage")


for _name in ("device", "layout", "grad_fn", "is_leaf", "_version"):
    setattr(Wrapped, _name, of_inner(_name))
for _name in ("_node", "_view_of", "_grad"):
    setattr(Wrapped, _name, _Nothing(None))
Wrapped._requires_grad = property(lambda self: self._owner.requires(self))  # type: ignore[assignment]
Wrapped._storage = property(lambda self: None, _no_storage)  # type: ignore[assignment]
for _name, _method in list(vars(Wrapped).items()):  # ``show_methods`` put functions there that ask who overrides a call
    if hasattr(_method, "__wrapped__") and getattr(Tensor, _name, None) is _method.__wrapped__:
        delattr(Wrapped, _name)


class Interpreter:
    """A transform that is running.

    Attributes:
        level: its place in the stack, from 1. alive: whether it is running, or its rules are.
    """

    level: int
    alive = False
    shows_tape = False  # whether programs may use its tensors as variables, as they do those of ``forward_ad``
    records = False  # whether it notes the calls made with its tensors, to make them again

    # -- its stack ------------------------------------------------------------------------------------------------------------------
    def __enter__(self) -> Any:
        self.level = len(thread.levels) + 1
        self.alive = True
        thread.levels = (*thread.levels, self)
        thread.modes += 1
        thread.entered += 1
        active[:0] = (None,)
        interpreters[:0] = (None,)
        return self

    def __exit__(self, *exc_info: object) -> None:
        thread.levels = thread.levels[: self.level - 1]
        thread.modes -= 1
        thread.entered -= 1
        del active[-1]
        del interpreters[-1]
        self.alive = False

    # -- its tensors ----------------------------------------------------------------------------------------------------------------
    def has(self, value: Any) -> bool:
        """Whether ``value`` is a tensor of this level."""
        return value.__class__ is Wrapped and value._owner is self

    def _wrapped(self, inner: Tensor, tangent: Any, drop: int) -> Any:
        """A tensor of this level, which shows ``inner`` without its first ``drop`` dimensions."""
        made = _new(Wrapped)
        made._inner, made._owner, made._tangent = inner, self, tangent
        made._array = frame = _new(Frame)  # ``Frame(inner._array, drop)`` spelled out, for its cost in every call
        array = inner._array
        frame.dtype, frame.shape, frame.strides, frame.ndim = array.dtype, array.shape[drop:], array.strides[drop:], array.ndim - drop
        return made

    def wrap(self, inner: Tensor, tangent: Any = None) -> Any:
        raise NotImplementedError

    def rewrapped(self, value: Any, function: Callable[[Tensor], Tensor]) -> Any:
        """``value`` with ``function`` applied to all that is inside."""
        made = self.wrap(function(value._inner), None if value._tangent is None else function(value._tangent))
        if value._is_repeated:
            made._is_repeated = value._is_repeated
        return made

    def detached(self, value: Any) -> Any:
        """``value.detach()``."""
        return self.rewrapped(value, lambda each: each.detach())

    def leaves_out(self, value: Any) -> bool:
        """Whether a tensor need not be the level's; it is none from now on."""
        return False

    def requires(self, value: Any) -> Any:
        """Value of a tensor's ``_requires_grad``: whether a composite must go a way that has derivatives."""
        return value._has_tangent or needs_grad(value)

    # -- what it must answer: ``values`` are in the signature's order; tensors among them may be of lower levels, or plain ----------
    def call(self, op: Any, values: tuple[Any, ...]) -> Any:
        """The result of a primitive."""
        raise NotImplementedError

    def write(self, op: Any, values: tuple[Any, ...]) -> Any:
        """``values[0]`` after a primitive's in-place form."""
        raise NotImplementedError

    def write_view(self, op: Any, values: tuple[Any, ...]) -> Any:
        """``values[0]`` after the in-place form of a view (``t_``): the tensor takes the view's place."""
        made = self.call(op, values)
        target = values[0]
        target._inner, target._tangent, target._array = made._inner, made._tangent, made._array
        return target

    def composite(self, call: Call) -> Any:
        """The result of a composite whose body asked for values that only the level has; NoValues as it came."""
        raise NotImplementedError

    def drew(self, call: Call) -> Any:
        """Asked after a composite's body has run: another result in place of its, or None."""
        return None

    def factory(self, call: Call) -> Any:
        """A new tensor; ``call.values`` may hold none of the level's, and NotImplemented then leaves the call to lower levels."""
        return NotImplemented

    def composite_rule(self, call: Call) -> Any:
        """An answer to a composite in place of its body's; asked of all levels that run, and NotImplemented has the body run."""
        return NotImplemented

    def getitem(self, tensor: Any, key: Any) -> Any:
        raise NotImplementedError

    def setitem(self, tensor: Any, key: Any, value: Any) -> Any:
        """``tensor[key] = value``, returning None; NotImplemented, as for reading, has the operations called that it is made of."""
        raise NotImplementedError

    def item(self, value: Any) -> Any:
        raise NotImplementedError

    def truth(self, value: Any) -> Any:
        return self.item(value)

    def shown(self, value: Any) -> str:
        """``repr(value)``."""
        raise NotImplementedError


class below:
    """Inside this ``with`` block only the levels below an interpreter are running."""

    __slots__ = ("_levels", "_owner")

    def __init__(self, owner: Interpreter):
        self._owner = owner

    def __enter__(self) -> None:
        self._levels = levels = thread.levels
        thread.levels = levels[: self._owner.level - 1]
        thread.modes += len(thread.levels) - len(levels)

    def __exit__(self, *exc_info: object) -> None:
        thread.modes += len(self._levels) - len(thread.levels)
        thread.levels = self._levels


# -- the hook in the call path -----------------------------------------------------------------------------------------------------------
def highest(values: Iterable[Any]) -> Any:
    """The interpreter of the highest level among operands; None if none is wrapped.

    Raises:
        RuntimeError: a tensor of a transform that has ended.
    """
    found = None
    for each in values:
        if each.__class__ is Wrapped:
            owner = each._owner
            if not owner.alive:
                raise RuntimeError(
                    f"a tensor of shape {list(each._array.shape)} that was made inside a torch.func transform was used after the transform "
                    "had ended; return it from the transformed function instead"
                )
            if found is None or owner.level > found.level:
                found = owner
    return found


def flat(values: Iterable[Any]) -> Iterator[Any]:
    """``values``, the elements of lists and tuples among them one by one."""
    for each in values:
        if each.__class__ is builtins.list or each.__class__ is tuple:
            yield from flat(each)
        else:
            yield each


def interpret(call: Call) -> Any:
    """A call with wrapped operands, or made while a transform is running; NotImplemented where it is nobody's."""
    form = call.form
    owner = highest(call.operands if call.out is None else (*call.operands, *flat((call.out,))))
    if owner is None:
        if not thread.levels:
            return NotImplemented
        if form is FACTORY:
            return _made(call)
        if form is not COMPOSITE:
            return NotImplemented
        return _composed(call, thread.levels[-1])
    if form is COMPOSITE:
        return _composed(call, max(owner, thread.levels[-1], key=_level) if thread.levels else owner)
    if form is FACTORY:
        return _made(call)
    if call.out is not None:
        raise RuntimeError(
            f"Batching rule not implemented for aten::{call.op.name}.out; the fallback path doesn't work on out= or view ops. "
            f"{call.op.name}: out= is not supported inside torch.func transforms"
        )
    levels = thread.levels
    try:  # ``with below(owner)`` spelled out, for its cost in every call
        thread.levels = levels[: owner.level - 1]
        thread.modes += len(thread.levels) - len(levels)
        if form is FUNCTION:
            made = owner.call(call.op, call.values)
            if call.op.is_view or call.op.is_multi_view:
                _note_views(made, call)
            return made
        return owner.write(call.op, call.values) if form is IN_PLACE else owner.write_view(call.op, call.values)
    finally:
        thread.modes += len(levels) - len(thread.levels)
        thread.levels = levels


def _note_views(made: Any, call: Call) -> None:
    op, values = call.op, call.values
    viewed = values[op.positions[0]]
    if made.__class__ is Wrapped:
        note_view(made, viewed, lambda tensor: invoke(op, [tensor if each is viewed else each for each in values]))
        return
    for i, part in enumerate(made):
        note_view(part, viewed, _part_of(call, i))


def _part_of(call: Call, i: int) -> Callable[[Any], Any]:
    viewed = call.values[call.op.positions[0]]
    return lambda tensor: invoke(call.op, [tensor if each is viewed else each for each in call.values])[i]


def note_view(made: Any, viewed: Any, view: Callable[[Any], Any]) -> None:
    """Remember that ``made`` is ``view(viewed)``: what is written into the one may make both a higher level's (``_adoption``)."""
    if viewed.__class__ is not Wrapped or made.__class__ is not Wrapped or made is viewed or made._owner is not viewed._owner:
        return
    made._viewed = viewed, view
    views = viewed.__dict__.setdefault("_views", [])
    if len(views) > 64 and not len(views) & (len(views) - 1):  # at powers of two, so that many that live cost little
        views[:] = [reference for reference in views if reference() is not None]
    views.append(weakref.ref(made))


def _level(owner: Interpreter) -> int:
    return owner.level


def _composed(call: Call, owner: Interpreter) -> Any:
    """A composite: its body, whose calls are interpreted one by one; where that asks for values, what the level makes of it."""
    for each in reversed(thread.levels if owner in thread.levels else (*thread.levels, owner)):
        with below(each):
            made = each.composite_rule(call)
        if made is not NotImplemented:
            if call.op.name == "as_strided":
                note_view(made, call.values[0], lambda tensor: call_entry(call.op, (tensor, *call.values[1:])))
            return made
    try:
        made = call.proceed()
    except (NoValues, NoArray) as error:
        owner = highest(flat(call.values))
        if owner is None:
            raise
        with below(owner):
            try:
                return owner.composite(call)
            except NoValues as other:
                raise (other if error.args[0] is _REFUSED else error) from None
    for each in thread.levels:
        if (again := each.drew(call)) is not None:
            return again
    return made


def _made(call: Call) -> Any:
    """A factory's tensor."""
    for owner in reversed(thread.levels):
        with below(owner):
            made = owner.factory(call)
        if made is not NotImplemented:
            return made
    owner = highest(call.operands)
    return NotImplemented if owner is None or owner in thread.levels else owner.factory(call)


class Hook:
    """Functions of transforms that the call path uses (``modes.transforms``)."""

    call = staticmethod(interpret)

    @staticmethod
    def surely(condition: Any) -> Any:
        """Whether a tensor of one bool is true, in all examples of a batch."""
        return surely(condition._inner.all()) if condition.__class__ is Wrapped else NotImplemented

    @staticmethod
    def perhaps(condition: Any) -> Any:
        """Whether it is true in any example."""
        return perhaps(condition._inner.any()) if condition.__class__ is Wrapped else NotImplemented

    @staticmethod
    def getitem(tensor: Any, key: Any) -> Any:
        owner = highest(flat((tensor, key)))
        if owner is None:
            return NotImplemented
        with below(owner):
            made = owner.getitem(tensor, key)
        if made.__class__ is Wrapped and not any(isinstance(each, (Tensor, builtins.list, np.ndarray)) for each in flat((key,))):
            note_view(made, tensor, lambda tensor: tensor[key])
        return made

    @staticmethod
    def setitem(tensor: Any, key: Any, value: Any) -> Any:
        owner = highest(flat((tensor, key, value)))
        if owner is None:
            return NotImplemented
        with below(owner):
            return owner.setitem(tensor, key, value)

    @staticmethod
    def plain(tensors: Any) -> Any:
        """The tensors on the tape that are inside of several tensors; None as it is."""
        return None if tensors is None else tuple([core_of(each) for each in tensors])

    function: Callable[[Any, tuple[Any, ...]], Any]  # ``kind.apply(*args)`` of a user's ``autograd.Function``; ``_functions`` puts it here


modes.transforms = Hook


def core_of(tensor: Any) -> Any:
    """The plain tensor that is inside of a tensor of any level."""
    while tensor.__class__ is Wrapped:
        tensor = tensor._inner
    return tensor


# -- for rules -----------------------------------------------------------------------------------------------------------------
def invoke(op: Any, values: Sequence[Any]) -> Any:
    """A primitive's public function with arguments in the signature's order: a call one level further down."""
    names = op.keyword_names
    if not names:
        return op.wrapper(*values)
    split = len(values) - len(names)
    return op.wrapper(*values[:split], **dict(zip(names, values[split:], strict=True)))


def invoke_in_place(op: Any, values: Sequence[Any]) -> Any:
    names = op.keyword_names
    split = len(values) - len(names)
    return op.inplace_wrapper(*values[:split], **dict(zip(names, values[split:], strict=True)))


def call_entry(entry: Any, values: Sequence[Any]) -> Any:
    """The public function of a composite or a factory, with arguments in the signature's order."""
    args: list[Any] = []
    named: dict[str, Any] = {}
    for param, value in zip(entry.params, values, strict=True):
        if param.kind == "rest":
            args += value
        elif param.keyword_only:
            if value is not param.default:
                named[param.name] = value
        else:
            args.append(value)
    return entry.wrapper(*args, **named)


def mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """``function(value)``; of each element of a list, tuple or named tuple (and so on inside), where it is one."""
    if value.__class__ is builtins.list:
        return [mapped(each, function) for each in value]
    if isinstance(value, tuple) and value.__class__ is not Size:
        parts = [mapped(each, function) for each in value]
        return type(value)(parts) if value.__class__ is tuple or hasattr(value, "n_fields") else type(value)(*parts)
    return function(value)


def needs_grad(tensor: Any) -> bool:
    """Whether a tensor, or what is inside of it at any level, requires grad."""
    if tensor.__class__ is Wrapped:
        return needs_grad(tensor._inner) or (tensor._tangent is not None and needs_grad(tensor._tangent))
    return tensor.requires_grad


def unrecorded(tensor: Any) -> Any:
    """``tensor`` without history at any level. Unlike ``detach``, it keeps its tangents."""
    if tensor.__class__ is not Wrapped:
        return tensor.detach()
    return tensor._owner.rewrapped(tensor, unrecorded)
