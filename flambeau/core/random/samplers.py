"""Distributions drawn from a ``Generator``, consuming its words and rounding as PyTorch's CPU kernels do.

Every ``fill_*`` function writes into an array that may be strided.  The order in which elements receive their numbers is the order
in which they lie in memory (``memory_order``), not the logical one: a transposed matrix gets the numbers of its contiguous original.
Contiguity matters once more for ``fill_normal``: 16 or more contiguous elements are filled in groups of 16, anything else one pair of
numbers at a time.

PyTorch computes in float64 and casts to the tensor's dtype, except for uniform and grouped normal numbers, which are computed in
float32 for float32 and narrower.  Where its compiler fuses ``a * b + c``, so do these (``box_muller.fused_*``).

Two of PyTorch's kernels (Bernoulli numbers of one probability, exponential numbers) use Intel MKL's own streams on Intel CPUs and
mt19937 everywhere else; the latter is what is here.

``Generator.drawn`` may do an inner loop by a native kernel, from words to the result; it gives the same bits.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from .. import dtype as dtypes
from ..arrays import native
from ..calls.interruption import pass_on
from ..dtype import BY_NUM, PAIR, REDUCED, bfloat16, bool_, dtype, float16, float32, float64, int64, of_array
from ..layout import empty_as, order_of_dims
from . import box_muller
from .box_muller import fused_float32, fused_float64, libm
from .generator import Generator

_CHUNK = 16384
_DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}  # bits of the significand
_LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38, "float64": 1.7976931348623157e308}
_INT_LIMITS = {
    d: (int(np.iinfo(d.numpy).min), min(int(np.iinfo(d.numpy).max), (1 << 63) - 1))
    for d in dtypes.ALL.values()
    if d.category == dtypes.INTEGER and d.numpy is not None
}
_INT_LIMITS[bool_] = (0, 1)
_NORMALS_CHUNK = 8192
_FEW = 32  # normals made one by one rather than in arrays
# from this range on, draws take 64 bits, which keeps the skew of the modulus low
_WIDE_RANGE = 1 << 28


# ---- which element comes next


def memory_order(arrays: list[np.ndarray]) -> list[int]:
    """Dimensions from the outermost to the innermost, in the order in which PyTorch walks through arrays of one shape.

    The first array decides by its strides, larger ones outside; where it has equal strides or a stride of 0, the next one does.
    """
    return order_of_dims(arrays[0].shape, [array.strides for array in arrays])[::-1]


def in_memory_order(out: np.ndarray, *others: np.ndarray) -> tuple[np.ndarray, ...]:
    """``out`` and arrays of its shape, transposed so that their logical order is the order of filling."""
    if out.flags.c_contiguous:
        return (out, *others)
    order = memory_order([out, *others])
    return tuple([array.transpose(order) for array in (out, *others)])


def _drawn(generator: Generator, rule: str, out: np.ndarray, *numbers: float) -> bool:
    """``generator.drawn`` in filling order."""
    (target,) = in_memory_order(out)
    return target.flags.c_contiguous and generator.drawn(rule, target, *numbers)


def _put(out: np.ndarray, values: np.ndarray) -> None:
    """Cast and write flat values in filling order."""
    (target,) = in_memory_order(out)
    target[...] = _cast(values, BY_NUM[out.dtype.num]).reshape(target.shape)


def _cast(values: np.ndarray, to: dtype) -> np.ndarray:
    if to in REDUCED:  # PyTorch's reduced types are made from float32
        return values.astype(np.float32).astype(to.numpy)
    return values.astype(to.numpy, copy=False)


def _as_real(array: np.ndarray) -> np.ndarray:
    """A complex array's real and imaginary parts as a last dimension of size 2, without a copy."""
    part = of_array(array).to_real().numpy
    return array[..., None].view(part)


def _unsupported(operation: str, of: dtype) -> NotImplementedError:
    return NotImplementedError(f"\"{operation}\" not implemented for '{of.legacy}'")


def _floating(out: np.ndarray, operation: str) -> dtype:
    kind = of_array(out)
    if kind.name not in _DIGITS:
        raise _unsupported(operation, kind)
    return kind


# ---- uniform


def rand(generator: Generator, shape: tuple[int, ...], of: dtype = float32) -> np.ndarray:
    """A new array of uniform numbers in [0, 1)."""
    if of is float32:
        return generator.floats(math.prod(shape)).reshape(shape)
    if of is float64:
        return generator.doubles(math.prod(shape)).reshape(shape)
    out = np.empty(shape, of.numpy)
    fill_uniform(generator, out)
    return out


def fill_uniform(generator: Generator, out: np.ndarray, low: float = 0.0, high: float = 1.0) -> None:
    """Uniform numbers in [low, high): 24 bits each, 53 for float64.

    Raises:
        RuntimeError: bounds beyond the dtype's range, or ``low`` > ``high``.
        NotImplementedError: a dtype that is not floating point or complex.
    """
    if out.dtype.kind == "c" or out.dtype == PAIR:
        out = _as_real(out)
    of = _floating(out, "check_uniform_bounds")
    largest = _LARGEST[of.name]
    for value, name in ((low, "from"), (high, "to")):
        if not -largest <= value <= largest:
            raise RuntimeError(f"{name} is out of bounds for {of}: uniform_ got {name}={value}")
    if low > high:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}")
    if high - low > largest:
        raise RuntimeError(f"uniform_ expects to-from <= std::numeric_limits<{of.legacy}>::max(), but found to={high} and from={low}")
    count = out.size
    if count == 0:
        return
    is_unit = low == 0.0 and high == 1.0
    if of not in REDUCED:
        if is_unit and _drawn(generator, "uniform", out):
            return
        factor = float(np.float32(high) - np.float32(low)) if of is float32 else high - low
        if not is_unit and _drawn(generator, "between", out, high, factor, low):
            return
    if of is float64:
        values = generator.doubles(count)
        if low != 0.0 or high != 1.0:
            values = fused_float64(values, high - low, low)
    else:
        values = generator.floats(count)
        if low != 0.0 or high != 1.0:
            _scale_float32(values, np.float32(high) - np.float32(low), np.float32(low))
    values = _cast(values, of)
    if of in REDUCED or low != 0.0 or high != 1.0:  # rounding may reach the bound that must stay out
        values[values == values.dtype.type(high)] = values.dtype.type(low)
    _put(out, values)


def _scale_float32(values: np.ndarray, factor: Any, offset: Any) -> None:
    for start in range(0, values.size, _CHUNK):
        piece = values[start : start + _CHUNK]
        piece[...] = fused_float32(piece, factor, offset)


# ---- normal


def randn(generator: Generator, shape: tuple[int, ...], of: dtype = float32) -> np.ndarray:
    """A new array of standard normal numbers."""
    out = np.empty(shape, of.numpy)
    if of not in (float32, float64) or out.size == 0:
        fill_normal(generator, out)
    elif out.size >= 16:
        _fill_groups(generator, out.reshape(-1), 0.0, 1.0)
    elif not _draw_pairs(generator, out.reshape(-1), 0.0, 1.0):
        _put(out, scalar_normals(generator, out.size))
    return out


def fill_normal(generator: Generator, out: np.ndarray, mean: float = 0.0, std: float = 1.0) -> None:
    """Normal numbers; complex ones have half of the variance in each part.

    Raises:
        RuntimeError: a negative ``std``.
        NotImplementedError: a dtype that is not floating point or complex.
    """
    if not std >= 0.0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    if out.size == 0:
        return
    if out.dtype.kind == "c" or out.dtype == PAIR:
        out, std = _as_real(out), std / math.sqrt(2)
    _floating(out, "normal_kernel_cpu")
    if out.size < 16 or not out.flags.c_contiguous:
        if not (out.dtype.itemsize > 2 and out.flags.c_contiguous and _draw_pairs(generator, out.reshape(-1), mean, std)):
            _put(out, scalar_normals(generator, out.size, mean, std))
    else:
        _fill_groups(generator, out.reshape(-1), mean, std)


def _draw_pairs(generator: Generator, flat: np.ndarray, mean: float, std: float) -> bool:
    """``scalar_normals`` by a native kernel, cast to float32 or float64, where that is to be had."""
    before = generator.next_double_normal
    rest = flat if before is None else flat[1:]
    kept = np.empty(1)
    if rest.size == 0 or not generator.drawn("normal pairs", rest, rest.size, id(kept), std, mean):
        return False
    if before is not None:
        flat[:1] = fused_float64(np.array([before]), std, mean)
    generator.next_double_normal = kept.item() if rest.size & 1 else None
    return True


def scalar_normals(generator: Generator, count: int, mean: float = 0.0, std: float = 1.0) -> np.ndarray:
    """float64 normals made one pair at a time; the second of a pair is kept in the generator where it is not needed yet."""
    values = np.empty(count)
    if _draw_pairs(generator, values, mean, std):
        return values
    if count <= _FEW:
        few = np.array([_next_normal(generator) for _ in range(count)])
        return few * std + mean if std == 1.0 or mean == 0.0 else fused_float64(few, std, mean)
    at = 0
    if generator.next_double_normal is not None:
        values[0], generator.next_double_normal = generator.next_double_normal, None
        at = 1
    pairs = (count - at + 1) // 2
    if pairs:
        uniforms = generator.doubles(2 * pairs)
        radius = np.sqrt(-2.0 * libm(math.log1p, -uniforms[1::2]))
        turned = np.exp(uniforms[::2] * (2.0 * math.pi) * 1j)  # exp(i t) takes its sine and cosine from the C library
        normals = np.empty(2 * pairs)
        np.multiply(radius, turned.real, out=normals[::2])
        np.multiply(radius, turned.imag, out=normals[1::2])
        values[at:] = normals[: count - at]
        if normals.size > count - at:
            generator.next_double_normal = float(normals[-1])
    return fused_float64(values, std, mean)


def _next_normal(generator: Generator) -> float:
    """One standard normal number, or the one kept from the last call."""
    kept = generator.next_double_normal
    if kept is not None:
        generator.next_double_normal = None
        return kept
    a, b, c, d = generator.words(4).tolist()
    turn = ((a & 0x1FFFFF) << 32 | b) * 2.0**-53
    radius = math.sqrt(-2.0 * math.log1p(-((c & 0x1FFFFF) << 32 | d) * 2.0**-53))
    angle = turn * (2.0 * math.pi)
    generator.next_double_normal = radius * math.sin(angle)
    return radius * math.cos(angle)


def _fill_groups(generator: Generator, flat: np.ndarray, mean: float, std: float) -> None:
    """Groups of 16; the last 16 elements are made again of 16 more uniforms where a group is incomplete.

    An incomplete group's own uniforms are drawn all the same, but not for float16 and bfloat16, which are computed in float32.
    """
    wide = flat if flat.dtype.itemsize > 2 else np.empty(flat.size, np.float32)
    whole = flat.size // 16 * 16
    _draw_groups(generator, wide[:whole], mean, std)
    if whole != flat.size:
        if wide is flat:
            generator.words((flat.size - whole) * (flat.dtype.itemsize // 4))
        _draw_groups(generator, wide[-16:], mean, std)
    if wide is not flat:
        flat[...] = wide


def _draw_groups(generator: Generator, flat: np.ndarray, mean: float, std: float) -> None:
    is_long = flat.dtype == np.float64
    if generator.drawn("normal", flat, std, mean):
        return
    for start in range(0, flat.size, _NORMALS_CHUNK):
        target = flat[start : start + _NORMALS_CHUNK]
        uniforms = (generator.doubles if is_long else generator.floats)(target.size)
        (box_muller.standard_normal_float64 if is_long else box_muller.standard_normal_float32)(uniforms.reshape(-1, 16))
        if std == 1.0:
            np.add(uniforms, mean, out=target)  # also turns -0 into 0, as the fused form does
        else:
            target[...] = fused_float64(uniforms, std, mean) if is_long else fused_float32(uniforms, np.float32(std), np.float32(mean))


def fill_log_normal(generator: Generator, out: np.ndarray, mean: float = 1.0, std: float = 2.0) -> None:
    """Exponentials of normal numbers.

    Raises:
        RuntimeError: ``std`` not positive.
        NotImplementedError: a dtype that is not floating point.
    """
    if not std > 0.0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std:g}")
    if out.size == 0:
        return
    _floating(out, "log_normal_cpu")
    normals = scalar_normals(generator, out.size, mean, std)
    _put(out, libm(_exp, normals))


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError as error:
        pass_on(error)
        return math.inf


# ---- integers


def fill_random(generator: Generator, out: np.ndarray) -> None:
    """Integers from 0 to the dtype's largest value; for floating point up to 2**(bits of the significand).

    Raises:
        NotImplementedError: complex numbers and unsigned integers wider than 8 bits.
    """
    if out.size == 0:
        return
    of = of_array(out)
    if of is bool_:
        span = 2
    elif of.name in _DIGITS:
        span = (1 << _DIGITS[of.name]) + 1
    elif of.name in ("uint8", "int8", "int16", "int32", "int64"):
        span = int(np.iinfo(of.numpy).max) + 1
    else:
        raise _unsupported("random_kernel_cpu", of)
    wide = of is float64 or of is int64
    if not wide and _drawn(generator, "below", out, span, 0):
        return
    words = generator.long_words(out.size) if wide else generator.words(out.size)
    _put(out, words % words.dtype.type(span))


def fill_random_full(generator: Generator, out: np.ndarray) -> None:
    """Integers over the whole range of int64.

    Raises:
        RuntimeError: a dtype other than int64, float64, float32 and bfloat16.
    """
    if out.size == 0:
        return
    of = of_array(out)
    if of is bool_ or of is float16 or of.is_complex or of.name in ("uint16", "uint32", "uint64"):
        raise _unsupported("random_full_64_bits_range_kernel_cpu", of)
    if of not in (int64, float64, float32, bfloat16):
        raise RuntimeError("random_full_64_bits_range_kernel_cpu handles only int64, double, float and bfloat16")
    _put(out, generator.long_words(out.size).view(np.int64))


def fill_random_range(generator: Generator, out: np.ndarray, low: int, high: int | None) -> None:
    """Integers in [low, high); up to the dtype's largest value where ``high`` is None.

    Raises:
        RuntimeError: an empty range, or bounds that the dtype cannot hold.
    """
    of = of_array(out)
    if high is None and low == -(1 << 63):
        return fill_random_full(generator, out)
    if of.is_complex or (of.is_floating_point and of.name not in _DIGITS):
        raise _unsupported("check_random_bounds", of)
    if high is not None:
        if low >= high:
            raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
        if of.is_floating_point:
            low, high = _nearest_from(low, of), _nearest_to(high, of)
            if low >= high:
                raise RuntimeError(
                    f"random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, but got from={low} >= to={high}"
                )
        last = high - 1
    elif of.is_floating_point:
        last = 1 << _DIGITS[of.name]
        low = _nearest_from(low, of)
        if low >= last:
            raise RuntimeError(
                "random_ expects 'from' casted to dtype to be less than or equal to 'to_inc' casted to dtype, "
                f"but got from={low} > to_inc={last}"
            )
    else:
        last = 1 if of is bool_ else int(np.iinfo(of.numpy).max)
    _check_range(low, last, of)
    if out.size == 0:
        return None
    span = (last - low + 1) & ((1 << 64) - 1)
    if span < _WIDE_RANGE and _drawn(generator, "below", out, span, low):
        return None
    if span >= _WIDE_RANGE:
        values = generator.long_words(out.size)
        values %= np.uint64(span)
    else:
        values = (generator.words(out.size) % np.uint32(span)).astype(np.uint64)
    if low:
        values += np.uint64(low & ((1 << 64) - 1))  # modulo 2**64, so negative bounds come out right
    return _put(out, values.view(np.int64))


def _check_range(low: int, last: int, of: dtype) -> None:
    least, most = (-_LARGEST[of.name], _LARGEST[of.name]) if of.is_floating_point else _INT_LIMITS[of]
    for value, name in ((low, "from"), (last, "to - 1")):
        if not least <= value <= most:
            raise RuntimeError(f"{name} is out of bounds for {of}: got {value}")
        if of.is_floating_point and abs(value) > 1 << _DIGITS[of.name]:
            digits = _DIGITS[of.name]
            warnings.warn(
                f"{name} is out of bounds [-(2^{digits}), 2^{digits}]. Due to precision limitations {of} can support discrete uniform "
                "distribution only within this range. This warning will become an error in version 1.7 release, please fix the code in "
                "advance",
                UserWarning,
                stacklevel=4,
            )


def _to_int(value: int, of: dtype) -> int:
    """``value`` rounded to the dtype; what does not fit int64 becomes its lowest number, as x86 converts."""
    value = (value + (1 << 63)) % (1 << 64) - (1 << 63)
    with np.errstate(over="ignore"):
        rounded = float(_cast(np.array([value], np.int64), of).astype(np.float64)[0])
    return int(rounded) if abs(rounded) < 2.0**63 else -(1 << 63)


def _nearest_from(low: int, of: dtype) -> int:
    """The lowest representable number that is not below ``low``, where ``low + 1`` would be rounded down past it."""
    rounded = _to_int(low + 1, of)
    if rounded >= low:
        return low
    return rounded + (1 << (abs(low + 1).bit_length() - _DIGITS[of.name]))


def _nearest_to(high: int, of: dtype) -> int:
    """``high`` moved down to where ``high - 1`` is not rounded up to it."""
    rounded = _to_int(high - 1, of)
    if rounded < high:
        return high
    return rounded - (1 << (abs(high - 1).bit_length() - _DIGITS[of.name]))


def randperm(generator: Generator, count: int) -> np.ndarray:
    """A random permutation of 0 .. count - 1 as int64: Fisher and Yates' shuffle, one word a step.

    Raises:
        NotImplementedError: ``count`` of 214748364 or more, from where PyTorch shuffles with 64-bit draws.
    """
    if count >= ((1 << 32) - 1) // 20:
        raise NotImplementedError(f"randperm: expected n below 214748364, got {count}")
    if count < 2:
        return np.arange(count)
    permutation = np.arange(count)
    if generator.drawn("shuffle", permutation[:-1], count):  # one step for each element but the last
        return permutation
    steps = np.arange(count, 1, -1, dtype=np.uint32)
    return _shuffle(generator.words(count - 1) % steps, count)


def _shuffle(offsets: np.ndarray, count: int) -> np.ndarray:
    """Swap element i with element i + offsets[i], for each i in turn."""
    permutation = list(range(count))
    for i, other in enumerate((offsets + np.arange(count - 1, dtype=np.uint32)).tolist()):
        permutation[i], permutation[other] = permutation[other], permutation[i]
    return np.array(permutation, np.int64)


# ---- Bernoulli


def _bernoulli_type(out: np.ndarray, operation: str) -> dtype:
    of = of_array(out)
    if of.is_complex or of.name in ("uint16", "uint32", "uint64") or of.name.startswith("float8"):
        raise _unsupported(operation, of)
    return of


def _bound_of(p: float) -> int:
    """A uniform number k / 2**53 is below ``p`` where k is below this."""
    return math.ceil(p * 2.0**53)


def bernoulli_mask(generator: Generator, count: int, p: float) -> np.ndarray:
    """``count`` bools that are true with probability ``p``, of 53 bits each; what dropout draws."""
    # the upper word alone decides unless it equals the bound's
    bound = _bound_of(p)
    upper, lower = bound >> 32, bound & 0xFFFFFFFF
    out = np.empty(count, np.bool_)
    if count and generator.drawn("bernoulli", out, bound, 1.0):
        return out
    for start in range(0, count, _CHUNK):
        piece = out[start : start + _CHUNK]
        words = generator.words(2 * piece.size)
        high = words[::2] & np.uint32((1 << 21) - 1)
        np.less(high, np.uint32(upper), out=piece)
        if lower:
            equal = high == np.uint32(upper)
            if equal.any():
                piece |= equal & (words[1::2] < np.uint32(lower))
    return out


def fill_bernoulli(generator: Generator, out: np.ndarray, p: float = 0.5, kept: float = 1.0) -> None:
    """``kept`` with probability ``p``, else zeros.

    Raises:
        RuntimeError: ``p`` outside [0, 1].
        NotImplementedError: complex numbers and unsigned integers wider than 8 bits.
    """
    if not 0.0 <= p <= 1.0:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
    if out.size == 0:
        return
    _bernoulli_type(out, "bernoulli_scalar_cpu_")
    if _drawn(generator, "bernoulli", out, _bound_of(p), kept):
        return
    (target,) = in_memory_order(out)
    target[...] = bernoulli_mask(generator, out.size, p).reshape(target.shape)
    if kept != 1.0:
        np.copyto(target, out.dtype.type(kept), where=target != 0)


def fill_bernoulli_each(generator: Generator, out: np.ndarray, p: np.ndarray) -> None:
    """Ones with the probability that stands at the same place of ``p``, which is broadcast to ``out``'s shape.

    Raises:
        RuntimeError: a probability outside [0, 1], or a dtype of ``p`` that is not floating point.
    """
    if out.size == 0:
        return
    _bernoulli_type(out, "bernoulli_tensor_cpu_self_")
    _floating(p, "bernoulli_tensor_cpu_p_")
    p = np.broadcast_to(p, out.shape)
    if not ((p >= 0) & (p <= 1)).all():
        raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.  (bernoulli: probabilities must be in [0, 1])")
    order = memory_order([out, p])
    target, chance = out.transpose(order), p.transpose(order)
    uniforms = generator.doubles(out.size) if p.dtype == np.float64 else generator.floats(out.size)
    if p.dtype not in (np.float64, np.float32):
        chance = chance.astype(np.float32)
    target[...] = uniforms.reshape(target.shape) < chance


# ---- other continuous distributions, and geometric


def fill_exponential(generator: Generator, out: np.ndarray, rate: float = 1.0) -> None:
    """Exponential numbers of rate ``rate``.

    Raises:
        RuntimeError: ``rate`` not positive, or a dtype that is not floating point.
    """
    if not rate > 0.0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={rate:g}")
    if out.size == 0:
        return
    of = of_array(out)
    if not of.is_floating_point:
        raise RuntimeError(
            f"Exponential distribution is a continuous probability distribution. dtype must be a floating point but you specified {of}"
        )
    _floating(out, "exponential_cpu")
    values = libm(math.log1p, -generator.doubles(out.size))
    values *= -1.0 / rate
    _put(out, values)


def fill_geometric(generator: Generator, out: np.ndarray, p: float) -> None:
    """Numbers of trials up to the first success: 1, 2, ...

    Raises:
        RuntimeError: ``p`` outside (0, 1).
        NotImplementedError: bool, complex numbers and unsigned integers wider than 8 bits.
    """
    if not 0.0 < p < 1.0:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    if out.size == 0:
        return
    if _bernoulli_type(out, "geometric_cpu") is bool_:
        raise _unsupported("geometric_cpu", bool_)
    values = libm(_log, generator.doubles(out.size))
    values /= math.log1p(-p)
    _put(out, np.ceil(values, out=values))


def _log(x: float) -> float:
    return math.log(x) if x else -math.inf


def fill_cauchy(generator: Generator, out: np.ndarray, median: float = 0.0, sigma: float = 1.0) -> None:
    """Cauchy numbers.

    Raises:
        RuntimeError: ``sigma`` not positive, or a dtype that is not floating point.
    """
    if not sigma > 0.0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
    of = of_array(out)
    if not of.is_floating_point:
        raise RuntimeError(
            f"Cauchy distribution is a continuous probability distribution. dtype must be a floating point but you specified {of}"
        )
    if out.size == 0:
        return
    _floating(out, "cauchy_cpu")
    tangents = libm(math.tan, math.pi * (generator.doubles(out.size) - 0.5))
    _put(out, fused_float64(tangents, sigma, median))


# ---- categories


def multinomial(generator: Generator, probs: np.ndarray, count: int, replacement: bool = False) -> np.ndarray:
    """``count`` category numbers for each row of ``probs`` (one or two dimensions, rows need not sum to 1), as int64.

    Raises:
        RuntimeError: wrong shape, dtype or ``count``; negative, infinite or NaN entries; a row without a positive one.
    """
    of = of_array(probs)
    if not 0 < probs.ndim <= 2:
        raise RuntimeError(f"prob_dist must be 1 or 2 dim, got {probs.ndim}")
    if of.name not in _DIGITS:
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {of.legacy}")
    if count <= 0:
        raise RuntimeError(f"cannot sample n_sample <= 0 samples, got {count}")
    categories = probs.shape[-1]
    if not replacement and count > categories:
        raise RuntimeError(f"cannot sample n_sample > prob_dist.size(-1) samples without replacement: {count} of {categories}")
    if categories > 1 << 24:
        raise RuntimeError("number of categories cannot exceed 2^24")
    if probs.size == 0:
        if probs.ndim == 2 and probs.shape[0] == 0:
            return np.empty((0, count), np.int64)
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    if replacement and count > 1:
        return _multinomial_with(generator, probs, count)
    return _multinomial_without(generator, probs, count)


def _multinomial_without(generator: Generator, probs: np.ndarray, count: int) -> np.ndarray:
    """The largest of p / q with exponential q come first: each is chosen with probability p among those that are left."""
    if not (probs.max() < np.inf and probs.min() >= 0):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if (probs.sum(-1, dtype=np.float64) == 0).any():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    drawn = empty_as(probs, None, probs.shape, probs.dtype)
    fill_exponential(generator, drawn)
    if of_array(probs) in REDUCED:
        keys = (probs.astype(np.float32) / drawn.astype(np.float32)).astype(probs.dtype)
    else:
        keys = probs / drawn
    if count == 1:
        return keys.argmax(-1, keepdims=True)
    return _largest_first(keys, count)


def _largest_first(keys: np.ndarray, count: int) -> np.ndarray:
    """Places of the ``count`` largest of each row, the largest first; equal ones in their order."""
    np.negative(keys, out=keys)
    if count < keys.shape[-1] // 8 and keys.dtype in (np.float32, np.float64):
        places = keys.argpartition(count - 1, -1)[..., :count]
        chosen = np.take_along_axis(keys, places, -1)
        if (chosen.max(-1) < 0).all():  # no category that has no probability, of which many may be equal
            return np.take_along_axis(places, chosen.argsort(-1), -1)
    return keys.argsort(axis=-1, kind="stable")[..., :count].copy()


def _multinomial_with(generator: Generator, probs: np.ndarray, count: int) -> np.ndarray:
    """Look each uniform number up in the cumulative distribution."""
    rows = np.atleast_2d(probs)
    sums = _running_sums(rows)
    shares = generator.doubles(len(rows) * count).reshape(-1, count)
    out = _first_reaching(sums, shares)
    return out if probs.ndim == 2 else out[0]


@native.part("random.running_sums")
def _running_sums(rows: np.ndarray) -> np.ndarray:
    """Sums of each row up to each element, added one by one.

    Raises:
        RuntimeError: negative, infinite or NaN elements; a row without a positive one.
    """
    if not rows.min() >= 0:
        raise RuntimeError("invalid multinomial distribution (encountering probability entry < 0)")
    if not rows.max() < np.inf:
        raise RuntimeError("invalid multinomial distribution (encountering probability entry = infinity or NaN)")
    sums = rows.astype(np.float32 if of_array(rows) in REDUCED else rows.dtype, copy=False).cumsum(-1)
    if not (sums[:, -1] > 0).all():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    return sums


@native.part("random.first_reaching", work="8 * shares.size")
def _first_reaching(sums: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """For each of a row's shares in [0, 1) the first of its running sums that reaches that share of the last one.

    All are looked for at once by halving; only sums that a search comes by are divided by the last one, which keeps their order.
    """
    columns = sums.shape[1]
    totals, starts, flat = sums[:, -1:], np.arange(len(sums))[:, None] * columns, sums.reshape(-1)
    low, high = np.zeros(shares.shape, np.int64), np.full(shares.shape, columns - 1)
    for _ in range((columns - 1).bit_length()):
        middle = (low + high) >> 1
        before = flat.take(starts + middle) / totals < shares
        before &= low < high
        low = np.where(before, middle + 1, low)
        high = np.where(before, high, middle)
    return low
