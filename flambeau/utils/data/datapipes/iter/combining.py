"""Streams made of several, and several made of one."""

from __future__ import annotations

import copy as copies
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe, described
from ..utils.common import _check_unpickable_fn, length_of

__all__ = ["ConcaterIterDataPipe", "DemultiplexerIterDataPipe", "ForkerIterDataPipe", "MultiplexerIterDataPipe", "ZipperIterDataPipe"]


@functional_datapipe("concat")
class ConcaterIterDataPipe(IterDataPipe[Any]):
    """Several streams, one after the other.

    Args:
        datapipes: the streams.
    Raises:
        ValueError: no stream.
        TypeError: something else than a stream.
    Source: torch.utils.data.datapipes.iter.Concater.
    Example:
        >>> one, two = (torch.utils.data.datapipes.iter.IterableWrapper(word) for word in ("ab", "c"))
        >>> list(one.concat(two))
        ['a', 'b', 'c']
    """

    def __init__(self, *datapipes: IterDataPipe[Any]) -> None:
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        if not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
            raise TypeError("Expected all inputs to be `IterDataPipe`")
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for pipe in self.datapipes:
            yield from pipe

    def __len__(self) -> int:
        return sum(length_of(self, pipe) for pipe in self.datapipes)


@functional_datapipe("zip")
class ZipperIterDataPipe(IterDataPipe[tuple[Any, ...]]):
    """Tuples of one sample of each stream, until one ends.

    Args:
        datapipes: the streams.
    Raises:
        TypeError: something else than a stream.
    Source: torch.utils.data.datapipes.iter.Zipper.
    Example:
        >>> one, two = (torch.utils.data.datapipes.iter.IterableWrapper(word) for word in ("ab", "cd"))
        >>> list(one.zip(two))
        [('a', 'c'), ('b', 'd')]
    """

    def __init__(self, *datapipes: IterDataPipe[Any]) -> None:
        if not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
            raise TypeError("All inputs are required to be `IterDataPipe` for `ZipIterDataPipe`.")
        super().__init__()
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        yield from zip(*self.datapipes, strict=False)

    def __len__(self) -> int:
        return min(length_of(self, pipe) for pipe in self.datapipes)


@functional_datapipe("mux")
class MultiplexerIterDataPipe(IterDataPipe[Any]):
    """One sample of each stream in turn, until one ends.

    Args:
        datapipes: the streams.
    Source: torch.utils.data.datapipes.iter.Multiplexer.
    Example:
        >>> one, two = (torch.utils.data.datapipes.iter.IterableWrapper(word) for word in ("ab", "cd"))
        >>> list(one.mux(two))
        ['a', 'c', 'b', 'd']
    """

    def __init__(self, *datapipes: IterDataPipe[Any]) -> None:
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for samples in zip(*self.datapipes, strict=False):
            yield from samples

    def __len__(self) -> int:
        return min(length_of(self, pipe) for pipe in self.datapipes) * len(self.datapipes)


class _Divided(IterDataPipe[Any]):
    """State that the children of one stream share: the stream's iterator, and elements that some of them have not taken yet.

    A pass of the stream is over when a child starts a second time in it; then all start again.
    """

    def __init__(self, datapipe: IterDataPipe[Any], num_instances: int, buffer_size: int, name: str) -> None:
        self.main_datapipe = datapipe
        self.num_instances = num_instances
        self.buffer_size = buffer_size
        if buffer_size < 0:
            warnings.warn(f"Unlimited buffer size is set for `{name}`, please be aware of OOM at random places", stacklevel=4)
        self.round = 0
        self._start()

    def _start(self) -> None:
        self._source: Iterator[Any] | None = None
        self._ended = [False] * self.num_instances
        self._begun = False
        self._clear()

    def _clear(self) -> None:
        raise NotImplementedError

    def __getstate__(self) -> Any:
        return {name: value for name, value in self.__dict__.items() if name[0] != "_"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    def start_again(self) -> None:
        """Begin a new pass."""
        if self._begun and not all(self._ended):
            warnings.warn(
                "Some child DataPipes are not exhausted when __iter__ is called. We are resetting the buffer and each child DataPipe "
                "will read from the start again.",
                UserWarning,
                stacklevel=4,
            )
        self.round += 1
        self._start()

    def _next_of_source(self) -> Any:
        if self._source is None:
            self._source = iter(self.main_datapipe)
        self._begun = True
        return next(self._source)

    def iterate(self, instance: int) -> Iterator[Any]:
        """The samples of one child in this pass."""
        number = self.round
        while True:
            if number != self.round:
                raise RuntimeError(
                    "This iterator has been invalidated, because a new iterator has been created from one of the ChildDataPipes of "
                    f"{described(self)}."
                )
            try:
                sample = self.next_of(instance)
            except StopIteration:
                self._ended[instance] = True
                return
            yield sample

    def next_of(self, instance: int) -> Any:
        """A child's next sample."""
        raise NotImplementedError


class _ChildDataPipe(IterDataPipe[Any]):
    """One of the streams that a stream was divided into."""

    _has_own_iterators = True  # which the shared state watches over

    def __init__(self, main_datapipe: _Divided, instance_id: int, has_length: bool) -> None:
        self.main_datapipe, self.instance_id, self.has_length = main_datapipe, instance_id, has_length
        self.round = -1

    def __iter__(self) -> Iterator[Any]:
        if self.round == self.main_datapipe.round:
            self.main_datapipe.start_again()
        self.round = self.main_datapipe.round
        return self.main_datapipe.iterate(self.instance_id)

    def __len__(self) -> int:
        if not self.has_length:
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length")
        return len(self.main_datapipe.main_datapipe)


def _children(main: _Divided, has_length: bool) -> list[Any]:
    return [_ChildDataPipe(main, number, has_length) for number in range(main.num_instances)]


def _check_instances(num_instances: int) -> None:
    if num_instances < 1:
        raise ValueError(f"Expected `num_instances` larger than 0, but {num_instances} is found")


class _ForkerIterDataPipe(_Divided):
    """Every child gets every sample; what the slowest has not taken is kept."""

    def __init__(self, datapipe: IterDataPipe[Any], num_instances: int, buffer_size: int, copy: str | None) -> None:
        self.copying = copy
        super().__init__(datapipe, num_instances, buffer_size, "fork")

    def _clear(self) -> None:
        self._buffer: deque[Any] = deque()
        self._taken = [0] * self.num_instances
        self._dropped = 0

    def next_of(self, instance: int) -> Any:
        """A child's next sample."""
        at = self._taken[instance]
        if at == self._dropped + len(self._buffer):
            self._buffer.append(self._next_of_source())
            if 0 <= self.buffer_size < len(self._buffer):
                # The words of PyTorch, without a space.
                raise BufferError(f"ForkerIterDataPipe buffer overflow,buffer size {self.buffer_size} is insufficient.")
        sample = self._buffer[at - self._dropped]
        self._taken[instance] += 1
        while self._buffer and min(self._taken) > self._dropped:
            self._buffer.popleft()
            self._dropped += 1
        return sample if self.copying is None else (copies.copy if self.copying == "shallow" else copies.deepcopy)(sample)


@functional_datapipe("fork")
class ForkerIterDataPipe(IterDataPipe[Any]):
    """Several streams of the same samples.

    Args:
        datapipe: the samples.
        num_instances: how many streams.
        buffer_size: how far the fastest may be ahead of the slowest; without limit for -1.
        copy: give ``'shallow'`` or ``'deep'`` copies; the samples themselves when None.
    Returns:
        The streams; ``datapipe`` itself for one.
    Raises:
        ValueError: no stream, or another kind of copy.
        BufferError: while iterating, one is too far ahead.
    Source: torch.utils.data.datapipes.iter.Forker.
    Example:
        >>> one, two = torch.utils.data.datapipes.iter.IterableWrapper(range(3)).fork(2)
        >>> list(one), list(two)
        ([0, 1, 2], [0, 1, 2])
    """

    def __new__(cls, datapipe: IterDataPipe[Any], num_instances: int, buffer_size: int = 1000, copy: str | None = None) -> Any:
        _check_instances(num_instances)
        if num_instances == 1:
            return datapipe
        if copy not in (None, "shallow", "deep"):
            raise ValueError(f"Unknown copy method `{copy}` requested, choose one of None, `shallow` or `deep`.")
        return _children(_ForkerIterDataPipe(datapipe, num_instances, buffer_size, copy), True)


class _DemultiplexerIterDataPipe(_Divided):
    """Every child gets the samples of its class."""

    def __init__(
        self, datapipe: IterDataPipe[Any], num_instances: int, classifier_fn: Callable[[Any], int | None], drop_none: bool, buffer_size: int
    ) -> None:
        self.classifier_fn = classifier_fn
        self.drop_none = drop_none
        super().__init__(datapipe, num_instances, buffer_size, "demux")

    def _clear(self) -> None:
        self._buffers: list[deque[Any]] = [deque() for _ in range(self.num_instances)]

    def next_of(self, instance: int) -> Any:
        """A child's next sample."""
        if self._buffers[instance]:
            return self._buffers[instance].popleft()
        while True:
            sample = self._next_of_source()
            chosen = self.classifier_fn(sample)
            if chosen is None and self.drop_none:
                continue
            if chosen is None or not 0 <= chosen < self.num_instances:
                raise ValueError(f"Output of the classification fn should be between 0 and {self.num_instances - 1}. {chosen} is returned.")
            if chosen == instance:
                return sample
            self._buffers[chosen].append(sample)
            if 0 <= self.buffer_size < sum(map(len, self._buffers)):
                raise BufferError(f"DemultiplexerIterDataPipe buffer overflow, buffer size {self.buffer_size} is insufficient.")


@functional_datapipe("demux")
class DemultiplexerIterDataPipe(IterDataPipe[Any]):
    """Several streams, among which the samples are divided.

    Args:
        datapipe: the samples.
        num_instances: how many streams.
        classifier_fn: the number of the stream that a sample goes to.
        drop_none: drop samples for which it gives None.
        buffer_size: how many samples may wait for their streams; without limit for -1.
    Returns:
        The streams.
    Raises:
        ValueError: no stream.
        BufferError: while iterating, too many wait.
    Source: torch.utils.data.datapipes.iter.Demultiplexer.
    Example:
        >>> even, odd = torch.utils.data.datapipes.iter.IterableWrapper(range(5)).demux(2, lambda number: number % 2)
        >>> list(even), list(odd)
        ([0, 2, 4], [1, 3])
    """

    def __new__(
        cls,
        datapipe: IterDataPipe[Any],
        num_instances: int,
        classifier_fn: Callable[[Any], int | None],
        drop_none: bool = False,
        buffer_size: int = 1000,
    ) -> Any:
        _check_instances(num_instances)
        _check_unpickable_fn(classifier_fn)
        return _children(_DemultiplexerIterDataPipe(datapipe, num_instances, classifier_fn, drop_none, buffer_size), False)
