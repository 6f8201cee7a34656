"""Base class of data sets whose arrays come in a few files of one archive."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from .utils import download_and_extract_archive
from .vision import Prepared, Root


class ArchivedBatches(Prepared[Any]):
    """Arrays from files of an archive, each known by its checksum; subclasses read them into ``data``.

    Attributes:
        base_folder: where the archive holds the files.
        url, filename, tgz_md5: of the archive.
        train_list, test_list: names and checksums of the files.
    """

    base_folder: str
    url: str
    filename: str
    tgz_md5: str
    train_list: list[list[str]]
    test_list: list[list[str]]

    def _path(self, name: str) -> str:
        return os.path.join(self.root, self.base_folder, name)

    def _files(self) -> Iterable[tuple[Root, str]]:
        return [(self._path(name), md5) for name, md5 in self.train_list + self.test_list]

    def _fetch(self) -> None:
        download_and_extract_archive(self.url, self.root, filename=self.filename, md5=self.tgz_md5)
