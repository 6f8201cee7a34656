"""Streams in another order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...sampler import Sampler, SequentialSampler
from .._decorator import functional_datapipe
from .._shuffling import Shuffling
from ..datapipe import IterDataPipe
from ..utils.common import length_of

__all__ = ["SamplerIterDataPipe", "ShufflerIterDataPipe"]


class SamplerIterDataPipe(IterDataPipe[Any]):
    """The indices that a sampler gives for a pipe.

    Args:
        datapipe: with a length.
        sampler: class of the sampler.
        sampler_args, sampler_kwargs: its arguments.
    Raises:
        TypeError: a pipe without a length.
    Source: torch.utils.data.datapipes.iter.Sampler.
    Example:
        >>> source = torch.utils.data.datapipes.iter.IterableWrapper("abc")
        >>> list(SamplerIterDataPipe(source))
        [0, 1, 2]
    """

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        sampler: type[Sampler[Any]] = SequentialSampler,
        sampler_args: tuple[Any, ...] | None = None,
        sampler_kwargs: dict[str, Any] | None = None,
    ) -> None:
        if not hasattr(datapipe, "__len__"):
            raise TypeError("Sampler class requires input datapipe implemented `__len__`")
        self.datapipe = datapipe
        self.sampler_args = () if sampler_args is None else sampler_args
        self.sampler_kwargs = ({} if sampler_kwargs is None else sampler_kwargs) | {"data_source": datapipe}
        self.sampler = sampler(*self.sampler_args, **self.sampler_kwargs)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.sampler)

    def __len__(self) -> int:
        return length_of(self, self.sampler)


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(Shuffling):
    """Samples in random order, drawn from a buffer that is kept full.

    Args:
        datapipe: the samples.
        buffer_size: how many samples to draw from.
        unbatch_level: how many levels of batches are taken apart first.
    Raises:
        AssertionError: no buffer.
    Source: torch.utils.data.datapipes.iter.Shuffler.
    Example:
        >>> source = torch.utils.data.datapipes.iter.IterableWrapper(range(4))
        >>> sorted(source.shuffle(buffer_size=2))
        [0, 1, 2, 3]
    """

    def __init__(self, datapipe: IterDataPipe[Any], *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        super().__init__()
        if buffer_size <= 0:
            raise AssertionError("buffer_size should be larger than 0")
        self.datapipe = datapipe if unbatch_level == 0 else datapipe.unbatch(unbatch_level=unbatch_level)
        self.buffer_size = buffer_size

    def __iter__(self) -> Iterator[Any]:
        if not self._enabled:
            yield from self.datapipe
            return
        buffer: list[Any] = []
        for sample in self.datapipe:
            if len(buffer) < self.buffer_size:
                buffer.append(sample)
                continue
            at = self._rng.randint(0, len(buffer) - 1)
            chosen, buffer[at] = buffer[at], sample
            yield chosen
        while buffer:
            yield buffer.pop(self._rng.randint(0, len(buffer) - 1))

    def __len__(self) -> int:
        return length_of(self, self.datapipe)
