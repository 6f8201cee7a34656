"""Pipes of sequences and mappings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..datapipe import MapDataPipe
from ..utils.common import copied

__all__ = ["SequenceWrapperMapDataPipe"]


class SequenceWrapperMapDataPipe(MapDataPipe[Any]):
    """The samples of a sequence or mapping.

    Args:
        sequence: the samples.
        deepcopy: keep a copy, where it can be copied.
    Source: torch.utils.data.datapipes.map.SequenceWrapper.
    Example:
        >>> SequenceWrapperMapDataPipe({"a": 1})["a"]
        1
    """

    sequence: Sequence[Any] | Mapping[Any, Any]

    def __init__(self, sequence: Sequence[Any] | Mapping[Any, Any], deepcopy: bool = True) -> None:
        self.sequence = copied(sequence, "sequence") if deepcopy else sequence

    def __getitem__(self, index: Any) -> Any:
        return self.sequence[index]

    def __len__(self) -> int:
        return len(self.sequence)
