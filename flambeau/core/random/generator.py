"""The random-number generator: PyTorch's CPU stream (mt19937), word for word.

NumPy's ``MT19937`` runs the same recurrence, so words come from it in bulk, whole blocks of 624 at a time.  The position inside the
last block is kept here, which makes small draws a slice of a block that is already there:

    NumPy's generator has made everything up to here ------------------+
    ... | block (624 words) | current block: used words | words to come |
                                                        ^ _position

Samplers that turn words into distributions are in ``streams``.  ``numpy.random`` is imported at the first draw; its global
generator is never touched.
"""

from __future__ import annotations

import functools
import os
import struct
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import late
from ..arrays.native import Budget, call_native
from ..device import cpu
from ..state import thread

if TYPE_CHECKING:
    from ..device import device as Device
    from ..tensor import Tensor

BLOCK = 624  # words of one mt19937 state
DEFAULT_SEED = 67280421310721  # of a new Generator, as in PyTorch
STATE_BYTES = 5056
_CHUNK_BLOCKS = 64  # words are converted 40k at a time, which stays in the second-level cache
_FLOAT32_MASK = np.uint32((1 << 24) - 1)
_FLOAT32_SCALE = np.float32(2.0**-24)
_FLOAT64_MASK = np.uint64((1 << 53) - 1)
_WORD = np.uint64(32)
_DOUBLES_CHUNK = 8192
_HEAD = struct.Struct("<QiiQ")  # seed, words left + 1, seeded, next
_NORMALS = struct.Struct("<dddi4xfB3x")  # x (unused), cached double, rho (unused), double valid, cached float, float valid
_KEY_AT, _NORMALS_AT = _HEAD.size, _HEAD.size + 8 * BLOCK


def _twist_state(block: np.ndarray) -> np.ndarray:
    """Outputs of mt19937 for a raw state: its tempering."""
    words = block ^ (block >> np.uint32(11))
    words ^= (words << np.uint32(7)) & np.uint32(0x9D2C5680)
    words ^= (words << np.uint32(15)) & np.uint32(0xEFC60000)
    words ^= words >> np.uint32(18)
    return words


draws = Budget(price=256)  # asking for a kernel costs as much as these many numbers, getting the first one far more
_kernels: dict[tuple[str, np.dtype], Any] = {}  # by rule and dtype


def _seed_value(seed: Any) -> int:
    """``seed`` as an unsigned 64-bit number; negative ones count down from 2**64."""
    if not -(1 << 63) <= seed < 1 << 64:
        raise ValueError(f"Overflow when unpacking long long: manual_seed expected a seed in [-2**63, 2**64), got {seed}")
    return seed & ((1 << 64) - 1)


_all: weakref.WeakSet[Generator] = weakref.WeakSet()


def _locks() -> list[Any]:
    """The locks of all generators."""
    references: list[Any] = list(_all.data)  # type: ignore[attr-defined] # in one call, as other threads make generators
    return [generator._lock for reference in references if (generator := reference()) is not None]


def _unlock() -> None:
    """In a child there are no other threads that could be drawing; what NumPy locked for one that was not waited for is free, too."""
    for generator in list(_all):
        generator._lock = threading.RLock()
        lock = getattr(generator._bits, "lock", None)
        if lock is not None:  # of one class or the other, by NumPy's version
            lock._at_fork_reinit()


late.held_in_forks.append(_locks)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)


def _place(where: Any) -> Device:
    """The device of a generator that is not the CPU's.

    Raises:
        RuntimeError: there are no generators for it.
    """
    from ..arrays.kinds import kind_at
    from ..device import device as Device

    found = Device(where)
    if found.type == "cpu":
        return cpu
    kind = kind_at(found) if found.type == "cuda" else None
    if kind is None:
        raise RuntimeError(f"Generator: device '{found}' has no generator")
    return kind.placed(found)


def _paired(words: np.ndarray) -> np.ndarray:
    """Unsigned 64-bit numbers of two words each, the first word being the upper one."""
    pairs = words.view(np.uint64)
    if sys.byteorder == "big":
        return pairs.copy()
    out = pairs >> _WORD
    out |= pairs << _WORD
    return out


def _fractions(numbers: np.ndarray) -> np.ndarray:
    """Float64 numbers in [0, 1) of the lower 53 bits of 64-bit ones, which are overwritten."""
    numbers &= _FLOAT64_MASK
    fractions = numbers.view(np.int64).astype(np.float64)  # signed: the conversion that every machine has
    fractions *= 2.0**-53
    return fractions


# What makes up a stream, and changes hands when generators are exchanged.
_STREAM = ("_bits", "_block", "_floats", "_position", "_seed", "_spare", "next_double_normal", "next_float_normal")


class Generator:
    """A stream of random numbers that gives what PyTorch's CPU generator gives for the same seed and the same calls.

    Args:
        device: ``'cpu'``, or a CUDA device, whose generators give the same numbers as the CPU's.
    Attributes:
        device: where its numbers are made.
    Raises:
        RuntimeError: another device, or one that is absent.
    Source: torch.Generator. Matsumoto and Nishimura 1998, "Mersenne twister", with the seeding of the authors' 2002 version.
    Example:
        >>> one, other = torch.Generator().manual_seed(7), torch.Generator().manual_seed(7)
        >>> torch.rand(2, generator=one), torch.rand(2, generator=other)
        (tensor([0.5349, 0.1988]), tensor([0.5349, 0.1988]))
    """

    __slots__ = ("__weakref__", "_device", "_lock", *_STREAM)

    def __init__(self, device: Any = "cpu"):
        self._device = cpu if device is None or device == "cpu" else _place(device)
        self._lock = threading.RLock()  # a signal handler may draw, too
        _all.add(self)
        self._bits: Any = None
        self._spare: np.ndarray | None = None  # where a native kernel puts the following block
        self._restart(DEFAULT_SEED)

    def _restart(self, seed: int) -> None:
        if thread.recorder is not None:
            thread.recorder.restarted(self, seed)
        self._seed = seed
        self._block: np.ndarray | None = None  # None: seeded, nothing drawn yet
        self._floats: np.ndarray | None = None  # the block as float32 in [0, 1), made when first asked for
        self._position = BLOCK
        self.next_double_normal: float | None = None
        self.next_float_normal: float | None = None

    @property
    def device(self) -> Device:
        return self._device

    def for_device(self, where: Device) -> Generator:
        """A generator of a device that is known to be there, at the beginning of this one's stream."""
        generator = Generator()
        generator._device = where
        return generator.manual_seed(self._seed)

    @contextmanager
    def exchanged(self, other: Generator) -> Iterator[None]:
        """Context in which this generator draws from the stream of ``other``; no other thread draws from either."""
        with self._lock, other._lock:
            self._exchange(other)
            try:
                yield
            finally:
                self._exchange(other)

    def _exchange(self, other: Generator) -> None:
        for name in _STREAM:
            mine, theirs = getattr(self, name), getattr(other, name)
            setattr(self, name, theirs)
            setattr(other, name, mine)

    # ---- seeding

    def manual_seed(self, seed: int, /) -> Generator:
        """Start the stream of ``seed`` and return this generator.

        Args:
            seed: from -2**63 to 2**64 - 1; only its lower 32 bits choose the stream.
        Raises:
            RuntimeError: not an integer.
            ValueError: out of range.
        Source: torch.Generator.manual_seed.
        """
        if isinstance(seed, (bool, np.bool_)) or not isinstance(seed, (int, np.integer)):
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
        self._restart(_seed_value(int(seed)))
        return self

    def seed(self) -> int:
        """Seed from the system's entropy, and return the seed.

        Source: torch.Generator.seed.
        """
        if thread.recorder is not None:
            thread.recorder.fail("a generator is seeded by chance")
        self._restart(int.from_bytes(os.urandom(8), "little"))
        return self._seed

    def initial_seed(self) -> int:
        """The seed that started this stream.

        Source: torch.Generator.initial_seed.
        """
        if thread.recorder is not None:
            thread.recorder.fail("the seed of a generator is read")
        return self._seed

    # ---- drawing

    def _fresh_bits(self) -> Any:
        """NumPy's generator at the start of this seed's stream."""
        from numpy import random

        if self._bits is None:
            self._bits = random.MT19937(0)
        random.RandomState(self._bits).seed(self._seed & 0xFFFFFFFF)
        return self._bits

    # Threads that draw at once get different words. Most draws take some of the present block: they read the place in it and set the new
    # one with no call in between, so that no other thread comes there. Who does more has the lock, and sets the place to ``BLOCK``
    # meanwhile: for others the block is used up, and they wait.
    def _next_block(self) -> None:
        bits = self._fresh_bits() if self._block is None else self._bits
        block = bits.random_raw(BLOCK).astype(np.uint32)
        self._block, self._floats = block, None
        self._position = 0

    def drawn(self, rule: str, out: np.ndarray, *numbers: Any, kernels: str = "random.draw", price: int = 1) -> bool:
        """Fill ``out`` from the next words by a native kernel (see ``kernels/families/random.py``), where that is to be had and worth it.

        Args:
            rule: its name there.
            out: C-contiguous, not empty.
            numbers: what the rule takes; a factor and a summand are the last ones.
            kernels: the native kernel that has the rule.
            price: of a number drawn without a kernel, in uniform numbers.
        Returns:
            Whether that was done; if not, no word is used.
        """
        if not draws.pays(price * out.size):
            return False
        key = rule, out.dtype
        fill = _kernels.get(key)
        if fill is None:
            fill = call_native(kernels, rule, out.dtype)
            if fill is None:
                return False
            _kernels[key] = fill
        with self._lock:
            old, new = self._block, self._spare
            if new is None:
                new = self._spare = np.empty(BLOCK, np.uint32)
            bits = self._fresh_bits() if old is None else self._bits
            position, self._position = self._position, BLOCK
            try:
                used = fill(out, bits.ctypes.state_address, new if old is None else old, new, position, *numbers)
            except BaseException:
                self._position = position
                raise
            if used is None:
                self._position = position
                return False
            stop = position + used
            if stop > BLOCK:
                self._block, self._floats, self._spare = new, None, None
                stop = BLOCK - -stop % BLOCK
            self._position = stop
        return True

    def drawn_each(self, rule: str, out: np.ndarray, kept: np.ndarray, *operands: np.ndarray) -> bool:
        """``drawn`` by a rule that takes an unknown number of words for each element (see ``kernels/families/rejection.py``).

        Args:
            kept: a float64 number that goes from element to element.
            operands: C-contiguous, of ``out``'s size and dtype.
        """
        return out.size > 0 and self.drawn(rule, out, kept, *operands, kernels="random.draw_each", price=16)

    def words(self, count: int) -> np.ndarray:
        """The next ``count`` 32-bit words; the array may be a slice of the current block and must not be written to."""
        start = self._position
        stop = start + count
        if stop <= BLOCK:
            self._position = stop
            return self._block[start:stop] if count else np.empty(0, np.uint32)  # type: ignore[index]
        words = np.empty(count, np.uint32)
        if self.drawn("words", words):
            return words
        for at, part in self._parts(count):
            words[at : at + part.size] = part
        return words

    def _parts(self, count: int) -> Iterator[tuple[int, np.ndarray]]:
        """The next ``count`` words in pieces: pairs (offset, words)."""
        with self._lock:
            start = self._position
            at = min(BLOCK - start, count)
            if at and start != self._position:  # another thread was between the two
                start = self._position
                at = min(BLOCK - start, count)
            self._position = start + at
            if at:
                yield 0, self._block[start : start + at]  # type: ignore[index]
            while at < count:
                blocks = min(-(-(count - at) // BLOCK), _CHUNK_BLOCKS)
                bits = self._fresh_bits() if self._block is None else self._bits
                raw = bits.random_raw(blocks * BLOCK).astype(np.uint32)
                used = min(count - at, raw.size)
                self._block, self._floats = raw[-BLOCK:].copy(), None
                self._position = BLOCK - (raw.size - used)
                yield at, raw[:used]
                at += used

    def word(self) -> int:
        """The next 32-bit word."""
        while True:
            position = self._position
            if position < BLOCK:
                self._position = position + 1
                return int(self._block[position])  # type: ignore[index]
            with self._lock:
                if self._position == BLOCK:
                    self._next_block()

    def floats(self, count: int) -> np.ndarray:
        """The next ``count`` float32 uniforms in [0, 1): the lower 24 bits of one word each, times 2**-24. A new array."""
        start = self._position
        stop = start + count
        if stop <= BLOCK and count:
            floats = self._floats
            if floats is not None:
                self._position = stop
                return floats[start:stop].copy()
            with self._lock:
                block = self._block
                floats = (block & _FLOAT32_MASK).astype(np.float32)
                floats *= _FLOAT32_SCALE
                start = self._position  # another thread may have been quicker
                stop = start + count
                if stop <= BLOCK and self._block is block:
                    self._floats, self._position = floats, stop
                    return floats[start:stop].copy()
        out = np.empty(count, np.float32)
        if count and self.drawn("uniform", out):
            return out
        for at, part in self._parts(count):
            piece = out[at : at + part.size]
            piece[...] = part & _FLOAT32_MASK
            piece *= _FLOAT32_SCALE
        return out

    def doubles(self, count: int) -> np.ndarray:
        """The next ``count`` float64 uniforms in [0, 1): 53 bits of two words each, the first word being the upper one."""
        out = np.empty(count)
        if count and self.drawn("uniform", out):
            return out
        for start in range(0, count, _DOUBLES_CHUNK):
            piece = out[start : start + _DOUBLES_CHUNK]
            piece[...] = _fractions(self.long_words(piece.size))
        return out

    def long_words(self, count: int) -> np.ndarray:
        """The next ``count`` unsigned 64-bit numbers, of two words each, the first word being the upper one."""
        words = np.empty(count, np.uint64)
        if count and self.drawn("words", words):
            return words
        return _paired(self.words(2 * count))

    def each_double(self) -> Iterator[float]:
        """The float64 uniforms of ``doubles``, one at a time, for samplers that cannot know how many they need."""
        while True:
            place, block = self._position, self._block
            count = (BLOCK - place) // 2
            if count == 0 or block is None:  # the next number begins in this block and ends in the following one, or there is no block yet
                yield float(self.doubles(1)[0])
                continue
            for value in _fractions(_paired(block[place : place + 2 * count])).tolist():
                if self._block is not block or self._position != place:
                    break  # somebody else has drawn meanwhile
                place += 2
                self._position = place
                yield value

    # ---- state

    def state_bytes(self) -> np.ndarray:
        """The whole state as 5056 bytes, in the layout of PyTorch's CPU generator."""
        state = bytearray(STATE_BYTES)
        if self._block is None:
            left, position = 1, 0
        else:
            left, position = BLOCK + 1 - self._position, self._position
        bits = self._fresh_bits() if self._block is None else self._bits
        _HEAD.pack_into(state, 0, self._seed, left, 1, position)
        state[_KEY_AT:_NORMALS_AT] = bits.state["state"]["key"].astype("<u8").tobytes()
        double, single = self.next_double_normal, self.next_float_normal
        _NORMALS.pack_into(state, _NORMALS_AT, 0.0, double or 0.0, 0.0, double is not None, single or 0.0, single is not None)
        made = np.frombuffer(state, np.uint8)
        if thread.recorder is not None:
            thread.recorder.call(self.state_bytes, (), (made,), random=True)
        return made

    def load_state_bytes(self, state: np.ndarray) -> None:
        """Continue from a state that ``state_bytes`` or PyTorch made.

        Raises:
            RuntimeError: wrong size, or not a state of mt19937.
        """
        if thread.recorder is not None:
            thread.recorder.call(self.load_state_bytes, (state,), random=True)
        if state.size != STATE_BYTES:
            raise RuntimeError(
                f"Expected a CPUGeneratorImplState of size {STATE_BYTES} but found the input RNG state size to be {state.size}"
            )
        data = state.tobytes()
        seed, left, seeded, position = _HEAD.unpack_from(data, 0)
        if seeded != 1 or not 0 < left <= BLOCK or position > BLOCK or (left != 1 and left + position != BLOCK + 1):
            raise RuntimeError("Invalid mt19937 state")
        key = np.frombuffer(data, "<u8", BLOCK, _KEY_AT).astype(np.uint32)
        _, double, _, has_double, single, has_single = _NORMALS.unpack_from(data, _NORMALS_AT)
        from numpy import random

        with self._lock:
            if not position and self._begins_with(seed, key):  # seeded and not drawn from, and so it stays
                return
            if self._bits is None:
                self._bits = random.MT19937(0)
            self._bits.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": BLOCK}}
            self._seed = seed
            self._block, self._floats = _twist_state(key), None
            self._position = BLOCK if left == 1 else position
            self.next_double_normal = double if has_double else None
            self.next_float_normal = single if has_single else None

    def _begins_with(self, seed: int, key: np.ndarray) -> bool:
        """Start the stream of ``seed``; whether ``key`` is its beginning."""
        self._restart(seed)
        return np.array_equal(self._fresh_bits().state["state"]["key"], key)

    def get_state(self) -> Tensor:
        """The state as a ``uint8`` tensor, to be given to ``set_state`` later.

        Source: torch.Generator.get_state.
        """
        from ..tensor import wrap

        return wrap(self.state_bytes())

    def set_state(self, new_state: Tensor, /) -> None:
        """Continue from a state that ``get_state`` gave, here or in PyTorch.

        Raises:
            TypeError: not a ``uint8`` tensor.
            RuntimeError: wrong size, or not a state of mt19937.
        Source: torch.Generator.set_state.
        """
        from ..tensor import Tensor

        if not isinstance(new_state, Tensor):
            raise TypeError(f"expected a torch.ByteTensor, but got {type(new_state).__name__}")
        if new_state._array.dtype != np.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        self.load_state_bytes(new_state._array)

    def clone_state(self) -> Generator:
        """A new generator that continues from this one's state.

        Source: torch.Generator.clone_state.
        """
        clone = Generator(self._device)
        clone.load_state_bytes(self.state_bytes())
        return clone

    def get_offset(self) -> int:
        """Only generators that count their calls have an offset.

        Raises:
            RuntimeError: always.
        Source: torch.Generator.get_offset.
        """
        raise RuntimeError(f"{self._device.type.upper()} Generator does not use offset")

    def set_offset(self, offset: int, /) -> None:
        """Only generators that count their calls have an offset.

        Raises:
            RuntimeError: always.
        Source: torch.Generator.set_offset.
        """
        raise RuntimeError(f"{self._device.type.upper()} Generator does not use offset")

    def graphsafe_get_state(self) -> Generator:
        """Only generators of other devices take part in graphs.

        Raises:
            NotImplementedError: always.
        Source: torch.Generator.graphsafe_get_state.
        """
        raise NotImplementedError("graphsafe_get_state is not supported in this Generator")

    def graphsafe_set_state(self, state: Generator, /) -> None:
        """Only generators of other devices take part in graphs.

        Raises:
            NotImplementedError: always.
        Source: torch.Generator.graphsafe_set_state.
        """
        raise NotImplementedError("graphsafe_set_state is not supported in this Generator")

    def __reduce__(self) -> tuple[Any, ...]:
        return Generator, (str(self._device),), (self._seed, None, self.state_bytes())

    def __setstate__(self, state: tuple[Any, Any, Any]) -> None:
        data = state[2]  # PyTorch's own pickles hold a tensor here
        self.load_state_bytes(data if isinstance(data, np.ndarray) else data.numpy())


class _Drawn(threading.local):
    times = 0


drawn_here = _Drawn()  # how often this thread has drawn from the default generator while that was watched


def _counting(method: Any) -> Any:
    def draw(self: Any, *args: Any, **kwargs: Any) -> Any:
        drawn_here.times += 1
        return method(self, *args, **kwargs)

    return functools.wraps(method)(draw)


class _Watched(Generator):
    """Class of the default generator while draws of one thread are counted; other threads draw at the same time."""

    __slots__ = ()
    drawn, words, word, long_words, floats, doubles = map(
        _counting, (Generator.drawn, Generator.words, Generator.word, Generator.long_words, Generator.floats, Generator.doubles)
    )
    each_double = _counting(Generator.each_double)


_Watched.__name__, _Watched.__qualname__ = Generator.__name__, Generator.__qualname__
_watching: set[weakref.ref[Any]] = set()  # who watches; one whose end was interrupted is gone when nothing refers to it


def watch(who: Any) -> None:
    """From now on ``drawn_here`` counts, until ``unwatch(who)``."""
    late.alone(_show, _watching.add, weakref.ref(who, _watching.discard))


def unwatch(who: Any) -> None:
    """``who`` need not know any more."""
    late.alone(_show, _watching.discard, weakref.ref(who))


def _show(change: Callable[[Any], None], who: weakref.ref[Any]) -> None:
    change(who)
    default_generator.__class__ = _Watched if _watching else Generator


default_generator = Generator()
default_generator.seed()
followers: list[Generator] = []  # other devices' default generators, which ``torch.manual_seed`` seeds too


def manual_seed(seed: Any) -> Generator:
    """Seed the default generator and return it.

    Args:
        seed: a number from -2**63 to 2**64 - 1; anything that ``int`` takes.
    Returns: a ``Generator``.
    Raises:
        ValueError: out of range, or a string that is no number.
    Source: torch.manual_seed.
    Example:
        >>> generator = torch.manual_seed(3)
        >>> torch.initial_seed(), generator.initial_seed()
        (3, 3)
    """
    for generator in followers:
        generator.manual_seed(int(seed))
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Seed the default generator from the system's entropy, and return the seed.

    Returns: an int of 64 bits.
    Source: torch.seed.
    Example:
        >>> torch.seed() == torch.initial_seed()
        True
    """
    chosen = default_generator.seed()
    for generator in followers:
        generator.manual_seed(chosen)
    return chosen


def initial_seed() -> int:
    """The seed of the default generator.

    Returns: an int.
    Source: torch.initial_seed.
    Example:
        >>> generator = torch.manual_seed(5)
        >>> torch.initial_seed()
        5
    """
    return default_generator.initial_seed()
