"""Samplers: in which order the samples of a dataset are taken."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

from ... import ops
from ...core.dtype import float64, int64
from ...core.random.generator import Generator

__all__ = ["BatchSampler", "RandomSampler", "Sampler", "SequentialSampler", "SubsetRandomSampler", "WeightedRandomSampler"]

_T_co = TypeVar("_T_co", covariant=True)

# How many indices with replacement are drawn at a time; part of what a seed means.
_BLOCK = 32


def random_seed(generator: Generator | None = None) -> int:
    """A seed drawn as one int64 random number."""
    return int(ops.empty((), dtype=int64).random_(generator=generator).item())


def _is_positive_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


class Sampler(Generic[_T_co]):
    """Base class of samplers: ``__iter__`` gives indices or lists of indices, ``__len__`` (where known) their number.

    Args:
        data_source: of no use to the base class; programs for earlier versions pass it.
    Source: torch.utils.data.Sampler.
    Example:
        >>> class Backwards(Sampler):
        ...     def __iter__(self):
        ...         return iter([2, 1, 0])
        >>> [batch.tolist() for batch in torch.utils.data.DataLoader(torch.arange(3), batch_size=2, sampler=Backwards())]
        [[2, 1], [0]]
    """

    def __init__(self, data_source: Sized | None = None) -> None:
        pass

    def __iter__(self) -> Iterator[_T_co]:
        raise NotImplementedError

    # No default __len__: a base class that raises would make every sampler look as if it had a length.


class SequentialSampler(Sampler[int]):
    """All indices in order.

    Args:
        data_source: the dataset; only its length counts.
    Source: torch.utils.data.SequentialSampler.
    Example:
        >>> list(SequentialSampler("abc"))
        [0, 1, 2]
    """

    data_source: Sized

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Indices in random order, each once, or drawn with replacement.

    Args:
        data_source: the dataset; only its length counts.
        replacement: draw each index from all of them.
        num_samples: how many; as many as the dataset has when None. Without replacement, more than these start over.
        generator: random numbers; when None, one is seeded from the default generator at each iteration.
    Raises:
        TypeError: ``replacement`` not a bool.
        ValueError: ``num_samples`` not a positive int.
    Source: torch.utils.data.RandomSampler.
    Example:
        >>> order = list(RandomSampler(range(4)))
        >>> sorted(order), len(RandomSampler(range(4), replacement=True, num_samples=10))
        ([0, 1, 2, 3], 10)
    """

    data_source: Sized
    replacement: bool

    def __init__(
        self, data_source: Sized, replacement: bool = False, num_samples: int | None = None, generator: Generator | None = None
    ) -> None:
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={self.num_samples}")

    @property
    def num_samples(self) -> int:
        """Number of indices that an iteration gives; follows the dataset's length unless it was set."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        count = len(self.data_source)
        generator = self.generator
        if generator is None:
            seed = random_seed()
            generator = Generator()
            generator.manual_seed(seed)
        if self.replacement:
            blocks, rest = divmod(self.num_samples, _BLOCK)
            for size in itertools.chain(itertools.repeat(_BLOCK, blocks), (rest,)):
                yield from ops.randint(high=count, size=(size,), dtype=int64, generator=generator).tolist()
        else:
            rounds, rest = divmod(self.num_samples, count)
            for _ in range(rounds):
                yield from ops.randperm(count, generator=generator).tolist()
            # Drawn even when nothing of it is used: the generator's state afterwards is part of what a seed means.
            yield from ops.randperm(count, generator=generator).tolist()[:rest]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Given indices in random order.

    Args:
        indices: the indices.
        generator: random numbers; the default generator when None.
    Source: torch.utils.data.SubsetRandomSampler.
    Example:
        >>> sorted(SubsetRandomSampler([2, 5, 7]))
        [2, 5, 7]
    """

    indices: Sequence[int]

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in ops.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with given probabilities.

    Args:
        weights: of the indices 0, 1, ...; they need not sum to 1.
        num_samples: how many indices.
        replacement: whether an index can come twice.
        generator: random numbers; the default generator when None.
        replace: another name of ``replacement``.
    Raises:
        ValueError: ``num_samples`` not a positive int, ``replacement`` not a bool, or weights that are not one-dimensional.
        TypeError: both ``replacement=False`` and ``replace`` given.
    Source: torch.utils.data.WeightedRandomSampler.
    Example:
        >>> list(WeightedRandomSampler([0.0, 1.0, 0.0], num_samples=3))
        [1, 1, 1]
    """

    replacement: bool

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
        *,
        replace: bool | None = None,
    ) -> None:
        if replace is not None:
            if replacement is not True:
                raise TypeError("WeightedRandomSampler: got both replacement and its other name replace")
            replacement = replace
        if not _is_positive_int(num_samples):
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.weights = ops.as_tensor(weights, dtype=float64)
        if self.weights.dim() != 1:
            raise ValueError(f"weights should be a 1d sequence but given weights have shape {tuple(self.weights.shape)}")
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __iter__(self) -> Iterator[int]:
        yield from ops.multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator).tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """The indices of another sampler, in lists.

    Args:
        sampler: gives the indices; any iterable.
        batch_size: length of the lists.
        drop_last: leave out a last list that would be shorter.
    Raises:
        ValueError: ``batch_size`` not a positive int, or ``drop_last`` not a bool.
    Example:
        >>> list(BatchSampler(SequentialSampler(range(5)), batch_size=2, drop_last=False))
        [[0, 1], [2, 3], [4]]

    Source: torch.utils.data.BatchSampler.
    """

    def __init__(self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not _is_positive_int(batch_size):
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[Any]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if self.drop_last and len(batch) < self.batch_size:
                return
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
