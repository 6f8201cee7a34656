"""Photographs of living things. Source: torchvision.datasets.inaturalist."""

from __future__ import annotations

import os
from typing import Any

from .annotated import opened
from .folder import Loader
from .tables import table
from .utils import download_and_extract_archive, verify_str_arg
from .vision import DAMAGED, Prepared, Root, Transform

CATEGORIES_2021 = ["kingdom", "phylum", "class", "order", "family", "genus"]
DATASET_URLS: dict[str, str] = {version: url for version, (url, _) in table("INaturalist").items()}
DATASET_MD5: dict[str, str] = {version: md5 for version, (_, md5) in table("INaturalist").items()}


class INaturalist(Prepared[Any]):
    """Photographs of thousands of species, in one folder for each.

    Args:
        root: folder in which a folder with the version's name holds the files.
        version: ``"2017"``, ``"2018"``, ``"2019"``, ``"2021_train"``, ``"2021_train_mini"`` or ``"2021_valid"``.
        target_type: ``"full"`` for the species, or in 2021 ``"kingdom"``, ``"phylum"``, ``"class"``, ``"order"``, ``"family"`` or
            ``"genus"``, before ``"super"`` for the group; or a list of these.
        transform, target_transform: functions of the image and of the target.
        download: fetch the archive where it is missing.
        loader: function of a path that gives an image; Pillow's in its own colors when None.
    Attributes:
        all_categories: folders of the species.
        categories_index: names and indices, for each level.
        categories_map: indices at the other levels, for each species.
    Raises:
        ValueError: another ``version`` or ``target_type``.
        RuntimeError: files are missing, damaged, or cannot be fetched, or folders have other names.
    Source: torchvision.datasets.INaturalist.
    Example:
        >>> dataset = INaturalist(root, version="2021_valid", target_type=["full", "kingdom"])
        >>> image, (species, kingdom) = dataset[0]
        >>> dataset.category_name("kingdom", kingdom)
        'Animalia'
    """

    def __init__(
        self,
        root: Root,
        version: str = "2021_train",
        target_type: list[str] | str = "full",
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = False,
        loader: Loader | None = None,
    ) -> None:
        self.version = verify_str_arg(version, "version", DATASET_URLS.keys())
        super().__init__(os.path.join(root, version), transform=transform, target_transform=target_transform)
        os.makedirs(root, exist_ok=True)
        self._prepare(download, DAMAGED)
        is_2021 = version.startswith("2021")
        types = target_type if isinstance(target_type, list) else [target_type]
        known = ("full", *CATEGORIES_2021) if is_2021 else ("full", "super")
        self.target_type = [verify_str_arg(name, "target_type", known) for name in types]
        self.all_categories: list[str] = []
        self.categories_index: dict[str, dict[str, int]] = {}
        self.categories_map: list[dict[str, int]] = []
        (self._init_2021 if is_2021 else self._init_pre2021)()
        self.index = [
            (number, name) for number, folder in enumerate(self.all_categories) for name in os.listdir(os.path.join(self.root, folder))
        ]
        self.loader = loader

    def _init_2021(self) -> None:
        """Folders are called by number, then the names of all levels, then the species."""
        self.all_categories = sorted(os.listdir(self.root))
        self.categories_index = {level: {} for level in CATEGORIES_2021}
        for number, folder in enumerate(self.all_categories):
            pieces = folder.split("_")
            if len(pieces) != 8:
                raise RuntimeError(f"Unexpected category name {folder}, wrong number of pieces")
            if pieces[0] != f"{number:05d}":
                raise RuntimeError(f"Unexpected category id {pieces[0]}, expecting {number:05d}")
            indices = self.categories_index
            self.categories_map.append(
                {level: indices[level].setdefault(name, len(indices[level])) for level, name in zip(CATEGORIES_2021, pieces[1:7])}
            )

    def _init_pre2021(self) -> None:
        """Folders of groups hold folders of species, which are called by number except in 2017."""
        groups = sorted(os.listdir(self.root))
        self.categories_index = {"super": {name: index for index, name in enumerate(groups)}}
        species: dict[int, tuple[str, int]] = {}
        for index, group in enumerate(groups):
            for name in sorted(os.listdir(os.path.join(self.root, group))):
                if self.version != "2017" and not name.isdecimal():
                    raise RuntimeError(f"Unexpected non-numeric dir name: {name}")
                number = len(species) if self.version == "2017" else int(name)
                if number in species:
                    raise RuntimeError(f"Duplicate category {name}")
                species[number] = (os.path.join(group, name), index)
        absent = next((number for number in range(len(species)) if number not in species), None)
        if absent is not None:
            raise RuntimeError(f"Missing category {absent}")
        self.all_categories = [species[number][0] for number in range(len(species))]
        self.categories_map = [{"super": species[number][1]} for number in range(len(species))]

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        number, name = self.index[index]
        path = os.path.join(self.root, self.all_categories[number], name)
        targets = [number if level == "full" else self.categories_map[number][level] for level in self.target_type]
        return self._transformed((self.loader or opened)(path), tuple(targets) if len(targets) > 1 else targets[0])

    def __len__(self) -> int:
        return len(self.index)

    def category_name(self, category_type: str, category_id: int) -> str:
        """Name of an index of a level.

        Raises:
            ValueError: no such level or index.
        """
        if category_type == "full":
            return self.all_categories[category_id]
        if category_type not in self.categories_index:
            raise ValueError(f"Invalid category type '{category_type}'")
        for name, index in self.categories_index[category_type].items():
            if index == category_id:
                return name
        raise ValueError(f"Invalid category id {category_id} for {category_type}")

    def _missing(self) -> str | None:
        return None if os.path.isdir(self.root) and os.listdir(self.root) else self.root

    def _fetch(self) -> None:
        url, folder = DATASET_URLS[self.version], os.path.dirname(self.root)
        download_and_extract_archive(url, folder, filename=f"{self.version}.tgz", md5=DATASET_MD5[self.version])
        unpacked = os.path.join(folder, os.path.basename(url).removesuffix(".tar.gz"))
        if not os.path.exists(unpacked):
            raise RuntimeError(f"Unable to find downloaded files at {unpacked}")
        os.rename(unpacked, self.root)
