"""Process-wide and per-thread state that the wrappers of operations look at.

``active`` closes fast paths: a list that is not empty while any mode that must see operations is on in any thread
(function modes, saved-tensor hooks, a device for factories, ...).  It is a list because its truth is tested without loading an
attribute.  While it is not empty, ``in_mode`` tells whether this thread is concerned; only then does a call take the slow path, which
looks at the thread's own state.  So a fast path tests ``not (active and in_mode())``, and never ``active`` alone.
``without_grad`` is built alike: it is empty while every thread records; while it is not, ``thread.grad`` tells what this thread does.
So is ``inferring``, for inference mode. Asking a thread takes about 60 ns, which these lists spare most calls.
``autocasting`` is one more, tested by operations that autocast lists alone: while it is not empty, ``thread.autocast`` tells who casts the
operands of this thread's calls.

What switches a mode on sets the thread's word, adds 1 to ``thread.modes`` and puts an entry into ``active``, in plain statements: there is
no call among them, because after a call, and when a function begins, a signal handler may raise.

What a thread does with a call is True (record it), False (do not) or ``INFERENCE`` (do not, and mark the results).  A result that is
not recorded takes that word into ``_requires_grad``, which is how a tensor remembers that it was made in inference mode, at no cost.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any


class Modes:
    """Flags of the process; see this module's docstring."""

    __slots__ = ("below", "find_below", "item", "on_record", "profile", "transforms")
    below: Any
    find_below: Any
    item: Any
    on_record: Any
    profile: Any
    transforms: Any


modes = Modes()
modes.on_record = None  # called with every node made on the slow path; anomaly detection, which is on for all threads, sets it
modes.below = None  # ``aten.below``, once a mode or a class has ``__torch_dispatch__``; ``find_below`` imports it
modes.find_below = None
modes.item = None  # ``profiling.item``: reads a number in the ranges of a profile
modes.profile = None  # the ``profiling.Recorder`` of a profile of all threads
modes.transforms = None  # what gives calls to transforms of ``torch.func``, once one has run; stays when ``interpreters`` is empty again


class Changes:
    """Number of changes that decide what a program does and that no array shows.

    Attributes of modules, hooks, the memory that a tensor shows, whether it requires grad. Compiled programs look at it before all else.
    """

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


changes = Changes()

active: list[None] = []  # one entry per mode that operations must look at, of all threads
crowded: list[None] = []  # not empty once several devices of one kind are in use: then all calls choose their operands' device
overriding: list[None] = []  # not empty once a class of a program's own has ``__torch_function__``: then composites look at all operands
interposed: list[None] = []  # not empty once calls may have to go through ``__torch_dispatch__``, of whatever thread
dispatchers: set[Any] = set()  # classes of tensors with ``__torch_dispatch__``
wrappers: set[Any] = set()  # classes of tensors around tensors, which get every call, even where subclasses are switched off
profiling: list[None] = []  # one entry per profile that is taken, of whatever thread; see ``profiling``
interpreters: list[None] = []  # one entry per transform of ``torch.func`` that runs in any thread; its calls go to ``modes.transforms``

clock = itertools.count(1)  # one clock orders nodes of the tape and writes to storages
tick = clock.__next__


PARTS = 2  # true as True is, and told apart from it by ``is``
INFERENCE = 0  # falsy as False is, and told apart from it by ``is``


class ThreadState(threading.local):
    """Modes and switches of a thread; class attributes are the defaults of a new thread.

    Attributes:
        grad: what is done with calls: True, False or ``INFERENCE``.
        grad_mode: whether the user wants recording, which inference mode overrules.
        inference: whether inference mode is on.
        modes: how many modes are on that operations of this thread must look at.
        dispatch_modes: modes that see calls below the tape, the innermost last; see ``aten.below``.
        observers: who runs kernels in this thread, the innermost last; see ``observing``.
        recorder: the ``capture.recorder.Recorder`` of the program that this thread records; it must see every computation.
        profile: the ``profiling.Recorder`` that notes what this thread does; it is one of its ``modes``.
        forward_grad: whether tangents are computed, where tensors have them.
        levels: the transforms of ``torch.func`` that are running, the outermost first.
        variables: how many of its transforms with variables of their own (``grad``, ``vjp``, ...) are running.
        entered: how many entries of ``active`` and of ``interpreters`` are its transforms'.
        depth: how many blocks are below autograd, where users' operations go to the kernels of their devices.
        in_library: whether calls are a derivative rule's or another's of the library itself, which PyTorch makes without Python; or
            ``PARTS``, where operations are not to be shown as PyTorch's kernels.
    """

    grad: bool | int = True
    grad_mode = True
    inference = False
    modes = 0
    function_override = True  # whether __torch_function__ of subclasses is honoured
    function_modes: tuple[Any, ...] = ()
    skip_override = False  # whether the next call skips overrides
    dispatch_modes: tuple[Any, ...] = ()
    observers: tuple[Any, ...] = ()
    recorder: Any = None
    profile: Any = None
    forward_grad = True
    levels: tuple[Any, ...] = ()
    variables = 0
    entered = 0
    depth = 0
    in_library: bool | int = False
    overridden: Any = None  # the call that __torch_function__ got last
    running: Any = None  # the backward pass of this thread; functions in its ``at_end`` are called when gradients are there
    outside: tuple[bool, tuple[Any, ...], Any] = (True, (), None)  # overrides and autocast as they were before the running backward pass
    saved_hooks: tuple[Any, ...] = ()
    creation_device: Any = None  # where factories make tensors; None is the CPU
    creation_devices: tuple[Any, ...] = ()  # what it was outside the `with device:` blocks that are open
    autocast: Any = None  # the ``calls.autocast.Region`` that casts the operands of listed operations; None without one
    autocast_region: Any = None  # the innermost region, also while none casts: inside of a call that was cast, and of a backward pass


thread = ThreadState()
without_grad: list[None] = []  # one entry per thread that does not record
inferring: list[None] = []  # one entry per thread in inference mode
autocasting: list[None] = []  # one entry per thread that autocasts, for devices of any type
autocasting_cpu: list[None] = []  # one entry per thread that does so for the CPU
autocasting_others: list[None] = []  # and for other devices


def in_mode() -> bool:
    """Whether a mode that operations must look at is on for this thread; called while ``active`` is not empty."""
    return thread.modes > 0 or modes.on_record is not None or len(crowded) > 0 or modes.profile is not None


def is_intercepted() -> bool:
    """``in_mode``, but for a profile, which only looks; called while ``active`` is not empty."""
    return thread.modes > (thread.profile is not None) or modes.on_record is not None or len(crowded) > 0


def expect_several_devices() -> None:
    """From now on calls of all threads look where their operands lie."""
    if not crowded:
        crowded[:0] = (None,)
        active[:0] = (None,)


def grad_enabled() -> bool:
    return not without_grad or thread.grad is True


def unrecorded() -> bool | int:
    """Value of ``_requires_grad`` for a tensor that is made now and not recorded: False, or ``INFERENCE``."""
    return thread.grad and False if inferring else False


def set_grad(enabled: bool) -> None:
    """Switch the grad mode of this thread; in inference mode it has no effect until that ends."""
    set_inference(thread.inference, enabled)


def set_inference(inference: bool, grad_mode: bool) -> None:
    """Switch inference mode and grad mode of this thread, all of it or nothing.

    There is no call in here, because after a call, and when a function begins, a signal handler may raise.
    """
    was = thread.grad
    grad: bool | int = INFERENCE if inference else grad_mode
    if was and not grad:
        without_grad[:0] = (None,)  # before the thread changes, as there may be no memory for it
    if grad is INFERENCE and was is not INFERENCE:
        try:
            inferring[:0] = (None,)
        except MemoryError:
            if was:
                del without_grad[-1]
            raise
    thread.inference, thread.grad_mode, thread.grad = inference, grad_mode, grad
    if grad and not was:
        del without_grad[-1]
    if was is INFERENCE and grad is not INFERENCE:
        del inferring[-1]


def unwound(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, after an exception of which the thread is as it was before it.

    Contexts see to that by themselves, but for what a signal's handler raises when their ``__exit__`` begins.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        was = thread.levels, thread.modes, thread.entered, thread.variables, thread.depth, thread.inference, thread.grad_mode
        try:
            result = function(*args, **kwargs)  # stored inside, so that an exception right after the call is caught
            return result
        except BaseException:
            levels, thread.modes, entered, thread.variables, thread.depth, inference, grad_mode = was
            for level in thread.levels[len(levels) :]:
                level.alive = False
            more, thread.levels, thread.entered = thread.entered - entered, levels, entered
            if more:  # counted from the end: after a call of ``len`` other threads may have added theirs
                del active[-more:], interpreters[-more:]
            set_inference(inference, grad_mode)
            raise

    return call


def set_autocast(region: Any, casting: Any) -> None:
    """Make ``region`` this thread's innermost, and have ``casting`` cast the operands of its calls.

    It is all of it or nothing, as ``set_inference``.

    Args:
        region: a ``calls.autocast.Region``, or None outside of all.
        casting: the same, or another one inside of a call or a backward pass, or None for none.
    """
    was = thread.autocast
    here, others = casting is not None and casting.here, casting is not None and casting.elsewhere
    was_here, was_others = was is not None and was.here, was is not None and was.elsewhere
    thread.autocast_region, thread.autocast = region, casting
    if casting is not None and was is None:
        autocasting[:0] = (None,)
    elif was is not None and casting is None:
        del autocasting[-1:]
    if here and not was_here:
        autocasting_cpu[:0] = (None,)
    elif was_here and not here:
        del autocasting_cpu[-1:]
    if others and not was_others:
        autocasting_others[:0] = (None,)
    elif was_others and not others:
        del autocasting_others[-1:]


def as_constant(array: Any) -> Any:
    """``array``, whose values follow from Python's alone (sizes, numbers): a recorder is told, which cannot see it."""
    if thread.recorder is not None:
        thread.recorder.constant(array)
    return array


def computed(function: Any, *operands: Any, varies: bool = False) -> Any:
    """``function(*operands)``, which NumPy computes outside of operations: a recorder is told, which cannot see it.

    Args:
        function: of arrays and other values; gives an array, or a tuple of them.
        operands: arrays of tensors, and other values.
        varies: whether the results' shapes depend on values.
    """
    made = function(*operands)
    if thread.recorder is not None:
        thread.recorder.computed(function, operands, made if made.__class__ is tuple else (made,), varies)
    return made


class observing:
    """Inside this ``with`` block ``observer`` stands around every kernel that this thread runs, those of backward passes included.

    It is below the tape and sees primitives only, as PyTorch's dispatch modes do. Flop counts and selective checkpoints are made of it.

    Args:
        observer: called with the operation, its arguments, and a function that runs the kernel and returns (result arrays, whether
            there was a tuple of them); returns such a pair.
    """

    def __init__(self, observer: Any) -> None:
        self._observer = observer

    def __enter__(self) -> None:
        thread.observers = (*thread.observers, self._observer)
        thread.modes += 1
        active[:0] = (None,)

    def __exit__(self, *exc_info: object) -> None:
        thread.observers = tuple([observer for observer in thread.observers if observer is not self._observer])
        thread.modes -= 1
        del active[-1]


def as_user(function: Any, *args: Any) -> Any:
    """Call user's code from inside a backward pass, whose own operations no subclass and no mode sees."""
    inside = thread.function_override, thread.function_modes, thread.autocast, thread.in_library
    (thread.function_override, thread.function_modes, thread.autocast), thread.in_library = thread.outside, False
    try:
        return function(*args)
    finally:
        thread.function_override, thread.function_modes, thread.autocast, thread.in_library = inside


def _fp_ignoring_context() -> Context:
    """A context in which NumPy ignores floating-point errors."""
    import numpy as np

    context = copy_context()
    context.run(np.seterr, all="ignore")
    return context


# NumPy's error state is a context variable.  Kernels run in a context of their own in which it is 'ignore', so that an overflow
# gives no warning and the host program's state is never touched; entering costs 25 ns where ``np.errstate`` costs a microsecond.
# A context cannot be entered by two threads at once, nor twice: the wrappers catch that RuntimeError and take the slow path.
IGNORING_FP = _fp_ignoring_context()
ignoring_fp = IGNORING_FP.run


class _ThreadContext(threading.local):
    def __init__(self) -> None:
        self.run = _fp_ignoring_context().run
        self.inside = False


_own = _ThreadContext()


def run_ignoring_fp(function: Any, *args: Any, **kwargs: Any) -> Any:
    """``function(*args)`` with NumPy's floating-point warnings off; may be nested and called from any thread."""
    if _own.inside:
        return function(*args, **kwargs)
    try:
        _own.inside = True
        return _own.run(function, *args, **kwargs)
    finally:
        _own.inside = False
