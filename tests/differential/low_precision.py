"""Programs over narrow dtypes and mixtures of them: half precision, float8, complex numbers of float16 and float32, numbers of Python.

After each statement the results are compared in units in the last place.  PyTorch's own results may be some roundings off; ours may be
others, as long as they are no further from what the statement gives in float64 than PyTorch's, or than one rounding.  Then ours take
PyTorch's values, so that each statement begins from the same numbers.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import precision
from oracle import pytorch

import flambeau

from .area import Area, Difference, Known, Run, attempt, find_difference, variables

HALVES = ("float16", "bfloat16")
FLOAT8 = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
COMPLEX = ("complex32", "complex64")
WIDE = ("float32", "float64")
MISSING = re.compile(r"not implemented for|ot support|nsupported|only support|INTERNAL ASSERT")
SHAPES = ("3, 4", "2, 3, 4", "4", "", "1, 4", "0, 4", "6, 5")
UNITS = {"float16": 2.0, "bfloat16": 2.0, "float32": 16.0, "complex64": 16.0, "complex32": 2.0, "float64": 4096.0, "complex128": 4096.0}
EPS = {**precision.EPS, "complex32": precision.EPS["float16"]}
EPS8 = {"float8_e4m3fn": 2.0**-3, "float8_e4m3fnuz": 2.0**-3, "float8_e5m2": 2.0**-2, "float8_e5m2fnuz": 2.0**-2}

ONE = (
    "abs neg exp exp2 expm1 log1p sin cos tan tanh atan asinh sinh cosh sigmoid erf erfc sqrt rsqrt square reciprocal floor ceil round "
    "trunc frac sign sgn log log2 log10 lgamma digamma logit erfinv angle nan_to_num deg2rad isfinite isnan signbit positive i0 sinc"
).split()
ACTIVATIONS = (
    "relu gelu silu elu selu celu softplus mish hardswish hardsigmoid hardtanh leaky_relu logsigmoid softsign tanhshrink relu6 "
    "hardshrink softshrink"
).split()
TWO = (
    "add sub mul div maximum minimum fmax fmin atan2 hypot pow fmod remainder copysign logaddexp floor_divide eq lt xlogy "
    "nextafter heaviside"
).split()
ALONG = "sum mean prod amax amin std var logsumexp cumsum cumprod softmax log_softmax norm argmax sort median nansum cummax any all".split()
WHOLE = "sum mean prod amax amin std var norm argmin median nansum nanmean".split()
LOSSES = "mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy_with_logits soft_margin_loss kl_div poisson_nll_loss".split()
MIXED = (
    "torch.where({a} > {b}, {a}, {b})",
    "torch.addcmul({a}, {b}, {c}, value=0.5)",
    "torch.addcdiv({a}, {b}, {c}.abs() + 1, value=0.5)",
    "torch.lerp({a}, {b}, 0.3)",
    "torch.clamp({a}, -0.7, 0.9)",
    "torch.add({a}, {b}, alpha=3)",
    "torch.cat([{a}.reshape(-1), {b}.reshape(-1)])",
    "torch.stack([{a}, {b}])",
    "torch.outer({a}.reshape(-1), {b}.reshape(-1))",
    "torch.result_type({a}, {b})",
    "({a} * 2).type_as({b})",
    "torch.linspace(-1, 3, 7, dtype={a}.dtype)",
    "torch.arange(0, 2, 0.3, dtype={a}.dtype)",
    "torch.full_like({a}, 0.1)",
    "{a}.clone().fill_(0.3)",
    "{a}.clone().mul_({b})",
    "{a}.clone().add_({b}, alpha=0.7)",
    "{a}.clone().copy_({b})",
    "{a}.masked_fill({a} > 0, 0.1)",
    "torch.cumsum({a}, -1).to({b}.dtype)",
)
PRODUCTS = (
    "{a} @ {b}.mT",
    "{a}.reshape(-1) @ {a}.reshape(-1)",
    "torch.matmul({a}, {b}.reshape(-1)[:4])",
    "torch.addmm({b}.reshape(-1)[:1], {a}, {a}.mT, beta=0.5, alpha=2)",
    "torch.einsum('...i,...i->...', {a}, {b})",
    "F.linear({a}, {b}.reshape(-1, 4)[:2])",
    "F.conv1d({a}.reshape(1, 1, -1), {b}.reshape(1, 1, -1)[..., :3])",
    "F.conv2d({a}.reshape(1, 1, 3, -1), {b}.reshape(1, 1, -1, 2)[:, :, :2])",
    "torch.bmm({a}[None], {b}.mT[None])",
    "torch.cdist({a}, {b})",
    "F.cosine_similarity({a}, {b}, dim=-1)",
    "F.scaled_dot_product_attention({a}, {b}, {b})",
)
NORMS = (
    "F.layer_norm({a}, {a}.shape[-1:])",
    "F.layer_norm({a}, {a}.shape[-1:], {b}.reshape(-1)[:4], {b}.reshape(-1)[-4:])",
    "F.rms_norm({a}, {a}.shape[-1:])",
    "F.group_norm({a}.reshape(1, 2, -1), 2)",
    "F.batch_norm({a}.reshape(-1, 4), None, None, training=True)",
    "F.instance_norm({a}.reshape(1, 2, -1))",
    "F.normalize({a}, dim=-1)",
    "F.local_response_norm({a}.reshape(1, 2, -1), 2)",
    "F.avg_pool1d({a}.reshape(1, 1, -1), 3)",
    "F.adaptive_avg_pool1d({a}.reshape(1, 1, -1), 5)",
    "F.max_pool1d({a}.reshape(1, 1, -1), 2)",
    "F.interpolate({a}.reshape(1, 1, -1), scale_factor=1.5, mode='linear')",
    "F.pad({a}, (1, 2), value=0.1)",
    "F.cross_entropy({a}.reshape(-1, 4), torch.arange({a}.numel() // 4) % 4)",
    "F.cross_entropy({a}.reshape(-1, 4), torch.arange({a}.numel() // 4) % 4, label_smoothing=0.1)",
    "F.nll_loss({a}.reshape(-1, 4), torch.arange({a}.numel() // 4) % 4)",
    "F.embedding(torch.tensor([0, 1, 0]), {a})",
    "F.glu({a}, -1)",
)

ACTIVATION = rf"F\.({'|'.join(ACTIVATIONS)})"


def _values(draw: random.Random, count: int, hard: bool) -> str:
    pool = ("0.", "-0.", "1.", "inf", "-inf", "nan", "65504.", "6e-8", "3e38", "1e-40", "-1.")
    one = [draw.choice(pool) if hard and draw.random() < 0.3 else f"{draw.gauss(0, 1.5):.4g}" for _ in range(count)]
    return ", ".join(f"float('{value}')" if value.strip("-").isalpha() else value for value in one)


def _count(shape: str) -> int:
    return int(np.prod([int(n) for n in shape.split(", ")])) if shape else 1


class LowPrecision(Area):
    known = (
        Known(
            "derivatives that PyTorch has not",
            kind="^exception$",
            ours="^no exception",
            theirs="derivative for|Found dtype .* but expected|grad can be implicitly|input_is_complex == grad_is_complex",
        ),
        Known("which check comes first", kind="^exception$", ours="^(?!no exception)", theirs="^(?!no exception)"),
        Known("PyTorch's slope of 1/6 is rounded to float32", kind="^values$", line="hardsigmoid"),
        Known("hardswish's slope at NaN is 1 in PyTorch's scalar loops", kind="^values$", line=r"grads\(.*hardswish", ours="nan"),
        Known(
            "PyTorch lets products of nothing pass unchecked",
            kind="^exception$",
            ours="same dtype|softmax|one dtype",
            theirs="^no exception",
        ),
        Known("PyTorch's trigamma has 9 digits", kind="^values$", line=r"grads\(.*(digamma|lgamma)"),
        Known("which of equal elements is named", kind="^values$", line=r"torch\.(median|sort|argsort|argmin|argmax|cummax)\("),
        Known("more is no harm", kind="^exception$", ours="^no exception", theirs="should be the same"),
        Known("a dtype without a zero", kind="^(exception|values)$", theirs="e8m0|5.87747175"),
        Known(
            "which partial sums pass beyond the largest number depends on their order",
            kind="^values$",
            line=r"conv|@|mm\(|matmul|linear\(|einsum|cdist|attention|similarity|sum\(|mean\(|addcmul|addcdiv",
            ours="inf|nan",
            program=r"3e\+?38|65504",
        ),
        Known(
            "infinite weights and rows: a norm's gradient is a sum of infinities, which PyTorch adds up in another order",
            kind="^values$",
            line=r"grads\(.*(_norm|normalize)\(",
            theirs="nan",
            program="inf|nan|3e\\+?38|65504",
        ),
        Known(
            "zeros around an image, or among factors, meet a number that is not finite",
            kind="^values$",
            line=r"grads\(.*(conv|prod\()",
            ours="nan",
            when=lambda difference: same_but(difference, lambda ours, theirs: np.isnan(ours)),
        ),
        Known("PyTorch rounds the root, then its reciprocal", kind="^values$", line=r"grads\(.*rsqrt"),
        Known("what is left where a direction has no other part", kind="^values$", line=r"grads\(.*sgn\(", ours="e-0[5-9]"),
        Known("a dtype without a zero, or a sign", kind="^values$", line=r"grads\(", program="e8m0"),
        Known("complex targets of 16 bits", kind="^dtype$", line="cross_entropy", program="complex32"),
        Known("PyTorch multiplies infinite complex numbers by 1 + 0j", kind="^values$", theirs=r"nanj|nan[+-]"),
        Known("a BLAS multiplies infinities by 1 + 0j", kind="^values$", line=r"grads\(.*outer", ours="nan", theirs="inf"),
        Known(
            "0 to the power of a complex 0 is 1; PyTorch's is NaN, but of a number",
            kind="^values$",
            line=r"pow\(|\*\*",
            theirs="nan",
            program="complex",
            when=lambda difference: same_but(difference, lambda ours, theirs: np.isnan(theirs) & np.isin(ours, (0, 1))),
        ),
        Known(
            "PyTorch's functions of single elements and its vectorised ones differ at NaN, infinity and in the sign of zero",
            kind="^values$",
            line=rf"{ACTIVATION}\((\w+)\)",
            when=lambda difference: is_either_loop(difference),
        ),
        Known(
            "numbers whose squares, or whose sums, pass beyond the largest one: how PyTorch's norms end depends on a row's length",
            kind="^values$",
            line=r"_norm\(|torch\.(std|var)\(",
            theirs=r"nan|inf|\b0\.? ",
            program=r"3e\+?38|65504",
            when=lambda difference: agrees_in_float64(difference),
        ),
        Known(
            "PyTorch's squares of tiny complex numbers are 0",
            kind="^values$",
            line=r"grads\(.*(angle|abs|sgn)\(",
            theirs="nan",
            program="1e-40|6e-8",
            when=lambda difference: agrees_in_float64(difference),
        ),
        Known(
            "steps of a gradient in float8, each with at most four digits",
            kind="^values$",
            line=r"grads\(.*(@|matmul|mm\(|einsum|linear|conv|attention)",
            program="float8",
            when=lambda difference: agrees_in_float64(difference),
        ),
    )

    def space(self, torch: ModuleType) -> dict[str, Any]:
        def grads(function: Any, *operands: Any) -> Any:
            """The gradients of a function of tensors, all cotangents being 1."""
            leaves = [operand.detach().clone().requires_grad_() for operand in operands]
            result = function(*leaves)
            return torch.autograd.grad(result, leaves, torch.ones_like(result), allow_unused=True)

        return {"torch": torch, "F": torch.nn.functional, "grads": grads}

    def generate(self, draw: random.Random) -> list[str]:
        lines, names = [], []
        main = draw.choice((*HALVES, *HALVES, *FLOAT8, *COMPLEX))
        for number in range(draw.randint(2, 4)):
            dtype = main if number < 2 else draw.choice((*HALVES, *WIDE, *COMPLEX, *FLOAT8, "int32", "bool"))
            shape, name = draw.choice(SHAPES[:2] if number < 2 and draw.random() < 0.6 else SHAPES), f"x{number}"
            listed = _values(draw, _count(shape), hard=draw.random() < 0.15)
            lines.append(f"{name} = torch.tensor([{listed}]).reshape({shape or '()'}).to(torch.{dtype})")
            names.append(name)
        for number in range(draw.randint(2, 6)):
            lines.append(self._statement(draw, f"y{number}", names))
            if draw.random() < 0.5 and not lines[-1].startswith(f"y{number} = grads"):
                names.append(f"y{number}")
        return lines

    def _statement(self, draw: random.Random, target: str, names: list[str]) -> str:
        expression = self._expression(draw)
        chosen = {key: draw.choice(names) for key in "abc" if f"{{{key}}}" in expression}
        kind = draw.random()
        if kind < 0.25 and "result_type" not in expression:
            arguments = ", ".join(sorted(set(chosen.values())))
            return f"{target} = grads(lambda {arguments}: {expression.format(**chosen)}, {arguments})"
        body = f"{target} = {expression.format(**chosen)}"
        if kind < 0.4:
            return f"with torch.autocast('cpu', torch.{draw.choice(HALVES)}): {body}"
        return body

    def _expression(self, draw: random.Random) -> str:
        kind = draw.random()
        scalar = draw.choice(("2", "0.3", "-1.7", "3", "True", "1e-3", "300", "1j"))
        if kind < 0.13:
            return f"torch.{draw.choice(ONE)}({{a}})"
        if kind < 0.2:
            return f"F.{draw.choice(ACTIVATIONS)}({{a}})"
        if kind < 0.32:
            return f"torch.{draw.choice(TWO)}({{a}}, {{b}})"
        if kind < 0.42:
            sign = draw.choice(("+", "-", "*", "/", "**", "//", "%", ">", "=="))
            return draw.choice((f"{{a}} {sign} {scalar}", f"{scalar} {sign} {{a}}", f"{{a}} {sign} {{b}}"))
        if kind < 0.52:
            return f"torch.{draw.choice(ALONG)}({{a}}, dim={draw.choice((0, -1))})"
        if kind < 0.58:
            return f"torch.{draw.choice(WHOLE)}({{a}})"
        if kind < 0.63:
            return f"F.{draw.choice(LOSSES)}({{a}}, {{b}}, reduction='{draw.choice(('mean', 'sum', 'none'))}')"
        if kind < 0.72:
            return draw.choice(MIXED)
        if kind < 0.84:
            return draw.choice(PRODUCTS)
        if kind < 0.94:
            return draw.choice(NORMS)
        return f"{{a}}.to(torch.{draw.choice((*HALVES, *FLOAT8, *COMPLEX, *WIDE, 'int32', 'bool'))})"

    def compare(self, run: Run) -> Difference | None:
        match = re.match(r"(?:with .*?: )?(\w+) = ", run.line)
        name = match[1] if match else ""
        if any(run.errors):
            if MISSING.search(str(run.errors[1])):  # an operation that PyTorch has no kernel for: more is no harm
                run.ours.pop(name, None)
                return None
            return self.compare_exceptions(run)
        pairs = list(zip(_flat(run.ours.get(name)), _flat(run.theirs.get(name)), strict=False))
        for number, (ours, theirs) in enumerate(pairs):
            found = _difference(ours, theirs, max(1.0 if self._cancels(run, theirs) else 0.0, self._terms(run)), self._operands(run))
            if found is not None and found[0] == "values" and self._is_as_good(run, name, number, ours, theirs):
                found = None
            if found is not None:
                return run.differs(found[0], found[1], found[2])
            if isinstance(theirs, pytorch().Tensor) and theirs.numel():
                ours._array[...] = _array_like(ours, theirs)
        return None

    def _cancels(self, run: Run, theirs: Any) -> bool:
        """Whether a result may be what is left of numbers around 1: gradients, some losses, and norms of equal numbers in float64."""
        return bool(re.search(r"= grads\(|poisson_nll_loss\(|kl_div\(|cross_entropy", run.line)) or (
            "_norm(" in run.line and str(getattr(theirs, "dtype", "")) == "torch.float64"
        )

    def _terms(self, run: Run) -> float:
        """How large a sum is without its signs."""
        read = re.search(r"= (torch\.(?:nan)?(?:sum|mean|cumsum)\()(\w+)((?:, (?:dim=)?-?\d)?\))", run.line)
        if read is None:
            return 0.0
        torch, operand = pytorch(), run.theirs[read[2]]
        sizes = {"torch": torch, "sizes": operand.to(torch.complex128 if operand.is_complex() else torch.float64).abs()}
        return float(np.asarray(eval(f"{read[1]}sizes{read[3]}", sizes)).max(initial=0))

    def _operands(self, run: Run) -> float:
        """What the operands' own precision allows a wider result to be off: parts of it may be computed from them alone.

        Autocast has some operations compute in float32.
        """
        given = {
            str(run.theirs[name].dtype).removeprefix("torch.")
            for name in re.findall(r"\b[xy]\d\b", run.line)
            if hasattr(run.theirs.get(name), "dtype")
        } | ({"float32"} if "autocast" in run.line else set())
        narrow = {"float32", "complex64"} | ({"float16", "bfloat16"} if "= grads(" in run.line else set())
        return max((UNITS[dtype] * EPS[dtype] for dtype in given & narrow), default=0)

    def _is_as_good(self, run: Run, name: str, number: int, ours: Any, theirs: Any) -> bool:
        """Ours is no further from what the statement gives in float64 than PyTorch's, but for one rounding."""
        torch = pytorch()
        space = self.space(torch)
        for variable in variables(run.theirs):
            value = run.theirs[variable]
            if isinstance(value, torch.Tensor) and variable != name:
                space[variable] = (
                    value.to(torch.complex128) if value.is_complex() else value.double() if value.is_floating_point() else value
                )
        line = re.sub(r"torch\.(float16|bfloat16|float32|float8_\w+)", "torch.float64", run.line)
        line = re.sub(r"with torch.autocast.*?: ", "", re.sub(r"torch\.complex(32|64)", "torch.complex128", line))
        if attempt(line, space) is not None:
            return False
        exact = _flat(space[name])[number]
        if not isinstance(exact, torch.Tensor) or exact.shape != theirs.shape:
            return False
        dtype = str(theirs.dtype).removeprefix("torch.")
        right = exact.to(theirs.dtype)
        mine, other, best = _wide(ours), _wide(theirs), _wide(right)
        sure = np.isfinite(best)
        if not np.isfinite(mine[sure]).all() or not np.array_equal(mine[~sure], best[~sure], equal_nan=True):
            return False
        mine, other, best = mine[sure], other[sure], best[sure]
        scale = np.abs(best).max(initial=0)
        with np.errstate(all="ignore"):
            off = np.abs(mine - best).max(initial=0)
            allowed = np.abs(other - best)
            worst = np.where(np.isfinite(allowed), allowed, np.inf).max(initial=0)
        return bool(off <= max(worst, {**EPS, **EPS8}.get(dtype, 0) * scale))


def _flat(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [item for part in value for item in _flat(part)]
    return [value]


def _wide(tensor: Any) -> np.ndarray:
    """The values in float64 or complex128."""
    torch = flambeau if isinstance(tensor, flambeau.Tensor) else pytorch()
    tensor = tensor.detach()
    array = tensor.to(torch.complex64 if tensor.dtype is torch.complex32 else tensor.dtype if tensor.is_complex() else torch.float64)
    return np.asarray(array.resolve_conj().numpy(force=True)).astype(np.complex128 if tensor.is_complex() else np.float64)


def _array_like(ours: Any, theirs: Any) -> np.ndarray:
    """PyTorch's values as elements of our array."""
    theirs = theirs.detach().resolve_conj().clone().contiguous()  # a zero tensor has no memory
    torch = pytorch()
    if theirs.dtype is torch.bool or not (theirs.is_floating_point() or theirs.is_complex()):
        return theirs.numpy()
    flat = theirs.reshape(-1).view(torch.uint8).numpy()
    return flat.view(ours._array.dtype).reshape(tuple(theirs.shape))


def _difference(ours: Any, theirs: Any, least: float = 0, allowed: float = 0) -> tuple[str, str, str] | None:
    """Kind, ours and theirs; errors are measured against the largest element, or ``least`` (of gradients, which may cancel)."""
    torch = pytorch()
    if not isinstance(theirs, torch.Tensor):
        same = type(ours).__name__ == type(theirs).__name__ and str(ours) == str(theirs)
        return None if same else ("result", repr(ours), repr(theirs))
    if not isinstance(ours, flambeau.Tensor):
        return "result", repr(ours), repr(theirs)
    for fact in ("dtype", "shape", "requires_grad"):
        a, b = getattr(ours, fact), getattr(theirs, fact)
        if str(tuple(a) if fact == "shape" else a) != str(tuple(b) if fact == "shape" else b):
            return fact, str(a), str(b)
    dtype = str(theirs.dtype).removeprefix("torch.")
    a, b = _wide(ours), _wide(theirs)
    if dtype in EPS:
        parts = a, b
        if np.iscomplexobj(b) and not np.isfinite(b).all():  # then each part has its own size
            parts = tuple(np.stack((each.real, each.imag)) for each in parts)
        off, _ = precision.error(*parts, "float16" if dtype == "complex32" else dtype, True, least)
        return None if off <= max(UNITS[dtype] * EPS[dtype], allowed) else ("values", str(a), str(b))
    return None if np.array_equal(a, b, equal_nan=True) else ("values", str(a), str(b))


def agrees_in_float64(difference: Difference) -> bool:
    """Whether the program has no difference where each dtype is widened once its numbers are rounded to it."""
    program = re.sub(r"\.to\(torch\.(b?float\d\w*)\)", r".to(torch.\1).to(torch.float64)", difference.program)
    program = re.sub(r"\.to\(torch\.(complex\d+)\)", r".to(torch.\1).to(torch.complex128)", program)
    program = re.sub(r"with torch.autocast.*?: ", "", program)
    return find_difference(LowPrecision(), ["torch.set_default_dtype(torch.float64)", *program.split("\n")]) is None


def numbers_of(text: str) -> np.ndarray:
    """The numbers of a result as it is printed."""
    return np.array([complex(token) for token in re.findall(r"[^\s\[\],()]+", re.sub(r"\s+([+-][\w.]*j)", r"\1", text))])


def same_but(difference: Difference, where: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> bool:
    """Whether results are the same, to the digits that are printed, except for elements that ``where`` names."""
    ours, theirs = numbers_of(difference.ours), numbers_of(difference.theirs)
    if ours.shape != theirs.shape:
        return False
    rest = ~where(ours, theirs)
    return np.allclose(ours[rest], theirs[rest], rtol=1e-2, atol=1e-6, equal_nan=True)


def is_either_loop(difference: Difference) -> bool:
    """Whether each element of a function's result, or gradient, is PyTorch's of the element alone, or of 64 such elements."""
    *before, last = difference.program.split("\n")
    found = re.fullmatch(rf"\w+ = (grads\(lambda \w+: )?{ACTIVATION}\((\w+)\)(, \w+\))?", last)
    if found is None:
        return False
    name, expression = found[3], last.partition(" = ")[2]
    theirs, ours = (LowPrecision().space(torch) for torch in (pytorch(), flambeau))
    for line in before:
        attempt(line, theirs)
    operand = theirs[name].detach()

    def result(space: dict[str, Any], operand: Any) -> np.ndarray:
        return _wide(_flat(eval(expression, {**space, name: operand}))[0]).reshape(-1)

    mine = result(ours, flambeau.tensor(operand.tolist(), dtype=getattr(flambeau, str(operand.dtype).removeprefix("torch."))))
    alone, among = (np.array([result(theirs, each.repeat(count))[0] for each in operand.reshape(-1)]) for count in (1, 64))
    near = UNITS[str(operand.dtype).removeprefix("torch.")] * EPS[str(operand.dtype).removeprefix("torch.")]
    return bool(np.all(np.isclose(mine, alone, near, 0, equal_nan=True) | np.isclose(mine, among, near, 0, equal_nan=True)))


AREA = LowPrecision()
