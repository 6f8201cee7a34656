"""``torch.hub`` against a server of the tests' own, and against PyTorch's, whose requests are sent there too."""

from __future__ import annotations

import builtins
import hashlib
import http.server
import io
import os
import pathlib
import re
import subprocess
import sys
import threading
import warnings
import zipfile
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from oracle import pytorch

import flambeau
from flambeau import hub
from flambeau.utils import model_zoo

HUBCONF = """
dependencies = ["numpy"]
from helper_of_hub import FACTOR

def scaled(number=3, **others):
    "Docs of scaled."
    return FACTOR * number, others

class Kind:
    pass

def _hidden():
    pass

value = 3
"""


def weights(**arguments: Any) -> bytes:
    buffer = io.BytesIO()
    flambeau.save({"weight": flambeau.ones(2)}, buffer, **arguments)
    return buffer.getvalue()


def packed(members: dict[str, bytes | str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


WEIGHTS, OLD = weights(), weights(_use_new_zipfile_serialization=False)
HASH = hashlib.sha256(WEIGHTS).hexdigest()
REPOSITORY = packed({"name-0123abc/": "", "name-0123abc/hubconf.py": HUBCONF, "name-0123abc/helper_of_hub.py": "FACTOR = 2"})
FILES = {
    "/w.pth": WEIGHTS,
    f"/w-{HASH[:8]}.pth": WEIGHTS,
    "/w-00000000.pth": WEIGHTS,
    "/old.zip": packed({"inner.pth": OLD}),
    "/evil.zip": packed({"../evil.pth": OLD}),
    "/own/name/tree/main/": b"",
    "/own/name/zipball/main": REPOSITORY,
    "/own/name/zipball/v1": REPOSITORY,
    "/own/name/zipball/feature/x": REPOSITORY,
    "/own/name/zipball/refs/heads/both": REPOSITORY,
    "/own/name/zipball/bad": packed({"a/hubconf.py": "", "../../out.py": ""}),
    "/api/repos/own/name/branches?per_page=100&page=1": b'[{"name": "main", "commit": {"sha": "0123abc"}}]',
    "/api/repos/own/name/branches?per_page=100&page=2": b"[]",
    "/api/repos/own/name/tags?per_page=100&page=1": b'[{"name": "v1", "commit": {"sha": "fff"}}]',
    "/api/repos/own/name/tags?per_page=100&page=2": b"[]",
}


class Server(http.server.ThreadingHTTPServer):
    """Serves ``FILES`` and remembers what was asked for."""

    daemon_threads = True

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.tokens: list[str | None] = []
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.server.tokens.append(self.headers.get("Authorization"))
        name = self.path if self.path.startswith("/api") else self.path.partition("?")[0]
        if name == "/own/name/zipball/both":
            self.send_error(300)
        elif name not in FILES:
            self.send_error(404)
        else:
            self.send_response(200)
            if "unannounced" not in self.path:
                self.send_header("Content-Length", str(len(FILES[name]) + (10 if "cut" in self.path else 0)))
            self.end_headers()
            self.wfile.write(FILES[name])

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    server = Server()
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    monkeypatch.setenv("FLAMBEAU_GITHUB", server.address)
    monkeypatch.setenv("FLAMBEAU_GITHUB_API", server.address + "/api")
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    monkeypatch.setattr(hub, "_dir", None)
    monkeypatch.delitem(sys.modules, "helper_of_hub", raising=False)
    yield server
    server.shutdown()
    server.server_close()
    sys.modules.pop("helper_of_hub", None)


def theirs(server: Server, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """PyTorch's hub, asking our server."""
    pytorch()
    module = pytorch("torch.hub")

    def redirected(request: Any, *args: Any, **kwargs: Any) -> Any:
        url = request if isinstance(request, str) else request.full_url
        url = url.replace("https://github.com", server.address).replace("https://api.github.com", server.address + "/api")
        if isinstance(request, str):
            request = url
        else:
            request.full_url = url
        return hub.urlopen(request, *args, **kwargs)

    monkeypatch.setattr(module, "urlopen", redirected)
    monkeypatch.setattr(module, "_hub_dir", None)
    return module


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        return type(error), str(error)


# -- one file -------------------------------------------------------------------------------------------------------------
def test_weights_are_downloaded_once(server: Server, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = server.address + "/w.pth?x=1"
    for _ in range(2):
        assert hub.load_state_dict_from_url(url)["weight"].tolist() == [1, 1]
    assert server.asked == ["/w.pth?x=1"]
    assert os.listdir(tmp_path / "home/hub/checkpoints") == ["w.pth"]
    said = capsys.readouterr().err
    assert f'Downloading: "{url}"' in said and re.search(r"100(\.0)?%", said)  # tqdm's words, or our own without it
    model_zoo.load_url(url, model_dir=str(tmp_path), progress=False, file_name="other.pth", map_location="meta")
    assert (tmp_path / "other.pth").read_bytes() == WEIGHTS and "100" not in capsys.readouterr().err


def test_the_hash_in_the_name_is_checked(server: Server, tmp_path: pathlib.Path) -> None:
    folder = str(tmp_path / "files")
    hub.load_state_dict_from_url(f"{server.address}/w-{HASH[:8]}.pth", folder, progress=False, check_hash=True)
    with pytest.raises(RuntimeError, match=f'expected "00000000", got "{HASH}"'):
        hub.load_state_dict_from_url(f"{server.address}/w-00000000.pth", folder, progress=False, check_hash=True)
    hub.load_state_dict_from_url(f"{server.address}/w.pth", folder, progress=False, check_hash=True)  # a name without one
    assert sorted(os.listdir(folder)) == sorted([f"w-{HASH[:8]}.pth", "w.pth"])


def test_what_is_cut_off_or_missing_leaves_nothing(server: Server, tmp_path: pathlib.Path) -> None:
    for url in ("/w.pth?cut", "/none.pth"):
        with pytest.raises((RuntimeError, hub.HTTPError), match="got|Not Found"):
            hub.download_url_to_file(server.address + url, str(tmp_path / "x"), progress=False)
    (tmp_path / "x").write_bytes(b"before")
    with pytest.raises(RuntimeError, match="invalid hash value"):
        hub.download_url_to_file(server.address + "/w.pth", str(tmp_path / "x"), hash_prefix="0", progress=False)
    assert (tmp_path / "x").read_bytes() == b"before" and os.listdir(tmp_path) == ["x"]
    hub.download_url_to_file(server.address + "/w.pth?unannounced", str(tmp_path / "x"), hash_prefix=HASH)
    assert (tmp_path / "x").read_bytes() == WEIGHTS


def test_weights_in_an_archive_are_unpacked_where_they_belong(server: Server, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "a" / "b"
    with pytest.warns(UserWarning, match="old format"):
        assert hub.load_state_dict_from_url(server.address + "/old.zip", str(folder), progress=False)["weight"].tolist() == [1, 1]
    with pytest.warns(UserWarning, match="old format"), pytest.raises(ValueError, match="traversal"):
        hub.load_state_dict_from_url(server.address + "/evil.zip", str(folder), progress=False)
    assert not (tmp_path / "a" / "evil.pth").exists()


def test_without_tqdm_the_share_is_shown(server: Server, tmp_path: pathlib.Path) -> None:
    program = (
        "import sys; sys.modules['tqdm'] = None\n"
        "from flambeau import hub\n"
        "for name in ('w.pth', 'w.pth?unannounced'):\n"
        f"    hub.download_url_to_file('{server.address}/' + name, {str(tmp_path / 'x')!r})\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "100.0%" in done.stderr and f"{len(WEIGHTS)} bytes" in done.stderr


# -- folders --------------------------------------------------------------------------------------------------------------
def test_folders_are_pytorchs(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    other = theirs(server, monkeypatch)
    for library in (hub, other):
        assert library.get_dir() == str(tmp_path / "home" / "hub")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        with monkeypatch.context() as context:
            context.delenv("TORCH_HOME")
            assert library._get_torch_home() == str(tmp_path / "torch")
        library.set_dir("~/somewhere")
        assert library.get_dir() == os.path.expanduser("~/somewhere")


# -- repositories ---------------------------------------------------------------------------------------------------------
def test_a_repository_is_downloaded_once(server: Server, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert hub.load("own/name", "scaled", 4, trust_repo=True, extra=1) == (8, {"extra": 1})
    assert server.asked == ["/own/name/tree/main/", "/api/repos/own/name/branches?per_page=100&page=1", "/own/name/zipball/main"]
    server.asked.clear()
    assert hub.load("own/name:main", "scaled") == (6, {}) and server.asked == []
    assert f"Using cache found in {tmp_path / 'home/hub/own_name_main'}" in capsys.readouterr().err
    assert hub.list("own/name:main", verbose=False) == ["scaled", "Kind"] and capsys.readouterr().err == ""
    assert hub.help("own/name:main", "scaled") == "Docs of scaled."
    hub.load("own/name:main", "scaled", force_reload=True, skip_validation=True)
    assert server.asked == ["/own/name/zipball/main"]
    assert sorted(os.listdir(tmp_path / "home/hub")) == ["own_name_main", "trusted_list"]
    assert str(tmp_path / "home/hub/own_name_main") not in sys.path


REFERENCES = [("own/name:v1", False), ("own/name:nope", False), ("own/name:feature/x", True), ("own/none", False)]


@pytest.mark.parametrize(("repository", "skips"), REFERENCES)
def test_references_are_checked_as_pytorch_checks_them(
    repository: str, skips: bool, server: Server, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    results = []
    for library in (hub, theirs(server, monkeypatch)):
        library.set_dir(tmp_path / library.__name__)
        sys.modules.pop("helper_of_hub", None)
        server.asked.clear()
        server.tokens.clear()
        result = outcome(lambda library=library: library.load(repository, "scaled", trust_repo=True, skip_validation=skips))
        results.append((result, [*server.asked], [*server.tokens]))
    assert results[0] == results[1]


def test_a_branch_of_a_tags_name(server: Server) -> None:
    with pytest.warns(UserWarning, match="ambiguous"):
        assert hub.load("own/name:both", "scaled", trust_repo=True, skip_validation=True) == (6, {})
    assert server.asked == ["/own/name/zipball/both", "/own/name/zipball/refs/heads/both"]


def test_an_archive_that_leaves_its_folder_is_refused(server: Server, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="traversal"):
        hub.load("own/name:bad", "scaled", trust_repo=True, skip_validation=True)
    assert os.listdir(tmp_path / "home/hub") == ["trusted_list"]


def test_without_a_network_the_cache_serves(server: Server, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.load("own/name", "scaled", trust_repo=True)
    monkeypatch.setenv("FLAMBEAU_GITHUB", "http://127.0.0.1:9")  # the discard port, where nobody listens
    assert hub.load("own/name", "scaled") == (6, {})
    with pytest.raises(RuntimeError, match="no internet connection"):
        hub.load("own/other", "scaled", trust_repo=True)
    for wrong in ("own", "a/b/c", "/b"):
        with pytest.raises(ValueError, match="owner/name"):
            hub.load(wrong, "scaled")


TRUST = [
    ("check", "n"), ("check", ""), ("check", "maybe"), ("check", "Y"), (False, "no"), (False, "yes"), (True, None),
]  # fmt: skip


@pytest.mark.parametrize("known", ["unknown", "listed", "there", "owned"])
@pytest.mark.parametrize(("trust", "answer"), TRUST)
def test_trust_is_asked_for_as_in_pytorch(
    trust: Any, answer: str | None, known: str, server: Server, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = []
    for library in (hub, theirs(server, monkeypatch)):
        folder = tmp_path / library.__name__
        (folder / "o_n_main").mkdir(parents=True) if known == "there" else folder.mkdir()
        if known == "listed":
            (folder / "trusted_list").write_text("x_y\no_n\n")
        library.set_dir(folder)
        questions: list[str] = []

        def reply(question: str = "", questions: list[str] = questions) -> str:
            questions.append(question)
            assert answer is not None
            return answer

        monkeypatch.setattr(builtins, "input", reply)
        owner = "pytorch" if known == "owned" else "o"
        result = outcome(lambda library=library, owner=owner: library._check_repo_is_trusted(owner, "n", f"{owner}_n_main", trust))
        listed = (folder / "trusted_list").read_text() if (folder / "trusted_list").exists() else ""
        results.append((result, questions, listed))
    assert results[0] == results[1]


def test_trust_of_another_kind_is_an_error(server: Server) -> None:
    with pytest.raises(ValueError, match="trust_repo"):
        hub.load("own/name:main", "scaled", trust_repo="always")


# -- local folders --------------------------------------------------------------------------------------------------------
@pytest.fixture
def local(tmp_path: pathlib.Path) -> str:
    folder = tmp_path / "local"
    folder.mkdir()
    (folder / "hubconf.py").write_text(HUBCONF)
    (folder / "helper_of_hub.py").write_text("FACTOR = 5")
    return str(folder)


CALLS: dict[str, Callable[[Any, str], Any]] = {
    "called": lambda library, folder: library.load(folder, "scaled", 2, source="local", more=1),
    "missing": lambda library, folder: library.load(folder, "nothing", source="local"),
    "not callable": lambda library, folder: library.load(folder, "value", source="local"),
    "no name": lambda library, folder: library.load(folder, 3, source="local"),
    "no source": lambda library, folder: library.load(folder, "scaled", source="else"),
    "no folder": lambda library, folder: library.load(folder + "none", "scaled", source="local"),
}


@pytest.mark.parametrize("name", CALLS)
def test_local_folders_are_as_in_pytorch(name: str, local: str, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for library in (hub, theirs(server, monkeypatch)):
        sys.modules.pop("helper_of_hub", None)
        results.append(outcome(lambda library=library: CALLS[name](library, local)))
    assert results[0] == results[1]
    assert local not in sys.path


def test_missing_dependencies_are_named(local: str, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    path = pathlib.Path(local) / "hubconf.py"
    path.write_text(HUBCONF.replace('"numpy"', '"numpy", "not_there_a", "not_there_b"'))
    for library in (hub, theirs(server, monkeypatch)):
        with pytest.raises(RuntimeError, match="Missing dependencies: not_there_a, not_there_b"):
            library.load(local, "scaled", source="local")


def test_names_and_arguments_are_pytorchs(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    import inspect

    other = theirs(server, monkeypatch)
    assert sorted(hub.__all__) == sorted(other.__all__)
    for name in hub.__all__:
        ours, wanted = (inspect.signature(getattr(library, name)) for library in (hub, other))
        assert [(p.name, p.default, p.kind) for p in ours.parameters.values()] == [
            (p.name, p.default, p.kind) for p in wanted.parameters.values()
        ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert set(model_zoo.__all__) <= set(dir(pytorch("torch.utils.model_zoo")))
