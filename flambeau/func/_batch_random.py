"""Random numbers inside of ``vmap``: an error, different ones for each example, or the same, as the caller said.

Factories and what works element by element draw for all examples at once; whatever else draws is called example by example. Nothing may
draw unseen: how often the thread has drawn from the default generator is looked at after a composite and at the end of the whole function.
"""

from __future__ import annotations

from typing import Any

from ..core.calls.dispatch import Call
from ..core.calls.registry import TABLES
from ..core.random.generator import drawn_here
from ..core.state import thread
from ..core.tape.history import is_differentiable
from ..ops import creation
from ..ops.dropout import alpha_terms, kept_scale
from ..ops.masks import where_select
from ._levels import Hook, Wrapped, below, call_entry, highest

_ERROR = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' randomness flags on vmap or "
    "perform the randomness operation out of vmap"
)
_SAME = "Vmap does not currently support same randomness with a batched tensor input"
_UNBATCHED = "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same randomness."


def refuse(batch: Any) -> None:
    if batch.randomness == "error":
        raise RuntimeError(_ERROR)


def check_all_seen(batch: Any) -> None:
    """At the end of the function: raise where something drew numbers that the batch knows nothing of."""
    if batch.randomness == "same" or drawn_here.times == batch.drawn:
        return
    refuse(batch)
    raise RuntimeError(_UNBATCHED)


def factory(batch: Any, call: Call) -> Any:
    """A tensor of random numbers; NotImplemented where one for all examples is right."""
    refuse(batch)
    entry, values = call.op, list(call.values)
    names = entry.names
    tensors = [i for i, each in enumerate(values) if batch.has(each)]
    if batch.randomness == "same":
        if not tensors:
            return NotImplemented
        if entry.name == "normal":
            raise RuntimeError(_SAME)
        for i in tensors:
            values[i] = values[i]._inner.detach()[0]
        return call_entry(entry, values)
    if entry.name in ("rand", "randn") or (
        entry.name in ("randint", "normal") and "size" in names and values[names.index("size")] is not None
    ):
        at = names.index("size")
        if entry.name in ("rand", "randn"):
            sizes = values[names.index("sizes")] or (values[at],)
            sizes = tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
            values[names.index("sizes")], values[at] = ((batch.size, *sizes),), None
        else:
            values[at] = (batch.size, *values[at])
        made = batch.wrap(call_entry(entry, values))
    elif entry.name.endswith("_like"):
        made = batch.wrap(call_entry(entry, batch.inside_all(values)))
    else:
        made = batch.examples(entry.name, lambda *each: call_entry(entry, each), values)
    batch.drawn = drawn_here.times
    return made


def drawn(batch: Any, function: Any, input: Any) -> Any:
    """``function``, which draws numbers for each element or row of its operand, called for all examples."""
    refuse(batch)
    if batch.randomness == "same":
        raise RuntimeError(_SAME)
    made = batch.wrap(function(input._inner))
    batch.drawn = drawn_here.times
    return made


def composite(batch: Any, call: Call) -> Any:
    """An answer to what draws element by element; NotImplemented has the body run, and the batch look at what it drew."""
    entry, values = call.op, call.values
    if entry.draws is None:
        return NotImplemented
    if entry.namespace == "Tensor":
        return _filled(batch, entry, values)
    if entry.draws == "rows" and not batch.has(values[0]):
        return _multinomial(batch, entry, values)
    if entry.draws not in ("numbers", "mask") or batch.randomness != "different" or not _draws(entry, values):
        return NotImplemented
    owner = highest(values)
    if owner is not None and owner.level > batch.level:
        return NotImplemented
    first = values[0]
    inner: list[Any] = batch.inside_all(values) if entry.name == "binomial" else [batch.inside(first), *values[1:]]
    if entry.name == "bernoulli" and any(batch.has(each) for each in values[1:]):
        return NotImplemented
    if entry.name == "binomial" and values[0]._array.shape != values[1]._array.shape:
        return NotImplemented
    made = batch.result(call_entry(entry, inner))
    batch.drawn = drawn_here.times
    return made


def _multinomial(batch: Any, entry: Any, values: Any) -> Any:
    """Of weights that are no batch's: for each example as from a row of its own."""
    weights = values[0]
    refuse(batch)
    if batch.randomness == "same" or (weights.__class__ is Wrapped and weights._owner.level > batch.level):
        return NotImplemented
    rows = batch.inside(weights)
    made = call_entry(entry, (rows.reshape(-1, rows._array.shape[-1]), *values[1:]))
    batch.drawn = drawn_here.times
    return batch.wrap(made.reshape((*rows._array.shape[:-1], made._array.shape[-1])))


def dropped(input: Any, p: float, feature: bool, alpha: bool, inplace: bool) -> Any:
    """Dropout inside of batches whose masks differ, drawn for all examples at once; NotImplemented where no batch draws different ones."""
    for batch in reversed(thread.levels):
        if getattr(batch, "randomness", "same") == "same":  # a level of forward mode has no such word
            continue
        refuse(batch)
        with below(batch):
            return _masked(batch, input, p, feature, alpha, inplace)
    return NotImplemented


def _masked(batch: Any, input: Any, p: float, feature: bool, alpha: bool, inplace: bool) -> Any:
    shape, rank, of = input._array.shape, input._array.ndim, input._array.dtype
    if (feature and rank < 2) or not is_differentiable(input._array):
        return NotImplemented  # an error
    if feature:
        shape = shape[:2] + (1,) * (rank - 2)
    _, stays = call_entry(TABLES["torch"]["native_dropout"], (creation.ones((batch.size, *shape), dtype=input.dtype), p, True))
    batch.drawn = drawn_here.times
    factor, offset, lowered = alpha_terms(p, of) if alpha else (kept_scale(p, of), 0, 0)
    noise = batch.wrap(stays.to(input.dtype).mul(float(of.type(factor))))
    made = input.mul_(noise) if inplace else input.mul(noise)
    if not alpha:
        return made
    shift = batch.wrap(where_select(stays, creation.full((), float(of.type(offset)), dtype=input.dtype), float(of.type(lowered))))
    return made.add_(shift) if inplace else made.add(shift)


Hook.dropped = staticmethod(dropped)  # type: ignore[attr-defined]


def _draws(entry: Any, values: Any) -> bool:
    """Whether dropout does anything."""
    if "dropout" not in entry.name:
        return True
    named = dict(zip((p.name for p in entry.params), values, strict=True))
    return bool(named["p"]) and named.get("train", named.get("training")) is not False and not named.get("inplace", False)


def _filled(batch: Any, entry: Any, values: Any) -> Any:
    """In place: into the batch's tensor; one tensor for all examples can have the same numbers only."""
    target = values[0]
    refuse(batch)
    has_batch = batch.has(target)
    if not any(batch.has(each) for each in values):
        if batch.randomness == "different":
            raise RuntimeError(_UNBATCHED)
        return NotImplemented
    if batch.randomness == "same":
        if any(batch.has(each) for each in values[1:]):
            raise RuntimeError(_SAME)
        one: Any = target._inner.detach()[0].clone()
        call_entry(entry, (one, *values[1:]))
        target._inner.copy_(one)
        return target
    if not has_batch:
        raise RuntimeError(_UNBATCHED)
    call_entry(entry, [batch.lead(each._inner, target._array.ndim) if batch.has(each) else each for each in values])
    batch.drawn = drawn_here.times
    return target


def method(name: str) -> Any:
    """A method of wrapped tensors that is no call of its own on plain ones (``uniform_``, ``random_``)."""

    def fill(self: Any, *args: Any, **kwargs: Any) -> Any:
        owner = self._owner

        with below(owner):
            if not hasattr(owner, "randomness"):
                getattr(self._inner, name)(*args, **kwargs)
                self._tangent.zero_()
                return self
            refuse(owner)
            if owner.randomness == "same":
                one = self._inner.detach()[0].clone()
                getattr(one, name)(*args, **kwargs)
                self._inner.copy_(one)
            else:
                getattr(self._inner, name)(*args, **kwargs)
                owner.drawn = drawn_here.times
            return self

    fill.__name__ = fill.__qualname__ = name
    return fill


for _name in ("uniform_", "random_"):
    setattr(Wrapped, _name, method(_name))
