"""Processes laid out as an array. Source: torch.distributed.device_mesh."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.tensor import Tensor, wrap
from . import groups
from .process_group import ProcessGroup

__all__ = ["DeviceMesh", "init_device_mesh"]


class _Resources(threading.local):
    """The meshes of ``with`` statements that a thread is in."""

    def __init__(self) -> None:
        self.mesh_stack: list[DeviceMesh] = []

    def get_current_mesh(self) -> DeviceMesh:
        if not self.mesh_stack:
            raise RuntimeError("No device mesh is currently active!")
        return self.mesh_stack[-1]


_mesh_resources = _Resources()


class _Axis:
    """One dimension: where its places lie, from its first one on, in the flat array of all the root's ranks."""

    __slots__ = ("group", "name", "offsets")

    def __init__(self, name: str | None, offsets: Sequence[int]) -> None:
        self.name, self.offsets = name, tuple(offsets)
        self.group: Any = None

    @property
    def stride(self) -> Any:
        """The distance between neighbours; None where it varies, and as in PyTorch an empty tuple where there are none."""
        steps = {b - a for a, b in itertools.pairwise(self.offsets)}
        return steps.pop() if len(steps) == 1 else None if steps else ()


def _joined_offsets(axes: Sequence[_Axis]) -> np.ndarray:
    total = np.zeros((), np.int64)
    for axis in axes:
        total = total[..., None] + np.array(axis.offsets, np.int64)
    return total


def _parts(offsets: np.ndarray, count: int) -> list[np.ndarray]:
    """The translates of a pattern that together cover ``count`` places: the lines, or planes, along some dimensions."""
    free = np.ones(count, bool)
    found = []
    for start in range(count):
        if free[start]:
            part = offsets + start
            free[part] = False
            found.append(part)
    return found


class DeviceMesh:
    """Processes laid out as an array, with a group for each line along each dimension.

    Args:
        device_type: of the processes' devices.
        mesh: ranks, as a tensor or nested lists. All processes give the same.
        mesh_dim_names: names of the dimensions.
    Attributes:
        device_type, mesh_dim_names: as given.
        mesh: an int32 tensor of ranks; of a slice, the part with this process.
    Raises:
        RuntimeError: more ranks than processes, or names that do not fit.
    Source: torch.distributed.device_mesh.DeviceMesh.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> mesh = torch.distributed.init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
        >>> torch.distributed.destroy_process_group()
        >>> mesh, mesh["tp"]
        (DeviceMesh((dp=1, tp=1), 'cpu', stride=((), ())), DeviceMesh((tp=1), 'cpu', stride=((),)))
    """

    def __init__(
        self,
        device_type: str,
        mesh: Any,
        *,
        mesh_dim_names: Sequence[str] | None = None,
        backend_override: Any = None,
        _init_backend: bool = True,
        _rank: int | None = None,
    ) -> None:
        if backend_override:
            raise NotImplementedError("DeviceMesh: backend_override is not supported; the engine on MPI has no options")
        ranks = np.asarray(mesh.numpy() if isinstance(mesh, Tensor) else mesh).astype(np.int32)
        ranks = ranks.reshape(1) if ranks.ndim == 0 else ranks
        names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        if names is not None and len(names) != ranks.ndim:
            raise RuntimeError(f"mesh_dim_names: expected one name for each of {ranks.ndim} dimensions, got {names}")
        if _init_backend and not groups.is_initialized():
            groups.init_process_group()
        strides = [math.prod(ranks.shape[i + 1 :]) for i in range(ranks.ndim)]
        axes = [
            _Axis(names[i] if names else None, range(0, size * stride, stride) if size else ())
            for i, (size, stride) in enumerate(zip(ranks.shape, strides, strict=True))
        ]
        self._set(device_type, ranks.reshape(-1), axes, None, groups.get_rank() if _rank is None else _rank)
        if _init_backend:
            size = groups.get_world_size()
            if ranks.size > size:
                raise RuntimeError(f"Mesh should not be bigger than default world size {size}, but found {ranks.size} ranks!")
            for i, axis in enumerate(axes):
                axis.group = self._make_group(axis, f"mesh_{axis.name or f'dim_{i}'}")

    def _set(self, device_type: str, rank_map: np.ndarray, axes: list[_Axis], root: DeviceMesh | None, rank: int) -> None:
        self.device_type, self._rank_map, self._axes, self._root, self._rank = device_type, rank_map, axes, root, rank
        self._flattened: dict[str, DeviceMesh] = {}
        self._rebuilt: Any = None

    def _like(self, axes: list[_Axis]) -> DeviceMesh:
        made = object.__new__(DeviceMesh)
        made._set(self.device_type, self._rank_map, axes, self._get_root_mesh(), self._rank)
        return made

    def _make_group(self, axis: _Axis, desc: str) -> Any:
        """A group for each line along a dimension; this process's."""
        lines = _parts(np.array(axis.offsets, np.int64), self._rank_map.size)
        world = groups.default_group()
        if len(lines) == 1 and self._rank_map[lines[0]].tolist() == world.ranks:
            return world
        own = None
        for line in lines:
            made = groups.new_group(self._rank_map[line].tolist(), group_desc=desc, sort_ranks=False)
            if isinstance(made, ProcessGroup):
                own = made
        return own

    # -- what it is -------------------------------------------------------------------------------------------------------
    @property
    def mesh_dim_names(self) -> tuple[str, ...] | None:
        return None if any(axis.name is None for axis in self._axes) else tuple(str(axis.name) for axis in self._axes)

    @property
    def mesh(self) -> Tensor:
        if self._rebuilt is None:
            self._rebuilt = wrap(self._rank_map[self._own_part()].astype(np.int32))
        return self._rebuilt

    def _own_part(self) -> np.ndarray:
        """Places in the root of this mesh's processes: the part with this process, the first one where it is in none."""
        parts = _parts(_joined_offsets(self._axes), self._rank_map.size)
        return next((part for part in parts if self._rank in self._rank_map[part]), parts[0])

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(axis.offsets) for axis in self._axes)

    @property
    def ndim(self) -> int:
        return len(self._axes)

    def size(self, mesh_dim: int | None = None) -> int:
        """The number of processes, or that of a dimension.

        Args:
            mesh_dim: the dimension.
        """
        return math.prod(self.shape) if mesh_dim is None else self.shape[mesh_dim]

    def get_rank(self) -> int:
        """This process's rank among all."""
        return groups.get_rank()

    def get_coordinate(self) -> tuple[int, ...] | None:
        """This process's place along each dimension; None where it is not in the mesh."""
        found = np.argwhere(self.mesh._array == self._rank)
        return tuple(found[0].tolist()) if len(found) else None

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """This process's place along a dimension.

        Args:
            mesh_dim: the dimension, or its name; needed when there are several.
        Raises:
            RuntimeError: it is needed, or this process is not in the mesh.
        """
        if self.ndim > 1 and mesh_dim is None:
            raise RuntimeError(
                f"Found the DeviceMesh have {self.ndim} dimensions",
                "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.",
            )
        coordinate = self.get_coordinate()
        if coordinate is None:
            raise RuntimeError(f"rank {self._rank} is not in {self!r}")
        return coordinate[self._dim(mesh_dim)]

    def _dim(self, mesh_dim: int | str | None) -> int:
        return self._get_mesh_dim_by_name(mesh_dim) if isinstance(mesh_dim, str) else mesh_dim or 0

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """The group of this process's line along a dimension.

        Args:
            mesh_dim: the dimension, or its name; needed when there are several.
        Raises:
            RuntimeError: it is needed, or there is no group.
        """
        if self.ndim > 1 and mesh_dim is None:
            raise RuntimeError(
                f"Found the DeviceMesh have {self.ndim} dimensions",
                "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.",
                "If you want to get the list of all the ProcessGroups in the DeviceMesh,please use `get_all_groups()` instead.",
            )
        if isinstance(mesh_dim, str) and mesh_dim in self._get_root_mesh()._flattened:
            group = self._get_root_mesh()._flattened[mesh_dim]._axes[0].group
        else:
            group = self._axes[self._dim(mesh_dim)].group
        if group is None:
            raise RuntimeError("DeviceMesh process groups not initialized!")
        return group

    def get_all_groups(self) -> list[ProcessGroup]:
        """The groups of this process's lines, by dimension."""
        return [self.get_group(i) for i in range(self.ndim)]

    def _get_mesh_dim_by_name(self, name: str) -> int:
        names = self.mesh_dim_names
        if not names:
            raise KeyError("No `mesh_dim_names` found.")
        if name not in names:
            raise KeyError(f"Mesh dimension '{name}' does not exist.Available mesh dimensions are: mesh_dim_names={names}")
        return names.index(name)

    def _get_root_mesh(self) -> DeviceMesh:
        return self if self._root is None else self._root

    def _get_root_mesh_dim(self) -> int | None:
        names = self._get_root_mesh().mesh_dim_names or ()
        return names.index(self._axes[0].name) if self.ndim == 1 and self._axes[0].name in names else None

    def _is_current_rank_part_of_mesh(self) -> bool:
        return self.get_coordinate() is not None

    # -- others from it ---------------------------------------------------------------------------------------------------
    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        """The mesh of some dimensions, in their order, with this process in it.

        Args:
            mesh_dim_names: names of dimensions, also of those that ``_flatten`` made.
        """
        if not self.mesh_dim_names:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if names == self.mesh_dim_names:
            return self
        flattened = self._get_root_mesh()._flattened
        known = {axis.name: axis for axis in self._axes} | {name: mesh._axes[0] for name, mesh in flattened.items()}
        if not names or any(name not in known for name in names):
            valid = [*self.mesh_dim_names, *flattened]
            raise KeyError(f"Invalid mesh_dim_names {names} specified. Valid mesh_dim_names are {valid}.")
        axes = [known[name] for name in names]
        steps = [axis.offsets[1] - axis.offsets[0] for axis in axes if len(axis.offsets) > 1]
        if steps != sorted(steps, reverse=True):
            raise KeyError(f"Invalid mesh_dim_names {names} specified. Mesh dim indices should be in ascending order.")
        return self._like(axes)

    def _flatten(self, mesh_dim_name: str | None = None, backend_override: Any = None) -> DeviceMesh:
        """A mesh of one dimension with the same processes, which the root then knows by its name.

        Args:
            mesh_dim_name: the name; those of the dimensions, joined by ``_``, when None.
        """
        if backend_override is not None:
            raise NotImplementedError("DeviceMesh._flatten: backend_override is not supported; the engine on MPI has no options")
        name = mesh_dim_name or "_".join(self.mesh_dim_names or ())
        root = self._get_root_mesh()
        if name in (root.mesh_dim_names or ()) and self.ndim > 1:
            raise ValueError(f"{name} already exists for submesh of the {root}.")
        offsets = _joined_offsets(self._axes).reshape(-1).tolist()
        if name in root._flattened and list(root._flattened[name]._axes[0].offsets) == offsets:
            return root._flattened[name]
        if self.ndim == 1 and self._axes[0].name == name:
            return self
        axis = _Axis(name, offsets)
        axis.group = self._make_group(axis, f"mesh_{name}")
        made = root._flattened[name] = self._like([axis])
        return made

    def _unflatten(
        self, dim: int | str, mesh_sizes: tuple[int, ...], mesh_dim_names: tuple[str, ...], backend_override: Any = None
    ) -> DeviceMesh:
        """A mesh in which one dimension is split into several.

        Args:
            dim: the dimension, or its name.
            mesh_sizes, mesh_dim_names: of those in its place.
        """
        if backend_override is not None:
            raise NotImplementedError("DeviceMesh._unflatten: backend_override is not supported; the engine on MPI has no options")
        place = self._dim(dim)
        offsets = np.array(self._axes[place].offsets, np.int64)
        if math.prod(mesh_sizes) != offsets.size:
            raise ValueError(f"mesh_sizes: expected sizes whose product is {offsets.size}, got {mesh_sizes}")
        if len(mesh_sizes) != len(mesh_dim_names):
            raise RuntimeError("mesh_dim_names must have same length as mesh_sizes in _unflatten!")
        block = offsets.reshape(mesh_sizes)
        split = []
        for i, name in enumerate(mesh_dim_names):
            axis = _Axis(name, block[tuple(slice(None) if i == j else 0 for j in range(len(mesh_sizes)))].tolist())
            axis.group = self._make_group(axis, f"mesh_{name}")
            split.append(axis)
        return self._like([*self._axes[:place], *split, *self._axes[place + 1 :]])

    @staticmethod
    def _concatenate(device_mesh_list: list[DeviceMesh]) -> DeviceMesh:
        """The mesh of the dimensions of several slices of one root."""
        first = device_mesh_list[0]
        if any(each._get_root_mesh() is not first._get_root_mesh() for each in device_mesh_list):
            raise RuntimeError("Cannot concatenate DeviceMeshes derived from different device meshs")
        return first._like([axis for each in device_mesh_list for axis in each._axes])

    def _get_all_submeshes(self, mesh_dim_name: str) -> list[DeviceMesh]:
        """The meshes of all lines along a dimension, without groups but this process's."""
        axis = self._axes[self._get_mesh_dim_by_name(mesh_dim_name)]
        found = []
        for line in _parts(np.array(axis.offsets, np.int64), self._rank_map.size):
            ranks = self._rank_map[line]
            made = DeviceMesh(self.device_type, ranks, mesh_dim_names=(mesh_dim_name,), _init_backend=False, _rank=self._rank)
            if self._rank in ranks:
                made._axes[0].group = axis.group
            found.append(made)
        return found

    @staticmethod
    def from_group(
        group: ProcessGroup | list[ProcessGroup], device_type: str, mesh: Any = None, *, mesh_dim_names: tuple[str, ...] | None = None
    ) -> DeviceMesh:
        """The mesh of a group that there is, or of one group for each dimension.

        Args:
            group: the group or groups.
            device_type: as of the class.
            mesh: ranks; needed when there are several groups.
            mesh_dim_names: names of the dimensions.
        Raises:
            ValueError: ``mesh`` is missing, or is not of the group.
        """
        several = not isinstance(group, ProcessGroup)
        found: list[ProcessGroup] = list(group) if isinstance(group, list | tuple) else [group]
        if several and not found:
            raise ValueError("Expect at least one ProcessGroup to be specified")
        if several and mesh is None:
            raise ValueError("Must pass mesh if passing multiple ProcessGroups")
        if mesh is None:
            mesh = found[0].ranks
        elif not several and np.asarray(mesh).tolist() != found[0].ranks:
            raise ValueError(f"Invalid mesh {mesh} for ProcessGroup with ranks {found[0].ranks}")
        made = DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names, _init_backend=False)
        if made.ndim != len(found):
            raise ValueError(f"Expected mesh with ndim equal to number of ProcessGroups but got mesh {mesh} and {len(found)} ProcessGroups")
        for axis, each in zip(made._axes, found, strict=True):
            axis.group = each
        return made

    # -- Python's protocols -----------------------------------------------------------------------------------------------
    def __enter__(self) -> DeviceMesh:
        _mesh_resources.mesh_stack.append(self)
        return self

    def __exit__(self, *error: Any) -> None:
        _mesh_resources.mesh_stack.pop()

    def _key(self) -> Any:
        return self.device_type, self._rank_map.tobytes(), tuple((axis.name, axis.offsets) for axis in self._axes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceMesh) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        names = self.mesh_dim_names
        shape = f"({', '.join(f'{name}={size}' for name, size in zip(names, self.shape, strict=True))})" if names else f"{self.shape}"
        return f"DeviceMesh({shape}, '{self.device_type}', stride={tuple(axis.stride for axis in self._axes)})"

    def __reduce__(self) -> Any:
        raise TypeError("cannot pickle 'torch.distributed.ProcessGroup' object: make the mesh in each process")

    def __deepcopy__(self, memo: Any) -> DeviceMesh:
        return self


def init_device_mesh(
    device_type: str, mesh_shape: tuple[int, ...], *, mesh_dim_names: tuple[str, ...] | None = None, backend_override: Any = None
) -> DeviceMesh:
    """Lay all processes out as an array. All of them call it.

    Args:
        device_type: of the processes' devices, without an index.
        mesh_shape: sizes of the dimensions.
        mesh_dim_names: their names.
    Returns: a ``DeviceMesh``.
    Raises:
        RuntimeError: more places than processes, names that do not fit, or a device with an index.
    Source: torch.distributed.device_mesh.init_device_mesh.
    Example:
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> mesh = torch.distributed.init_device_mesh("cpu", (1,))
        >>> torch.distributed.destroy_process_group()
        >>> mesh
        DeviceMesh((1,), 'cpu', stride=((),))
    """
    if mesh_dim_names is not None:
        if len(set(mesh_dim_names)) != len(mesh_dim_names):
            raise RuntimeError(f"Each mesh_dim_name must be unique. Found repeated mesh_dim_name in mesh_dim_names {tuple(mesh_dim_names)}")
        if len(mesh_shape) != len(mesh_dim_names):
            raise RuntimeError(
                "mesh_shape and mesh_dim_names should have same length! "
                f"Found len(mesh_dim_names): {len(mesh_dim_names)} and len(mesh_shape):{len(mesh_shape)}."
            )
    if device_type and not device_type.isalpha():
        raise RuntimeError(
            f"Device type with index is not supported but got {device_type}. ",
            "If you maintained a 'torch.device' object, it's recommended to pass in 'device.type'.",
        )
    ranks = np.arange(math.prod(mesh_shape)).reshape(mesh_shape)
    return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names, backend_override=backend_override)
