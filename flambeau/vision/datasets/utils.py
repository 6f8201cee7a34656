"""Files fetched and archives unpacked: resumed, checked, and only there once they are whole. Source: torchvision.datasets.utils."""

from __future__ import annotations

import bz2
import contextlib
import email.utils
import gzip
import hashlib
import importlib
import lzma
import os
import pathlib
import re
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import urlparse
from urllib.request import HTTPRedirectHandler, Request, build_opener

import numpy as np

from ...core.replacing import replace_file
from ...hub import _extract as extract_inside, tqdm

try:
    import fcntl
except ImportError:  # no locks between processes there
    fcntl = None  # type: ignore[assignment]

__all__ = [
    *("calculate_md5", "check_integrity", "check_md5", "download_and_extract_archive", "download_file_from_google_drive", "download_url"),
    *("extract_archive", "iterable_to_str", "list_dir", "list_files", "verify_str_arg"),
]

_T = TypeVar("_T", str, bytes)
PathLike = str | os.PathLike[str]

USER_AGENT = "pytorch/vision"
CHUNK = 1 << 17  # bytes
UNSATISFIABLE = 416  # status: there is nothing behind the bytes that are there


# -- checksums ------------------------------------------------------------------------------------------------------------
def calculate_md5(fpath: PathLike, chunk_size: int = 1024 * 1024) -> str:
    """MD5 of a file, in hexadecimal.

    Args:
        fpath: of the file.
        chunk_size: bytes that are read at once.
    Returns:
        The checksum, in hexadecimal.
    Source: torchvision.datasets.utils.calculate_md5.
    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     size = pathlib.Path(folder, "a.txt").write_text("hello")
        ...     calculate_md5(f"{folder}/a.txt")
        '5d41402abc4b2a76b9719d911017c592'
    """
    digest = hashlib.md5(usedforsecurity=False)
    with open(fpath, "rb") as file:
        while chunk := file.read(chunk_size):
            digest.update(chunk)
    return digest.hexdigest()


def check_md5(fpath: PathLike, md5: str, **kwargs: Any) -> bool:
    """Whether a file has that MD5.

    Args:
        fpath: of the file.
        md5: in hexadecimal; not looked at when None.
    Returns:
        A bool.
    Source: torchvision.datasets.utils.check_md5.
    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     size = pathlib.Path(folder, "a.txt").write_text("hello")
        ...     check_md5(f"{folder}/a.txt", "5d41402abc4b2a76b9719d911017c592")
        True
    """
    return md5 == calculate_md5(fpath, **kwargs)


def check_integrity(fpath: PathLike, md5: str | None = None) -> bool:
    """Whether a file is there, and has that MD5 where one is given.

    Args:
        fpath: of the file.
        md5: in hexadecimal; not looked at when None.
    Returns:
        A bool.
    Source: torchvision.datasets.utils.check_integrity.
    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     size = pathlib.Path(folder, "a.txt").write_text("hello")
        ...     check_integrity(f"{folder}/a.txt"), check_integrity(f"{folder}/b.txt")
        (True, False)
    """
    return os.path.isfile(fpath) and (md5 is None or check_md5(fpath, md5))


# -- downloads ------------------------------------------------------------------------------------------------------------
class _Redirects(HTTPRedirectHandler):
    """Follows so many redirects and no more."""

    def __init__(self, url: str, max_hops: int) -> None:
        self.url, self.left, self.max_hops = url, max_hops, max_hops

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Request | None:
        self.left -= 1
        if self.left < 0:
            raise RecursionError(f"Request to {self.url} exceeded {self.max_hops} redirects. The last redirect points to {newurl}.")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _get_google_drive_file_id(url: str) -> str | None:
    """Identifier of a file on Google Drive; None for an address of another place."""
    parts = urlparse(url)
    match = re.match(r"/file/d/(?P<id>[^/]*)", parts.path)
    return match["id"] if match and re.match(r"(drive|docs)[.]google[.]com", parts.netloc) else None


def download_url(url: str, root: PathLike, filename: PathLike | None = None, md5: str | None = None, max_redirect_hops: int = 3) -> None:
    """Download a file into a folder, unless it is there.

    What has arrived is kept under the name ``<filename>.partial``, so that a later call asks for the rest. The file appears when it is
    whole and its checksum is right. Processes that download the same file do so one after another.

    Args:
        url: of the file.
        root: folder, which is made where it is missing.
        filename: name in the folder; the last part of ``url`` when None.
        md5: checksum of the file.
        max_redirect_hops: how many redirects are followed.
    Raises:
        RuntimeError: another checksum, or fewer bytes than the server announced.
        URLError: the server cannot be reached or refuses.
        RecursionError: more redirects.
    Source: torchvision.datasets.utils.download_url.
    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     size = pathlib.Path(folder, "a.txt").write_text("hello")
        ...     download_url(pathlib.Path(folder, "a.txt").as_uri(), f"{folder}/copies")
        ...     os.listdir(f"{folder}/copies")
        ['a.txt']
    """
    root = os.path.expanduser(root)
    path = os.path.join(root, os.fspath(filename) if filename else os.path.basename(url))
    os.makedirs(root, exist_ok=True)
    if check_integrity(path, md5):
        return
    with _locked(f"{path}.partial") as file:
        if check_integrity(path, md5):  # another process was first
            with contextlib.suppress(FileNotFoundError):
                os.unlink(file.name)
            return
        file_id = _get_google_drive_file_id(_fetch(url, file, md5, max_redirect_hops))
        if file_id is None:
            os.replace(file.name, path)
    if file_id is not None:
        download_file_from_google_drive(file_id, root, os.path.basename(path), md5)


@contextlib.contextmanager
def _locked(name: str) -> Iterator[IO[bytes]]:
    """A file to append to and read, which no other process has open here; made where it is missing, removed where it stays empty."""
    while True:
        file = open(name, "a+b")
        if fcntl is None:
            break
        fcntl.flock(file, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), os.stat(name)):
                break
        file.close()  # meanwhile another process has renamed or removed it
    try:
        yield file
    finally:
        is_empty = os.fstat(file.fileno()).st_size == 0
        file.close()
        if is_empty:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)


def _fetch(url: str, file: IO[bytes], md5: str | None, max_hops: int) -> str:
    """Bring a file that may hold the beginning to its end; the URL to which redirects led, of which nothing is fetched from Google Drive.

    A beginning of another version of the file would be noticed: by the checksum, after which all is fetched once more, or, without
    one, by the server, as the time of the beginning is the server's time of the file.
    """
    size = file.seek(0, os.SEEK_END)
    headers = {"User-Agent": USER_AGENT}
    if size:
        headers["Range"] = f"bytes={size}-"
        if md5 is None:
            headers["If-Range"] = email.utils.formatdate(os.fstat(file.fileno()).st_mtime, usegmt=True)
    try:
        response = build_opener(_Redirects(url, max_hops)).open(Request(url, headers=headers))
    except HTTPError as error:
        error.close()
        if error.code == UNSATISFIABLE and size:
            if md5 is not None and check_md5(file.name, md5):
                return url
            file.truncate(0)
            return _fetch(url, file, md5, max_hops)
        error.add_note(f"while downloading {url}")
        raise
    except URLError as error:
        error.add_note(f"while downloading {url}")
        if not url.startswith("https:") or md5 is None:
            raise
        return _fetch(url.replace("https:", "http:", 1), file, md5, max_hops)  # the checksum says whether it is the file
    with response:
        if _get_google_drive_file_id(response.url) is not None:
            return str(response.url)
        if response.status != 206 or not response.headers.get("Content-Range", "").startswith(f"bytes {size}-"):
            size = 0
            file.truncate(0)
        _receive(response, file, size)
    if md5 is not None and not check_md5(file.name, md5):
        file.truncate(0)
        if size:
            return _fetch(url, file, md5, max_hops)
        raise RuntimeError(f"File not found or corrupted. What {url} gives has not the MD5 checksum {md5}.")
    return str(response.url)


def _receive(response: Any, file: IO[bytes], size: int) -> None:
    """Append what a server sends to the ``size`` bytes that are there.

    Raises:
        RuntimeError: it sends less than it announced.
    """
    length, changed = response.headers.get("Content-Length"), response.headers.get("Last-Modified")
    announced = int(length) if length and length.isdigit() else None
    try:
        with tqdm(total=None if announced is None else size + announced, initial=size, unit="B", unit_scale=True) as bar:
            while chunk := response.read(CHUNK):
                file.write(chunk)
                bar.update(len(chunk))
    finally:
        file.flush()
        if changed:
            time = email.utils.parsedate_to_datetime(changed).timestamp()
            os.utime(file.name, (time, time))
    received = os.fstat(file.fileno()).st_size - size
    if announced is not None and received != announced:
        raise RuntimeError(
            f"download_url: expected {announced} bytes from {response.url}, got {received}; the connection was cut. "
            "A further call goes on from there."
        )


def download_file_from_google_drive(file_id: str, root: PathLike, filename: PathLike | None = None, md5: str | None = None) -> None:
    """Download a file from Google Drive into a folder, unless it is there; by the package gdown.

    Args:
        file_id: what it is called there.
        root: folder.
        filename: name in the folder; ``file_id`` when None.
        md5: checksum of the file.
    Raises:
        RuntimeError: gdown is not installed, or another checksum.
    Source: torchvision.datasets.utils.download_file_from_google_drive.
    Example:
        >>> download_file_from_google_drive("1xq9b6aX", root, filename="labels.txt")
        >>> os.listdir(root)
        ['labels.txt']
    """
    try:
        gdown = importlib.import_module("gdown")
    except ModuleNotFoundError:
        raise RuntimeError("To download files from GDrive, 'gdown' is required. You can install it with 'pip install gdown'.") from None
    root = os.path.expanduser(root)
    path = os.path.join(root, os.fspath(filename) if filename else file_id)
    os.makedirs(root, exist_ok=True)
    if check_integrity(path, md5):
        return
    gdown.download(id=file_id, output=path, quiet=False, user_agent=USER_AGENT)
    if not check_integrity(path, md5):
        raise RuntimeError(f"File not found or corrupted. What Google Drive gives for {file_id} has not the MD5 checksum {md5}.")


# -- archives -------------------------------------------------------------------------------------------------------------
OPENERS: dict[str, Callable[..., Any]] = {".bz2": bz2.open, ".gz": gzip.open, ".xz": lzma.open}
ALIASES = {".tbz": (".tar", ".bz2"), ".tbz2": (".tar", ".bz2"), ".tgz": (".tar", ".gz")}
DAMAGE = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError, ValueError)


def _extract_tar(path: PathLike, folder: str) -> None:
    if not hasattr(tarfile, "data_filter"):
        raise RuntimeError("extract_archive: unpacking tar archives safely needs Python 3.11.4 or newer")
    with tarfile.open(path) as archive:
        archive.extractall(folder, filter="data")  # nothing outside of the folder, no devices


def _extract_zip(path: PathLike, folder: str) -> None:
    with zipfile.ZipFile(path) as archive:
        extract_inside(archive, folder)


EXTRACTORS: dict[str, Callable[[PathLike, str], None]] = {".tar": _extract_tar, ".zip": _extract_zip}


def _detect_file_type(file: PathLike) -> tuple[str, str | None, str | None]:
    """Ending of a file's name, and the archive and the compression that it stands for.

    Raises:
        RuntimeError: none, or one that is unknown.
    """
    suffixes = pathlib.Path(file).suffixes
    if not suffixes:
        raise RuntimeError(f"File '{os.fspath(file)}' has no suffixes that could be used to detect the archive type and compression.")
    last, before = suffixes[-1], suffixes[-2] if len(suffixes) > 1 else ""
    if last in ALIASES:
        return (last, *ALIASES[last])
    if last in EXTRACTORS:
        return last, last, None
    if last in OPENERS:
        return (before + last, before, last) if before in EXTRACTORS else (last, None, last)
    known = sorted({*ALIASES, *EXTRACTORS, *OPENERS})
    raise RuntimeError(f"Unknown compression or archive type: '{last}'.\nKnown suffixes are: '{known}'.")


@contextlib.contextmanager
def _naming_damage(path: PathLike) -> Iterator[None]:
    """Say which archive is damaged, or reaches outside of its folder."""
    try:
        yield
    except DAMAGE as error:
        raise RuntimeError(f"The archive {os.fspath(path)} is damaged, or not what its name says: {error}") from error


def _decompress(from_path: PathLike, to_path: PathLike | None = None, remove_finished: bool = False) -> pathlib.Path:
    """Unpack one compressed file, under the name ``to_path``, or without the ending of the compression.

    Raises:
        RuntimeError: no compression by its name, or damaged.
    """
    suffix, archive_type, compression = _detect_file_type(from_path)
    if not compression:
        raise RuntimeError(f"Couldn't detect a compression from suffix {suffix}.")
    target = pathlib.Path(to_path or os.fspath(from_path).removesuffix(suffix) + (archive_type or ""))
    with _naming_damage(from_path), OPENERS[compression](from_path, "rb") as packed:
        replace_file(target, lambda file: shutil.copyfileobj(packed, file))
    if remove_finished:
        os.remove(from_path)
    return target


def _move_into(source: str, target: str) -> None:
    """Move the entries of a folder into another, which may have folders of the same names."""
    for entry in os.scandir(source):
        place = os.path.join(target, entry.name)
        if entry.is_dir(follow_symlinks=False) and os.path.isdir(place):
            _move_into(entry.path, place)
        else:
            os.replace(entry.path, place)


def extract_archive(from_path: PathLike, to_path: PathLike | None = None, remove_finished: bool = False) -> PathLike:
    """Unpack an archive, or a compressed file; what is in it appears when all of it is unpacked.

    Args:
        from_path: archive; the ending of its name says of which kind: ``.zip``, ``.tar``, ``.tar.gz``, ``.tgz``, ``.tbz``, ``.gz``, ...
        to_path: folder; the archive's own when None.
        remove_finished: remove the archive then.
    Returns:
        The folder, or the file's path.
    Raises:
        RuntimeError: an unknown ending, damaged, or with something that would lie outside of the folder.
    Source: torchvision.datasets.utils.extract_archive.
    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with zipfile.ZipFile(f"{folder}/a.zip", "w") as archive:
        ...         archive.writestr("a.txt", "hello")
        ...     extract_archive(f"{folder}/a.zip", f"{folder}/unpacked") == f"{folder}/unpacked", os.listdir(f"{folder}/unpacked")
        (True, ['a.txt'])
    """
    folder = os.fspath(to_path) if to_path is not None else os.path.dirname(from_path)
    suffix, archive_type, _ = _detect_file_type(from_path)
    if archive_type is None:
        path = _decompress(from_path, os.path.join(folder, os.path.basename(from_path).removesuffix(suffix)), remove_finished)
    else:
        path = pathlib.Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path, prefix=".extracting-") as scratch:
            with _naming_damage(from_path):
                EXTRACTORS[archive_type](from_path, scratch)
            _move_into(scratch, str(path))
        if remove_finished:
            os.remove(from_path)
    return os.fspath(path) if isinstance(from_path, str) else path


def download_and_extract_archive(
    url: str,
    download_root: PathLike,
    extract_root: PathLike | None = None,
    filename: PathLike | None = None,
    md5: str | None = None,
    remove_finished: bool = False,
) -> None:
    """Download an archive and unpack it.

    Args:
        url: of the archive.
        download_root: folder for the archive.
        extract_root: folder for what is in it; ``download_root`` when None.
        filename, md5: as for :func:`download_url`.
        remove_finished: remove the archive then.
    Raises:
        RuntimeError: as for :func:`download_url` and :func:`extract_archive`.
    Source: torchvision.datasets.utils.download_and_extract_archive.
    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with zipfile.ZipFile(f"{folder}/a.zip", "w") as archive:
        ...         archive.writestr("a.txt", "hello")
        ...     download_and_extract_archive(pathlib.Path(folder, "a.zip").as_uri(), f"{folder}/unpacked")
        ...     sorted(os.listdir(f"{folder}/unpacked"))
        ['a.txt', 'a.zip']
    """
    download_root = os.path.expanduser(download_root)
    filename = filename or os.path.basename(url)
    download_url(url, download_root, filename, md5)
    extract_archive(os.path.join(download_root, filename), download_root if extract_root is None else extract_root, remove_finished)


# -- folders, arguments, formats ------------------------------------------------------------------------------------------
def list_dir(root: PathLike, prefix: bool = False) -> list[str]:
    """Folders in a folder, with its path before their names or without.

    Args:
        root: a folder.
        prefix: whether names begin with the folder.
    Returns:
        A list of names.
    Source: torchvision.datasets.utils.list_dir.
    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     os.mkdir(f"{folder}/cat")
        ...     list_dir(folder)
        ['cat']
    """
    root = os.path.expanduser(root)
    names = [name for name in os.listdir(root) if os.path.isdir(os.path.join(root, name))]
    return [os.path.join(root, name) for name in names] if prefix else names


def list_files(root: PathLike, suffix: str | tuple[str, ...], prefix: bool = False) -> list[str]:
    """Files in a folder whose names end so, with its path before them or without.

    Args:
        root: a folder.
        suffix: what names end with.
        prefix: whether names begin with the folder.
    Returns:
        A list of names.
    Source: torchvision.datasets.utils.list_files.
    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     size = pathlib.Path(folder, "a.txt").write_text("hello")
        ...     list_files(folder, ".txt")
        ['a.txt']
    """
    root = os.path.expanduser(root)
    names = [name for name in os.listdir(root) if name.endswith(suffix) and os.path.isfile(os.path.join(root, name))]
    return [os.path.join(root, name) for name in names] if prefix else names


def iterable_to_str(iterable: Iterable[Any]) -> str:
    """Elements as text, in quotation marks, with commas between.

    Args:
        iterable: things.
    Returns:
        A string.
    Source: torchvision.datasets.utils.iterable_to_str.
    Example:
        >>> iterable_to_str(['train', 'test'])
        "'train', 'test'"
    """
    return "'" + "', '".join(map(str, iterable)) + "'"


def verify_str_arg(value: _T, arg: str | None = None, valid_values: Iterable[_T] | None = None, custom_msg: str | None = None) -> _T:
    """``value``, where it is a string and one of those that are valid.

    Args:
        value: anything.
        arg: name of the argument.
        valid_values: the words that it may be; any when None.
        custom_msg: message of the error.
    Returns:
        The value.
    Raises:
        ValueError: something else; with ``custom_msg`` where there is one.
    Source: torchvision.datasets.utils.verify_str_arg.
    Example:
        >>> verify_str_arg('train', 'split', ('train', 'test'))
        'train'
    """
    if not isinstance(value, str):
        name = "" if arg is None else f" for argument {arg}"
        raise ValueError(f"Expected type str{name}, but got type {type(value)}.")
    if valid_values is not None and value not in valid_values:
        known = iterable_to_str(valid_values)
        raise ValueError(
            custom_msg if custom_msg is not None else f"Unknown value '{value}' for argument {arg}. Valid values are {{{known}}}."
        )
    return value


def _read_pfm(file_name: PathLike, slice_channels: int = 2) -> Any:
    """``(slice_channels, H, W)``, float32, of a portable float map.

    Raises:
        ValueError: no such file, or damaged.
    """
    with open(file_name, "rb") as file:
        kind = file.readline().rstrip()
        size = re.match(rb"^(\d+)\s(\d+)\s$", file.readline())
        if kind not in (b"PF", b"Pf") or size is None:
            raise ValueError(f"Invalid PFM file: {os.fspath(file_name)}")
        order = "<" if float(file.readline().rstrip()) < 0 else ">"
        values = np.fromfile(file, dtype=f"{order}f4")
    width, height, channels = int(size[1]), int(size[2]), 3 if kind == b"PF" else 1
    if values.size != width * height * channels:
        raise ValueError(f"Invalid PFM file: {os.fspath(file_name)} is cut")
    # The lowest row comes first.
    return values.reshape(height, width, channels).transpose(2, 0, 1)[:slice_channels, ::-1].astype(np.float32)
