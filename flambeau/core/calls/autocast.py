"""Autocast: operands are cast as calls come by, and gradients come back through the casts.

The wrapper of an operation that declares ``autocast=`` looks at one more list (``state.autocasting``). So its fast path is closed to a
thread that autocasts; other wrappers have no test for it. On the slow path the thread's ``Region`` takes the call:

    mm(x, weight)  ->  dispatch  ->  overrides  ->  Call.proceed  ->  Region.run  ->  casts  ->  mm(x', weight') as it is

The casts are recorded operations. A parameter's is kept until the thread's outermost region ends, since a network may use it often.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import dtype as dtypes
from ..state import grad_enabled, set_autocast, thread
from ..tensor import Tensor
from .registry import resolve

if TYPE_CHECKING:
    from .dispatch import Call

DType = dtypes.dtype

# What each type of device computes in where nothing else was said. PyTorch has more types; their tensors do not exist here.
DTYPES = {
    **dict.fromkeys(("cpu", "xla", "hpu", "maia"), dtypes.bfloat16),
    **dict.fromkeys(("cuda", "xpu", "mps", "mtia", "ipu", "privateuseone"), dtypes.float16),
}


class _Kept(threading.local):
    """Casts of parameters that a thread keeps, each with its parameter, by the parameter's address and the dtype.

    Attributes:
        nesting: what the program added to the depth of regions.
    """

    def __init__(self) -> None:
        self.casts: dict[tuple[int, DType], tuple[Tensor, Tensor]] = {}
        self.nesting = 0


kept = _Kept()


class Region:
    """Settings of a thread's ``with autocast`` block, and the devices that it casts for. It never changes.

    Attributes:
        types: the dtypes to compute in, by the types of devices that it casts for. here, elsewhere: whether the CPU is one, or others.
        dtypes: the dtypes of all types of devices.
        keeps: whether casts of parameters are kept.
        owner: the block; None for what was set without one.
        outer, was: the region around, and who cast there.
    """

    __slots__ = ("depth", "dtypes", "elsewhere", "here", "keeps", "outer", "owner", "types", "was")

    def __init__(self, inside: Region | None, types: dict[str, DType], dtypes: dict[str, DType], keeps: bool, owner: Any = None) -> None:
        self.types, self.dtypes, self.keeps, self.owner = types, dtypes, keeps, owner
        self.here = "cpu" in types
        self.elsewhere = len(types) > self.here
        self.outer, self.was = inside, thread.autocast
        self.depth: int = 1 if inside is None else inside.depth + 1

    def changed(self, types: dict[str, DType], dtypes: dict[str, DType], keeps: bool) -> Region:
        """The same region with other settings."""
        made = Region(self.outer, types, dtypes, keeps, self.owner)
        made.was, made.depth = self.was, self.depth
        return made

    def run(self, call: Call) -> Any:
        """Do the call: as it is, or with other operands and without autocast inside."""
        found = None if call.out is not None or not call.form.casts else self._policy(call)
        if found is None:
            return call.run()
        values = self._cast(call, *found)
        was, thread.autocast = thread.autocast, None
        try:
            return call.run_with(values)
        finally:
            thread.autocast = was

    def _policy(self, call: Call) -> tuple[str, str] | None:
        """For which type of device, and what is to be done; None for nothing."""
        op = call.op
        policies: dict[str, str] = op.autocast
        if not policies or (op.autocast_except is not None and op.autocast_except(*call.values)):
            return None
        kinds = set()
        for operand in call.operands:
            if isinstance(operand, Tensor):
                kinds.add("cpu" if operand._array.__class__ is np.ndarray else operand.device.type)
        for kind in sorted(kinds & self.types.keys(), reverse=True):  # the CPU last: a number may lie there
            if kind in policies:
                return kind, policies[kind]
        return None

    def _cast(self, call: Call, kind: str, policy: str) -> tuple[Any, ...]:
        """The call's arguments, cast."""
        op, values = call.op, call.values
        if policy == "untouched":
            return values
        if policy == "banned":
            raise RuntimeError(_BANNED)
        if policy == "result":
            place = [param.name for param in op.params].index("dtype")
            if values[place] is None and is_eligible(values[0], kind):
                values = (*values[:place], dtypes.float32, *values[place + 1 :])
            return values
        wanted = dtypes.float32 if policy == "float32" else self.types[kind]
        if policy == "widest":
            wanted = widest(call.operands, kind, wanted)
        elif policy == "state":
            wanted = with_state(op.name, values, wanted)
        modes = thread.function_override, thread.function_modes
        thread.function_override, thread.function_modes = False, ()  # who wants to see the call has seen it
        try:
            return tuple([cast(value, kind, wanted) for value in values])
        finally:
            thread.function_override, thread.function_modes = modes


def type_of(tensor: Tensor) -> str:
    """The type of a tensor's device."""
    return "cpu" if tensor._array.__class__ is np.ndarray else tensor.device.type


def is_eligible(value: Any, kind: str) -> bool:
    """Whether something is a tensor that is cast on devices of a type."""
    if not isinstance(value, Tensor):
        return False
    dtype = value.dtype
    return dtype.is_floating_point and dtype is not dtypes.float64 and type_of(value) == kind


def widest(operands: Sequence[Any], kind: str, narrow: DType) -> DType:
    """The widest dtype among operands: float32 or that of the region.

    Raises:
        RuntimeError: another one.
    """
    found = narrow
    for operand in operands:
        if is_eligible(operand, kind):
            if dtypes.float32 not in (found, operand.dtype) and operand.dtype is not narrow:
                raise RuntimeError(
                    f"Unexpected floating ScalarType in at::autocast::prioritize: {operand.dtype}, where autocast computes in {narrow}"
                )
            if operand.dtype is dtypes.float32:
                found = dtypes.float32
    return found


def with_state(name: str, values: tuple[Any, ...], narrow: DType) -> DType:
    """The dtype that the region's and that of a recurrent layer's first state promote to.

    An LSTM of bfloat16 over padded sequences, without projections, does not ask for its states: PyTorch has a kernel for the whole layer.
    """
    packed = isinstance(values[3], (list, tuple))  # packed data come with their batch sizes
    state = values[2] if packed else values[1]
    first = state[0] if isinstance(state, (list, tuple)) and state else state
    if name == "lstm" and not packed and narrow is dtypes.bfloat16 and values[0].numel():
        if all(isinstance(part, Tensor) and part.dtype is not dtypes.float64 for part in state) and state[0].shape == state[1].shape:
            return narrow
    return dtypes.promote_types(narrow, first.dtype) if isinstance(first, Tensor) else narrow


def cast(value: Any, kind: str, dtype: DType) -> Any:
    """``value``, a tensor or a sequence with tensors, with what is eligible in it as ``dtype``."""
    if isinstance(value, Tensor):
        array = value._array
        have = dtypes.BY_NUM[array.dtype.num]
        if have is dtype or not have.is_floating_point or have is dtypes.float64:
            return value
        if (kind != "cpu" or array.__class__ is not np.ndarray) and type_of(value) != kind:
            return value
        is_parameter = value._node is None and value._requires_grad is True and value._view_of is None
        if is_parameter and have is dtypes.float32 and dtype is not have and (thread.autocast_region or _outside).keeps:
            return _kept(value, dtype)
        return _to_copy()(value, dtype)
    if value.__class__ is list or value.__class__ is tuple:
        return type(value)([cast(item, kind, dtype) for item in value])
    return value


@cache
def _to_copy() -> Callable[[Tensor, DType], Tensor]:
    function: Callable[[Tensor, DType], Tensor] = resolve("torch", "_to_copy")
    return function


def _kept(tensor: Tensor, dtype: DType) -> Tensor:
    """A parameter's cast, which this thread may have already; one that was made without recording serves only without recording."""
    found = kept.casts.get((id(tensor), dtype))
    if found is not None and found[0] is tensor and (found[1]._requires_grad is True or not grad_enabled()):
        return found[1]
    made = _to_copy()(tensor, dtype)
    kept.casts[id(tensor), dtype] = tensor, made
    return made


# -- regions -------------------------------------------------------------------------------------------------------------------
_outside = Region(None, {}, DTYPES, True)
_outside.depth = 0


def current() -> Region:
    """This thread's innermost region."""
    return thread.autocast_region or _outside


def is_on(kind: str) -> bool:
    """Whether this thread autocasts for a type of device."""
    return thread.autocast is not None and kind in thread.autocast.types


def enter(kind: str, dtype: DType, enabled: bool, keeps: bool, owner: Any) -> None:
    """Begin a region."""
    outer, around = thread.autocast_region or _outside, thread.autocast
    types = {} if around is None else around.types
    region = Region(outer, _with(types, kind, dtype if enabled else None), {**outer.dtypes, kind: dtype}, keeps, owner)
    set_autocast(region, region if region.types else None)


def leave(owner: Any) -> None:
    """End the region that ``owner`` began, and forget the casts that are kept if no other is around it."""
    region: Any = thread.autocast_region or _outside
    while region.owner is not owner:
        if region.outer is None:
            return
        region = region.outer
    if region.depth + kept.nesting <= 1:
        kept.casts = {}
    set_autocast(None if region.outer is _outside else region.outer, region.was)


class resumed:
    """A region with the settings of the place where this was made, as another thread or a later moment needs them."""

    def __init__(self) -> None:
        self._types = {} if thread.autocast is None else thread.autocast.types
        self._dtypes, self._keeps = current().dtypes, current().keeps

    def __enter__(self) -> None:
        region = Region(current(), self._types, self._dtypes, self._keeps, self)
        set_autocast(region, region if region.types else None)

    def __exit__(self, *error: Any) -> None:
        leave(self)


def adjust(kind: str | None = None, enabled: bool | None = None, dtype: DType | None = None, keeps: bool | None = None) -> None:
    """Change settings of the innermost region."""
    region = current()
    types = {} if thread.autocast is None else thread.autocast.types
    dtypes = region.dtypes
    if kind is not None:
        on = kind in types if enabled is None else enabled
        dtypes = dtypes if dtype is None else {**dtypes, kind: dtype}
        types = _with(types, kind, dtypes[kind] if on else None)
    made = region.changed(types, dtypes, region.keeps if keeps is None else keeps)
    set_autocast(made, made if types else None)


def _with(types: dict[str, DType], kind: str, dtype: DType | None) -> dict[str, DType]:
    changed = dict(types)
    changed.pop(kind, None)
    if dtype is not None:
        changed[kind] = dtype
    return changed


def add_nesting(step: int) -> int:
    """Count a region that is none of ours; the depth afterwards."""
    kept.nesting += step
    return current().depth + kept.nesting


_BANNED = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
    "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
    "In this case, combine the two layers using torch.nn.functional.binary_cross_entropy_with_logits\n"
    "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
    "safe to autocast."
)
