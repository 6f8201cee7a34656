"""A server for all tests of downloads, and the data sets in small."""

from __future__ import annotations

import email.utils
import functools
import http.server
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from small_datasets import Case


@dataclass
class Files:
    """What the server gives, and what it was asked for.

    Attributes:
        content: by path.
        redirects: where a path leads.
        cuts: numbers of bytes after which connections break, for the next requests of a path.
        modified: time that the server says of the files; None for a server that says none.
        takes_ranges: whether it sends parts.
        requests: path and headers of each.
    """

    url: str = ""
    content: dict[str, bytes] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    cuts: dict[str, list[int]] = field(default_factory=dict)
    modified: float | None = None
    takes_ranges: bool = True
    requests: list[tuple[str, Any]] = field(default_factory=list)

    def clear(self) -> None:
        self.modified, self.takes_ranges = None, True
        for table in (self.content, self.redirects, self.cuts, self.requests):
            table.clear()


class Handler(http.server.BaseHTTPRequestHandler):
    files: Files

    def do_GET(self) -> None:
        files, path = self.files, self.path.lstrip("/")
        files.requests.append((path, dict(self.headers)))
        if path in files.redirects:
            self.send_response(302)
            self.send_header("Location", files.redirects[path])
            self.end_headers()
            return
        if path not in files.content:
            self.send_error(404)
            return
        content, start = files.content[path], self.start()
        if start is not None and start >= len(content):
            self.send_error(416)
            return
        self.send_response(200 if start is None else 206)
        body = content[start or 0 :]
        self.send_header("Content-Length", str(len(body)))
        if start is not None:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if files.modified is not None:
            self.send_header("Last-Modified", email.utils.formatdate(files.modified, usegmt=True))
        self.end_headers()
        cuts = files.cuts.get(path)
        self.wfile.write(body[: cuts.pop(0)] if cuts else body)
        self.close_connection = True

    def start(self) -> int | None:
        """The first byte that is asked for; None for all."""
        wanted, condition = self.headers.get("Range"), self.headers.get("If-Range")
        if wanted is None or not self.files.takes_ranges:
            return None
        if condition is not None:
            modified = self.files.modified
            if modified is None or condition != email.utils.formatdate(modified, usegmt=True):
                return None
        return int(wanted.removeprefix("bytes=").rstrip("-"))

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="session")
def _running_server() -> Iterator[Files]:
    files = Files()
    handler = type("HandlerOfFiles", (Handler,), {"files": files})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=functools.partial(server.serve_forever, poll_interval=0.01), daemon=True)
        thread.start()
        files.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield files
        server.shutdown()
        thread.join()


@pytest.fixture
def files(_running_server: Files) -> Files:
    """The server's files, none at first."""
    _running_server.clear()
    return _running_server


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], Path]:
    """A function that gives the folder of a data set in small, which is written once."""
    folders: dict[int, Path] = {}

    def folder(case: Case) -> Path:
        if id(case) not in folders:
            folders[id(case)] = tmp_path_factory.mktemp(case.name)
            case.build(folders[id(case)])
        return folders[id(case)]

    return folder
