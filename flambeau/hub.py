"""Models and weights from the network: ``load`` runs an entry of a repository's ``hubconf.py``, ``load_state_dict_from_url`` reads a file.

What is downloaded stays below ``get_dir()``, and is only there once it is whole. Repositories come from GitHub, or from where the
environment variables ``FLAMBEAU_GITHUB`` and ``FLAMBEAU_GITHUB_API`` say. Source: torch.hub.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import hashlib
import importlib.util
import json
import os
import re
import sys
import tempfile
import uuid
import warnings
import zipfile
from collections.abc import Iterator
from types import ModuleType
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlparse
from urllib.request import Request, urlopen

from .core.calls.interruption import pass_on
from .core.replacing import replace_file
from .serialization import load as load_file

try:
    from tqdm import tqdm  # type: ignore[import-untyped,unused-ignore]
except ModuleNotFoundError:

    class tqdm:  # type: ignore[no-redef]
        """A progress bar without a bar, for want of tqdm: the share that is done, on stderr."""

        def __init__(self, total: float | None = None, disable: bool = False, initial: int = 0, **kwargs: Any) -> None:
            self.total, self.disable, self.n = total, disable, initial

        def update(self, n: int = 1) -> None:
            self.n += n
            if not self.disable:
                done = f"{self.n} bytes" if self.total is None else f"{100 * self.n / max(self.total, 1):.1f}%"
                sys.stderr.write(f"\r{done}")
                sys.stderr.flush()

        def close(self) -> None:
            if not self.disable:
                sys.stderr.write("\n")

        def __enter__(self) -> tqdm:
            return self

        def __exit__(self, *exc_info: object) -> None:
            self.close()


__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

CHUNK = 1 << 17  # bytes
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
TRUSTED_OWNERS = ("facebookresearch", "facebookincubator", "pytorch", "fairinternal")

_dir: str | None = None  # what set_dir set


# -- where things are kept ------------------------------------------------------------------------------------------------
def _get_torch_home() -> str:
    cache = os.getenv("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir() -> str:
    """The folder of what is downloaded: that of ``set_dir``, or else ``hub`` below ``$TORCH_HOME``.

    Without that variable it is below ``$XDG_CACHE_HOME/torch``, or ``~/.cache/torch``.

    Returns: a path.
    Source: torch.hub.get_dir.
    Example:
        >>> torch.hub.get_dir().endswith("hub")
        True
    """
    if os.getenv("TORCH_HUB"):
        warnings.warn("TORCH_HUB is deprecated, please use env TORCH_HOME instead", stacklevel=2)
    return _dir if _dir is not None else os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Keeps downloads in ``d``.

    Args:
        d: path of the folder; ``~`` is the home folder.
    Source: torch.hub.set_dir.
    Example:
        >>> before = torch.hub.get_dir()
        >>> torch.hub.set_dir("models")
        >>> torch.hub.get_dir()
        'models'
        >>> torch.hub.set_dir(before)
    """
    global _dir
    _dir = os.path.expanduser(d)


# -- one file -------------------------------------------------------------------------------------------------------------
def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Download one file. ``dst`` appears when all of it is there and its hash is right.

    Args:
        url: of the file.
        dst: name of the file to write.
        hash_prefix: what the SHA-256 of the contents, in hexadecimal, begins with.
        progress: show a bar on stderr.
    Raises:
        RuntimeError: another hash, or fewer bytes than the server announced.
    Source: torch.hub.download_url_to_file.
    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     size = pathlib.Path(folder, "a.txt").write_text("hello")
        ...     torch.hub.download_url_to_file(pathlib.Path(folder, "a.txt").as_uri(), f"{folder}/b.txt", progress=False)
        ...     pathlib.Path(folder, "b.txt").read_text()
        'hello'
    """
    request = Request(url, headers={"User-Agent": "torch.hub"})
    dst = os.path.expanduser(dst)
    with urlopen(request) as response:
        announced = response.headers.get("Content-Length")
        total = int(announced) if announced and announced.isdigit() else None

        def fetch(file: IO[bytes]) -> None:
            digest, count = hashlib.sha256(), 0
            with tqdm(total=total, disable=not progress, unit="B", unit_scale=True, unit_divisor=1024) as bar:
                while chunk := response.read(CHUNK):
                    file.write(chunk)
                    digest.update(chunk)
                    count += len(chunk)
                    bar.update(len(chunk))
            if total is not None and count != total:
                raise RuntimeError(f"download_url_to_file: expected {total} bytes from {url}, got {count}; the connection was cut")
            if hash_prefix is not None and not digest.hexdigest().startswith(hash_prefix):
                raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{digest.hexdigest()}")')

        replace_file(dst, fetch)


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> dict[str, Any]:
    """``torch.load`` of a file from the network, which is downloaded once.

    Args:
        url: of the file; its last part is the file's name.
        model_dir: folder of the file; ``checkpoints`` below ``get_dir()`` when None.
        map_location: see ``torch.load``.
        progress: show a bar on stderr.
        check_hash: the name is ``name-<sha256>.ext``, with at least the first eight digits of the contents' hash, and is checked.
        file_name: name of the file, where it is not to be the URL's.
        weights_only: see ``torch.load``; with False the file can run any code.
    Returns: the loaded object, mostly a dict from names to tensors.
    Raises:
        RuntimeError: another hash, or a file that cannot be read.
        ValueError: a zip archive of one file that would be unpacked outside of its folder.
    Source: torch.hub.load_state_dict_from_url.
    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     torch.save({"bias": torch.ones(2)}, f"{folder}/weights.pt")
        ...     torch.hub.load_state_dict_from_url(pathlib.Path(folder, "weights.pt").as_uri(), folder)
        {'bias': tensor([1., 1.])}
    """
    if os.getenv("TORCH_MODEL_ZOO"):
        warnings.warn("TORCH_MODEL_ZOO is deprecated, please use env TORCH_HOME instead", stacklevel=2)
    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(folder, exist_ok=True)
    name = os.path.basename(urlparse(url).path) if file_name is None else file_name
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        sys.stderr.write(f'Downloading: "{url}" to {path}\n')
        in_name = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, in_name.group(1) if in_name else None, progress=progress)
    inner = _only_member(path)
    if inner is not None:
        warnings.warn(
            "Falling back to the old format < 1.6. This support will be deprecated in favor of default zipfile format introduced in 1.6. "
            "Please redo torch.save() to save it in the new zipfile format.",
            stacklevel=2,
        )
        with zipfile.ZipFile(path) as archive:
            _extract(archive, folder)
        path = os.path.join(folder, inner)
    result: dict[str, Any] = load_file(path, map_location=map_location, weights_only=weights_only)
    return result


def _only_member(path: str) -> str | None:
    """The name of the file in an archive of a single one, as weights were once packed."""
    if not zipfile.is_zipfile(path):
        return None
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    return members[0].filename if len(members) == 1 and not members[0].is_dir() else None


def _extract(archive: zipfile.ZipFile, folder: str) -> None:
    """Unpack an archive, no part of which may lie outside of ``folder``."""
    root = os.path.realpath(folder)
    for member in archive.infolist():
        name = member.filename
        if ".." in re.split(r"[/\\]", name):
            raise ValueError(f"Archive entry contains directory traversal: {name}")
        target = os.path.realpath(os.path.join(root, name))
        if os.path.isabs(name) or os.path.splitdrive(name)[0] or os.path.commonpath((root, target)) != root:
            raise ValueError(f"Archive entry has an absolute path: {name}")
    archive.extractall(folder)


# -- repositories ---------------------------------------------------------------------------------------------------------
def _github() -> str:
    return os.getenv("FLAMBEAU_GITHUB", "https://github.com").rstrip("/")


def _github_api() -> str:
    return os.getenv("FLAMBEAU_GITHUB_API", "https://api.github.com").rstrip("/")


def _git_archive_link(repo_owner: str, repo_name: str, ref: str) -> str:
    return f"{_github()}/{repo_owner}/{repo_name}/zipball/{ref}"


def _parse_repo_info(github: str) -> tuple[str, str, str]:
    """Owner, name, and the branch or tag, which is looked up where it is not given.

    Raises:
        ValueError: not ``owner/name`` or ``owner/name:ref``.
        RuntimeError: it cannot be looked up.
    """
    repository, _, ref = github.partition(":")
    parts = repository.split("/")
    if len(parts) != 2 or not all(parts):
        raise ValueError(f"expected a repository as owner/name or owner/name:ref, got {github!r}")
    owner, name = parts
    if ref:
        return owner, name, ref
    try:
        with urlopen(f"{_github()}/{owner}/{name}/tree/main/"):
            return owner, name, "main"
    except HTTPError as error:
        if error.code != 404:
            raise
        return owner, name, "master"
    except URLError:
        for branch in ("main", "master"):
            if os.path.exists(os.path.join(get_dir(), _folder_name(owner, name, branch))):
                return owner, name, branch
        raise RuntimeError(
            f"It looks like there is no internet connection and the repo could not be found in the cache ({get_dir()})"
        ) from None


def _folder_name(owner: str, name: str, ref: str) -> str:
    return "_".join(re.sub(r"[/\\]", "_", part) for part in (owner, name, ref))


def _validate_not_a_forked_repo(repo_owner: str, repo_name: str, ref: str) -> None:
    """Whether ``ref`` is the repository's own: GitHub serves commits of forks under their origin's name."""
    headers = {"Accept": "application/vnd.github.v3+json", "User-Agent": "torch.hub"}
    token = os.getenv("GITHUB_TOKEN")
    if token:
        headers["Authorization"] = f"token {token}"
    for kind in ("branches", "tags"):
        page = 0
        while True:
            page += 1
            url = f"{_github_api()}/repos/{repo_owner}/{repo_name}/{kind}?per_page=100&page={page}"
            try:
                entries = _json(url, headers)
            except HTTPError:
                if headers.pop("Authorization", None) is None:
                    raise
                entries = _json(url, headers)  # the token may lack the permission
            if not entries:
                break
            if any(entry["name"] == ref or entry["commit"]["sha"].startswith(ref) for entry in entries):
                return
    raise ValueError(
        f"Cannot find {ref} in https://github.com/{repo_owner}/{repo_name}. If it's a commit from a forked repo, please call hub.load() "
        "with forked repo directly."
    )


def _json(url: str, headers: dict[str, str]) -> Any:
    with urlopen(Request(url, headers=headers)) as response:
        return json.loads(response.read())


def _check_repo_is_trusted(repo_owner: str, repo_name: str, owner_name_branch: str, trust_repo: bool | str | None) -> None:
    """Ask whether the code of a repository may be run, where it was not asked before.

    Raises:
        ValueError: another ``trust_repo`` than True, False and "check", or an answer that is neither yes nor no.
        Exception: the answer is no.
    """
    if trust_repo not in (True, False, "check", None):
        raise ValueError(f'hub: expected trust_repo to be True, False or "check", got {trust_repo!r}')
    folder, name = get_dir(), f"{repo_owner}_{repo_name}"
    path = os.path.join(folder, "trusted_list")
    trusted: builtins.list[str] = []
    if os.path.exists(path):
        with open(path) as file:
            trusted = file.read().splitlines()
    # Repositories that are there without being listed were loaded before there was a list.
    is_known = name in trusted or repo_owner in TRUSTED_OWNERS or os.path.exists(os.path.join(folder, owner_name_branch))
    if trust_repo is False or (trust_repo in ("check", None) and not is_known):
        answer = input(
            f"The repository {name} does not belong to the list of trusted repositories and as such cannot be downloaded. Do you trust "
            "this repository and wish to add it to the trusted list of repositories (y/N)?"
        )
        if answer.lower() not in ("y", "yes"):
            if answer.lower() in ("", "n", "no"):
                raise Exception("Untrusted repository.")
            raise ValueError(f"Unrecognized response {answer}.")
        if is_known:
            print("The repository is already trusted.")
    if is_known:
        return
    if name not in trusted:
        with open(path, "a") as file:
            file.write(name + "\n")


def _get_cache_or_reload(github: str, force_reload: bool, trust_repo: bool | str | None, verbose: bool, skip_validation: bool) -> str:
    """The folder of a repository, downloaded where it is not there."""
    os.makedirs(get_dir(), exist_ok=True)
    owner, name, ref = _parse_repo_info(github)
    folder_name = _folder_name(owner, name, ref)
    folder = os.path.join(get_dir(), folder_name)
    _check_repo_is_trusted(owner, name, folder_name, trust_repo)
    if not force_reload and os.path.exists(folder):
        if verbose:
            sys.stderr.write(f"Using cache found in {folder}\n")
        return folder
    if not skip_validation:
        _validate_not_a_forked_repo(owner, name, ref)
    with tempfile.TemporaryDirectory(dir=get_dir(), prefix=".download-") as scratch:
        packed = os.path.join(scratch, "repository.zip")
        _download_archive(owner, name, ref, packed)
        with zipfile.ZipFile(packed) as archive:
            names = archive.namelist()
            _extract(archive, scratch)
        tops = {entry.partition("/")[0] for entry in names}
        if len(tops) != 1:
            raise RuntimeError(f"hub: expected one folder in the archive of {github}, got {len(tops)} entries")
        before = os.path.join(scratch, uuid.uuid4().hex)
        try:
            if force_reload and os.path.exists(folder):
                os.rename(folder, before)
            os.rename(os.path.join(scratch, tops.pop()), folder)
        except BaseException as error:
            try:
                os.rename(before, folder)
            except OSError as other:  # it was never moved, or the new one has its place
                pass_on(other)
            # another process was there first
            if not isinstance(error, OSError) or error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
    return folder


def _download_archive(owner: str, name: str, ref: str, path: str) -> None:
    url = _git_archive_link(owner, name, ref)
    sys.stderr.write(f'Downloading: "{url}" to {path}\n')
    try:
        download_url_to_file(url, path, progress=False)
    except HTTPError as error:
        if error.code != 300:
            raise
        warnings.warn(
            f"The ref {ref} is ambiguous. Perhaps it is both a tag and a branch in the repo? Torchhub will now assume that it's a branch. "
            "You can disambiguate tags and branches by explicitly passing refs/heads/branch_name or refs/tags/tag_name as the ref. That "
            "might require using skip_validation=True.",
            stacklevel=5,
        )
        download_url_to_file(_git_archive_link(owner, name, f"refs/heads/{ref}"), path, progress=False)


# -- entries of hubconf.py ------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def _hubconf(folder: str) -> Iterator[ModuleType]:
    """The module ``hubconf.py`` of a folder, whose other modules can be imported inside the ``with`` block."""
    sys.path.insert(0, folder)
    try:
        spec = importlib.util.spec_from_file_location("hubconf.py", os.path.join(folder, "hubconf.py"))
        if spec is None or spec.loader is None:
            raise ImportError(f"hub: {folder} has no hubconf.py that can be imported")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)


def _entry(module: ModuleType, model: Any) -> Any:
    """The callable of that name, once its dependencies are there.

    Raises:
        ValueError: ``model`` is no string.
        RuntimeError: a dependency is missing, or there is no such callable.
    """
    if not isinstance(model, str):
        raise ValueError("Invalid input: model should be a string of function name")
    missing = [name for name in getattr(module, "dependencies", ()) if importlib.util.find_spec(name) is None]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    function = getattr(module, model, None)
    if not callable(function):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return function


def list(
    github: str, force_reload: bool = False, skip_validation: bool = False, trust_repo: bool | str = "check", verbose: bool = True
) -> builtins.list[str]:
    """Names of the callables that a repository offers.

    Args:
        github: ``owner/name`` or ``owner/name:ref``.
        force_reload, skip_validation, trust_repo, verbose: as for ``load``.
    Returns: a list of strings.
    Source: torch.hub.list.
    Example:
        >>> import pathlib, tempfile, unittest.mock
        >>> with tempfile.TemporaryDirectory() as cache, unittest.mock.patch.object(torch.hub, "get_dir", lambda: cache):
        ...     pathlib.Path(cache, "owner_name_main").mkdir()
        ...     written = pathlib.Path(cache, "owner_name_main", "hubconf.py").write_text("def double(x): return 2 * x")
        ...     torch.hub.list("owner/name:main", verbose=False)
        ['double']
    """
    with _hubconf(_get_cache_or_reload(github, force_reload, trust_repo, verbose, skip_validation)) as module:
        return [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]


def help(
    github: str, model: str, force_reload: bool = False, skip_validation: bool = False, trust_repo: bool | str = "check"
) -> str | None:
    """The docstring of one of a repository's callables.

    Args:
        github: ``owner/name`` or ``owner/name:ref``.
        model: the callable's name.
        force_reload, skip_validation, trust_repo: as for ``load``.
    Returns: a string, or None where there is no docstring.
    Source: torch.hub.help.
    Example:
        >>> import pathlib, tempfile, unittest.mock
        >>> with tempfile.TemporaryDirectory() as cache, unittest.mock.patch.object(torch.hub, "get_dir", lambda: cache):
        ...     pathlib.Path(cache, "owner_name_main").mkdir()
        ...     written = pathlib.Path(cache, "owner_name_main", "hubconf.py").write_text("def double(x): 'Twice x.'")
        ...     torch.hub.help("owner/name:main", "double")
        'Twice x.'
    """
    with _hubconf(_get_cache_or_reload(github, force_reload, trust_repo, True, skip_validation)) as module:
        doc: str | None = _entry(module, model).__doc__
        return doc


def load(
    repo_or_dir: str,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: bool | str = "check",
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """Call what ``hubconf.py`` of a repository or a folder offers under a name.

    Args:
        repo_or_dir: ``owner/name`` or ``owner/name:ref`` on GitHub, where ``ref`` is a branch or tag (when not given, ``main`` or else
            ``master``); or a folder, with ``source="local"``.
        model: the callable's name.
        args, kwargs: its arguments.
        source: ``"github"`` or ``"local"``.
        trust_repo: the code runs on this machine. ``"check"`` asks unless the repository is known, False asks always, True trusts it
            from here on.
        force_reload: download a repository that is there already.
        verbose: say so where it is not downloaded.
        skip_validation: do not ask GitHub whether ``ref`` belongs to the repository rather than to a fork. The environment variable
            ``GITHUB_TOKEN`` is used for that question.
    Returns:
        What the callable returned.
    Raises:
        ValueError: another ``source``, or a ``ref`` that is not the repository's.
        RuntimeError: a dependency is missing, or there is no such callable.
    Source: torch.hub.load.
    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     written = pathlib.Path(folder, "hubconf.py").write_text("def double(x): return 2 * x")
        ...     torch.hub.load(folder, "double", 4, source="local")
        8
    """
    source = source.lower()
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    folder = repo_or_dir if source == "local" else _get_cache_or_reload(repo_or_dir, force_reload, trust_repo, verbose, skip_validation)
    with _hubconf(folder) as module:
        return _entry(module, model)(*args, **kwargs)
