"""Making sparse tensors of indices and values, and looking at their parts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ...core.arrays.kinds import place_of
from ...core.arrays.sparse import BACKENDS, BLOCKED, BY_ROW, SparseArray, coo, entries_at, keys_of, rules, sparse_array, unsupported
from ...core.arrays.sparse_checks import WORDS, check_compressed, check_coo
from ...core.calls.annotations import Tensor
from ...core.calls.creation import dtype_of
from ...core.calls.registry import Declare, composite, documented, method, op
from ...core.device import cpu
from ...core.dtype import get_default_dtype
from ...core.layout import layout as Layout, sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr, strided
from ...core.shape import Size
from ...core.tensor import Tensor as TensorType, wrap


class _Checking:
    """Whether invariants are checked where the caller does not say."""

    on = False


checking = _Checking()


# -- the operations: values into a sparse tensor and out of it --------------------------------------------------------------------------
def sparse_op(refused: str | None = None, **options: Any) -> Declare:
    """Declare an operation of which the function is the rule for sparse operands.

    Args:
        refused: the kernel of PyTorch that complains where no operand is sparse; None where the function serves dense ones as well.
    """

    def declare(rule: Callable[..., Any]) -> Any:
        entry = op(**options)(rule if refused is None else _refusing(refused, rule))
        rules[entry.key] = rule  # type: ignore[attr-defined]
        return entry

    return declare


def _refusing(name: str, rule: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel with the signature of ``rule`` that takes no dense operands."""

    @functools.wraps(rule)
    def refuse(*operands: Any) -> NoReturn:
        unsupported(name, operands[0])

    return refuse


@op(
    name="_sparse_coo_tensor",
    node_name="SparseCooTensorWithDimsAndTensorsBackward0",
    grad={"values": lambda grad, result: entries(grad, result)},
)
def coo_tensor(indices: Tensor, values: Tensor, shape: Any, is_coalesced: bool) -> Tensor:
    """A COO tensor around checked parts."""
    array = coo(indices, values, shape, is_coalesced)
    array.coalesced = is_coalesced
    return array


@op(
    name="_sparse_compressed_tensor",
    node_name="SparseCompressedTensorBackward0",
    grad={"values": lambda grad, result: entries(grad, result)},
)
def compressed_tensor(compressed_indices: Tensor, plain_indices: Tensor, values: Tensor, shape: Any, form: Any) -> Tensor:
    """A compressed tensor around checked parts."""
    return sparse_array(form, shape, (compressed_indices, plain_indices), values)


@sparse_op(name="_sparse_with_values", grad={"values": lambda grad, mask: entries(grad, mask)})
def with_values(values: Tensor, mask: Tensor) -> Tensor:
    """Values at the places of another sparse tensor."""
    return mask.with_values(values)


@sparse_op(name="_sparse_entries", node_name="ValuesBackward0", grad={"input": lambda grad, mask: with_values(grad, mask)})
def entries(input: Tensor, mask: Tensor) -> Tensor:
    """The elements of ``input``, dense or sparse, at the places of a sparse tensor, in its order; 0 where nothing is specified."""
    return entries_at(input, mask)


# -- checks -----------------------------------------------------------------------------------------------------------------------------
def _as_tensor(data: Any, dtype: Any = None) -> Any:
    from .. import as_tensor

    return data if isinstance(data, TensorType) and (dtype is None or data.dtype is dtype) else as_tensor(data, dtype=dtype)


def _options(name: str, values: Any, dtype: Any, device: Any, requires_grad: bool, pin_memory: bool) -> Any:
    """Values as a dense tensor of the CPU with that dtype."""
    if place_of(device, name) != cpu or pin_memory:
        raise NotImplementedError(f"{name}: sparse tensors are made on device 'cpu' and in pageable memory only")
    given = _as_tensor(values)
    given = given if dtype is None else given.to(dtype_of(dtype, name))
    if given.layout is not strided:
        raise RuntimeError(f"{name}: expected values to be a strided tensor, got {given.layout}")
    if given.device != cpu:
        raise NotImplementedError(f"{name}: sparse tensors on device '{given.device}' are not supported")
    return given.detach() if requires_grad else given


def _indices(name: str, data: Any, keep32: bool = False) -> np.ndarray:
    tensor = _as_tensor(data)
    array = tensor._array
    if keep32 and array.dtype == np.int32:
        return array
    if array.dtype.kind not in "iuf" or (isinstance(data, TensorType) and array.dtype.kind == "f" and array.size):
        raise RuntimeError(f"{name}: indices must be an int64 tensor, got {tensor.dtype}")
    return array.astype(np.int64, copy=False)


def _check_sizes(size: Any) -> tuple[int, ...]:
    shape = tuple([int(n.__index__()) for n in size])
    if any(n < 0 for n in shape):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
    return shape


@composite(method=False)
def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Tensor:
    """A tensor of given values at given indices, zero elsewhere; values of equal indices count as their sum.

    Args:
        indices: ``(sparse dims, nnz)``; or, alone, the size of a tensor without elements.
        values: ``(nnz, *dense dims)``.
        size: of the whole; as small as the indices allow when None.
        dtype: of the values; theirs when None.
        device: must be the CPU.
        pin_memory: must be False.
        requires_grad: whether operations on the result are recorded.
        check_invariants: whether to look for equal indices where ``is_coalesced`` says that there are none; as
            ``torch.sparse.check_sparse_tensor_invariants`` says when None. That indices lie within the size is always checked.
        is_coalesced: whether the indices are sorted and distinct.
    Returns:
        Shape ``size``, of layout ``torch.sparse_coo``.
    Raises:
        RuntimeError: sizes that do not fit, or indices outside of ``size``.
        TypeError: neither values nor a size.
        NotImplementedError: another device.
    Gradient: to ``values`` the gradient's elements at the indices.
    Source: torch.sparse_coo_tensor.
    Example:
        >>> x = torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 0]], [3.0, 4.0, 5.0], (2, 3))
        >>> x.to_dense()
        tensor([[0., 0., 3.],
                [9., 0., 0.]])
    """
    name = "sparse_coo_tensor"
    if values is None:
        size = size if indices is None else indices
        if size is None:
            raise TypeError("sparse_coo_tensor() received an invalid combination of arguments - expected indices and values, or a size")
        shape = _check_sizes(size)
        kind = dtype_of(dtype, name).numpy if dtype is not None else None
        given = _options(name, np.zeros(0, np.float32 if kind is None else kind), None, device, requires_grad, pin_memory)
        given = given if kind is not None else given.to(get_default_dtype())
        made = coo_tensor(wrap(np.zeros((len(shape), 0), np.int64)), given, shape, is_coalesced is not False)
        return made.requires_grad_() if requires_grad else made
    given = _options(name, values, dtype, device, requires_grad, pin_memory)
    places = _indices(name, indices)
    if places.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(places.shape)}")
    if not given._array.ndim:
        given = given.expand(places.shape[1])
    if given._array.shape[0] != places.shape[1]:
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {places.shape[1]}, nnz from values: {given._array.shape[0]}"
        )
    dense = given._array.shape[1:]
    if size is None:
        if places.size and places.min() < 0:
            raise RuntimeError(f"found negative index {places.min()}")
        shape = (*(places.max(1) + 1 if places.size else np.zeros(len(places), np.int64)).tolist(), *dense)
    else:
        shape = _check_sizes(size)
        if len(shape) != len(places) + len(dense):
            raise RuntimeError(
                f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(shape)}, sparse_dim = {len(places)}, "
                f"dense_dim = {len(dense)}"
            )
        if shape[len(places) :] != dense:
            raise RuntimeError(
                f"values has incorrect size, expected {[places.shape[1], *shape[len(places) :]]}, got {list(given._array.shape)}"
            )
        check_coo(places, shape)
    if is_coalesced and (checking.on if check_invariants is None else check_invariants):
        keys = keys_of(places, shape[: len(places)])
        if not (keys[1:] > keys[:-1]).all():
            raise RuntimeError("cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor")
    made = coo_tensor(wrap(places), given, shape, places.shape[1] < 2 if is_coalesced is None else bool(is_coalesced))
    return made.requires_grad_() if requires_grad else made


def _compressed(
    name: str, form: Any, compressed: Any, plain: Any, values: Any, size: Any, dtype: Any, device: Any, pin_memory: bool,
    requires_grad: bool, check_invariants: bool | None,
) -> Any:  # fmt: skip
    given = _options(name, values, dtype, device, requires_grad, pin_memory)
    across, along = _indices(name, compressed, True), _indices(name, plain, True)
    if across.dtype != along.dtype:
        across, along = across.astype(np.int64), along.astype(np.int64)
    array = given._array
    if across.ndim < 1 or along.ndim < 1 or array.ndim < across.ndim:
        raise RuntimeError(f"{name}: expected indices and values of at least one dimension")
    if size is None:
        batch, blocked = across.ndim - 1, form in BLOCKED
        high, wide = array.shape[batch + 1 : batch + 3] if blocked else (1, 1)
        count = across.shape[-1] - 1
        other = int(along.max()) + 1 if along.size else 0
        matrix = (count * high, other * wide) if form in BY_ROW else (other * high, count * wide)
        shape = (*across.shape[:-1], *matrix, *array.shape[batch + 1 + 2 * blocked :])
    else:
        shape = _check_sizes(size)
    check_compressed(form, across, along, array, shape, bool(checking.on if check_invariants is None else check_invariants))
    made = compressed_tensor(wrap(across), wrap(along), given, shape, form)
    return made.requires_grad_() if requires_grad else made


def _declare(name: str, form: Any, words: tuple[str, str], example: tuple[str, str]) -> None:
    blocks = "*block, " if form in BLOCKED else ""
    source = (
        f"def {name}({words[0]}: Any, {words[1]}: Any, values: Any, size: Any = None, *, dtype: Any = None, device: Any = None, "
        "pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None) -> Any:\n"
        f"    return compressed(NAME, FORM, {words[0]}, {words[1]}, values, size, dtype, device, pin_memory, requires_grad, "
        "check_invariants)\n"
    )
    env: dict[str, Any] = {"compressed": _compressed, "NAME": name, "FORM": form, "Any": Any, "__name__": __name__}
    exec(source, env)
    function = env[name]
    function.__doc__ = f"""A tensor of layout ``{form}``, made of its parts.

    Args:
        {words[0]}: ``(*batch, n + 1)``: where the entries of each {"row" if form in BY_ROW else "column"} (of blocks) begin.
        {words[1]}: ``(*batch, nnz)``: where each entry lies in it.
        values: ``(*batch, nnz, {blocks}*dense dims)``.
        size: of the whole; as small as the parts allow when None.
        dtype: of the values; theirs when None.
        device: must be the CPU.
        pin_memory: must be False.
        requires_grad: whether operations on the result are recorded.
        check_invariants: whether ``{words[1]}`` must be sorted and distinct, too. What memory depends on is always checked.
    Returns:
        Shape ``size``, of that layout.
    Raises:
        RuntimeError: parts that do not fit each other or ``size``.
        NotImplementedError: another device.
    Source: torch.{name}.
    Example:
        >>> torch.{name}({example[0]}).to_dense()
        {example[1]}
    """
    globals()[name] = composite(method=False)(function)


for _name, _form, _example in (
    ("csr", sparse_csr, ("[0, 1, 3], [2, 0, 1], [5, 6, 7], (2, 3)", "tensor([[0, 0, 5], [6, 7, 0]])")),
    ("csc", sparse_csc, ("[0, 1, 3], [2, 0, 1], [5, 6, 7], (3, 2)", "tensor([[0, 6], [0, 7], [5, 0]])")),
    ("bsr", sparse_bsr, ("[0, 1], [1], [[[5, 6], [7, 8]]], (2, 4)", "tensor([[0, 0, 5, 6], [0, 0, 7, 8]])")),
    ("bsc", sparse_bsc, ("[0, 1], [1], [[[5, 6], [7, 8]]], (4, 2)", "tensor([[0, 0], [0, 0], [5, 6], [7, 8]])")),
):
    _declare(f"sparse_{_name}_tensor", _form, WORDS[_form in BY_ROW], _example)


@composite(method=False)
def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Any:
    """A tensor of one of the compressed layouts; see ``torch.sparse_csr_tensor``.

    Args:
        compressed_indices, plain_indices, values, size: the parts, as for ``torch.sparse_csr_tensor``.
        dtype, device, pin_memory, requires_grad, check_invariants: as there.
        layout: ``torch.sparse_csr``, ``sparse_csc``, ``sparse_bsr`` or ``sparse_bsc``.
    Returns:
        A tensor of shape ``size`` and that layout.
    Raises:
        RuntimeError: no such layout, or parts that do not fit.
    Source: torch.sparse_compressed_tensor.
    Example:
        >>> x = torch.sparse_compressed_tensor([0, 1, 2], [1, 0], [3.0, 4.0], (2, 2), layout=torch.sparse_csc)
        >>> x.to_dense()
        tensor([[0., 4.],
                [3., 0.]])
    """
    if not isinstance(layout, Layout) or layout not in BACKENDS or layout is sparse_coo:
        raise RuntimeError(f"sparse_compressed_tensor: expected a compressed sparse layout, got {layout}")
    return _compressed(
        "sparse_compressed_tensor", layout, compressed_indices, plain_indices, values, size, dtype, device, pin_memory, requires_grad,
        check_invariants,
    )  # fmt: skip


# -- parts ------------------------------------------------------------------------------------------------------------------------------
def name_of_layout(tensor: Any) -> str:
    return BACKENDS.get(tensor.layout, "Strided")


def sparse_part(name: str, tensor: Any, forms: Any, words: str) -> SparseArray:
    """The array of a tensor of one of the layouts.

    Raises:
        RuntimeError: another layout.
    """
    if tensor.layout not in forms:
        raise RuntimeError(f"{name} expected {words} but got {name_of_layout(tensor)}")
    return tensor._array


_COO = frozenset((sparse_coo,))
_COO_WORDS = "sparse coordinate tensor layout"


def _coalesced_part(name: str, tensor: Any) -> SparseArray:
    array = sparse_part(name, tensor, _COO, _COO_WORDS)
    if not array.coalesced:
        raise RuntimeError(f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first")
    return array


@method()
def indices(input: Tensor) -> Tensor:
    """The indices of a coalesced COO tensor.

    Args:
        input: of layout ``torch.sparse_coo``.
    Returns:
        ``(sparse dims, nnz)``, int64; shares the tensor's memory.
    Raises:
        RuntimeError: another layout, or a tensor that is not coalesced.
    Source: torch.Tensor.indices.
    Example:
        >>> torch.eye(2).to_sparse().indices()
        tensor([[0, 1],
                [0, 1]])
    """
    return wrap(_coalesced_part("indices", input).parts[0])


@method(name="_indices")
def raw_indices(input: Tensor) -> Tensor:
    """The indices of a COO tensor, coalesced or not. Source: torch.Tensor._indices."""
    return wrap(_plain_coo("_indices", input).parts[0])


def _plain_coo(name: str, input: Any) -> SparseArray:
    if input.layout is not sparse_coo:
        unsupported(name, input._array)
    return input._array


@method()
def values(input: Tensor) -> Tensor:
    """The specified elements of a coalesced COO or a compressed tensor.

    Args:
        input: of a sparse layout.
    Returns:
        ``(nnz, *dense dims)``, the tensor's dtype; shares its memory.
    Raises:
        RuntimeError: another layout, or a COO tensor that is not coalesced.
    Gradient: ``grad`` at the places of the values.
    Source: torch.Tensor.values.
    Example:
        >>> torch.diag(torch.tensor([5.0, 6.0])).to_sparse_csr().values()
        tensor([5., 6.])
    """
    sparse_part("values", input, BACKENDS, "sparse tensor layout")
    if input.layout is sparse_coo:
        _coalesced_part("values", input)
    return entries(input, input.detach())


@method(name="_values")
def raw_values(input: Tensor) -> Tensor:
    """The values of a COO tensor, coalesced or not, outside of the graph. Source: torch.Tensor._values."""
    return wrap(_plain_coo("_values", input).values)


def _declare_indices(name: str, forms: Any, position: int, across: str, along: str) -> None:
    words = f"sparse {'row' if sparse_csr in forms else 'column'} compressed tensor layout"

    @method(name=name)
    @documented(
        name=name,
        across=across,
        which=f"The {along} of each entry (or block)" if position else f"Where the entries of each {across} (of blocks) begin",
        size="nnz" if position else "n + 1",
        printed=[1, 0, 1] if position else [0, 1, 3],
    )
    def part(input: Tensor) -> Tensor:
        """{which}, of a tensor that is compressed by {across}s.

        Args:
            input: of layout ``torch.sparse_cs{across[0]}`` or ``torch.sparse_bs{across[0]}``.
        Returns:
            ``(*batch, {size})``, int64 or int32; shares the tensor's memory.
        Raises:
            RuntimeError: another layout.
        Source: torch.Tensor.{name}.
        Example:
            >>> torch.tensor([[0, 7], [5, 6]]).to_sparse_cs{across[0]}().{name}()
            tensor({printed})
        """
        return wrap(sparse_part(name, input, forms, words).parts[position])


_BY_COLUMN = frozenset((sparse_csc, sparse_bsc))
for _name, _forms, _position, _across, _along in (
    ("crow_indices", BY_ROW, 0, "row", "column"),
    ("col_indices", BY_ROW, 1, "row", "column"),
    ("ccol_indices", _BY_COLUMN, 0, "column", "row"),
    ("row_indices", _BY_COLUMN, 1, "column", "row"),
):
    _declare_indices(_name, _forms, _position, _across, _along)


@method()
def sparse_dim(input: Tensor) -> int:
    """Number of sparse dimensions, those that have indices.

    Args:
        input: any shape and layout.
    Returns:
        An int; 0 for a dense tensor.
    Raises:
        TypeError: no tensor, called as a function.
    Source: torch.Tensor.sparse_dim.
    Example:
        >>> torch.zeros(2, 3, 4).to_sparse(1).sparse_dim(), torch.zeros(2, 3).sparse_dim()
        (1, 0)
    """
    return input._array.sparse_dim if input.layout in BACKENDS else 0


@method()
def dense_dim(input: Tensor) -> int:
    """Number of dense dimensions, those of the values beyond the first.

    Args:
        input: any shape and layout.
    Returns:
        An int; all dimensions for a dense tensor.
    Raises:
        TypeError: no tensor, called as a function.
    Source: torch.Tensor.dense_dim.
    Example:
        >>> torch.zeros(2, 3, 4).to_sparse(1).dense_dim(), torch.zeros(2, 3).dense_dim()
        (2, 2)
    """
    return input._array.dense_dim if input.layout in BACKENDS else input._array.ndim


@method(name="_dimI")
def sparse_dim_old(input: Tensor) -> int:
    """``sparse_dim`` of a COO tensor. Source: torch.Tensor._dimI."""
    return _plain_coo("_dimI", input).sparse_dim


@method(name="_dimV")
def dense_dim_old(input: Tensor) -> int:
    """``dense_dim`` of a COO tensor. Source: torch.Tensor._dimV."""
    return _plain_coo("_dimV", input).dense_dim


@method(name="_nnz")
def count_of_entries(input: Tensor) -> int:
    """Number of specified elements (or blocks; in each batch). Source: torch.Tensor._nnz."""
    if input.layout not in BACKENDS:
        unsupported("_nnz", input._array)
    return input._array.nnz


@composite()
def is_coalesced(input: Tensor) -> bool:
    """Whether the indices of a COO tensor are known to be sorted and distinct.

    Args:
        input: of layout ``torch.sparse_coo``, any shape.
    Returns:
        A bool.
    Raises:
        RuntimeError: another layout.
    Source: torch.Tensor.is_coalesced.
    Example:
        >>> x = torch.sparse_coo_tensor([[1, 1]], [2.0, 3.0], (2,))
        >>> x.is_coalesced(), x.coalesce().is_coalesced()
        (False, True)
    """
    return sparse_part("is_coalesced", input, _COO, _COO_WORDS).coalesced


@method(name="_coalesced_")
def mark_coalesced(input: Tensor, coalesced: bool) -> Tensor:
    """Say whether the indices are sorted and distinct, without looking; itself. Source: torch.Tensor._coalesced_."""
    _plain_coo("_coalesced_", input).coalesced = bool(coalesced)
    return input


def _divided_sizes(size: Any, sparse_dim: int, dense_dim: int) -> tuple[int, ...]:
    shape = _check_sizes(size)
    if len(shape) != sparse_dim + dense_dim:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(shape)}, sparse_dim = {sparse_dim}, "
            f"dense_dim = {dense_dim}"
        )
    return shape


@method()
def sparse_resize_(input: Tensor, size: Any, sparse_dim: int, dense_dim: int) -> Tensor:
    """Another size with the same elements, in place.

    Args:
        size: sizes, none smaller than before while there are elements.
        sparse_dim, dense_dim: how they are divided; as before while there are elements.
    Returns:
        The tensor itself, of shape ``size``.
    Raises:
        RuntimeError: sizes that the elements do not allow, or that are not divided right.
        NotImplementedError: another layout than COO.
    Source: torch.Tensor.sparse_resize_.
    Example:
        >>> torch.eye(2).to_sparse().sparse_resize_((3, 3), 2, 0).to_dense()
        tensor([[1., 0., 0.],
                [0., 1., 0.],
                [0., 0., 0.]])
    """
    array, shape = _plain_coo("sparse_resize_", input), _divided_sizes(size, sparse_dim, dense_dim)
    if array.nnz:
        if sparse_dim != array.sparse_dim:
            raise RuntimeError("changing the number of sparse dimensions on a non-empty sparse tensor is not supported")
        if dense_dim != array.dense_dim:
            raise RuntimeError("changing the number of dense dimensions on a non-empty sparse tensor is not supported")
        if any(n < old for n, old in zip(shape, array.shape, strict=True)):
            raise RuntimeError("shrinking the size of sparse or dense dimensions on a non-empty sparse tensor is not supported")
        values = np.zeros((array.nnz, *shape[sparse_dim:]), array.dtype)
        values[tuple(slice(n) for n in array.values.shape)] = array.values
        array.adopt(coo(array.parts[0], values, shape, array.coalesced))
        return input
    return sparse_resize_and_clear_(input, shape, sparse_dim, dense_dim)


@method()
def sparse_resize_and_clear_(input: Tensor, size: Any, sparse_dim: int, dense_dim: int) -> Tensor:
    """Another size without elements, in place.

    Args:
        size: sizes.
        sparse_dim, dense_dim: how they are divided.
    Returns:
        The tensor itself, of shape ``size``.
    Raises:
        RuntimeError: ``size`` is not ``sparse_dim + dense_dim`` long.
        NotImplementedError: another layout than COO.
    Source: torch.Tensor.sparse_resize_and_clear_.
    Example:
        >>> torch.eye(2).to_sparse().sparse_resize_and_clear_((2, 3), 1, 1).to_dense()
        tensor([[0., 0., 0.],
                [0., 0., 0.]])
    """
    array, shape = _plain_coo("sparse_resize_and_clear_", input), _divided_sizes(size, sparse_dim, dense_dim)
    values = np.zeros((0, *shape[sparse_dim:]), array.dtype)
    array.adopt(coo(np.zeros((sparse_dim, 0), np.int64), values, shape, True))
    return input


@composite()
def resize_as_sparse_(input: Tensor, the_template: Tensor) -> Tensor:
    """``sparse_resize_`` to another tensor's size and dimensions, in place.

    Args:
        input: of a sparse layout, any shape.
        the_template: the other tensor.
    Returns:
        The tensor itself, of the template's shape.
    Raises:
        RuntimeError: sizes that the elements do not allow.
        NotImplementedError: another layout than COO, and another shape.
    Source: torch.resize_as_sparse_.
    Example:
        >>> torch.resize_as_sparse_(torch.eye(2).to_sparse(), torch.zeros(3, 4).to_sparse()).shape
        torch.Size([3, 4])
    """
    template = the_template._array
    if input.layout is not sparse_coo and input.layout is the_template.layout and input._array.shape == template.shape:
        return input
    return sparse_resize_(input, Size(template.shape), template.sparse_dim, template.dense_dim)
