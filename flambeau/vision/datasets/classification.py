"""Data sets for classification that are one archive of image files: textures, satellites, aircraft, traffic signs, scenes and others."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .folder import ImageFolder, Loader, default_loader, find_classes, make_dataset
from .labelled import LabelledFiles, SplitFiles
from .matlab import read_mat
from .tables import tuples
from .utils import download_and_extract_archive, verify_str_arg
from .vision import DAMAGED, NOT_FOUND, Prepared, Root, Transform

__all__ = [
    *("DTD", "GTSRB", "SUN397", "CLEVRClassification", "Country211", "EuroSAT", "FGVCAircraft", "Imagenette", "RenderedSST2"),
    "StanfordCars",
]


class DTD(SplitFiles):
    """5,640 photographs of 47 textures.

    Args:
        root: folder in which ``dtd`` holds the files.
        split: ``"train"``, ``"val"`` or ``"test"``.
        partition: from 1 to 10, one of ten ways to split.
        transform, target_transform: functions of the image and of the index of its class.
        download: fetch the archive where it is missing.
        loader: function of a path that gives an image.
    Raises:
        ValueError: another ``split`` or ``partition``.
        RuntimeError: files are missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.DTD.
    Example:
        >>> dataset = DTD(root, partition=1)
        >>> image, label = dataset[0]
        >>> image.mode, dataset.classes[label]
        ('RGB', 'dotted')
    """

    _URL = "https://www.robots.ox.ac.uk/~vgg/data/dtd/download/dtd-r1.0.1.tar.gz"
    _MD5 = "fff73e5086ae6bdbea199a49dfb8a4c1"
    _FOLDER = _UNPACKED_IN = "dtd"
    _SHOWN = "split={0._split}, partition={0._partition}"

    def __init__(
        self,
        root: Root,
        split: str = "train",
        partition: int = 1,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
    ) -> None:
        if not isinstance(partition, int) or not 1 <= partition <= 10:
            raise ValueError(f"Parameter 'partition' should be an integer with `1 <= partition <= 10`, but got {partition} instead")
        self._partition = partition
        super().__init__(root, split, transform, target_transform, download, loader)

    def _folders(self) -> Sequence[Root]:
        return (self._base_folder / "dtd",)

    def _read(self) -> None:
        folder = self._base_folder / "dtd"
        lines = (folder / "labels" / f"{self._split}{self._partition}.txt").read_text().split()
        self._set_classes(sorted({line.partition("/")[0] for line in lines}))
        self._set_samples([(folder.joinpath("images", *line.split("/")), self.class_to_idx[line.partition("/")[0]]) for line in lines])


class FGVCAircraft(SplitFiles):
    """10,000 photographs of 100 aircraft, which belong to 70 families of 30 manufacturers.

    Args:
        root: folder in which ``fgvc-aircraft-2013b`` holds the files.
        split: ``"train"``, ``"val"``, ``"trainval"`` or ``"test"``.
        annotation_level: ``"variant"``, ``"family"`` or ``"manufacturer"``: what the classes are.
        transform, target_transform: functions of the image and of the index of its class.
        download: fetch the archive where it is missing.
        loader: function of a path that gives an image.
    Raises:
        ValueError: another ``split`` or ``annotation_level``.
        RuntimeError: files are missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.FGVCAircraft.
    Example:
        >>> dataset = FGVCAircraft(root, annotation_level="family")
        >>> image, label = dataset[0]
        >>> image.mode, dataset.classes[label]
        ('RGB', 'A320')
    """

    _URL = "https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/archives/fgvc-aircraft-2013b.tar.gz"
    _FOLDER = "fgvc-aircraft-2013b"
    _SPLITS = ("train", "val", "trainval", "test")
    _LEVELS = {"variant": "variants.txt", "family": "families.txt", "manufacturer": "manufacturers.txt"}

    def __init__(
        self,
        root: Root,
        split: str = "trainval",
        annotation_level: str = "variant",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
    ) -> None:
        self._annotation_level = verify_str_arg(annotation_level, "annotation_level", tuple(self._LEVELS))
        super().__init__(root, split, transform, target_transform, download, loader)

    def _read(self) -> None:
        folder = os.path.join(self._base_folder, "data")
        with open(os.path.join(folder, self._LEVELS[self._annotation_level])) as file:
            self._set_classes([line.strip() for line in file])
        with open(os.path.join(folder, f"images_{self._annotation_level}_{self._split}.txt")) as file:
            rows = [line.strip().split(" ", 1) for line in file]
        self._set_samples([(os.path.join(folder, "images", f"{name}.jpg"), self.class_to_idx[label]) for name, label in rows])


class GTSRB(SplitFiles):
    """More than 50,000 photographs of 43 traffic signs in Germany.

    Args:
        root: folder in which ``gtsrb`` holds the files.
        split: ``"train"`` or ``"test"``.
        transform, target_transform: functions of the image and of the index of its class.
        download: fetch the archives where they are missing.
    Raises:
        ValueError: another ``split``.
        RuntimeError: files are missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.GTSRB.
    Example:
        >>> dataset = GTSRB(root)
        >>> image, label = dataset[0]
        >>> image.mode, label
        ('RGB', 0)
    """

    _URL = "https://sid.erda.dk/public/archives/daaeac0d7ce1152aea9b61d9f1e19370/"
    _ARCHIVES = tuples("GTSRB")

    _FOLDER = "gtsrb"
    _SPLITS = ("train", "test")

    def __init__(
        self, root: Root, split: str = "train", transform: Transform = None, target_transform: Transform = None, download: bool = False
    ) -> None:
        super().__init__(root, split, transform, target_transform, download)

    def _folders(self) -> Sequence[Root]:
        return (self._base_folder / "GTSRB" / ("Training" if self._split == "train" else "Final_Test/Images"),)

    def _read(self) -> None:
        (folder,) = map(str, self._folders())
        if self._split == "train":
            self._set_samples(make_dataset(folder, extensions=(".ppm",)))
        else:
            with open(self._base_folder / "GT-final_test.csv") as file:
                rows = list(csv.DictReader(file, delimiter=";", skipinitialspace=True))
            self._set_samples([(os.path.join(folder, row["Filename"]), int(row["ClassId"])) for row in rows])

    def _fetch(self) -> None:
        for name, md5 in self._ARCHIVES[self._split]:
            download_and_extract_archive(f"{self._URL}{name}", download_root=str(self._base_folder), md5=md5)


class RenderedSST2(SplitFiles):
    """Pictures of 9,613 sentences about films, which like the film or do not.

    Args:
        root: folder in which ``rendered-sst2`` holds the files.
        split: ``"train"``, ``"val"`` or ``"test"``.
        transform, target_transform: functions of the image and of 0 (negative) or 1 (positive).
        download: fetch the archive where it is missing.
        loader: function of a path that gives an image.
    Raises:
        ValueError: another ``split``.
        RuntimeError: files are missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.RenderedSST2.
    Example:
        >>> dataset = RenderedSST2(root)
        >>> image, label = dataset[0]
        >>> image.mode, dataset.classes[label]
        ('RGB', 'negative')
    """

    _URL = "https://openaipublic.azureedge.net/clip/data/rendered-sst2.tgz"
    _MD5 = "2384d08e9dcfa4bd55b324e610496ee5"
    _FOLDER = "rendered-sst2"
    _PARTS = {"train": "train", "val": "valid", "test": "test"}
    _SHOWN = "split={0._split}"

    def _folders(self) -> Sequence[Root]:
        return [self._base_folder / self._PARTS[self._split] / name for name in ("negative", "positive")]

    def _read(self) -> None:
        self._set_classes(["negative", "positive"])
        self._set_samples(make_dataset(str(self._base_folder / self._PARTS[self._split]), extensions=("png",)))


class StanfordCars(SplitFiles):
    """16,185 photographs of 196 cars. They cannot be downloaded any more.

    Args:
        root: folder in which ``stanford_cars`` holds the files.
        split: ``"train"`` or ``"test"``.
        transform, target_transform: functions of the image and of the index of its class.
        download: has to be False.
        loader: function of a path that gives an image.
    Raises:
        ValueError: another ``split``, or ``download``.
        RuntimeError: files are missing or damaged.
    Source: torchvision.datasets.StanfordCars.
    Example:
        >>> dataset = StanfordCars(root)
        >>> image, label = dataset[0]
        >>> image.mode, dataset.classes[label]
        ('RGB', 'Acura RL')
    """

    _FOLDER = "stanford_cars"
    _SPLITS = ("train", "test")
    _MESSAGE = "Dataset not found."
    _GONE = "The original URL is broken so the StanfordCars dataset cannot be downloaded anymore."

    def _annotations(self) -> Path:
        return self._base_folder / ("devkit/cars_train_annos.mat" if self._split == "train" else "cars_test_annos_withlabels.mat")

    def _folders(self) -> Sequence[Root]:
        return self._base_folder / "devkit", self._base_folder / f"cars_{self._split}"

    def _files(self) -> Sequence[tuple[Root, None]]:
        return [(self._annotations(), None)]

    def _read(self) -> None:
        devkit, images = map(Path, self._folders())
        rows = read_mat(self._annotations(), squeeze_me=True)["annotations"]
        self._set_samples([(str(images / row["fname"]), row["class"] - 1) for row in rows])
        self._set_classes(read_mat(devkit / "cars_meta.mat", squeeze_me=True)["class_names"].tolist())


class SUN397(LabelledFiles):
    """108,753 photographs of 397 kinds of scenes.

    Args:
        root: folder in which ``SUN397`` holds the files.
        transform, target_transform: functions of the image and of the index of its class.
        download: fetch the archive where it is missing.
        loader: function of a path that gives an image.
    Raises:
        RuntimeError: files are missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.SUN397.
    Example:
        >>> dataset = SUN397(root)
        >>> image, label = dataset[0]
        >>> image.mode, dataset.classes[label]
        ('RGB', 'abbey')
    """

    _URL = _DATASET_URL = "http://vision.princeton.edu/projects/2010/SUN/SUN397.tar.gz"
    _MD5 = _DATASET_MD5 = "8ca2778205c41d23104230ba66911c7a"

    _FOLDER = "SUN397"

    def _read(self) -> None:
        # Each line: "/", the first letter, "/", the class.
        self._set_classes([line[3:].strip() for line in (self._base_folder / "ClassName.txt").read_text().splitlines()])
        paths = list(self._base_folder.rglob("sun_*.jpg"))
        self._set_samples([(path, self.class_to_idx["/".join(path.relative_to(self._base_folder).parts[1:-1])]) for path in paths])


class CLEVRClassification(SplitFiles):
    """100,000 rendered pictures of simple objects, with the number of objects as label.

    Args:
        root: folder in which ``clevr`` holds the files.
        split: ``"train"``, ``"val"``, or ``"test"``, which has no labels.
        transform, target_transform: functions of the image and of its label.
        download: fetch the archive where it is missing.
        loader: function of a path that gives an image.
    Raises:
        ValueError: another ``split``.
        RuntimeError: files are missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.CLEVRClassification.
    Example:
        >>> dataset = CLEVRClassification(root, split="val")
        >>> image, label = dataset[0]
        >>> image.mode, label
        ('RGB', 3)
    """

    _URL = "https://dl.fbaipublicfiles.com/clevr/CLEVR_v1.0.zip"
    _MD5 = "b11922020e72d0cd9154779b2d3d07d2"

    _FOLDER = _UNPACKED_IN = "clevr"
    _MESSAGE = DAMAGED
    _SHOWN = "split={0._split}"

    def _folders(self) -> Sequence[Root]:
        return (self._base_folder / "CLEVR_v1.0",)

    def _read(self) -> None:
        folder = self._base_folder / "CLEVR_v1.0"
        self._image_files = sorted((folder / "images" / self._split).glob("*"))
        counts: dict[str, int | None] = dict.fromkeys(path.name for path in self._image_files)
        if self._split != "test":
            content = json.loads((folder / "scenes" / f"CLEVR_{self._split}_scenes.json").read_text())
            counts = {scene["image_filename"]: len(scene["objects"]) for scene in content["scenes"]}
        self._labels = [counts[path.name] for path in self._image_files]


class Imagenette(SplitFiles):
    """Ten classes of ImageNet that are easy to tell apart.

    Args:
        root: folder in which the archive's folder holds the files.
        split: ``"train"`` or ``"val"``.
        size: ``"full"``, or ``"320px"`` or ``"160px"`` for the shorter side.
        download: fetch the archive where it is missing.
        transform, target_transform: functions of the image and of the index of its class.
        loader: function of a path that gives an image.
    Attributes:
        classes: tuples of names.
        class_to_idx: index of each name.
        wnids, wnid_to_idx: what WordNet calls the classes, and index of each.
    Raises:
        ValueError: another ``split`` or ``size``.
        RuntimeError: files are missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.Imagenette.
    Example:
        >>> dataset = Imagenette(root, split="val", size="160px")
        >>> image, label = dataset[0]
        >>> image.mode, dataset.classes[label]
        ('RGB', ('tench', 'Tinca tinca'))
    """

    _SPLITS = ("train", "val")
    _MESSAGE = f"{NOT_FOUND}."
    _ARCHIVES = tuples("Imagenette")["archives"]
    _WNID_TO_CLASS = tuples("Imagenette")["classes"]

    def __init__(
        self,
        root: Root,
        split: str = "train",
        size: str = "full",
        download: bool = False,
        transform: Transform = None,
        target_transform: Transform = None,
        loader: Loader = default_loader,
    ) -> None:
        self._size = verify_str_arg(size, "size", ["full", "320px", "160px"])
        self._URL, self._MD5 = self._ARCHIVES[size]
        self._FOLDER = Path(self._URL).stem
        super().__init__(root, split, transform, target_transform, download, loader)

    def _read(self) -> None:
        folder = str(self._base_folder / self._split)
        self.wnids, self.wnid_to_idx = find_classes(folder)
        self.classes = [self._WNID_TO_CLASS[wnid] for wnid in self.wnids]
        self.class_to_idx = {name: self.wnid_to_idx[wnid] for wnid in self.wnids for name in self._WNID_TO_CLASS[wnid]}
        self._set_samples(make_dataset(folder, self.wnid_to_idx, extensions=".jpeg"))


class _ArchivedFolder(ImageFolder, Prepared[Any]):
    """Images of an archive, in one folder for each class."""

    _FOLDER: str  # of the files, below the root
    _CLASSES: str  # folder in that of the classes' folders

    def __init__(
        self,
        root: Root,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
    ) -> None:
        folder = self.root = os.path.expanduser(os.fspath(root))
        self._prepare(download)
        super().__init__(os.path.join(folder, self._FOLDER, self._CLASSES), transform, target_transform, loader)
        self.root = folder

    def _folders(self) -> Sequence[Root]:
        return (os.path.join(self.root, self._FOLDER, self._CLASSES),)


class EuroSAT(_ArchivedFolder):
    """27,000 pictures of ten kinds of land, seen by a satellite.

    Args:
        root: folder in which ``eurosat`` holds the files.
        transform, target_transform: functions of the image and of the index of its class.
        download: fetch the archive where it is missing.
        loader: function of a path that gives an image.
    Raises:
        RuntimeError: files are missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.EuroSAT.
    Example:
        >>> dataset = EuroSAT(root)
        >>> image, label = dataset[0]
        >>> image.mode, dataset.classes[label]
        ('RGB', 'AnnualCrop')
    """

    _URL = "https://huggingface.co/datasets/torchgeo/eurosat/resolve/c877bcd43f099cd0196738f714544e355477f3fd/EuroSAT.zip"
    _MD5 = "c8fa014336c82ac7804f0398fcb19387"

    _FOLDER = _UNPACKED_IN = "eurosat"
    _CLASSES = "2750"


class Country211(_ArchivedFolder):
    """Photographs of 211 countries.

    Args:
        root: folder in which ``country211`` holds the files.
        split: ``"train"``, ``"valid"`` or ``"test"``.
        transform, target_transform: functions of the image and of the index of its class.
        download: fetch the archive where it is missing.
        loader: function of a path that gives an image.
    Raises:
        ValueError: another ``split``.
        RuntimeError: files are missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.Country211.
    Example:
        >>> dataset = Country211(root, split="valid")
        >>> image, label = dataset[0]
        >>> image.mode, dataset.classes[label]
        ('RGB', 'AD')
    """

    _URL = "https://openaipublic.azureedge.net/clip/data/country211.tgz"
    _MD5 = "84988d7644798601126c29e9877aab6a"
    _FOLDER = "country211"

    def __init__(
        self,
        root: Root,
        split: str = "train",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader = default_loader,
    ) -> None:
        self._CLASSES = self._split = verify_str_arg(split, "split", ("train", "valid", "test"))
        super().__init__(root, transform, target_transform, download, loader)

    def _folders(self) -> Sequence[Root]:
        return (os.path.join(self.root, self._FOLDER),)
