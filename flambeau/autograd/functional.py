"""Jacobians, Hessians and products with them, for functions of tensors.

Every function here calls the user's function once on copies of the inputs that are leaves (or, with ``create_graph``, on views of
the inputs, so that the result can be differentiated again) and takes gradients of what it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.calls.registry import resolve
from ..core.state import grad_enabled
from ..core.tensor import Tensor
from .api import grad, transforms
from .grad_mode import enable_grad, set_grad_enabled

Tensors = Tensor | tuple[Tensor, ...]


def vjp(func: Callable[..., Any], inputs: Tensors, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """``v`` times the Jacobian of ``func``.

    Args:
        func: takes tensors, returns a tensor or a tuple of tensors.
        inputs: a tensor or a tuple of tensors.
        v: a tensor or tuple of the outputs' shapes; may be None where there is one output of one element.
        create_graph: make both results differentiable.
        strict: raise where an output does not depend on an input, instead of returning zeros.
    Returns:
        (what ``func`` returned, the product: one tensor per input).
    Raises:
        RuntimeError: a wrong ``v``, or a missing dependence in strict mode.
        TypeError: inputs or outputs that are no tensors.
    Source: torch.autograd.functional.vjp.
    Example:
        >>> vjp(lambda x: x**2, torch.tensor([1.0, 2.0]), torch.tensor([1.0, 10.0]))
        (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    with enable_grad():
        given, single = _as_tensors(inputs, "inputs", "vjp")
        used = _started(given, create_graph)
        outputs, single_output = _outputs_of(func, used, strict, "vjp")
        vector = _checked_vector(v, outputs, single_output, "the user-provided function returns a single Tensor")
    with set_grad_enabled(create_graph or grad_enabled()):
        gradients = _gradients(outputs, used, vector, create_graph)
        products = _filled(gradients, used, strict, create_graph, "back")
    return _finished(outputs, create_graph, single_output), _finished(products, create_graph, single)


def jvp(func: Callable[..., Any], inputs: Tensors, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """The Jacobian of ``func`` times ``v``, by differentiating the vector-Jacobian product with respect to its vector.

    Args:
        func: takes tensors, returns a tensor or a tuple of tensors.
        inputs: a tensor or a tuple of tensors.
        v: a tensor or tuple of the inputs' shapes; may be None where there is one input of one element.
        create_graph, strict: as in ``vjp``.
    Returns:
        (what ``func`` returned, the product: one tensor per output).
    Raises:
        RuntimeError: a wrong ``v``, or a missing dependence in strict mode.
    Source: torch.autograd.functional.jvp.
    Example:
        >>> jvp(lambda x: x.sum() * x, torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0]))
        (tensor([3., 6.]), tensor([4., 2.]))
    """
    with enable_grad():
        given, single = _as_tensors(inputs, "inputs", "jvp")
        used = _started(given, create_graph)
        vector = _checked_vector(v, given, single, "the input to the user-provided function is a single Tensor")
        outputs, single_output = _outputs_of(func, used, strict, "jvp")
        dummies = tuple(output.detach().new_zeros(output.shape).requires_grad_() for output in outputs)
        first = _filled(_gradients(outputs, used, dummies, True), used, strict, True, "back")
        _require_dependence(first, "grad_input", strict)
    with set_grad_enabled(create_graph or grad_enabled()):
        gradients = _gradients(first, dummies, vector, create_graph)
        products = _filled(gradients, outputs, strict, create_graph, "back_trick")
    return _finished(outputs, create_graph, single_output), _finished(products, create_graph, single_output)


def jacobian(
    func: Callable[..., Any],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of ``func``.

    Args:
        func, inputs, create_graph, strict: as in ``vjp``.
        vectorize: compute all rows, or columns, at once, by ``vmap``.
        strategy: 'reverse-mode', or 'forward-mode', which is always vectorized.
    Returns:
        For one output and one input a tensor of shape ``(*output.shape, *input.shape)``; a tuple over inputs, over outputs, or over
        outputs of tuples over inputs where there are several.
    Raises:
        NotImplementedError: forward mode without ``vectorize``, or with ``create_graph``.
        RuntimeError: a missing dependence in strict mode; strict mode with ``vectorize`` or forward mode.
    Source: torch.autograd.functional.jacobian.
    Example:
        >>> jacobian(lambda x: x**2, torch.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    _check_strategy(strategy, vectorize, strict, create_graph)
    given, single = _as_tensors(inputs, "inputs", "jacobian")
    if strategy == "forward-mode":
        return _by_columns(func, given, single)
    with enable_grad():
        used = _started(given, create_graph)
        outputs, single_output = _outputs_of(func, used, strict, "jacobian")
        if vectorize:

            def product(vectors: Sequence[Tensor]) -> Sequence[Tensor]:
                return _filled(_gradients(outputs, used, vectors, create_graph, True), used, False, create_graph, "back")

            rows = tuple(transforms().rows_of(outputs, used, None, product))
        else:
            rows = tuple(_jacobian_of(output, i, used, create_graph, strict) for i, output in enumerate(outputs))
    finished = tuple(_finished(row, create_graph, single) for row in rows)
    return finished[0] if single_output else finished


def _by_columns(func: Callable[..., Any], given: tuple[Tensor, ...], single: bool) -> Any:
    """``jacobian`` by forward mode."""
    alone = False

    def call(duals: Sequence[Tensor]) -> Any:
        nonlocal alone
        outputs, alone = _outputs_of(func, duals, False, "jacobian")
        return outputs, None

    rows, _ = transforms().columns_of(call, [tensor.detach() for tensor in given], "error")
    finished = tuple(_finished(row, False, single) for row in rows)
    return finished[0] if alone else finished


def _jacobian_of(output: Tensor, position: int, inputs: tuple[Tensor, ...], create_graph: bool, strict: bool) -> tuple[Tensor, ...]:
    columns: list[list[Tensor]] = [[] for _ in inputs]
    for element in output.reshape(-1) if output.numel() else ():
        gradients = _gradients((element,), inputs, None, create_graph, retain_graph=True)
        for j, (gradient, x, column) in enumerate(zip(gradients, inputs, columns, strict=True)):
            if gradient is None and strict:
                raise RuntimeError(
                    f"Output {position} of the user-provided function is independent of input {j}. This is not allowed in strict mode."
                )
            if gradient is not None and strict and create_graph and not gradient.requires_grad:
                raise RuntimeError(
                    "The jacobian of the user-provided function is independent of input "
                    f"{j}. This is not allowed in strict mode when create_graph=True."
                )
            column.append(x.detach().new_zeros(x.shape) if gradient is None else gradient)
    return tuple(
        resolve("torch", "stack")(column).reshape((*output.shape, *x.shape)) if column else x.detach().new_zeros((*output.shape, *x.shape))
        for column, x in zip(columns, inputs, strict=True)
    )


def hessian(
    func: Callable[..., Any],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of ``func``, which returns one number: the Jacobian of its gradient.

    Args:
        func, inputs, create_graph, strict: as in ``vjp``; ``func`` returns one tensor of one element.
        vectorize: compute all rows, or columns, of the outer Jacobian at once, by ``vmap``.
        outer_jacobian_strategy: 'reverse-mode', or 'forward-mode', which is always vectorized.
    Returns:
        For one input a tensor of shape ``(*input.shape, *input.shape)``; for several a tuple of tuples.
    Raises:
        RuntimeError: ``func`` returns something else, or a missing dependence in strict mode.
        NotImplementedError: forward mode without ``vectorize``, or with ``create_graph``.
    Source: torch.autograd.functional.hessian.
    Example:
        >>> hessian(lambda x: x[0] ** 2 * x[1], torch.tensor([1.0, 2.0]))
        tensor([[4., 2.],
                [2., 0.]])
    """
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')
    given, single = _as_tensors(inputs, "inputs", "hessian")

    def gradient(*args: Tensor) -> tuple[Tensor, ...]:
        if outer_jacobian_strategy == "forward-mode":
            args = tuple([transforms().variable(arg) for arg in args])
        outputs, single_output = _as_tensors(func(*args), "outputs of the user-provided function", "hessian")
        _require_number(outputs, single_output, "hessian")
        _require_dependence(outputs, "outputs", strict)
        gradients = _gradients(outputs, args, None, True)
        return _filled(gradients, args, strict, True, "jacobian")

    rows = jacobian(gradient, given, create_graph, strict, vectorize, outer_jacobian_strategy)
    return rows[0][0] if single else rows


def vhp(func: Callable[..., Any], inputs: Tensors, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """``v`` times the Hessian of ``func``, which returns one number.

    Args:
        v: a tensor or tuple of the inputs' shapes; may be None where there is one input of one element.
        func, inputs, create_graph, strict: as in ``hessian``.
    Returns:
        (what ``func`` returned, the product: one tensor per input).
    Raises:
        RuntimeError: ``func`` returns something else, or a wrong ``v``.
    Source: torch.autograd.functional.vhp.
    Example:
        >>> vhp(lambda x: (x**3).sum(), torch.tensor([1.0, 2.0]), torch.tensor([1.0, 1.0]))
        (tensor(9.), tensor([ 6., 12.]))
    """
    with enable_grad():
        single, used, vector, outputs = _hessian_start(func, inputs, v, create_graph, strict, "vhp")
        first = _filled(_gradients(outputs, used, None, True), used, strict, True, "jacobian")
    with set_grad_enabled(create_graph or grad_enabled()):
        gradients = _gradients(first, used, vector, create_graph)
        products = _filled(gradients, used, strict, create_graph, "double_back")
    return _finished(outputs, create_graph, True), _finished(products, create_graph, single)


def hvp(func: Callable[..., Any], inputs: Tensors, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """The Hessian of ``func``, which returns one number, times ``v``; ``vhp`` is cheaper and equal for smooth functions.

    Args:
        func, inputs, v, create_graph, strict: as in ``vhp``.
    Returns:
        (what ``func`` returned, the product: one tensor per input).
    Raises:
        RuntimeError: ``func`` returns something else, or a wrong ``v``.
    Source: torch.autograd.functional.hvp.
    Example:
        >>> hvp(lambda x: x[0] * x[1], torch.tensor([3.0, 4.0]), torch.tensor([1.0, 0.0]))
        (tensor(12.), tensor([0., 1.]))
    """
    with enable_grad():
        single, used, vector, outputs = _hessian_start(func, inputs, v, create_graph, strict, "hvp")
        first = _filled(_gradients(outputs, used, None, True), used, strict, True, "jacobian")
        dummies = tuple(tensor.detach().new_zeros(tensor.shape).requires_grad_() for tensor in used)
        second = _gradients(first, used, dummies, True)
        _require_dependence(tuple(gradient for gradient in second if gradient is not None), "grad_input", strict)
    with set_grad_enabled(create_graph or grad_enabled()):
        gradients = _gradients(second, dummies, vector, create_graph)
        products = _filled(gradients, used, strict, create_graph, "double_back_trick")
    return _finished(outputs, create_graph, True), _finished(products, create_graph, single)


def _hessian_start(func: Any, inputs: Any, v: Any, create_graph: bool, strict: bool, name: str) -> Any:
    given, single = _as_tensors(inputs, "inputs", name)
    used = _started(given, create_graph)
    vector = _checked_vector(v, given, single, "the input to the user-provided function is a single Tensor")
    outputs, single_output = _outputs_of(func, used, strict, name)
    _require_number(outputs, single_output, name)
    return single, used, vector, outputs


# -- what they have in common --------------------------------------------------------------------------------------------------------
def _as_tensors(value: Any, what: str, where: str) -> tuple[tuple[Tensor, ...], bool]:
    """(a tuple of tensors, whether it was a single one).

    Raises:
        TypeError: something else.
    """
    if isinstance(value, Tensor):
        return (value,), True
    if not isinstance(value, tuple):
        raise TypeError(
            f"The {what} given to {where} must be either a Tensor or a tuple of Tensors but the given {what} has type {type(value)}."
        )
    for i, item in enumerate(value):
        if not isinstance(item, Tensor):
            raise TypeError(
                f"The {what} given to {where} must be either a Tensor or a tuple of Tensors but the value at index {i} has type "
                f"{type(item)}."
            )
    return value, False


def _started(inputs: tuple[Tensor, ...], create_graph: bool) -> tuple[Tensor, ...]:
    """The inputs as the user's function gets them."""
    tensors = []
    for tensor in inputs:
        if create_graph and tensor.requires_grad:
            tensors.append(tensor.view_as(tensor))
        else:
            tensors.append(tensor.detach().requires_grad_())
    return tuple(tensors)


def _finished(tensors: Sequence[Tensor], create_graph: bool, single: bool) -> Any:
    results = tuple(tensors) if create_graph else tuple(tensor.detach() for tensor in tensors)
    return results[0] if single else results


def _outputs_of(func: Callable[..., Any], inputs: Sequence[Tensor], strict: bool, where: str) -> tuple[tuple[Tensor, ...], bool]:
    """Outputs of the user's function, as ``_as_tensors`` gives them."""
    outputs, single = _as_tensors(func(*inputs), "outputs of the user-provided function", where)
    _require_dependence(outputs, "outputs", strict)
    return outputs, single


def _checked_vector(v: Any, like: tuple[Tensor, ...], single: bool, condition: str) -> tuple[Tensor, ...]:
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"The vector v can only be None if {condition} with a single element.")
        return (like[0].detach().new_ones(like[0].shape),)
    vector, _ = _as_tensors(v, "v", "the product")
    if len(vector) != len(like):
        if single:
            raise RuntimeError("The given v should contain a single Tensor.")
        raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(vector)}.")
    for i, (tensor, other) in enumerate(zip(vector, like, strict=True)):
        if tensor.shape != other.shape:
            prefix = "" if single else f"Entry {i} in "
            raise RuntimeError(f"{prefix}v has invalid size: should be {other.shape} but got {tensor.shape}.")
    return vector


def _require_number(outputs: tuple[Tensor, ...], single: bool, name: str) -> None:
    if not single:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if outputs[0].numel() != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {name} should contain a single element")


def _require_dependence(tensors: Sequence[Tensor], kind: str, strict: bool) -> None:
    if not strict:
        return
    for i, tensor in enumerate(tensors):
        if tensor.requires_grad:
            continue
        if kind == "grad_input":
            raise RuntimeError(
                f"The gradient with respect to input {i} is independent of the inputs of the user-provided function. This is not allowed "
                "in strict mode."
            )
        raise RuntimeError(
            f"Output {i} of the user-provided function does not require gradients. The outputs must be computed in a differentiable manner "
            "from the input when running in strict mode."
        )


def _gradients(outputs: Any, inputs: Any, vector: Any, create_graph: bool, retain_graph: bool | None = None) -> tuple[Any, ...]:
    """``grad`` that gives None for whatever does not depend; outputs may be None, too."""
    vector = (None,) * len(outputs) if vector is None else vector
    pairs = [(out, w) for out, w in zip(outputs, vector, strict=True) if out is not None and out.requires_grad]
    if not pairs:
        return (None,) * len(inputs)
    return grad([out for out, _ in pairs], inputs, [w for _, w in pairs], retain_graph, create_graph, allow_unused=True)


_INDEPENDENT = {
    "back": "The output of the user-provided function is independent of input {i}. This is not allowed in strict mode.",
    "back_trick": "The gradient with respect to the input is independent of entry {i} in the grad_outputs when using the double backward "
    "trick to compute forward mode gradients. This is not allowed in strict mode.",
    "jacobian": "The output of the user-provided function is independent of input {i}. This is not allowed in strict mode.",
    "double_back": "The jacobian of the user-provided function is independent of input {i}. This is not allowed in strict mode.",
    "double_back_trick": "The hessian of the user-provided function is independent of entry {i} in the grad_jacobian. This is not allowed "
    "in strict mode as it prevents from using the double backward trick to replace forward mode AD.",
}


def _filled(grads: Sequence[Any], like: Sequence[Tensor], strict: bool, create_graph: bool, stage: str) -> tuple[Tensor, ...]:
    """Gradients with zeros where there are none.

    Raises:
        RuntimeError: one is missing in strict mode, or cannot be differentiated again although that was requested.
    """
    results = []
    for i, (gradient, other) in enumerate(zip(grads, like, strict=True)):
        if gradient is None:
            if strict:
                raise RuntimeError(_INDEPENDENT[stage].format(i=i))
            gradient = other.detach().new_zeros(other.shape)
        elif strict and create_graph and not gradient.requires_grad:
            if stage == "jacobian":
                raise RuntimeError(
                    "While computing the hessian, found that the jacobian of the user-provided function with respect to input "
                    f"{i} is independent of the input. This is not allowed in strict mode, as it prevents second derivatives."
                )
            what = "The jacobian" if "double" not in stage else "The hessian"
            raise RuntimeError(
                f"{what} of the user-provided function is independent of input {i}. This is not allowed in strict mode when "
                "create_graph=True."
            )
        results.append(gradient)
    return tuple(results)


def _check_strategy(strategy: str, vectorize: bool, strict: bool, create_graph: bool) -> None:
    """Raise what PyTorch raises where the options of ``jacobian`` do not go together."""
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs than inputs, '
            '"forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        )
    name = "torch.autograd.functional.jacobian"
    if strategy == "forward-mode":
        together = 'and `strategy="forward-mode"` are not supported together (yet). Please either set'
        if create_graph:
            raise NotImplementedError(f'{name}: `create_graph=True` {together} `create_graph=False` or `strategy="reverse-mode"`.')
        if strict:
            raise RuntimeError(f'{name}: `strict=True` {together} `strict=False` or `strategy="reverse-mode"`.')
        if not vectorize:
            raise NotImplementedError(
                "Computing Jacobian using forward-AD or forward-over-reverse Hessian is only implemented for `vectorize=True`."
            )
    if vectorize and strict:
        raise RuntimeError(
            f"{name}: `strict=True` and `vectorized=True` are not supported together. Please either set `strict=False` or "
            "`vectorize=False`."
        )


__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


# -- helpers under PyTorch's names, of which packages make Jacobians of their own -------------------------------------------------------
def _as_tuple(inp: Any, arg_name: str | None = None, fn_name: str | None = None) -> Any:
    """Tensors as a tuple; with names for errors, whether they are one, before it."""
    if arg_name is None and fn_name is None:
        return inp if isinstance(inp, tuple) else tuple(inp) if isinstance(inp, list) else (inp,)
    tensors, single = _as_tensors(inp, str(arg_name), str(fn_name))
    return not single, tensors


def _tuple_postprocess(res: Any, to_unpack: Any) -> Any:
    """A result, or a tuple of results, in place of tuples of one; ``to_unpack`` says it for each level."""
    if isinstance(to_unpack, tuple):
        if not to_unpack[1]:
            res = tuple([each[0] for each in res])
        to_unpack = to_unpack[0]
    return res if to_unpack else res[0]


def _grad_preprocess(inputs: Sequence[Any], create_graph: bool, need_graph: bool) -> tuple[Any, ...]:
    """Inputs as variables of their own: views, where derivatives will be differentiated, or leaves."""
    made = []
    for each in inputs:
        if create_graph and isinstance(each, Tensor):
            made.append(each.view_as(each))
        else:
            made.append(each.detach().requires_grad_(need_graph))
    return tuple(made)


def _grad_postprocess(inputs: Any, create_graph: bool) -> Any:
    """Results without history, where derivatives will not be differentiated."""
    if isinstance(inputs, Tensor):
        return inputs if create_graph else inputs.detach()
    return tuple([_grad_postprocess(each, create_graph) for each in inputs])


def _construct_standard_basis_for(tensors: Sequence[Tensor], tensor_numels: Sequence[int]) -> tuple[Tensor, ...]:
    """Unit vectors of a space of several tensors: for each tensor its columns of the identity matrix, ``(all, own)``."""
    if len(tensors) != len(tensor_numels) or not tensors:
        raise AssertionError("expected as many sizes as tensors, and at least one")
    total, start, chunks = sum(tensor_numels), 0, []
    for tensor, count in zip(tensors, tensor_numels, strict=True):
        chunk = tensor.new_zeros(total, count)
        chunk.diagonal(-start).fill_(1)
        chunks.append(chunk)
        start += count
    return tuple(chunks)
