"""Pairs of pictures from left and right, and how far pixels are shifted. Source: torchvision.datasets._stereo_matching."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ._optical_flow import each_of, sorted_paths
from .folder import pil_loader
from .utils import _read_pfm, download_and_extract_archive, verify_str_arg
from .vision import Root, Transform, VisionDataset

__all__ = [
    *("CREStereo", "CarlaStereo", "ETH3DStereo", "FallingThingsStereo", "InStereo2k", "Kitti2012Stereo", "Kitti2015Stereo"),
    *("Middlebury2014Stereo", "SceneFlowStereo", "SintelStereo"),
]

Pair = tuple[Any, Any]


def _values(path: Root) -> Any:
    """The numbers of an image file, in its own type."""
    with Image.open(path) as image:
        return np.array(image)


def _read_float_map(path: str) -> Any:
    """``(1, H, W)``: shifts without their sign."""
    return np.abs(_read_pfm(path, slice_channels=1))


def _scan(folder: Path, *patterns: str) -> list[Pair]:
    """Paths below a folder that two patterns fit, in pairs; without a second pattern None stands there.

    Raises:
        FileNotFoundError: a pattern fits nothing.
        ValueError: the patterns fit different numbers of paths.
    """
    found = [sorted_paths(folder, pattern) for pattern in patterns]
    for pattern, paths in zip(patterns, found):
        if not paths:
            raise FileNotFoundError(f"Could not find any files matching the patterns: {folder / pattern}")
    if len(found) == 1:
        return [(path, None) for path in found[0]]
    left, right = found
    if len(left) != len(right):
        raise ValueError(
            f"Found {len(left)} left files but {len(right)} right files using:\n left pattern: {folder / patterns[0]}\n"
            f"right pattern: {folder / patterns[1]}\n"
        )
    return list(zip(left, right))


class StereoMatchingDataset(VisionDataset[Any]):
    """Samples: left and right image, the shift ``(1, H, W)``, and the mask ``(H, W)`` of where it is known, for data sets that have one.

    ``transforms`` is a function of three pairs, of the images, shifts and masks on both sides. There are no shifts to test with.
    """

    _has_built_in_disparity_mask = False

    def __init__(self, root: Root, transforms: Transform = None) -> None:
        super().__init__(root)
        self.transforms = transforms
        self._images: list[Pair] = []
        self._disparities: list[Pair] = []

    def _add(self, folder: Path, images: tuple[str, str], shifts: tuple[str, ...]) -> None:
        """Add what patterns fit below a folder: of left and right images, and of their shifts, of the left ones, or of none."""
        self._images += _scan(folder, *images)
        if shifts:
            self._disparities += _scan(folder, *shifts)

    def _read_img(self, file_path: Root) -> Any:
        return pil_loader(file_path)

    def _read_disparity(self, file_path: str) -> Pair:
        """Shift and mask of a file."""
        raise NotImplementedError

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        images: Pair = tuple(map(self._read_img, self._images[index]))
        paths = self._disparities[index] if self._disparities else (None, None)
        sides = [(None, None) if path is None else self._read_disparity(path) for path in paths]
        shifts, masks = zip(*sides)
        if self.transforms is not None:
            images, shifts, masks = self.transforms(images, shifts, masks)
        if self._has_built_in_disparity_mask or masks[0] is not None:
            return (*images, shifts[0], masks[0])
        return (*images, shifts[0])

    def __len__(self) -> int:
        return len(self._images)


def _without_mask(read: Callable[[str], Any]) -> Any:
    """The method that reads a file of shifts without a mask."""

    def _read_disparity(self: Any, file_path: str) -> Pair:
        return read(file_path), None

    return _read_disparity


class CarlaStereo(StereoMatchingDataset):
    """Rendered streets of the CARLA simulator.

    Args:
        root: folder in which ``carla-highres`` holds the files.
        transforms: function of the images, shifts and masks.
    Raises:
        FileNotFoundError: files are missing.
    Source: torchvision.datasets.CarlaStereo.
    Example:
        >>> dataset = CarlaStereo(root)
        >>> left, right, disparity = dataset[0]
        >>> left.size, disparity.shape
        ((6, 5), (1, 5, 6))
    """

    def __init__(self, root: Root, transforms: Transform = None) -> None:
        super().__init__(root, transforms)
        self._add(Path(root) / "carla-highres" / "trainingF" / "*", ("im0.png", "im1.png"), ("disp0GT.pfm", "disp1GT.pfm"))

    _read_disparity = _without_mask(_read_float_map)


class _KittiStereo(StereoMatchingDataset):
    """Streets, seen from a car: folders of left and right images, and of shifts to train with."""

    _has_built_in_disparity_mask = True
    _FOLDER: str
    _IMAGES: tuple[str, str]  # patterns
    _DISPARITIES: tuple[str, ...]

    def __init__(self, root: Root, split: str = "train", transforms: Transform = None) -> None:
        super().__init__(root, transforms)
        verify_str_arg(split, "split", valid_values=("train", "test"))
        self._add(Path(root) / self._FOLDER / f"{split}ing", self._IMAGES, self._DISPARITIES if split == "train" else ())

    _read_disparity = _without_mask(lambda path: _values(path)[None] / 256.0)


class Kitti2012Stereo(_KittiStereo):
    """Streets, seen from a car, of 2012.

    Args:
        root: folder in which ``Kitti2012`` holds the files.
        split: ``"train"``, or ``"test"``, whose shifts are not given.
        transforms: function of the images, shifts and masks.
    Raises:
        ValueError: another ``split``.
        FileNotFoundError: files are missing.
    Source: torchvision.datasets.Kitti2012Stereo.
    Example:
        >>> dataset = Kitti2012Stereo(root)
        >>> left, right, disparity, mask = dataset[0]
        >>> left.size, disparity.shape, mask
        ((6, 5), (1, 5, 6), None)
    """

    _FOLDER = "Kitti2012"
    _IMAGES = ("colored_0/*_10.png", "colored_1/*_10.png")
    _DISPARITIES = ("disp_noc/*.png",)


class Kitti2015Stereo(_KittiStereo):
    """Streets, seen from a car, of 2015.

    Args:
        root: folder in which ``Kitti2015`` holds the files.
        split: ``"train"``, or ``"test"``, whose shifts are not given.
        transforms: function of the images, shifts and masks.
    Raises:
        ValueError: another ``split``.
        FileNotFoundError: files are missing.
    Source: torchvision.datasets.Kitti2015Stereo.
    Example:
        >>> dataset = Kitti2015Stereo(root)
        >>> left, right, disparity, mask = dataset[0]
        >>> left.size, disparity.shape, mask
        ((6, 5), (1, 5, 6), None)
    """

    _FOLDER = "Kitti2015"
    _IMAGES = ("image_2/*.png", "image_3/*.png")
    _DISPARITIES = ("disp_occ_0/*.png", "disp_occ_1/*.png")


_CALIBRATIONS = {None: ("",), "perfect": ("-perfect",), "imperfect": ("-imperfect",), "both": ("-perfect", "-imperfect")}


class Middlebury2014Stereo(StereoMatchingDataset):
    """Rooms in high resolution.

    Args:
        root: folder in which ``Middlebury2014`` holds the files.
        split: ``"train"``, ``"additional"``, or ``"test"``, whose shifts are not given.
        calibration: ``"perfect"``, ``"imperfect"`` or ``"both"``; None for ``"test"``.
        use_ambient_views: take the right image at random from several in other light.
        transforms: function of the images, shifts and masks.
        download: fetch the archives where they are missing.
    Raises:
        ValueError: another ``split`` or ``calibration``.
        FileNotFoundError: files are missing.
    Source: torchvision.datasets.Middlebury2014Stereo.
    Example:
        >>> dataset = Middlebury2014Stereo(root, calibration="perfect")
        >>> left, right, disparity, mask = dataset[0]
        >>> left.size, disparity.shape, mask.shape
        ((6, 5), (1, 5, 6), (5, 6))
    """

    splits = {
        "train": "Adirondack Jadeplant Motorcycle Piano Pipes Playroom Playtable Recycle Shelves Vintage".split(),
        "additional": "Backpack Bicycle1 Cable Classroom1 Couch Flowers Mask Shopvac Sticks Storage Sword1 Sword2 Umbrella".split(),
        "test": (
            "Plants Classroom2E Classroom2 Australia DjembeL CrusadeP Crusade Hoops Bicycle2 Staircase Newkuba AustraliaP Djembe "
            "Livingroom Computer"
        ).split(),
    }
    _has_built_in_disparity_mask = True
    _URL = "https://vision.middlebury.edu/stereo/"

    def __init__(
        self,
        root: Root,
        split: str = "train",
        calibration: str | None = "perfect",
        use_ambient_views: bool = False,
        transforms: Transform = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transforms)
        self.split = verify_str_arg(split, "split", valid_values=("train", "test", "additional"))
        self.use_ambient_views = use_ambient_views
        if calibration:
            verify_str_arg(calibration, "calibration", valid_values=("perfect", "imperfect", "both"))
            if split == "test":
                raise ValueError("Split 'test' has only no calibration settings, please set `calibration=None`.")
        elif split != "test":
            raise ValueError(
                f"Split '{split}' has calibration settings, however None was provided as an argument.\nSetting calibration to 'perfect' "
                f"for split '{split}'. Available calibration settings are: 'perfect', 'imperfect', 'both'."
            )
        base = Path(root) / "Middlebury2014"
        if download:
            self._download_dataset(base)
        folder = base / split
        if not folder.exists():
            raise FileNotFoundError(f"The {split} directory was not found in the provided root directory")
        if not any(scene.startswith(tuple(self.splits[split])) for scene in os.listdir(folder)):
            raise FileNotFoundError(f"Provided root folder does not contain any scenes from the {split} split.")
        for ending in _CALIBRATIONS[calibration]:
            self._add(folder / f"*{ending}", ("im0.png", "im1.png"), ("disp0.pfm", "disp1.pfm") if split != "test" else ())

    def _read_img(self, file_path: Root) -> Any:
        path = Path(file_path)
        if self.use_ambient_views and path.name == "im1.png":
            lights = [path.with_name(name) for name in ("im1E.png", "im1L.png")]
            path = random.choice([*filter(Path.exists, lights), path])
        return super()._read_img(path)

    def _read_disparity(self, file_path: str) -> Pair:
        shift = _read_float_map(file_path)
        shift[shift == np.inf] = 0
        return shift, shift[0] > 0

    def _download_dataset(self, base: Path) -> None:
        """Download the archives of the split and unpack them, unless what is in them is there."""
        if self.split != "test":
            for scene in self.splits[self.split]:
                for ending in ("-perfect", "-imperfect"):
                    url = f"{self._URL}data/scenes2014/zip/{scene}{ending}.zip"
                    if not (base / self.split / f"{scene}{ending}").exists():
                        download_and_extract_archive(url, download_root=str(base / self.split), remove_finished=True)
            return
        target = base / "test"
        if all((target / scene).exists() for scene in self.splits["test"]):
            return
        target.mkdir(parents=True, exist_ok=True)
        download_and_extract_archive(f"{self._URL}submit3/zip/MiddEval3-data-F.zip", download_root=str(base), remove_finished=True)
        for folder in (base / "MiddEval3" / "testF").iterdir():
            shutil.move(str(folder), str(target))
        shutil.rmtree(base / "MiddEval3")


class CREStereo(StereoMatchingDataset):
    """Rendered scenes of four kinds.

    Args:
        root: folder in which ``CREStereo`` holds the files.
        transforms: function of the images, shifts and masks.
    Raises:
        FileNotFoundError: files are missing.
    Source: torchvision.datasets.CREStereo.
    Example:
        >>> dataset = CREStereo(root)
        >>> left, right, disparity, mask = dataset[0]
        >>> left.size, disparity.shape, mask
        ((6, 5), (1, 5, 6), None)
    """

    _has_built_in_disparity_mask = True

    def __init__(self, root: Root, transforms: Transform = None) -> None:
        super().__init__(root, transforms)
        for kind in ("shapenet", "reflective", "tree", "hole"):
            folder = Path(root) / "CREStereo" / kind
            self._add(folder, ("*_left.jpg", "*_right.jpg"), ("*_left.disp.png", "*_right.disp.png"))

    _read_disparity = _without_mask(lambda path: _values(path).astype(np.float32)[None] / np.float32(32))


class FallingThingsStereo(StereoMatchingDataset):
    """Rendered things that fall.

    Args:
        root: folder in which ``FallingThings`` holds the files.
        variant: ``"single"``, ``"mixed"`` or ``"both"``: one thing or several.
        transforms: function of the images, shifts and masks.
    Raises:
        ValueError: another ``variant``.
        FileNotFoundError: files are missing.
    Source: torchvision.datasets.FallingThingsStereo.
    Example:
        >>> dataset = FallingThingsStereo(root, variant="mixed")
        >>> left, right, disparity = dataset[0]
        >>> left.size, disparity.shape
        ((6, 5), (1, 5, 6))
    """

    _BASELINE = 6  # between the cameras, in cm
    _UNITS = 100  # of depth, in a cm

    def __init__(self, root: Root, variant: str = "single", transforms: Transform = None) -> None:
        super().__init__(root, transforms)
        for name in each_of(variant, "variant", "single", "mixed"):
            folder = Path(root) / "FallingThings" / name / ("*/*" if name == "single" else "*")
            self._add(folder, ("*.left.jpg", "*.right.jpg"), ("*.left.depth.png", "*.right.depth.png"))

    def _read_disparity(self, file_path: str) -> Pair:
        settings = json.loads((Path(file_path).parent / "_camera_settings.json").read_text())
        focal_length = settings["camera_settings"][0]["intrinsic_settings"]["fx"]
        depth = _values(file_path).astype(np.float32)
        return (self._BASELINE * focal_length * self._UNITS / depth)[None], None


class SceneFlowStereo(StereoMatchingDataset):
    """Rendered scenes of three kinds.

    Args:
        root: folder in which ``SceneFlow`` holds the files.
        variant: ``"FlyingThings3D"``, ``"Driving"`` or ``"Monkaa"``.
        pass_name: ``"clean"``, ``"final"`` or ``"both"``: without or with blur.
        transforms: function of the images, shifts and masks.
    Raises:
        ValueError: another ``variant`` or pass.
        FileNotFoundError: files are missing.
    Source: torchvision.datasets.SceneFlowStereo.
    Example:
        >>> dataset = SceneFlowStereo(root, variant="Monkaa")
        >>> left, right, disparity = dataset[0]
        >>> left.size, disparity.shape
        ((6, 5), (1, 5, 6))
    """

    def __init__(self, root: Root, variant: str = "FlyingThings3D", pass_name: str = "clean", transforms: Transform = None) -> None:
        super().__init__(root, transforms)
        verify_str_arg(variant, "variant", valid_values=("FlyingThings3D", "Driving", "Monkaa"))
        base, scenes = Path(root) / "SceneFlow" / variant, "*" if variant == "Monkaa" else "*/*/*"
        for name in each_of(pass_name, "pass_name", "clean", "final"):
            images, shifts = f"frames_{name}pass/{scenes}", f"disparity/{scenes}"
            self._add(base, (f"{images}/left/*.png", f"{images}/right/*.png"), (f"{shifts}/left/*.pfm", f"{shifts}/right/*.pfm"))

    _read_disparity = _without_mask(_read_float_map)


class SintelStereo(StereoMatchingDataset):
    """Scenes of an animated film.

    Args:
        root: folder in which ``Sintel`` holds the files.
        pass_name: ``"clean"``, ``"final"`` or ``"both"``: without or with blur and fog.
        transforms: function of the images, shifts and masks.
    Raises:
        ValueError: another pass.
        FileNotFoundError: files are missing.
    Source: torchvision.datasets.SintelStereo.
    Example:
        >>> dataset = SintelStereo(root)
        >>> left, right, disparity, mask = dataset[0]
        >>> left.size, disparity.shape, mask.shape
        ((6, 5), (1, 5, 6), (5, 6))
    """

    _has_built_in_disparity_mask = True

    def __init__(self, root: Root, pass_name: str = "final", transforms: Transform = None) -> None:
        super().__init__(root, transforms)
        for name in each_of(pass_name, "pass_name", "final", "clean"):
            images = (f"{name}_left/*/*.png", f"{name}_right/*/*.png")
            self._add(Path(root) / "Sintel" / "training", images, ("disparities/*/*.png",))

    def _read_disparity(self, file_path: str) -> Pair:
        path = Path(file_path)
        masks = [path.parents[2] / kind / path.parent.name / path.name for kind in ("occlusions", "outofframe")]
        for mask in masks:
            if not mask.exists():
                raise FileNotFoundError(f"Mask {mask} does not exist")
        red, green, blue = np.moveaxis(_values(path).astype(np.float32), -1, 0)
        return (red * 4 + green / 2**6 + blue / 2**14)[None], (_values(masks[0]) == 0) & (_values(masks[1]) == 0)


class InStereo2k(StereoMatchingDataset):
    """Rooms.

    Args:
        root: folder in which ``InStereo2k`` holds the files.
        split: ``"train"`` or ``"test"``.
        transforms: function of the images, shifts and masks.
    Raises:
        ValueError: another ``split``.
        FileNotFoundError: files are missing.
    Source: torchvision.datasets.InStereo2k.
    Example:
        >>> dataset = InStereo2k(root)
        >>> left, right, disparity = dataset[0]
        >>> left.size, disparity.shape
        ((6, 5), (1, 5, 6))
    """

    def __init__(self, root: Root, split: str = "train", transforms: Transform = None) -> None:
        super().__init__(root, transforms)
        verify_str_arg(split, "split", valid_values=("train", "test"))
        self._add(Path(root) / "InStereo2k" / split / "*", ("left.png", "right.png"), ("left_disp.png", "right_disp.png"))

    _read_disparity = _without_mask(lambda path: _values(path).astype(np.float32)[None] / np.float32(1024))


class ETH3DStereo(StereoMatchingDataset):
    """Rooms and streets in grey.

    Args:
        root: folder in which ``ETH3D`` holds the files.
        split: ``"train"``, or ``"test"``, whose shifts are not given.
        transforms: function of the images, shifts and masks.
    Raises:
        ValueError: another ``split``.
        FileNotFoundError: files are missing.
    Source: torchvision.datasets.ETH3DStereo.
    Example:
        >>> dataset = ETH3DStereo(root)
        >>> left, right, disparity, mask = dataset[0]
        >>> left.size, disparity.shape, mask.shape
        ((6, 5), (1, 5, 6), (5, 6))
    """

    _has_built_in_disparity_mask = True

    def __init__(self, root: Root, split: str = "train", transforms: Transform = None) -> None:
        super().__init__(root, transforms)
        verify_str_arg(split, "split", valid_values=("train", "test"))
        scenes = "two_view_training/*" if split == "train" else "two_view_test/*"
        shifts = ("two_view_training_gt/*/disp0GT.pfm",) if split == "train" else ()
        self._add(Path(root) / "ETH3D", (f"{scenes}/im0.png", f"{scenes}/im1.png"), shifts)

    def _read_disparity(self, file_path: str) -> Pair:
        return _read_float_map(file_path), _values(Path(file_path).parent / "mask0nocc.png").astype(bool)
