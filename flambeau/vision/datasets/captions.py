"""Photographs with captions: Flickr's and those of SBU. Sources: torchvision.datasets.flickr, torchvision.datasets.sbu."""

from __future__ import annotations

import contextlib
import glob
import os
from collections import defaultdict
from collections.abc import Iterable
from html.parser import HTMLParser
from typing import Any

from .folder import Loader, default_loader
from .utils import download_and_extract_archive, download_url
from .vision import DAMAGED, Prepared, Root, Transform, VisionDataset


class _Captions(HTMLParser):
    """Reads the captions of a page of Flickr 8k: in a table, links to photographs, each followed by items of a list.

    Attributes:
        annotations: captions by the path of their photograph.
    """

    def __init__(self, root: Root) -> None:
        super().__init__()
        self.root = root
        self.annotations: dict[str, list[str]] = {}
        self.is_in_table = False
        self.tag: str | None = None
        self.image: str | None = None

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tag = tag
        self.is_in_table |= tag == "table"

    def handle_endtag(self, tag: str) -> None:
        self.tag = None
        self.is_in_table &= tag != "table"

    def handle_data(self, data: str) -> None:
        if not self.is_in_table:
            return
        if data == "Image Not Found":
            self.image = None
        elif self.tag == "a":
            pattern = os.path.join(glob.escape(os.fspath(self.root)), f"{data.split('/')[-2]}_*.jpg")
            paths = glob.glob(pattern)
            if not paths:
                raise RuntimeError(f"Dataset not found or corrupted (missing: {pattern})")
            self.image = paths[0]
            self.annotations[self.image] = []
        elif self.tag == "li" and self.image:
            self.annotations[self.image].append(data.strip())


class _Flickr(VisionDataset[Any]):
    """Photographs with lists of captions."""

    def __init__(
        self, root: Root, ann_file: str, transform: Transform = None, target_transform: Transform = None, loader: Loader = default_loader
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.ann_file = os.path.expanduser(ann_file)
        self.annotations = self._read()
        self.ids = sorted(self.annotations)
        self.loader = loader

    def _read(self) -> dict[str, list[str]]:
        """Captions by photograph."""
        raise NotImplementedError

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        name = self.ids[index]
        return self._transformed(self.loader(os.path.join(self.root, name)), self.annotations[name])

    def __len__(self) -> int:
        return len(self.ids)


class Flickr8k(_Flickr):
    """8,000 photographs with five captions each.

    Args:
        root: folder of the photographs.
        ann_file: HTML page of the captions.
        transform, target_transform: functions of the image and of the list of its captions.
        loader: function of a path that gives an image.
    Raises:
        RuntimeError: a photograph is missing.
    Source: torchvision.datasets.Flickr8k.
    Example:
        >>> dataset = Flickr8k(root, f"{root}/captions.html")
        >>> image, captions = dataset[0]
        >>> captions
        ['One 1000', 'Two']
    """

    def _read(self) -> dict[str, list[str]]:
        parser = _Captions(self.root)
        with open(self.ann_file) as file:
            parser.feed(file.read())
        return parser.annotations


class Flickr30k(_Flickr):
    """31,783 photographs with five captions each.

    Args:
        root: folder of the photographs.
        ann_file: text file of the captions: photograph, "#", number, tabulator, caption.
        transform, target_transform: functions of the image and of the list of its captions.
        loader: function of a path that gives an image.
    Source: torchvision.datasets.Flickr30k.
    Example:
        >>> dataset = Flickr30k(root, f"{root}/captions.txt")
        >>> image, captions = dataset[0]
        >>> captions
        ['A cat']
    """

    def _read(self) -> dict[str, list[str]]:
        captions: dict[str, list[str]] = defaultdict(list)
        with open(self.ann_file) as file:
            for line in file:
                name, caption = line.strip().split("\t")
                captions[name[:-2]].append(caption)
        return captions


class SBU(Prepared[Any]):
    """A million photographs of Flickr's with a caption each, as far as they are still there.

    Args:
        root: folder of the archive, in which ``dataset`` holds the photographs.
        transform, target_transform: functions of the image and of its caption.
        download: fetch the archive and the photographs where they are missing.
        loader: function of a path that gives an image.
    Attributes:
        photos, captions: names of the files, and the caption of each.
    Raises:
        RuntimeError: the archive is missing, damaged, or cannot be fetched.
    Source: torchvision.datasets.SBU.
    Example:
        >>> dataset = SBU(root, download=False)
        >>> image, caption = dataset[0]
        >>> caption
        'A wooden chair'
    """

    url = "https://www.cs.rice.edu/~vo9/sbucaptions/SBUCaptionedPhotoDataset.tar.gz"
    filename = "SBUCaptionedPhotoDataset.tar.gz"
    md5_checksum = "9aec147b3488753cf758b4d493422285"

    def __init__(
        self,
        root: Root,
        transform: Transform = None,
        target_transform: Transform = None,
        download: bool = True,
        loader: Loader = default_loader,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.loader = loader
        self._prepare(download, DAMAGED)
        pairs = [
            (os.path.basename(url), caption)
            for url, caption in zip(self._lines("urls"), self._lines("captions"))
            if os.path.exists(self._path(os.path.basename(url)))
        ]
        self.photos = [name for name, _ in pairs]
        self.captions = [caption for _, caption in pairs]

    def _path(self, name: str) -> str:
        return os.path.join(self.root, "dataset", name)

    def _lines(self, what: str) -> list[str]:
        with open(self._path(f"SBU_captioned_photo_dataset_{what}.txt")) as file:
            return [line.rstrip() for line in file]

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._transformed(self.loader(self._path(self.photos[index])), self.captions[index])

    def __len__(self) -> int:
        return len(self.photos)

    def _files(self) -> Iterable[tuple[Root, str]]:
        return ((os.path.join(self.root, self.filename), self.md5_checksum),)

    def _fetch(self) -> None:
        download_and_extract_archive(self.url, self.root, self.root, self.filename, self.md5_checksum)
        for url in self._lines("urls"):
            with contextlib.suppress(OSError):  # their owners may have removed them
                download_url(url, self._path(""))
