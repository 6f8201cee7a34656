"""Base class of data sets whose arrays come in a few files of one archive."""

from __future__ import annotations

import os
from typing import Any

from .utils import check_integrity, download_and_extract_archive
from .vision import Prepared


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
    data: Any

    def _path(self, name: str) -> str:
        return os.path.join(self.root, self.base_folder, name)

    def __len__(self) -> int:
        return len(self.data)

    def _missing(self) -> str | None:
        files = [(self._path(name), md5) for name, md5 in self.train_list + self.test_list]
        return next((path for path, md5 in files if not check_integrity(path, md5)), None)

    def download(self) -> None:
        """Download the archive and unpack it, unless all is there."""
        if self._missing() is not None:
            download_and_extract_archive(self.url, self.root, filename=self.filename, md5=self.tgz_md5)
