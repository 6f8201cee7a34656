"""Jacobians and Hessians: all rows of a vector-Jacobian product at once, or all columns of a Jacobian-vector product, by one ``Batch``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

from ..autograd.grad_mode import inference_mode
from ..core.state import thread, unwound
from ..core.tensor import Tensor
from ..ops import creation, joining
from ..utils._pytree import tree_flatten, tree_unflatten
from ._batch import Batch
from ._dual import Dual
from ._levels import below
from ._reverse import Chosen, Pullback, alias, over_batches_of, spread, tensors_of, with_aux


def variable(tensor: Any) -> Any:
    """``tensor`` as a new variable of what is running, connected to its history."""
    return alias(spread(tensor))


def basis(tensors: Sequence[Any], start: int, stop: int) -> list[Any]:
    """Rows ``start`` to ``stop`` of the standard basis of all elements of ``tensors``, each tensor's part in its shape."""
    parts: list[Any] = []
    begin = 0
    for tensor in tensors:
        count = tensor._array.size
        part = tensor.new_zeros((stop - start, count))
        first, last = max(start, begin), min(stop, begin + count)
        if first < last:
            part[first - start : last - start, first - begin : last - begin].diagonal().fill_(1)
        parts.append(part.reshape(stop - start, *tensor._array.shape))
        begin += count
    return parts


def _plain_of(tensors: Sequence[Any]) -> list[Any]:
    """Tensors of the same shapes and dtypes, on no level and off the tape, whose values do not matter."""
    with below(thread.levels[0]) if thread.levels else nullcontext():
        return [creation.empty(each._array.shape, dtype=each.dtype, device=each.device) for each in tensors]


def _slices(count: int, chunk_size: int | None) -> Iterator[tuple[int, int]]:
    size = chunk_size or count or 1
    return ((i, min(i + size, count)) for i in range(0, count or 1, size))


def _check_real(tensors: Sequence[Any], name: str, what: str) -> None:
    for i, each in enumerate(tensors):
        if isinstance(each, Tensor) and each.is_complex():
            raise RuntimeError(f"{name}: Expected all {what} to be real but received complex tensor at flattened input idx: {i}")


@unwound
def rows_of(
    outs: Sequence[Any], inputs: Sequence[Any], chunk_size: int | None, pull: Callable[[Sequence[Any]], Sequence[Any]]
) -> list[list[Any]]:
    """For each output the Jacobians at all inputs, by products with rows of the basis of the outputs."""
    plain = _plain_of(outs)
    counts = [each._array.size for each in outs]
    chunks = []
    for start, stop in _slices(sum(counts), chunk_size):
        if stop - start == 1:
            chunks.append([each.unsqueeze(0) for each in pull([each.squeeze(0) for each in basis(plain, start, stop)])])
            continue
        with Batch(stop - start) as batch:
            found = pull([batch.wrap(each) for each in basis(plain, start, stop)])
            chunks.append([batch.inside(each) for each in found])
    rows = [each[0] if len(each) == 1 else joining.cat(list(each)) for each in zip(*chunks, strict=True)]
    places = [sum(counts[:i]) for i in range(len(counts))]
    return [
        [row[at : at + n].reshape((*out._array.shape, *x._array.shape)) for row, x in zip(rows, inputs, strict=True)]
        for out, at, n in zip(outs, places, counts, strict=True)
    ]


def jacrev(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """A function that returns the Jacobian of ``func``, by reverse mode: good where there are fewer outputs than inputs.

    Args:
        func: returns a tree of tensors.
        argnums: which positional arguments to differentiate with respect to: trees of real floating point tensors.
        has_aux: whether ``func`` returns a pair of its output and a tree of tensors that are not differentiated.
        chunk_size: how many rows are computed at once; all when None.
        _preallocate_and_copy: PyTorch's saving of memory in putting chunks together; the result is the same.
    Returns:
        A function of the same arguments. For one output and one argument its result has the shape ``(*output.shape, *argument.shape)``;
        else it is a tree like the output, of trees like the argument (of tuples of them for a tuple of argnums). With ``has_aux`` a pair
        with the rest.
    Raises:
        ValueError: ``chunk_size`` is not positive.
        RuntimeError: when called: complex tensors, outputs that are no tensors, or no such arguments.
    Example:
        >>> torch.func.jacrev(torch.sin)(torch.zeros(2))
        tensor([[1., 0.],
                [0., 1.]])

    Source: torch.func.jacrev.
    """
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        pull = Pullback(func, args, argnums, has_aux, kwargs)
        _check_real(pull.outs, "jacrev", "outputs")
        _check_real(pull.fresh, "jacrev", "inputs")
        jacobians = rows_of(pull.outs, pull.fresh, chunk_size, pull.gradients)
        result = _tree_of(jacobians, pull.spec, pull.chosen)
        return (result, pull.aux) if has_aux else result

    return wrapper


def _tree_of(jacobians: Sequence[Sequence[Any]], spec: Any, chosen: Any) -> Any:
    trees = [chosen.tree(each) for each in jacobians]
    return trees[0] if spec is None else tree_unflatten(trees, spec)


def jacfwd(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """A function that returns the Jacobian of ``func``, by forward mode: good where there are fewer inputs than outputs.

    Args:
        func, argnums, has_aux: as in ``jacrev``.
        randomness: what random functions do: "error", or numbers that are the "same" for all columns, or "different".
    Returns:
        As ``jacrev``.
    Raises:
        RuntimeError: when called, as ``jacrev``'s; also for random functions with "error".
    Example:
        >>> torch.func.jacfwd(lambda x: x**2)(torch.tensor([1.0, 3.0]))
        tensor([[2., 0.],
                [0., 6.]])

    Source: torch.func.jacfwd.
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if randomness not in ("error", "same", "different"):
            raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
        chosen = Chosen(argnums, args)
        for each in chosen.leaves:
            check_primal(each)
        _check_real(chosen.leaves, "jacfwd", "inputs")
        spec: Any = None

        def call(duals: Sequence[Any]) -> tuple[Sequence[Any], Any]:
            nonlocal spec
            made, aux = with_aux(func(*chosen.all(duals), **kwargs), has_aux, "jvp(f, primals, tangents)")
            outs, spec = tensors_of(made, "jvp(f, primals, tangents)")
            _check_real(outs, "jacfwd", "outputs")
            return outs, aux

        jacobians, aux = columns_of(call, chosen.leaves, randomness)
        result = _tree_of(jacobians, spec, chosen)
        return (result, aux) if has_aux else result

    return wrapper


@unwound
def columns_of(
    call: Callable[[Sequence[Any]], tuple[Sequence[Any], Any]], inputs: Sequence[Any], randomness: str
) -> tuple[list[list[Any]], Any]:
    """For each output the Jacobians at all inputs, by products with columns of the basis of the inputs.

    Args:
        call: gets the inputs, and returns the outputs and a tree of tensors to be passed on.
    """
    counts = [each._array.size for each in inputs]
    with Batch(sum(counts), randomness) as batch:
        with Dual() as dual:
            with inference_mode(False):  # what records inside of the function may keep them
                directions = [batch.wrap(each) for each in basis(_plain_of(inputs), 0, sum(counts))]
            outs, rest = call([dual.wrap(x, over_batches_of(x, t)) for x, t in zip(inputs, directions, strict=True)])
            tangents = [dual.tangent(out) for out in outs]  # here, for what took its tangent in place is plain again afterwards
            outs = [dual.primal(out) for out in outs]
        columns = [batch.inside(out.new_zeros(out._array.shape) if t is None else t) for out, t in zip(outs, tangents, strict=True)]
        rest = None if rest is None else _primal_tree(dual, batch, rest)
    jacobians = []
    for out, tangent in zip(outs, columns, strict=True):
        last = tangent.movedim(0, -1)
        parts = last.split(counts, -1) if len(counts) > 1 else (last,)
        jacobians.append([part.reshape((*out._array.shape, *x._array.shape)) for part, x in zip(parts, inputs, strict=True)])
    return jacobians, rest


def check_primal(each: Any) -> None:
    if not isinstance(each, Tensor):
        raise ValueError(f"Thing passed to transform API must be Tensor, got {type(each)}")
    if not (each.is_floating_point() or each.is_complex()):
        raise ValueError(f"Expected primal to be floating point or complex, but got: {each.dtype}")


def _primal_tree(dual: Dual, batch: Batch, tree: Any) -> Any:
    leaves, spec = tree_flatten(tree)
    for each in leaves:
        if not isinstance(each, Tensor):
            raise RuntimeError(f"Expected tensors, got unsupported type {type(each)}")
    values = [dual.primal(each) for each in leaves]
    return tree_unflatten([batch.inside(each) if batch.has(each) else each for each in values], spec)


@unwound
def batched_gradients(outs: Sequence[Any], seeds: Sequence[Any], pull: Callable[[Sequence[Any]], Sequence[Any]]) -> list[Any]:
    """Results of ``pull`` for seeds with a further first dimension, all at once; ``autograd.grad`` with ``is_grads_batched``.

    Raises:
        RuntimeError: a shape that does not fit.
        ValueError: batches of different sizes.
    """
    for i, (out, seed) in enumerate(zip(outs, seeds, strict=True)):
        if seed is None:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        if not seed._array.ndim or seed._array.shape[1:] != out._array.shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch dimension. The sizes of the "
                "remaining dimensions are expected to match the shape of corresponding output, but a mismatch was detected: "
                f"grad_output[{i}] has a shape of {seed.shape[1:]} and output[{i}] has a shape of {out.shape}. If you only want some "
                "tensors in `grad_output` to be considered batched, consider using vmap."
            )
    sizes = [each._array.shape[0] for each in seeds]
    if len(set(sizes)) > 1:
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the mapped dimension"
        )
    with Batch(sizes[0]) as batch:
        return [each._inner if batch.has(each) else each for each in pull([batch.wrap(each) for each in seeds])]


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """A function that returns the Hessian of ``func``: ``jacfwd`` of ``jacrev``.

    Args:
        func, argnums: as in ``jacrev``.
    Returns:
        A function of the same arguments. For a number and one argument its result has the shape ``(*argument.shape, *argument.shape)``;
        else it is a tree like ``jacrev``'s, of trees like the argument.
    Example:
        >>> torch.func.hessian(lambda x: x[0] ** 2 * x[1])(torch.tensor([1.0, 2.0]))
        tensor([[4., 2.],
                [2., 0.]])

    Source: torch.func.hessian.
    """
    return jacfwd(jacrev(func, argnums), argnums)
