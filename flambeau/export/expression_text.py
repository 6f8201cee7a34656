"""Sizes as text in PyTorch's files, which is SymPy's: ``Mul(Integer(3), Symbol('s0', positive=True, integer=True))``.

The text is read as a tree of calls of functions that are listed here; nothing in it is evaluated.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from ..core.expressions import Call, Expr, as_expr, extreme, symbol
from .names import identifier

LONGEST = 10_000  # letters of a text
_HIGHEST_POWER, _MOST_TERMS, _MOST_BITS = 16, 200, 4096  # a product is computed factor by factor

# Our functions and theirs; what is written is the first of several names.
_WRITTEN = {
    "//": "FloorDiv", "%": "PythonMod", "/": "IntTrueDiv", "**": "PowByNatural", "Max": "Max", "Min": "Min", "floor": "FloorToInt",
    "ceil": "CeilToInt", "trunc": "TruncToInt", "round": "RoundToInt", "ToFloat": "ToFloat", "Abs": "Abs",
}  # fmt: skip
_CALLS = {
    **{theirs: ours for ours, theirs in _WRITTEN.items() if ours not in ("//", "%", "Max", "Min")},
    "FloatTrueDiv": "/",
    "OpaqueUnaryFn_sqrt": "sqrt",
}


# ---- writing
def text_of(value: Any) -> str:
    """An expression as text.

    Raises:
        NotImplementedError: a function that PyTorch's files have not.
    """
    if isinstance(value, Call):
        if value.name not in _WRITTEN:
            raise NotImplementedError(f"torch.export.save: a size with {value.name} is not supported")
        return f"{_WRITTEN[value.name]}({', '.join([text_of(arg) for arg in value.args])})"
    if isinstance(value, str):
        positive = "positive=True, " if value.startswith("s") else ""
        return f"Symbol({value!r}, {positive}integer=True)"
    if isinstance(value, float):
        return f"Float({str(value)!r}, precision=53)"
    if not isinstance(value, Expr):
        return f"Integer({value})"
    if value.constant is not None:
        return f"Integer({value.constant})"
    parts = []
    for monomial, factor in value.terms.items():
        factors = [text_of(each) if power == 1 else f"Pow({text_of(each)}, Integer({power}))" for each, power in monomial]
        if factor != 1 or not factors:
            factors.insert(0, f"Integer({factor})")
        parts.append(factors[0] if len(factors) == 1 else f"Mul({', '.join(factors)})")
    return parts[0] if len(parts) == 1 else f"Add({', '.join(parts)})"


# ---- reading
def expression_from(text: Any) -> Any:
    """The expression that a text stands for.

    Raises:
        ValueError: the text is none.
    """
    if not isinstance(text, str) or len(text) > LONGEST:
        raise ValueError("a size that is no expression")
    try:
        return _read(ast.parse(text, mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError, ZeroDivisionError) as error:
        raise ValueError(f"a size that is no expression: {text[:80]}") from error


def _read(node: Any) -> Any:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise ValueError("a size that is no expression")
    name = node.func.id
    if name in ("Integer", "Symbol", "Float"):
        return _LEAVES[name](ast.literal_eval(node.args[0]))
    args = [_read(arg) for arg in node.args]
    if name in _CALLS:
        return Call(_CALLS[name], *args)
    if name not in _POLYNOMIALS:
        raise ValueError(f"{name!r} is no function of sizes")
    return _POLYNOMIALS[name](*args)


def _symbol(name: Any) -> Expr:
    return symbol(identifier(name))


def _small(value: Any) -> Any:
    if isinstance(value, Expr) and (len(value.terms) > _MOST_TERMS or any(k.bit_length() > _MOST_BITS for k in value.terms.values())):
        raise ValueError("a size with too many terms, or far too large")
    return value


def _sum(*args: Any) -> Any:
    total = as_expr(0)
    for arg in args:
        total = _small(total + _expr(arg))
    return total


def _product(*args: Any) -> Any:
    total = as_expr(1)
    for arg in args:
        total = _small(total * _expr(arg))
    return total


def _power(base: Any, exponent: Any) -> Any:
    power = as_expr(exponent).constant
    if power is None or not 0 <= power <= _HIGHEST_POWER:
        raise ValueError(f"{exponent} is no power of a size")
    return _product(*[base] * power)


def _expr(value: Any) -> Expr:
    """A part of a polynomial."""
    if isinstance(value, float):
        raise ValueError("a size with a fraction")
    return symbol(value) if isinstance(value, Call) else as_expr(value)


_LEAVES: dict[str, Callable[[Any], Any]] = {"Integer": lambda value: as_expr(int(value)), "Symbol": _symbol, "Float": float}
_POLYNOMIALS: dict[str, Callable[..., Any]] = {
    "Add": _sum,
    "Mul": _product,
    "Pow": _power,
    "FloorDiv": lambda a, b: _expr(a) // _expr(b),
    "CleanDiv": lambda a, b: _expr(a) // _expr(b),
    "PythonMod": lambda a, b: _expr(a) % _expr(b),
    "Mod": lambda a, b: _expr(a) % _expr(b),
    "CeilDiv": lambda a, b: -(-_expr(a) // _expr(b)),
    "Identity": lambda a: a,
    **{name: lambda *args, name=name: _folded(name, [_expr(arg) for arg in args]) for name in ("Max", "Min")},
}


def _folded(name: str, args: list[Expr]) -> Any:
    found: Any = args[0]
    for arg in args[1:]:
        found = extreme(name, [found, arg])
    return found
