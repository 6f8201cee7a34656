"""Pairs of pictures, and where each pixel of the first went. Source: torchvision.datasets._optical_flow."""

from __future__ import annotations

import itertools
import os
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np

from ...utils.data.dataset import ConcatDataset
from ..io.image import decode_png, read_file
from .folder import Loader, default_loader
from .utils import _read_pfm, verify_str_arg
from .vision import Root, Transform, VisionDataset

__all__ = ["FlyingChairs", "FlyingThings3D", "HD1K", "KittiFlow", "Sintel"]


def sorted_paths(*parts: Any) -> list[str]:
    """The paths that a pattern of several parts fits, sorted."""
    return sorted(glob(os.path.join(*map(str, parts))))


def each_of(value: str, arg: str, *words: str) -> tuple[str, ...]:
    """The words that an argument stands for: one of ``words``, or all of them for ``"both"``.

    Raises:
        ValueError: another word.
    """
    verify_str_arg(value, arg, valid_values=(*words, "both"))
    return words if value == "both" else (value,)


def _read_flo(file_name: str) -> Any:
    """``(2, H, W)``, float32, of a file of Middlebury's format.

    Raises:
        ValueError: no such file, or cut.
    """
    with open(file_name, "rb") as file:
        content = file.read()
    if content[:4] != b"PIEH":
        raise ValueError(f"Magic number incorrect. Invalid .flo file: {file_name}")
    width, height = np.frombuffer(content[4:12], "<i4").tolist()
    if len(content) != 12 + 8 * width * height:
        raise ValueError(f"Invalid .flo file: {file_name} is cut")
    return np.frombuffer(content, "<f4", offset=12).reshape(height, width, 2).transpose(2, 0, 1).copy()


def _read_16bits_png_with_flow_and_valid_mask(file_name: str) -> tuple[Any, Any]:
    """``(2, H, W)``, float32, and ``(H, W)``, bool: the first two channels are 64ths above -512, the third tells where they hold."""
    levels = decode_png(read_file(file_name)).numpy().astype(np.float32)
    return (levels[:2] - 2**15) / 64, levels[2].astype(bool)


class FlowDataset(VisionDataset[Any]):
    """Samples: two images, the flow ``(2, H, W)``, and the mask ``(H, W)`` of where it is known, for data sets that have one.

    Both are None where the flow is not given. ``transforms`` is a function of all four.
    """

    _has_builtin_flow_mask = False

    def __init__(self, root: Root, transforms: Transform = None, loader: Loader = default_loader) -> None:
        super().__init__(root)
        self.transforms = transforms
        self._flow_list: list[str] = []
        self._image_list: list[list[str]] = []
        self._loader = loader

    def _read_flow(self, file_name: str) -> Any:
        """The flow of a file; with its mask for data sets that have one."""
        raise NotImplementedError

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        first, second = (self._loader(path) for path in self._image_list[index])
        flow = self._read_flow(self._flow_list[index]) if self._flow_list else None
        flow, mask = flow if flow is not None and self._has_builtin_flow_mask else (flow, None)
        if self.transforms is not None:
            first, second, flow, mask = self.transforms(first, second, flow, mask)
        return (first, second, flow, mask) if self._has_builtin_flow_mask or mask is not None else (first, second, flow)

    def __len__(self) -> int:
        return len(self._image_list)

    def __rmul__(self, v: int) -> ConcatDataset[Any]:
        return ConcatDataset([self] * v)


class Sintel(FlowDataset):
    """Scenes of an animated film.

    Args:
        root: folder in which ``Sintel`` holds the files.
        split: ``"train"``, or ``"test"``, whose flow is not given.
        pass_name: ``"clean"``, ``"final"`` or ``"both"``: without or with blur and fog.
        transforms: function of two images, the flow, and None.
        loader: function of a path that gives an image.
    Raises:
        ValueError: another ``split`` or pass.
    Source: torchvision.datasets.Sintel.
    Example:
        >>> dataset = Sintel(root, pass_name="final")
        >>> first, second, flow = dataset[0]
        >>> first.size, flow.shape
        ((6, 5), (2, 5, 6))
    """

    def __init__(
        self, root: Root, split: str = "train", pass_name: str = "clean", transforms: Transform = None, loader: Loader = default_loader
    ) -> None:
        super().__init__(root, transforms, loader)
        verify_str_arg(split, "split", valid_values=("train", "test"))
        base = Path(root) / "Sintel"
        for name in each_of(pass_name, "pass_name", "clean", "final"):
            folder = base / ("training" if split == "train" else split) / name
            for scene in os.listdir(folder):
                images = sorted_paths(folder, scene, "*.png")
                self._image_list += [list(pair) for pair in itertools.pairwise(images)]
                if split == "train":
                    self._flow_list += sorted_paths(base, "training", "flow", scene, "*.flo")

    _read_flow = staticmethod(_read_flo)


class KittiFlow(FlowDataset):
    """Streets, seen from a car, of 2015.

    Args:
        root: folder in which ``KittiFlow`` holds the files.
        split: ``"train"``, or ``"test"``, whose flow is not given.
        transforms: function of two images, the flow and its mask.
        loader: function of a path that gives an image.
    Raises:
        ValueError: another ``split``.
        FileNotFoundError: there are no images.
    Source: torchvision.datasets.KittiFlow.
    Example:
        >>> dataset = KittiFlow(root, split="test")
        >>> first, second, flow, valid = dataset[0]
        >>> first.size, flow, valid
        ((6, 5), None, None)
    """

    _has_builtin_flow_mask = True

    def __init__(self, root: Root, split: str = "train", transforms: Transform = None, loader: Loader = default_loader) -> None:
        super().__init__(root, transforms, loader)
        verify_str_arg(split, "split", valid_values=("train", "test"))
        folder = Path(root) / "KittiFlow" / f"{split}ing"
        self._image_list = _pairs(sorted_paths(folder, "image_2", "*_10.png"), sorted_paths(folder, "image_2", "*_11.png"), "Kitti flow")
        if split == "train":
            self._flow_list = sorted_paths(folder, "flow_occ", "*_10.png")

    _read_flow = staticmethod(_read_16bits_png_with_flow_and_valid_mask)


def _pairs(first: list[str], second: list[str], name: str) -> list[list[str]]:
    """Pairs of images.

    Raises:
        FileNotFoundError: there is none.
    """
    if not first or not second:
        raise FileNotFoundError(f"Could not find the {name} images. Please make sure the directory structure is correct.")
    return [list(pair) for pair in zip(first, second)]


class FlyingChairs(FlowDataset):
    """Rendered chairs before photographs.

    Args:
        root: folder in which ``FlyingChairs`` holds the files.
        split: ``"train"`` or ``"val"``.
        transforms: function of two images, the flow, and None.
    Raises:
        ValueError: another ``split``.
        FileNotFoundError: the list that splits them is missing.
    Source: torchvision.datasets.FlyingChairs.
    Example:
        >>> dataset = FlyingChairs(root, split="val")
        >>> first, second, flow = dataset[0]
        >>> first.size, flow.shape
        ((6, 5), (2, 5, 6))
    """

    def __init__(self, root: Root, split: str = "train", transforms: Transform = None) -> None:
        super().__init__(root, transforms)
        verify_str_arg(split, "split", valid_values=("train", "val"))
        folder = Path(root) / "FlyingChairs"
        path = folder / "FlyingChairs_train_val.txt"
        if not path.exists():
            raise FileNotFoundError(
                f"The FlyingChairs_train_val.txt file was not found - please download it from the dataset page ({path})"
            )
        wanted = ("train", "val").index(split) + 1
        images, flows = sorted_paths(folder, "data", "*.ppm"), sorted_paths(folder, "data", "*.flo")
        for idx, (flow, part) in enumerate(zip(flows, path.read_text().split())):
            if int(part) == wanted:
                self._flow_list.append(flow)
                self._image_list.append(images[2 * idx : 2 * idx + 2])

    _read_flow = staticmethod(_read_flo)


class FlyingThings3D(FlowDataset):
    """Rendered things that fly about.

    Args:
        root: folder in which ``FlyingThings3D`` holds the files.
        split: ``"train"`` or ``"test"``.
        pass_name: ``"clean"``, ``"final"`` or ``"both"``: without or with blur.
        camera: ``"left"``, ``"right"`` or ``"both"``.
        transforms: function of two images, the flow, and None.
        loader: function of a path that gives an image.
    Raises:
        ValueError: another ``split``, pass or camera.
        FileNotFoundError: there are no images or no flows.
    Source: torchvision.datasets.FlyingThings3D.
    Example:
        >>> dataset = FlyingThings3D(root, camera="right")
        >>> first, second, flow = dataset[0]
        >>> first.size, flow.shape
        ((6, 5), (2, 5, 6))
    """

    def __init__(
        self,
        root: Root,
        split: str = "train",
        pass_name: str = "clean",
        camera: str = "left",
        transforms: Transform = None,
        loader: Loader = default_loader,
    ) -> None:
        super().__init__(root, transforms, loader)
        verify_str_arg(split, "split", valid_values=("train", "test"))
        passes = each_of(pass_name, "pass_name", "clean", "final")
        cameras = each_of(camera, "camera", "left", "right")
        base, part = Path(root) / "FlyingThings3D", split.upper()
        for name, side, direction in itertools.product(passes, cameras, ("into_future", "into_past")):
            image_folders = sorted_paths(base, f"frames_{name}pass", part, "*/*")
            flow_folders = sorted_paths(base, "optical_flow", part, "*/*")
            for image_folder, flow_folder in _pairs(image_folders, flow_folders, "FlyingThings3D flow"):
                images = sorted_paths(image_folder, side, "*.png")
                flows = sorted_paths(flow_folder, direction, side, "*.pfm")
                for idx, pair in enumerate(itertools.pairwise(images[: len(flows)])):
                    is_past = direction == "into_past"
                    self._image_list.append([pair[1], pair[0]] if is_past else [pair[0], pair[1]])
                    self._flow_list.append(flows[idx + is_past])

    _read_flow = staticmethod(_read_pfm)


class HD1K(FlowDataset):
    """Streets, seen from a car, in high resolution.

    Args:
        root: folder in which ``hd1k`` holds the files.
        split: ``"train"``, or ``"test"``, whose flow is not given.
        transforms: function of two images, the flow and its mask.
        loader: function of a path that gives an image.
    Raises:
        ValueError: another ``split``.
        FileNotFoundError: there are no images.
    Source: torchvision.datasets.HD1K.
    Example:
        >>> dataset = HD1K(root, split="test")
        >>> first, second, flow, valid = dataset[0]
        >>> first.size, flow, valid
        ((6, 5), None, None)
    """

    _has_builtin_flow_mask = True

    def __init__(self, root: Root, split: str = "train", transforms: Transform = None, loader: Loader = default_loader) -> None:
        super().__init__(root, transforms, loader)
        verify_str_arg(split, "split", valid_values=("train", "test"))
        base = Path(root) / "hd1k"
        if split == "test":
            folder = base / "hd1k_challenge" / "image_2"
            self._image_list = _pairs(sorted_paths(folder, "*10.png"), sorted_paths(folder, "*11.png"), "HD1K")
            return
        for sequence in range(36):
            flows = sorted_paths(base, "hd1k_flow_gt", "flow_occ", f"{sequence:06d}_*.png")
            images = sorted_paths(base, "hd1k_input", "image_2", f"{sequence:06d}_*.png")
            self._flow_list += flows[:-1]
            self._image_list += [list(pair) for pair in itertools.pairwise(images[: len(flows)])]
        if not self._image_list:
            raise FileNotFoundError("Could not find the HD1K images. Please make sure the directory structure is correct.")

    _read_flow = staticmethod(_read_16bits_png_with_flow_and_valid_mask)
