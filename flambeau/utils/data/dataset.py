"""Datasets: by index or by iteration, and datasets made of datasets."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from ... import ops
from ...core.random.generator import Generator, default_generator
from ...core.tensor import Tensor

__all__ = ["ChainDataset", "ConcatDataset", "Dataset", "IterableDataset", "StackDataset", "Subset", "TensorDataset", "random_split"]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class Dataset(Generic[_T_co]):
    """Base class of datasets that map an index (or another key) to a sample.

    Subclasses define ``__getitem__``, mostly ``__len__`` (samplers need it), and where it is faster
    ``__getitems__(indices) -> list`` for a whole batch.

    Raises:
        NotImplementedError: an item of a subclass without ``__getitem__``.
    Source: torch.utils.data.Dataset.
    Example:
        >>> class Squares(Dataset):
        ...     def __getitem__(self, index):
        ...         return index**2
        >>> Squares()[3]
        9
    """

    def __getitem__(self, index: Any) -> _T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    # No default __len__: a base class that raises would make every dataset look as if it had a length.

    def __add__(self, other: Dataset[_T_co]) -> ConcatDataset[_T_co]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[_T_co], Iterable[_T_co]):
    """Base class of datasets that are streams: subclasses define ``__iter__``.

    With worker processes each one has a copy of the dataset and iterates over all of it, unless ``__iter__`` asks
    :func:`get_worker_info` which part is its own.

    Source: torch.utils.data.IterableDataset.
    Example:
        >>> class Countdown(IterableDataset):
        ...     def __iter__(self):
        ...         return iter([3, 2, 1])
        >>> list(torch.utils.data.DataLoader(Countdown(), batch_size=2))
        [tensor([3, 2]), tensor([1])]
    """

    def __add__(self, other: Dataset[_T_co]) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Samples are tuples of the rows of some tensors.

    Args:
        tensors: tensors ``(n, *)`` with the same first dimension.
    Raises:
        AssertionError: different first dimensions.
    Source: torch.utils.data.TensorDataset.
    Example:
        >>> pairs = TensorDataset(torch.tensor([1, 2]), torch.tensor([10, 20]))
        >>> len(pairs), pairs[1]
        (2, (tensor(2), tensor(20)))
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensor.size(0) != tensors[0].size(0) for tensor in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)


class StackDataset(Dataset[Any]):
    """Samples are tuples (or dicts) of the samples of several datasets, such as images and labels.

    Args:
        args: datasets of one length: samples are tuples.
        kwargs: datasets of one length: samples are dicts.
    Raises:
        ValueError: no dataset, both kinds, or different lengths.
    Source: torch.utils.data.StackDataset.
    Example:
        >>> StackDataset(["cat", "dog"], [0, 1])[1], StackDataset(name=["cat", "dog"], label=[0, 1])[1]
        (('dog', 1), {'name': 'dog', 'label': 1})
    """

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Dataset[Any], **kwargs: Dataset[Any]) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like input/output, but both types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets = args or kwargs
        lengths = {len(dataset) for dataset in self._parts()}  # type: ignore[arg-type]
        if len(lengths) != 1:
            raise ValueError("Size mismatch between datasets")
        (self._length,) = lengths

    def _parts(self) -> list[Dataset[Any]]:
        return list(self.datasets.values() if isinstance(self.datasets, dict) else self.datasets)

    def _sample(self, items: Iterable[Any]) -> Any:
        return dict(zip(self.datasets, items, strict=True)) if isinstance(self.datasets, dict) else tuple(items)

    def __getitem__(self, index: Any) -> Any:
        return self._sample(dataset[index] for dataset in self._parts())

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        columns = []
        for dataset in self._parts():
            column = _items(dataset, indices)
            if len(column) != len(indices):
                raise ValueError(f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(column)}")
            columns.append(column)
        return [self._sample(items) for items in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return self._length


def _items(dataset: Any, indices: list[Any]) -> Sequence[Any]:
    """Several samples of a dataset, at once where it can."""
    get_items = getattr(dataset, "__getitems__", None)
    return get_items(indices) if callable(get_items) else [dataset[idx] for idx in indices]


class ConcatDataset(Dataset[_T_co]):
    """Several datasets one behind the other.

    Args:
        datasets: datasets with an index.
    Attributes:
        cumulative_sizes: where each of them ends.
    Raises:
        AssertionError: no dataset, or an IterableDataset.
    Source: torch.utils.data.ConcatDataset.
    Example:
        >>> both = ConcatDataset([["a", "b"], ["c"]])
        >>> both[2], both.cumulative_sizes
        ('c', [2, 3])
    """

    datasets: list[Dataset[_T_co]]
    cumulative_sizes: list[int]

    @staticmethod
    def cumsum(sequence: Sequence[Any]) -> list[int]:
        """The running sums of the lengths.

        Args:
            sequence: datasets with a length.
        Returns: a list of ints.
        """
        return list(itertools.accumulate(len(entry) for entry in sequence))

    def __init__(self, datasets: Iterable[Dataset[_T_co]]) -> None:
        super().__init__()
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> _T_co:
        if idx < 0:
            if -idx > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            idx += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, idx)
        start = self.cumulative_sizes[which - 1] if which > 0 else 0
        return self.datasets[which][idx - start]

    @property
    def cummulative_sizes(self) -> list[int]:
        """The former spelling of :attr:`cumulative_sizes`."""
        warnings.warn("`cummulative_sizes` attribute is renamed to `cumulative_sizes`", FutureWarning, stacklevel=2)
        return self.cumulative_sizes


class ChainDataset(IterableDataset[Any]):
    """Several streams one after the other.

    Args:
        datasets: IterableDatasets; each is looked at when its turn comes.
    Raises:
        AssertionError: another kind of dataset, when its turn comes.
    Source: torch.utils.data.ChainDataset.
    Example:
        >>> class Letters(IterableDataset):
        ...     def __iter__(self):
        ...         return iter("ab")
        >>> list(ChainDataset([Letters(), Letters()]))
        ['a', 'b', 'a', 'b']
    """

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        super().__init__()
        self.datasets = datasets

    def _checked(self) -> Iterator[IterableDataset[Any]]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield dataset

    def __iter__(self) -> Iterator[Any]:
        for dataset in self._checked():
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._checked())  # type: ignore[arg-type, misc]


class Subset(Dataset[_T_co]):
    """The samples of a dataset at some indices.

    Args:
        dataset: the whole dataset.
        indices: the indices in it.
    Raises:
        NotImplementedError: a subclass that changes ``__getitem__`` but not ``__getitems__``, which the loader uses.
    Source: torch.utils.data.Subset.
    Example:
        >>> list(Subset(["a", "b", "c", "d"], [3, 0]))
        ['d', 'a']
    """

    dataset: Dataset[_T_co]
    indices: Sequence[int]

    def __init__(self, dataset: Dataset[_T_co], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices
        kind = type(self)
        if kind.__getitem__ is not Subset.__getitem__ and kind.__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"{kind.__name__} overrides __getitem__ but not __getitems__. When subclassing Subset and overriding __getitem__, you must "
                "also override __getitems__ to ensure DataLoader works correctly with your custom logic. A simple implementation:\n\n"
                "def __getitems__(self, indices):\n    return [self.__getitem__(idx) for idx in indices]"
            )

    def __getitem__(self, idx: Any) -> _T_co:
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> Sequence[_T_co]:
        return _items(self.dataset, [self.indices[idx] for idx in indices])

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Dataset[_T], lengths: Sequence[int | float], generator: Generator | None = default_generator) -> list[Subset[_T]]:
    """Split a dataset at random into parts that do not overlap.

    Args:
        dataset: a dataset with a length.
        lengths: of the parts; or fractions that sum to 1, of which each part gets the whole number below, and the first parts one
            more until none are left.
        generator: random numbers.
    Returns:
        One Subset for each length.
    Raises:
        ValueError: lengths that do not sum to the dataset's, or a fraction outside 0 to 1.
    Source: torch.utils.data.random_split.
    Example:
        >>> train, test = random_split(range(10), [0.8, 0.2], generator=torch.Generator().manual_seed(1))
        >>> len(train), len(test), sorted([*train, *test]) == list(range(10))
        (8, 2, True)
    """
    total = len(dataset)  # type: ignore[arg-type]
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        counts = _counts_of_fractions(lengths, total)
    else:
        counts = list(lengths)  # type: ignore[arg-type]
    if sum(counts) != total:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    indices = ops.randperm(total, generator=generator).tolist()
    return [Subset(dataset, indices[end - count : end]) for count, end in zip(counts, itertools.accumulate(counts), strict=True)]


def _counts_of_fractions(fractions: Sequence[float], total: int) -> list[int]:
    for i, fraction in enumerate(fractions):
        if fraction < 0 or fraction > 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1")
    counts = [math.floor(total * fraction) for fraction in fractions]
    for i in range(total - sum(counts)):
        counts[i % len(counts)] += 1
    for i, count in enumerate(counts):
        if count == 0:
            warnings.warn(f"Length of split at index {i} is 0. This might result in an empty dataset.", stacklevel=3)
    return counts
