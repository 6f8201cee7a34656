"""Derivatives against finite differences: ``gradcheck`` and ``gradgradcheck``.

For a complex input ``z = x + iy`` and a real output ``s`` the gradient is ``ds/dx + i ds/dy``.  A complex output is two real ones, so
its real and its imaginary part are checked one after the other.

In fast mode one number per pair of input and output is compared: ``v . J u`` for random unit vectors with positive entries.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.calls.interruption import pass_on
from ..core.calls.registry import resolve
from ..core.layout import sparse_bsc, sparse_bsr, strided
from ..core.shape import element_strides
from ..core.tensor import Tensor, wrap
from . import _gradcheck_forward as forward
from .api import grad
from .function import Function


class GradcheckError(RuntimeError):
    """Error of ``gradcheck`` and ``gradgradcheck`` for a wrong derivative.

    Source: torch.autograd.gradcheck.GradcheckError.
    Example:
        >>> bent = lambda x: x.detach() + x
        >>> gradcheck(bent, torch.ones(1, dtype=torch.float64, requires_grad=True), raise_exception=False)
        False
    """


class _Settings(NamedTuple):
    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    check_grad_dtypes: bool
    forward: bool = False  # which of the two modes are checked, and each over a batch
    backward: bool = True
    batched_forward: bool = False
    batched_backward: bool = False
    fast_mode: bool = False
    check_undefined_grad: bool = True


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the gradients of ``func`` at ``inputs`` with central differences.

    Args:
        func: takes tensors and returns a tensor or a tuple of tensors; must be deterministic.
        inputs: a tensor or a sequence of arguments; those that require grad are checked, and should be of double precision.
        eps: step of the differences.
        atol, rtol: tolerances.
        raise_exception: raise where the gradients disagree, instead of returning False.
        nondet_tol: how much two runs of the same backward pass may differ.
        check_undefined_grad: also check backward passes in which the gradient of an output is missing.
        check_grad_dtypes: also check that gradients have their inputs' dtypes.
        check_batched_grad: also check gradients for several vectors at once, by ``vmap``.
        check_batched_forward_grad: the same of tangents.
        check_forward_ad: check forward mode too.
        check_backward_ad: check the backward pass.
        fast_mode: compare one random projection per input and output instead of whole Jacobians.
        masked: whether of sparse inputs only the specified elements are changed (False when None).
    Returns:
        True if all gradients agree; False if they do not and ``raise_exception`` is False.
    Raises:
        GradcheckError: the gradients disagree.
        ValueError: no input requires grad.
        AssertionError: neither mode is to be checked, or one over a batch that is not.
    Source: torch.autograd.gradcheck.
    Example:
        >>> x = torch.tensor([0.5, 1.0], dtype=torch.float64, requires_grad=True)
        >>> gradcheck(torch.sin, x)
        True
    """
    modes = (check_forward_ad, check_backward_ad, check_batched_forward_grad, check_batched_grad)
    settings = _Settings(eps, atol, rtol, nondet_tol, check_grad_dtypes, *modes, fast_mode, check_undefined_grad)
    return _passes(func, _as_arguments(inputs), settings, raise_exception, bool(masked))


def _passes(func: Callable[..., Any], args: tuple[Any, ...], settings: _Settings, raise_exception: bool, masked: bool) -> bool:
    if not settings.forward and not settings.backward:
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if settings.batched_backward and not settings.backward:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if settings.batched_forward and not settings.forward:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    func, args = _without_sparse(func, args, masked)
    try:
        _check_all(func, args, settings)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Compare the second derivatives of ``func`` with central differences of its gradients.

    Args:
        func, inputs: as in ``gradcheck``.
        grad_outputs: gradients of the outputs at which to check; random ones when None.
        gen_non_contig_grad_outputs: make the random ones non-contiguous.
        check_fwd_over_rev: check the tangents of the backward pass's gradients.
        check_rev_over_rev: check the backward pass of the backward pass.
        others: as in ``gradcheck``.
    Returns:
        True if all second derivatives agree; False if they do not and ``raise_exception`` is False.
    Raises:
        GradcheckError: they disagree.
    Source: torch.autograd.gradgradcheck.
    Example:
        >>> x = torch.tensor([0.5, 1.0], dtype=torch.float64, requires_grad=True)
        >>> gradgradcheck(lambda x: x**3, x)
        True
    """
    if not check_fwd_over_rev and not check_rev_over_rev:
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    args = _as_arguments(inputs)
    func, args = _without_sparse(func, args, masked)
    if grad_outputs is None:
        outputs = _differentiable(func(*args))
        given = tuple(_random_gradient(output, gen_non_contig_grad_outputs) for output in outputs)
    else:
        given = _as_arguments(grad_outputs)
    count = len(given)

    def first_derivative(*all_args: Any) -> tuple[Tensor, ...]:
        outputs = _differentiable(func(*all_args[:-count]))
        wanted = [arg for arg in all_args[:-count] if isinstance(arg, Tensor) and arg.requires_grad]
        gradients = grad(outputs, wanted, all_args[-count:], create_graph=True, allow_unused=True)
        return tuple(gradient for gradient in gradients if gradient is not None)

    modes = (check_fwd_over_rev, check_rev_over_rev, False, check_batched_grad)
    settings = _Settings(eps, atol, rtol, nondet_tol, check_grad_dtypes, *modes, fast_mode, check_undefined_grad)
    return _passes(first_derivative, (*args, *given), settings, raise_exception, masked)


def _without_sparse(func: Callable[..., Any], args: tuple[Any, ...], masked: bool) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A function of dense tensors that does the same: it takes the values of sparse inputs, and gives sparse outputs as dense ones.

    Args:
        masked: whether an input's specified elements are its values; otherwise all of its elements are.
    """
    places: dict[int, Any] = {}
    dense = list(args)
    for i, arg in enumerate(args):
        if isinstance(arg, Tensor) and arg.layout is not strided and arg.requires_grad:
            mask = arg.detach()
            if not masked:
                whole = mask.to_dense()
                facts = {"sparse_dim": mask.sparse_dim()} if mask.is_sparse else {"layout": mask.layout, "dense_dim": mask.dense_dim()}
                if mask.layout in (sparse_bsr, sparse_bsc):
                    facts["blocksize"] = mask._array.block
                everywhere = whole.new_ones(whole.shape).to_sparse(**facts)
                mask = whole.sparse_mask(everywhere)
            elif mask.is_sparse:
                mask = mask.coalesce()
            places[i] = mask
            dense[i] = mask.values().clone().requires_grad_()
    if not places:
        return _with_dense_outputs(func), args

    def of_values(*values: Any) -> Any:
        given = [with_values(value, places[i]) if i in places else value for i, value in enumerate(values)]
        return func(*given)

    with_values = resolve("torch", "_sparse_with_values")
    return _with_dense_outputs(of_values), tuple(dense)


def _with_dense_outputs(func: Callable[..., Any]) -> Callable[..., Any]:
    def as_dense(output: Any) -> Any:
        return output.to_dense() if isinstance(output, Tensor) and output.layout is not strided else output

    def call(*args: Any) -> Any:
        output = func(*args)
        return type(output)(map(as_dense, output)) if type(output) in (tuple, list) else as_dense(output)

    return call


def _as_arguments(inputs: Any) -> tuple[Any, ...]:
    return (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)


def _differentiable(output: Any) -> tuple[Tensor, ...]:
    outputs = output if isinstance(output, (tuple, list)) else (output,)
    return tuple(tensor for tensor in outputs if isinstance(tensor, Tensor) and tensor.requires_grad)


def _random_gradient(output: Tensor, strided: bool) -> Tensor:
    gradient = output.detach().new_empty(output.shape).normal_()
    if strided:
        shape = gradient.shape
        gradient = gradient.new_empty((*shape, 2)).normal_().select(-1, 1) if gradient.ndim else gradient
    return gradient.requires_grad_()


# -- what is checked ---------------------------------------------------------------------------------------------------------------
def _check_all(func: Any, args: tuple[Any, ...], settings: _Settings) -> None:
    checked = _checked_inputs(args)
    output = func(*args)
    outputs = _differentiable(output)
    if not outputs:
        _check_constant(func, args, checked, settings)
        return
    for note, part in _real_functions(func, outputs):
        _check_part(part, args, checked, settings, note)
    inputs = [x for _, x in checked]
    if settings.forward:
        _check_forward_mode(lambda *args: _differentiable(func(*args)), args, inputs, settings)
    if settings.backward:
        if settings.batched_backward:
            forward.check_batched_backward(outputs, inputs, GradcheckError)
        _check_zero_gradient(outputs, inputs, settings)
        if settings.check_undefined_grad:
            _check_missing_gradients(func, args, inputs)


def _check_forward_mode(func: Any, args: Any, inputs: Sequence[Tensor], settings: _Settings) -> None:
    if settings.check_grad_dtypes:
        forward.check_dtypes(func, args, inputs, GradcheckError)
    if settings.check_undefined_grad:
        forward.check_zero_tangents(func, args, inputs, GradcheckError)
    if settings.batched_forward:
        forward.check_batched_forward(func, args, inputs, GradcheckError)


def _checked_inputs(args: tuple[Any, ...]) -> list[tuple[int, Tensor]]:
    """The arguments that require grad, with their positions.

    Raises:
        ValueError: there are none.
        RuntimeError: one repeats elements, so that one of them cannot be changed alone.
    """
    inputs = []
    for position, arg in enumerate(args):
        if not isinstance(arg, Tensor) or not arg.requires_grad:
            continue
        if arg.dtype.name not in ("float64", "complex128"):
            warnings.warn(
                f"Input #{position} requires gradient and is not a double precision floating point or complex. This check will likely fail "
                "if all the inputs are not of double precision floating point or complex. ",
                stacklevel=5,
            )
        if any(step == 0 and n > 1 for step, n in zip(element_strides(arg._array), arg._array.shape, strict=True)):
            raise RuntimeError(
                f"The {position}th input has a dimension with stride 0. gradcheck only supports inputs that are non-overlapping to be able "
                "to compute the numerical gradients correctly. You should call .contiguous on the input before passing it to gradcheck."
            )
        arg.retain_grad()
        inputs.append((position, arg))
    if not inputs:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True.")
    return inputs


def _real_functions(func: Any, outputs: Sequence[Tensor]) -> Iterable[tuple[str, Any]]:
    """``func`` with its differentiable outputs; where some are complex, once with the imaginary and once with the real parts."""
    if not any(output.is_complex() for output in outputs):
        yield "", lambda *args: _differentiable(func(*args))
        return
    for name in ("imag", "real"):

        def part(*args: Any, name: str = name) -> tuple[Tensor, ...]:
            return tuple(getattr(output, name) if output.is_complex() else output for output in _differentiable(func(*args)))

        yield f"While considering the {'imaginary' if name == 'imag' else 'real'} part of complex outputs only, ", part


def _check_constant(func: Any, args: Any, checked: Any, settings: _Settings) -> None:
    """Without differentiable outputs the differences must be zero."""

    def numbers(*values: Any) -> tuple[Tensor, ...]:
        output = func(*values)
        outputs = output if isinstance(output, (tuple, list)) else (output,)
        tensors = [output for output in outputs if isinstance(output, Tensor) and (output.is_floating_point() or output.is_complex())]
        return tuple(part for tensor in tensors for part in ((tensor.real, tensor.imag) if tensor.is_complex() else (tensor,)))

    for _, x in checked:
        for jacobian in _numeric_jacobians(numbers, args, x, settings.eps):
            if not np.allclose(jacobian, 0, atol=1e-8):
                raise GradcheckError("Numerical gradient for function expected to be zero")


def _check_part(part: Any, args: Any, checked: Any, settings: _Settings, note: str) -> None:
    outputs = part(*args)
    if settings.fast_mode:
        _check_fast(part, args, outputs, checked, settings, note)
        return
    inputs = [x for _, x in checked]
    numeric = [_numeric_jacobians(part, args, x, settings.eps) for x in inputs]
    if settings.forward:
        for j, (position, x) in enumerate(checked):
            for i, (slopes, wanted) in enumerate(zip(forward.jacobians(part, args, x), numeric[j], strict=True)):
                if not _close(slopes, wanted, settings.rtol, settings.atol):
                    raise GradcheckError(note + _mismatch(slopes, wanted, i, position, " computed with forward mode"))
    if not settings.backward:
        return
    for i, output in enumerate(outputs):
        analytic = _analytic_jacobians(output, inputs, settings)
        for j, (position, _) in enumerate(checked):
            if not _close(analytic[j], numeric[j][i], settings.rtol, settings.atol):
                raise GradcheckError(note + _mismatch(analytic[j], numeric[j][i], i, position))


def _mismatch(analytic: Any, numeric: Any, output: int, position: int, how: str = "") -> str:
    return (
        f"Jacobian{how} mismatch for output {output} with respect to input {position},\n"
        f"numerical:{wrap(np.array(numeric))}\nanalytical:{wrap(np.array(analytic))}\n"
    )


def _close(a: Any, b: Any, rtol: float, atol: float) -> bool:
    return bool(np.allclose(a, b, rtol, atol, equal_nan=False))


# -- differences -------------------------------------------------------------------------------------------------------------------
def _differences(function: Any, args: Any, x: Tensor, step: Any, eps: float) -> list[np.ndarray]:
    """``(f(x + step) - f(x - step)) / (2 eps)`` for each output; ``x`` is changed in its memory and restored."""
    array = x._array
    kept = array.copy()
    try:
        array[...] = kept + step
        above = [np.array(output._array) for output in function(*args)]
        array[...] = kept - step
        below = [np.array(output._array) for output in function(*args)]
    finally:
        array[...] = kept
    return [(a - b) / (2 * eps) for a, b in zip(above, below, strict=True)]


def _numeric_jacobians(function: Any, args: Any, x: Tensor, eps: float) -> list[np.ndarray]:
    """One matrix (elements of ``x``, elements of the output) per output."""
    rows: list[list[np.ndarray]] = []
    for index in np.ndindex(x._array.shape):
        step = np.zeros(x._array.shape, x._array.dtype)
        step[index] = eps
        row = _differences(function, args, x, step, eps)
        if step.dtype.kind == "c":
            row = [a + 1j * b for a, b in zip(row, _differences(function, args, x, step * 1j, eps), strict=True)]
        rows.append([difference.reshape(-1) for difference in row])
    if not rows:
        return [np.zeros((0, output._array.size)) for output in function(*args)]
    return [np.stack(output_rows) for output_rows in zip(*rows, strict=True)]


# -- gradients ---------------------------------------------------------------------------------------------------------------------
def _vector_products(output: Tensor, inputs: Sequence[Tensor], vector: np.ndarray, settings: _Settings) -> list[np.ndarray]:
    """Gradients of ``vector . output``, after checks of sizes, dtypes, and that a second pass gives the same."""

    def once() -> tuple[Tensor | None, ...]:
        start = wrap(vector.astype(output._array.dtype).reshape(output._array.shape))
        return grad(output, inputs, start, retain_graph=True, allow_unused=True)

    gradients, again = once(), once()
    results = []
    for x, first, second in zip(inputs, gradients, again, strict=True):
        if first is None or second is None:
            results.append(np.zeros(x._array.shape))
            continue
        if first._array.shape != x._array.shape:
            raise GradcheckError("Analytical gradient has incorrect size")
        if settings.check_grad_dtypes and first.dtype is not x.dtype:
            raise GradcheckError("Gradient has dtype mismatch")
        if not np.allclose(first._array, second._array, rtol=0, atol=settings.nondet_tol, equal_nan=True):
            raise GradcheckError(
                "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives different values, "
                f"although analytical gradient matches numerical gradient. The tolerance for nondeterminism was {settings.nondet_tol}."
            )
        results.append(np.array(first._array))
    return results


def _analytic_jacobians(output: Tensor, inputs: Sequence[Tensor], settings: _Settings) -> list[np.ndarray]:
    """One matrix (elements of the input, elements of ``output``) per input."""
    count = output._array.size
    columns = [[product.reshape(-1) for product in _vector_products(output, inputs, unit, settings)] for unit in np.eye(count)]
    if not columns:
        return [np.zeros((x._array.size, 0)) for x in inputs]
    return [np.stack(input_columns, axis=1) for input_columns in zip(*columns, strict=True)]


def _unit_vector(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    vector = rng.uniform(size=shape)
    return vector / max(float(np.sqrt((vector**2).sum())), 1e-30)


def _check_fast(part: Any, args: Any, outputs: Sequence[Tensor], checked: Any, settings: _Settings, note: str) -> None:
    rng = np.random.default_rng(0)
    vectors = [_unit_vector(rng, output._array.shape) for output in outputs]
    inputs = [x for _, x in checked]
    analytic = []
    if settings.backward:
        analytic = [_vector_products(out, inputs, v, settings) for out, v in zip(outputs, vectors, strict=True)]
    for j, (position, x) in enumerate(checked):
        u, w = _unit_vector(rng, x._array.shape), _unit_vector(rng, x._array.shape)
        along = _differences(part, args, x, (u * settings.eps).astype(x._array.dtype), settings.eps)
        if x.is_complex():
            across = _differences(part, args, x, (w * settings.eps * 1j).astype(x._array.dtype), settings.eps)
            along = [a + 1j * b for a, b in zip(along, across, strict=True)]
        slopes: list[np.ndarray] = []
        if settings.forward:
            slopes = forward.products(part, args, x, u)
            if x.is_complex():
                slopes = [a + 1j * b for a, b in zip(slopes, forward.products(part, args, x, w * 1j), strict=True)]
        for i, v in enumerate(vectors):
            numeric = (v * along[i]).sum()
            found: list[tuple[Any, str]] = []
            if settings.forward:
                found.append(((v * slopes[i]).sum(), " computed with forward mode"))
            if settings.backward:
                jacobian = analytic[i][j]
                found.append(((jacobian.real * u).sum() + (1j * (jacobian.imag * w).sum() if x.is_complex() else 0), ""))
            # |v.Au - v.Bu| <= atol * sum(v) * sum(u) if the entries of A and B differ by less than atol
            for product, how in found:
                if _close(product, numeric, settings.rtol, settings.atol * float(u.sum()) * float(v.sum())):
                    continue
                raise GradcheckError(
                    note
                    + _mismatch(product, numeric, i, position, how)
                    + "\nThe above quantities relating the numerical and analytical jacobians "
                    "are computed in fast mode: each is one random projection of a Jacobian. Use fast_mode=False to see whole Jacobians.\n"
                )


# -- gradients that are zero or missing ------------------------------------------------------------------------------------------------
def _check_zero_gradient(outputs: Sequence[Tensor], inputs: Sequence[Tensor], settings: _Settings) -> None:
    """A zero gradient must come back as zero: derivatives are linear."""
    zeros = [wrap(np.zeros_like(output._array)) for output in outputs]
    for x, gradient in zip(inputs, grad(outputs, inputs, zeros, retain_graph=True, allow_unused=True), strict=True):
        if gradient is None:
            continue
        if gradient._array.any():
            raise GradcheckError("backward not multiplied by grad_output")
        if settings.check_grad_dtypes and gradient.dtype is not x.dtype:
            raise GradcheckError(f"grad is incorrect type: expected {x.dtype}, got {gradient.dtype}")


class _Undefined(Function):
    """The identity, through which no gradient comes back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> None:
        return None


def _check_missing_gradients(func: Any, args: Any, inputs: Sequence[Tensor]) -> None:
    outputs = _differentiable(func(*args))

    def without(missing: set[int]) -> bool:
        ends = [_Undefined.apply(output) if i in missing else output for i, output in enumerate(_differentiable(func(*args)))]
        zeros = [wrap(np.zeros_like(end._array)) for end in ends]
        try:
            gradients = grad(ends, inputs, zeros, allow_unused=True)
        except RuntimeError as error:
            pass_on(error)
            raise GradcheckError("Expected backward function to handle undefined output grads (None)") from error
        return all(gradient is None or not gradient._array.any() for gradient in gradients)

    cases = [set(range(len(outputs)))] + ([{i} for i in range(len(outputs))] if len(outputs) > 1 else [])
    if not all(without(case) for case in cases):
        raise GradcheckError("Expected all input grads to be undefined or zero when all output grads are undefined or zero.")


# ``torch.autograd.gradcheck`` is this function, and old programs also write ``torch.autograd.gradcheck.gradcheck``.
gradcheck.gradcheck = gradcheck  # type: ignore[attr-defined]
gradcheck.gradgradcheck = gradgradcheck  # type: ignore[attr-defined]
gradcheck.GradcheckError = GradcheckError  # type: ignore[attr-defined]

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]
