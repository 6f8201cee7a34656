"""Parts of tensors in safetensors files, which several processes wrote, put together to whole ones."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ... import distributed
from ...core.dtype import dtype as DType
from ...core.shape import Size
from ...serialization.safetensors import Entry, read_array, read_table, write_safetensors
from .default_planner import make_up
from .filesystem import written_whole
from .metadata import ChunkStorageMetadata

__all__ = ["consolidate_safetensors_files", "consolidate_safetensors_files_on_every_rank"]

INDEX, SUFFIX = "model.safetensors.index.json", ".safetensors"
SHARDS = f"shard-*-model-*{SUFFIX}"  # the files of all processes
SHARDING = "DCP_SHARDING_INFO"  # the note of where the parts of a file begin in their tensors

_Part = tuple[Path, Entry, tuple[int, ...]]  # the last: where it begins


def file_name(number: int, count: int, shard: int | None = None) -> str:
    """The name of file ``number`` of ``count``; where each process writes its parts, of process ``shard``."""
    whole = f"model-{number:05}-of-{count:05}{SUFFIX}"
    return whole if shard is None else f"shard-{shard:05}-{whole}"


def files_of(folder: str | os.PathLike[str]) -> list[Path]:
    """The safetensors files of a folder, which has to be there."""
    return sorted(path for path in Path(folder).iterdir() if path.name.endswith(SUFFIX))


def begins_of(path: Path, entries: Mapping[str, Entry], notes: Mapping[str, str]) -> dict[str, tuple[int, ...]]:
    """The first place of each part of a file in its tensor, as its note says; nothing where it has none.

    Raises:
        RuntimeError: the note is damaged.
    """
    if SHARDING not in notes:
        return {}
    try:
        told = json.loads(notes[SHARDING])
        begins = {name: tuple(told[name]["saved_offsets"]) for name in entries}
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise RuntimeError(f"load: {path} does not say where its parts begin: {error!s:.300}") from None
    for name, entry in entries.items():
        if len(begins[name]) != len(entry.shape) or not all(type(place) is int and 0 <= place < 2**48 for place in begins[name]):
            raise RuntimeError(f"load: {path}: a part of {name:.100} of shape {entry.shape} cannot begin at {begins[name]!s:.100}")
    return begins


def write_index(folder: str | os.PathLike[str], files: Mapping[str, str], total: int) -> None:
    """Write the list of the tensors' files; ``total`` is how many bytes they are."""
    text = json.dumps({"metadata": {"total_size": total}, "weight_map": files}, indent=2)
    written_whole(Path(folder) / INDEX, lambda file: file.write(text.encode()), sync=True)


def _parts_of(folder: str) -> dict[str, list[_Part]]:
    """The parts of each tensor in a folder's files.

    Raises:
        ValueError: a file does not say what it has parts of.
    """
    parts: dict[str, list[_Part]] = {}
    for path in files_of(folder):
        with open(path, "rb") as file:
            entries, notes = read_table(file)
        if SHARDING not in notes:
            raise ValueError(f"No DCP custom metadata found in {path}. The file must be saved with DCP to be consolidated.")
        begins = begins_of(path, entries, notes)
        for name, entry in entries.items():
            parts.setdefault(name, []).append((path, entry, begins[name]))
    return parts


def _whole(name: str, parts: Sequence[_Part]) -> tuple[DType, np.ndarray]:
    """A tensor of its parts.

    Raises:
        ValueError: they have several dtypes or numbers of dimensions, leave something out, or have it twice.
    """
    if len({(entry.dtype, len(entry.shape)) for _, entry, _ in parts}) > 1:
        raise ValueError(f"expected parts of one dtype and number of dimensions of {name}")
    ends = [[first + size for first, size in zip(begin, entry.shape, strict=True)] for _, entry, begin in parts]
    shape = [max(sizes) for sizes in zip(*ends, strict=True)]
    if not make_up(shape, [ChunkStorageMetadata(Size(begin), Size(entry.shape)) for _, entry, begin in parts]):
        raise ValueError(f"the parts of {name} leave out elements of shape {tuple(shape)}, or have some twice")
    dtype = parts[0][1].dtype
    array = np.empty(shape, dtype.numpy)
    for (path, entry, begin), end in zip(parts, ends, strict=True):
        with open(path, "rb") as file:
            array[tuple(map(slice, begin, end))] = read_array(file, name, entry)
    return dtype, array


def _consolidate(input_dir: str, output_dir: str, numbers: Mapping[str, int], mine: Iterable[int]) -> tuple[dict[str, str], int]:
    """Write the files of these numbers; each tensor's file, and how many bytes the tensors have."""
    parts, total = _parts_of(input_dir), 0
    files: dict[str, str] = {}
    os.makedirs(output_dir, exist_ok=True)
    for number in mine:
        names = [name for name, each in numbers.items() if each == number]
        if missing := [name for name in names if name not in parts]:
            raise ValueError(f"expected parts of {missing[0]} in {input_dir}, found none")
        arrays = {name: _whole(name, parts[name]) for name in names}
        target = file_name(number, max(numbers.values()))
        written_whole(Path(output_dir) / target, lambda file, arrays=arrays: write_safetensors(file, arrays, {"format": "pt"}), sync=True)  # type: ignore[misc]
        files |= dict.fromkeys(names, target)
        total += sum(array.nbytes for _, array in arrays.values())
    return files, total


def consolidate_safetensors_files(input_dir: str, output_dir: str, fqn_to_index_mapping: Mapping[str, int], num_threads: int = 1) -> None:
    """Put the parts of tensors in a folder's files together to whole ones.

    Args:
        input_dir: of files that ``HuggingFaceStorageWriter`` wrote with ``save_distributed``.
        output_dir: where the new files go.
        fqn_to_index_mapping: the number of the file, from 1 on, that each tensor goes to, by name.
        num_threads: without effect.
    Raises:
        ValueError: there are no parts of a tensor, they leave out some of it or have it twice, or a file does not say what it has parts of.
        RuntimeError: a file is damaged.
        FileNotFoundError: there is no folder ``input_dir``.
    Source: torch.distributed.checkpoint._consolidate_hf_safetensors.consolidate_safetensors_files.
    """
    numbers = sorted(set(fqn_to_index_mapping.values()))
    files, total = _consolidate(input_dir, output_dir, fqn_to_index_mapping, numbers)
    write_index(output_dir, {name: files[name] for name in fqn_to_index_mapping}, total)


def consolidate_safetensors_files_on_every_rank(
    input_dir: str, output_dir: str, fqn_to_index_mapping: Mapping[str, int], num_threads: int = 1, process_group: Any = None
) -> None:
    """The same by all processes of a group, each of which writes some of the files; all call it.

    Args:
        process_group: the default group when None.
        input_dir, output_dir, fqn_to_index_mapping, num_threads: as for ``consolidate_safetensors_files``.
    Raises:
        ValueError, RuntimeError: as there.
    Source: torch.distributed.checkpoint._consolidate_hf_safetensors.consolidate_safetensors_files_on_every_rank.
    """
    alone = not distributed.is_initialized()
    rank, count = (0, 1) if alone else (distributed.get_rank(process_group), distributed.get_world_size(process_group))
    numbers = sorted(set(fqn_to_index_mapping.values()))
    mine = _consolidate(input_dir, output_dir, fqn_to_index_mapping, [each for each in numbers if each % count == rank])
    all_of_them: list[Any] = [mine] * count
    if not alone:
        distributed.all_gather_object(all_of_them, mine, process_group)
    if rank == 0:
        files = {name: file for part, _ in all_of_them for name, file in part.items()}
        write_index(output_dir, {name: files[name] for name in fqn_to_index_mapping}, sum(total for _, total in all_of_them))
    if not alone:
        distributed.barrier(process_group)
