"""A softmax over many classes that spends its time on the frequent ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import ops
from ..core.tensor import Tensor
from . import functional as F
from .containers import ModuleList, Sequential
from .linear import Linear
from .module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class _ASMoutput(NamedTuple):
    """Log probabilities of the targets, and their mean with the sign changed."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-softmax in clusters: the frequent classes and one entry for each cluster of rare ones in the head, the rest in tails.

    Args:
        in_features: size of an input.
        n_classes: classes, most frequent first.
        cutoffs: where clusters begin, increasing.
        div_value: by which each further cluster's inner size is smaller.
        head_bias: whether the head has a bias.
        device, dtype: of the parameters; the default ones when None.
    Shape:
        ``(N, in_features)`` and targets ``(N,)``, or without ``N``, to ``output`` like the targets and a scalar ``loss``.
    Attributes:
        head: a linear layer.
        tail: for each cluster two linear layers without biases, through ``in_features // div_value**(i + 1)`` features.
    Raises:
        ValueError: ``cutoffs`` that are no increasing numbers between 1 and ``n_classes - 1``.
    Source: torch.nn.AdaptiveLogSoftmaxWithLoss. Grave et al. 2017.
    Example:
        >>> layer = nn.AdaptiveLogSoftmaxWithLoss(16, n_classes=100, cutoffs=[10, 40])
        >>> output, loss = layer(torch.zeros(3, 16), torch.tensor([0, 25, 99]))
        >>> output.shape, loss.shape, layer.predict(torch.zeros(3, 16)).shape
        (torch.Size([3]), torch.Size([]), torch.Size([3]))
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        place = {"device": device, "dtype": dtype}
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        ordered = all(int(cutoff) == cutoff for cutoff in cutoffs) and cutoffs == sorted(set(cutoffs))
        if not ordered or min(cutoffs) <= 0 or max(cutoffs) > n_classes - 1:
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each value is between 1 "
                "and n_classes-1"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, **place)
        self.tail = ModuleList()
        for cluster, (start, stop) in enumerate(zip(self.cutoffs, self.cutoffs[1:], strict=False)):
            inner = int(in_features // (div_value ** (cluster + 1)))
            self.tail.append(Sequential(Linear(in_features, inner, bias=False, **place), Linear(inner, stop - start, bias=False, **place)))

    def reset_parameters(self) -> None:
        """Draw new weights."""
        for layer in (self.head, *(layer for cluster in self.tail for layer in cluster)):
            layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """Log probabilities of the targets and the mean loss.

        Raises:
            RuntimeError: shapes that do not fit, or a target that is no class.
        """
        self._check(input_, target_)
        batched = target_.dim() > 0
        input, target = (input_, target_) if batched else (input_.unsqueeze(0), target_.unsqueeze(0))
        output = input.new_zeros(target.shape[0])
        entries = target.new_empty(target.shape[0])  # of the head: the class itself, or its cluster
        used = 0
        for cluster, (low, high) in enumerate(zip([0, *self.cutoffs], self.cutoffs, strict=False)):
            rows = ((target >= low) & (target < high)).nonzero().squeeze(-1)
            if not rows.numel():
                continue
            if cluster == 0:
                entries = entries.index_copy(0, rows, target[rows])
            else:
                scores = F.log_softmax(self.tail[cluster - 1](input.index_select(0, rows)), dim=1)
                entries = entries.index_fill(0, rows, self.shortlist_size + cluster - 1)
                chosen = scores.gather(1, (target[rows] - low).unsqueeze(1)).squeeze(1)
                output = output.index_copy(0, rows, chosen)
            used += rows.numel()
        if used != target.shape[0]:
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target.min().item()}, {target.max().item()}] were found. "
            )
        head = F.log_softmax(self.head(input), dim=1)
        output = output + head.gather(1, entries.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _check(self, input: Tensor, target: Tensor) -> None:
        if target.dim() > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if target.dim() == 1 and input.shape[0] != target.shape[0]:
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if target.dim() == 1 and input.dim() != 2:
            raise RuntimeError(f"1D target tensor expects 2D input tensors, but found inputs with size {input.size()}")
        if target.dim() == 0 and input.dim() != 1:
            raise RuntimeError(f"0D target tensor expects 1D input tensors, but found inputs with size {input.size()}")

    def _get_full_log_prob(self, input: Tensor, head_output: Tensor) -> Tensor:
        """Log probabilities of all classes, given the head's scores."""
        head = F.log_softmax(head_output, dim=1)
        parts = [head[:, : self.shortlist_size]]
        for cluster, tail in enumerate(self.tail):
            entry = head[:, self.shortlist_size + cluster].unsqueeze(1)
            parts.append(F.log_softmax(tail(input), dim=1) + entry)
        return ops.cat(parts, 1)

    def log_prob(self, input: Tensor) -> Tensor:
        """Log probabilities of all classes: ``(N, in_features)`` to ``(N, n_classes)``."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of each input, ``(N,)``; tails are computed only where the head points at one."""
        head = self.head(input)
        output = head.argmax(dim=1)
        in_tail = output >= self.shortlist_size
        if not in_tail.any():
            return output
        if in_tail.all():
            return self._get_full_log_prob(input, head).argmax(dim=1)
        output[in_tail] = self._get_full_log_prob(input[in_tail], head[in_tail]).argmax(dim=1)
        return output
