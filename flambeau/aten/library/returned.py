"""Checks of the results of users' kernels against the schema."""

from __future__ import annotations

import sys
from typing import Any

from ...core.tensor import Tensor
from .. import overloads
from ..schema import WRONG, FunctionSchema


def checked(schema: FunctionSchema, result: Any) -> Any:
    """A kernel's result as the schema says: None, one value, or a tuple.

    Raises:
        RuntimeError, TypeError: it is something else.
    """
    wanted = schema.returns
    if not wanted:
        if result is not None:
            raise RuntimeError(f"Expected PythonKernelHolder for {schema.full_name} to return None but it returned something else instead.")
        return None
    if len(wanted) == 1:
        return _value(wanted[0], result)
    if not isinstance(result, (tuple, list)):
        raise TypeError(f"Object of type '{type(result).__name__}' is not an instance of 'sequence'")
    if len(result) != len(wanted):
        raise RuntimeError(f"{schema.full_name}: expected the kernel to return {len(wanted)} values, but it returned {len(result)}")
    return tuple([_value(kind, value) for kind, value in zip(wanted, result, strict=True)])


def _value(wanted: Any, value: Any) -> Any:
    made = wanted.convert(value)
    if made is WRONG:
        raise RuntimeError(f"Unable to cast {value!s} to {wanted.type}")
    return made


def check_aliases(operation: Any, tensors: list[Any], result: Any) -> None:
    """Refuse results that are arguments, or views of the memory of arguments or of one another.

    Views that the schema names may be, and what is written to where a tag says that the operation works in place.

    Raises:
        RuntimeError: there is one.
    """
    if operation.may_alias:
        return
    if result.__class__ is Tensor and result._storage is None and not any(result is tensor for tensor in tensors):
        return
    found = overloads.tensors_in([result])
    seen = list(tensors)
    for made in found:
        for other in seen:
            if made is other or (made._storage is not None and made._storage is other._storage):
                function = getattr(operation, "definition", None)
                module = sys.modules.get(getattr(function, "__module__", ""))
                raise RuntimeError(
                    f"{operation.overload._opname} (with implementation in {module}): The output of this custom operator (1) must not also "
                    "be an input to this custom operator and (2) may not alias any inputs to this custom operator or other returns. The "
                    "most common way to trigger this error is if we have y = custom_op(x) and y and x are the same Tensor. Please instead "
                    "return a clone of the offending output tensor(s) (e.g. return x.clone()) or refactor the custom operator to not "
                    "return y."
                )
        seen.append(made)
