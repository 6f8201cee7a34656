"""Embedding layers: rows of a table, by number."""

from __future__ import annotations

from typing import Any, Self

from .. import ops
from ..autograd.grad_mode import no_grad
from ..core.tensor import Parameter, Tensor
from . import functional as F, init
from ._shown import unusual
from .module import Module

__all__ = ["Embedding", "EmbeddingBag"]


def _wrapped_padding(padding_idx: int | None, num_embeddings: int, what: str) -> int | None:
    if padding_idx is None:
        return None
    if not -num_embeddings <= padding_idx < num_embeddings:
        raise AssertionError(f"{what} must be within num_embeddings")  # PyTorch's type
    return padding_idx % num_embeddings


class _Table(Module):
    """Base class of both layers: the table."""

    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None

    def _make_weight(self, given: Tensor | None, requires_grad: bool, device: Any, dtype: Any) -> None:
        shape = (self.num_embeddings, self.embedding_dim)
        if given is None:
            self.weight = Parameter(ops.empty(shape, device=device, dtype=dtype), requires_grad=requires_grad)
            self.reset_parameters()
        elif tuple(given.shape) != shape:
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")  # PyTorch's type
        else:
            self.weight = Parameter(given, requires_grad=requires_grad)

    def reset_parameters(self) -> None:
        """Draw a new table."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)


class Embedding(_Table):
    """Looks up rows of a table.

    Args:
        num_embeddings: rows of the table.
        embedding_dim: size of a row.
        padding_idx: row that starts as zeros and gets no gradient.
        max_norm: rows that are looked up and have a larger norm are scaled down to it, in place.
        norm_type: p of that norm.
        scale_grad_by_freq: divide a row's gradient by how often it was looked up.
        sparse: give the table's gradient as a sparse tensor.
        _weight: table to start with.
        _freeze: whether the table is not trained.
        device, dtype: of the parameters; the default ones when None.
    Shape:
        ``(*)`` of integers to ``(*, embedding_dim)``.
    Attributes:
        weight: ``(num_embeddings, embedding_dim)``, standard normal.
    Raises:
        AssertionError: ``padding_idx`` is no row, or ``_weight`` of another shape.
        IndexError: at the call, an index that is no row.
    Source: torch.nn.Embedding.
    Example:
        >>> table = nn.Embedding.from_pretrained(torch.tensor([[0.0, 0.0], [1.0, 2.0], [3.0, 4.0]]))
        >>> table(torch.tensor([2, 0]))
        tensor([[3., 4.],
                [0., 0.]])
        >>> nn.Embedding(1000, 16, padding_idx=0)(torch.tensor([[5, 9, 0]])).shape
        torch.Size([1, 3, 16])
    """

    __constants__ = ["num_embeddings", "embedding_dim", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse"]

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = _wrapped_padding(padding_idx, num_embeddings, "Padding_idx")
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self._make_weight(_weight, not _freeze, device, dtype)
        self.sparse = sparse

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Self:
        """A layer with a given table.

        Args:
            embeddings: ``(num_embeddings, embedding_dim)``.
            freeze: whether the table is not trained.
            padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse: as in the constructor.
        Source: torch.nn.Embedding.from_pretrained.
        """
        _require_table(embeddings)
        rows, columns = embeddings.shape
        return cls(
            num_embeddings=rows,
            embedding_dim=columns,
            _weight=embeddings,
            _freeze=freeze,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
        )

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse)

    def extra_repr(self) -> str:
        shown = [str(self.num_embeddings), str(self.embedding_dim)]
        shown += unusual(self, padding_idx=None, max_norm=None, norm_type=2, scale_grad_by_freq=False)
        if self.sparse is not False:
            shown.append("sparse=True")
        return ", ".join(shown)


class EmbeddingBag(_Table):
    """Sums, means or maxima of looked-up rows, bag by bag.

    Args:
        num_embeddings, embedding_dim, max_norm, norm_type, scale_grad_by_freq, sparse, _weight: as in Embedding.
        mode: ``"sum"``, ``"mean"`` or ``"max"``.
        include_last_offset: ``offsets`` ends with the number of indices.
        padding_idx: row that does not count.
        device, dtype: of the parameters; the default ones when None.
    Shape:
        ``(B, N)`` of integers, or ``(N,)`` with ``offsets`` ``(B,)`` where each bag begins, to ``(B, embedding_dim)``.
    Attributes:
        weight: ``(num_embeddings, embedding_dim)``, standard normal.
    Raises:
        AssertionError: ``padding_idx`` is no row, or ``_weight`` of another shape.
    Source: torch.nn.EmbeddingBag.
    Example:
        >>> bags = nn.EmbeddingBag.from_pretrained(torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]]), mode="sum")
        >>> bags(torch.tensor([0, 1, 2, 2]), offsets=torch.tensor([0, 2]))
        tensor([[1., 1.],
                [4., 4.]])
    """

    __constants__ = [
        "num_embeddings", "embedding_dim", "max_norm", "norm_type", "scale_grad_by_freq", "mode", "sparse", "include_last_offset",
        "padding_idx",
    ]  # fmt: skip

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.max_norm = num_embeddings, embedding_dim, max_norm
        self.norm_type, self.scale_grad_by_freq = norm_type, scale_grad_by_freq
        self.padding_idx = _wrapped_padding(padding_idx, num_embeddings, "padding_idx")
        self._make_weight(_weight, True, device, dtype)
        self.mode, self.sparse, self.include_last_offset = mode, sparse, include_last_offset

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Self:
        """A layer with a given table; arguments as in the constructor.

        Args:
            embeddings: ``(num_embeddings, embedding_dim)``.
            freeze: whether the table is not trained.
        Source: torch.nn.EmbeddingBag.from_pretrained.
        """
        _require_table(embeddings)
        rows, columns = embeddings.shape
        bag = cls(
            num_embeddings=rows,
            embedding_dim=columns,
            _weight=embeddings,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            mode=mode,
            sparse=sparse,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
        bag.weight.requires_grad = not freeze
        return bag

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        shown = [str(self.num_embeddings), str(self.embedding_dim)]
        shown += unusual(self, max_norm=None, norm_type=2, scale_grad_by_freq=False)
        return ", ".join([*shown, f"mode={self.mode!r}", *unusual(self, padding_idx=None)])


def _require_table(embeddings: Tensor) -> None:
    if embeddings.dim() != 2:
        raise AssertionError("Embeddings parameter is expected to be 2-dimensional")  # PyTorch's type
