"""A small client of visdom's server: curves, pictures and text in windows of a page, or kept here where there is no server.

The messages are visdom's own, so that any of its servers shows them. Source: visdom.Visdom, of which the methods below are a part; programs
that use others run with the visdom package itself, which takes flambeau's tensors (``python -m flambeau script.py``).
"""

from __future__ import annotations

import base64
import io
import json
import logging
import math
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Sequence
from typing import Any, NoReturn
from urllib.parse import quote, urlparse

import numpy as np

from ..core.tensor import Tensor

__all__ = ["Visdom"]

logger = logging.getLogger(__name__)
ELSEWHERE = frozenset(
    (
        "audio bar boxplot clear_event_handlers contour dual_axis_lines embeddings fork_env graph heatmap histogram matplot mesh pie "
        "plotlyplot properties quiver register_event_handler scatter set_window_data stem sunburst surf svg update_window_opts "
        "video win_hash"
    ).split()
)
AXIS = {"type": "type", "title": "label", "tickvals": "tickvals", "ticktext": "ticklabels", "dtick": "tickstep", "showticklabels": "tick"}
AXIS_OPTIONS = ("type", "label", "tickmin", "tickmax", "tickvals", "ticklabels", "tick", "tickfont")


def _array(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().cpu().numpy()
    return np.array(value) if isinstance(value, list) else value


def _without_none(value: Any) -> Any:
    """A dictionary without the entries that are None, at any depth."""
    if not isinstance(value, dict):
        return value
    return {key: _without_none(item) for key, item in value.items() if item is not None}


def _numbers(values: np.ndarray) -> list[Any]:
    """Numbers for JSON, which has no NaN."""
    return [None if isinstance(value, float) and math.isnan(value) else value for value in values.tolist()]


def _axis(letter: str, opts: dict[str, Any]) -> dict[str, Any] | None:
    if not any(opts.get(letter + option) for option in AXIS_OPTIONS):
        return None
    limits = [opts.get(f"{letter}tickmin"), opts.get(f"{letter}tickmax")]
    axis = {key: opts.get(letter + option) for key, option in AXIS.items()}
    return {**axis, "range": limits if limits[0] and limits[1] is not None else None, "tickfont": opts.get(f"{letter}tickfont")}


def _layout(opts: dict[str, Any]) -> dict[str, Any]:
    margins = {side[0]: opts.get(f"margin{side}", 60) for side in ("left", "right", "top", "bottom")}
    layout = {"showlegend": opts.get("showlegend", "legend" in opts), "title": opts.get("title"), "margin": margins}
    layout |= {"xaxis": _axis("x", opts), "yaxis": _axis("y", opts)}
    return _without_none(layout | (opts.get("layoutopts") or {}).get("plotly", {}))


class Visdom:
    """A connection to a plot server, or with ``offline=True`` to nothing: windows are kept here, for ``get_window_data``.

    Args:
        server: address of the server, with its port in ``port`` and the path below which it lies in ``base_url``.
        endpoint: not looked at, as in visdom.
        ipv6: not looked at, as in visdom.
        env: the page of windows that is meant where none is named.
        send: False has every method return (message, endpoint) instead.
        raise_exceptions: True raises ConnectionError where the server is unreachable; otherwise methods return False and log a line.
        use_incoming_socket: whether the server may report what users do on the page. No such connection is opened, and
            ``register_event_handler``, which needs it, does not exist.
        log_to_filename: a line of JSON is added to this file for each message that draws something.
        proxies: as ``{"http": "host:port"}``.
        offline: keep windows in this object; no server is contacted.

    Example:
        >>> from flambeau.visdom import Visdom
        >>> vis = Visdom(offline=True)
        >>> for epoch in range(3):
        ...     window = vis.line(X=torch.tensor([epoch]), Y=torch.tensor([1 / (epoch + 1)]), win="loss", name="train", update="append")
        >>> json.loads(vis.get_window_data("loss"))["content"]["data"][0]["x"]
        [0.0, 1.0, 2.0]

    Raises:
        NotImplementedError: ``username``, ``use_polling`` or the deprecated arguments for proxies.
    Source: visdom.Visdom.
    """

    def __init__(
        self,
        server: str = "http://localhost",
        endpoint: str = "events",
        port: int = 8097,
        base_url: str = "/",
        ipv6: bool = True,
        http_proxy_host: str | None = None,
        http_proxy_port: int | None = None,
        env: str = "main",
        send: bool = True,
        raise_exceptions: bool | None = None,
        use_incoming_socket: bool = True,
        log_to_filename: str | None = None,
        username: str | None = None,
        password: str | None = None,
        proxies: dict[str, str] | None = None,
        offline: bool = False,
        use_polling: bool = False,
    ) -> None:
        unsupported = {"http_proxy_host": http_proxy_host, "http_proxy_port": http_proxy_port, "username": username, "password": password}
        for name, value in {**unsupported, "use_polling": use_polling or None}.items():
            if value is not None:
                raise NotImplementedError(f"Visdom: {name} is not supported by flambeau's client")
        parsed = urlparse(server if "://" in server else f"http://{server}")
        self.server, self.port, self.endpoint = f"{parsed.scheme}://{parsed.netloc}", port, endpoint
        self.base_url = "" if base_url == "/" else base_url
        if self.base_url and (not self.base_url.startswith("/") or self.base_url.endswith("/")):
            raise ValueError(f"Visdom: base_url begins with a slash and does not end with one, got {base_url!r}")
        self.ipv6, self.env, self.send, self.raise_exceptions, self.offline = ipv6, env, send, raise_exceptions, offline
        self.use_socket = False
        self.log_to_filename = log_to_filename
        self.env_list = {env}
        self._windows: dict[str, dict[str, Any]] = {}
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies or {}))
        if not offline:
            self._send({"eid": env}, endpoint=f"env/{env}")

    def __getattr__(self, name: str) -> NoReturn:
        if name in ELSEWHERE:
            raise NotImplementedError(
                f"flambeau's client of visdom has no {name}: install visdom, which takes flambeau's tensors when the program runs by "
                "python -m flambeau"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # -- messages -----------------------------------------------------------------------------------------------------------
    def _send(self, msg: dict[str, Any], endpoint: str = "events", create: bool = True) -> Any:
        """Send a message and return the server's response, which is the window's name where something is drawn."""
        if msg.get("eid") is None:
            msg["eid"] = self.env
        self.env_list.add(msg["eid"])
        if not self.send:
            return msg, endpoint
        if "win" in msg and msg["win"] is None and create:
            msg["win"] = f"window_{uuid.uuid4().hex[:14]}"
        if self.log_to_filename is not None and endpoint in ("events", "update"):
            with open(self.log_to_filename, "a") as log:
                log.write(json.dumps([endpoint, msg]) + "\n")
        if self.offline:
            return self._kept(json.loads(json.dumps(msg)), endpoint)
        request = urllib.request.Request(f"{self.server}:{self.port}{self.base_url}/{quote(endpoint)}", json.dumps(msg).encode())
        try:
            with self._opener.open(request) as response:
                return response.read().decode()
        except OSError as error:
            if self.raise_exceptions:
                raise ConnectionError("Error connecting to Visdom server") from error
            logger.warning("visdom's server at %s:%s does not answer: %s", self.server, self.port, error)
            return False

    def _kept(self, msg: dict[str, Any], endpoint: str) -> Any:
        """Apply a message as a server would."""
        windows: dict[Any, Any] = self._windows.setdefault(msg["eid"], {})
        name = msg.get("win")
        if endpoint == "events":
            kind = msg["data"][0].get("type", "") if msg["data"] else ""
            is_plot = "layout" in msg
            content = {"data": msg["data"], "layout": msg["layout"]} if is_plot else msg["data"][0]["content"]
            windows[name] = {"id": name, "type": "plot" if is_plot else kind, "content": content, "opts": msg.get("opts", {})}
        elif endpoint == "update":
            self._update(windows, msg)
        elif endpoint == "close":
            for closed in list(windows) if name is None else [name]:
                windows.pop(closed, None)
        elif endpoint == "delete_env":
            self._windows.pop(msg["eid"])
            self.env_list.discard(msg["eid"])
        elif endpoint == "win_data":
            return json.dumps(windows if name is None else windows.get(name))
        elif endpoint == "win_exists":
            return "true" if name in windows else "false"
        return name if "win" in msg else True

    @staticmethod
    def _update(windows: dict[str, Any], msg: dict[str, Any]) -> None:
        """Bring curves of a window, or its text, up to date."""
        window = windows.get(msg["win"])
        if window is None:
            return
        if window["type"] == "text":
            window["content"] += f"<br>{msg['data'][0]['content']}"
            return
        traces = window["content"]["data"]
        if msg.get("delete"):
            traces[:] = [trace for trace in traces if trace["name"] != msg["name"]]
            return
        by_name = {trace["name"]: trace for trace in traces}
        for trace in msg["data"]:
            known = by_name.get(trace["name"])
            if known is None:
                traces.append(trace)
            elif msg["append"]:
                known["x"] += trace["x"]
                known["y"] += trace["y"]
            else:
                known.update(trace)

    # -- windows ------------------------------------------------------------------------------------------------------------
    def close(self, win: str | None = None, env: str | None = None) -> Any:
        """Close a window, or all windows of a page when None. Source: visdom.Visdom.close."""
        return self._send({"win": win, "eid": env}, endpoint="close", create=False)

    def win_exists(self, win: str, env: str | None = None) -> bool | None:
        """Whether the server has a window; None where the server is unreachable. Source: visdom.Visdom.win_exists."""
        return {"true": True, "false": False}.get(self._send({"win": win, "eid": env}, endpoint="win_exists"))

    def check_connection(self, timeout_seconds: float = 0) -> bool:
        """Whether a server responds within ``timeout_seconds``; False when offline. Source: visdom.Visdom.check_connection."""
        end = time.monotonic() + timeout_seconds
        while True:
            try:
                responds = not self.offline and self.win_exists("") is not None
            except ConnectionError:
                responds = False
            if responds or self.offline or time.monotonic() >= end:
                return responds
            time.sleep(0.1)

    def get_window_data(self, win: str | None = None, env: str | None = None) -> Any:
        """Contents of a window, or of all windows of a page, as JSON. Source: visdom.Visdom.get_window_data."""
        return self._send({"win": win, "eid": env}, endpoint="win_data", create=False)

    def get_env_list(self) -> list[str]:
        """Names of the pages. Source: visdom.Visdom.get_env_list."""
        return list(self.env_list) if self.offline else json.loads(self._send({}, endpoint="env_state"))

    def delete_env(self, env: str) -> Any:
        """Delete a page. Source: visdom.Visdom.delete_env."""
        return self._send({"eid": env}, endpoint="delete_env")

    def save(self, envs: list[str]) -> Any:
        """Have the server write pages to its files. Source: visdom.Visdom.save."""
        if not isinstance(envs, list) or not all(isinstance(env, str) for env in envs):
            raise TypeError("Visdom.save: expected a list of names of environments")
        return self._send({"data": envs}, "save")

    def replay_log(self, log_filename: str) -> None:
        """Send what an earlier client wrote to its ``log_to_filename``. Source: visdom.Visdom.replay_log."""
        kept, self.log_to_filename = self.log_to_filename, None
        try:
            with open(log_filename) as log:
                for entry in log:
                    endpoint, msg = json.loads(entry)
                    self._send(msg, endpoint)
        finally:
            self.log_to_filename = kept

    # -- contents -----------------------------------------------------------------------------------------------------------
    def text(
        self, text: str, win: str | None = None, env: str | None = None, opts: dict[str, Any] | None = None, append: bool = False
    ) -> Any:
        """Show text, which may be HTML; ``append`` adds it to what the window has. Source: visdom.Visdom.text."""
        msg = {"data": [{"content": text, "type": "text"}], "win": win, "eid": env, "opts": dict(opts or {})}
        return self._send(msg, endpoint="update" if append else "events")

    def image(self, img: Any, win: str | None = None, env: str | None = None, opts: dict[str, Any] | None = None) -> Any:
        """Show an image.

        Args:
            img: ``(C, H, W)`` or ``(H, W)``: uint8 in [0, 255], or floating point in [0, 1] or, if there are larger ones, in [0, 255].
            win, env: the window and its page; a new window when None.
            opts: ``caption``, ``jpgquality`` (a JPEG instead of a PNG), ``width``, ``height``.
        Raises:
            NotImplementedError: the option ``store_history``.
        Source: visdom.Visdom.image.
        """
        from PIL import Image

        pixels, opts = _array(img), dict(opts or {})
        if opts.get("store_history"):
            raise NotImplementedError("Visdom.image: store_history is not supported by flambeau's client")
        opts = opts | {"width": opts.get("width", pixels.shape[-1]), "height": opts.get("height", pixels.shape[-2])}
        if pixels.ndim == 2 or pixels.shape[0] == 1:
            pixels = pixels.reshape(1, *pixels.shape[-2:]).repeat(3, axis=0)
        if pixels.dtype.kind == "f":
            pixels = (pixels * 255.0 if pixels.max() <= 1 else pixels).astype(np.uint8)
        kind, settings = ("jpeg", {"quality": opts["jpgquality"]}) if "jpgquality" in opts else ("png", {})
        file = io.BytesIO()
        Image.fromarray(pixels.transpose(1, 2, 0)).save(file, format=kind.upper(), **settings)
        source = f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"
        data = [{"content": {"src": source, "caption": opts.get("caption")}, "type": "image"}]
        return self._send({"data": data, "win": win, "eid": env, "opts": opts})

    def images(
        self,
        tensor: Any,
        nrow: int = 8,
        padding: int = 2,
        win: str | None = None,
        env: str | None = None,
        opts: dict[str, Any] | None = None,
    ) -> Any:
        """Show images ``(N, C, H, W)``, or a list of images of one size, on a white grid with ``nrow`` in a row.

        Source: visdom.Visdom.images.
        """
        batch = np.stack([_array(image) for image in tensor]) if isinstance(tensor, list) else _array(tensor)
        if batch.ndim < 4:
            return self.image(batch, win, env, opts)
        number, channels, height, width = batch.shape
        columns = min(nrow, number)
        rows = -(-number // columns)
        tiles = np.ones((rows * columns, channels, height + 2 * padding, width + 2 * padding))
        start = padding + min(padding, 1)  # one pixel off the middle of their places, as visdom puts them
        tiles[:number, :, start : start + height, start : start + width] = batch
        grid = tiles.reshape(rows, columns, *tiles.shape[1:]).transpose(2, 0, 3, 1, 4)
        return self.image(grid.reshape(channels, rows * tiles.shape[2], columns * tiles.shape[3]), win, env, opts)

    def line(
        self,
        Y: Any,
        X: Any = None,
        win: str | None = None,
        env: str | None = None,
        opts: dict[str, Any] | None = None,
        update: str | None = None,
        name: str | None = None,
    ) -> Any:
        """Draw curves.

        Args:
            Y: ``(N,)``, or ``(N, M)`` for M curves.
            X: the same shape, or ``(N,)`` for all curves; evenly spaced from 0 to 1 when None.
            win, env: the window and its page; a new window when None.
            opts: ``title``, ``xlabel``, ``ylabel``, ``legend``, ``showlegend``, ``markers``, ``fillarea``, ``dash``, ``linecolor``, and
                others of visdom's.
            update: ``"append"`` adds points to the curves that the window has, and makes the window where it does not exist; ``"replace"``
                exchanges them; ``"remove"`` takes away the curve ``name``.
            name: the curve.
        Returns:
            The window's name; False where the server is unreachable.
        Raises:
            ValueError: shapes that do not fit; ``update`` without a window, ``X`` or, for ``"remove"``, ``name``.
        Source: visdom.Visdom.line.
        """
        if update is not None and win is None:
            raise ValueError("Visdom.line: Must define a window to update")
        if update == "remove":
            if name is None or opts is not None:
                raise ValueError("Visdom.line: update='remove' takes the name of a curve and no opts")
            return self._send({"data": [], "name": name, "delete": True, "win": win, "eid": env}, endpoint="update")
        opts = dict(opts or {})
        columns = self._columns(_array(Y), _array(X), update, name)
        if update == "append" and self.send and self.win_exists(win, env) is False:  # type: ignore[arg-type]
            update = None
        traces = self._traces(columns, opts, name)
        msg = {"data": traces, "win": win, "eid": env, "layout": {} if update else _layout(opts), "opts": opts}
        if update is None:
            return self._send(msg)
        return self._send({**msg, "name": name, "append": update == "append"}, endpoint="update")

    @staticmethod
    def _columns(Y: np.ndarray, X: np.ndarray | None, update: str | None, name: str | None) -> list[tuple[np.ndarray, np.ndarray]]:
        """The horizontal and vertical coordinates of each curve."""
        if X is None:
            if update is not None:
                raise ValueError("Visdom.line: must specify x-values for line update")
            X = np.linspace(0, 1, Y.shape[0])
        if Y.ndim not in (1, 2) or Y.shape[-1] == 0:
            raise ValueError(f"Visdom.line: Y should have 1 or 2 dim, and one curve at least, got shape {Y.shape}")
        if Y.ndim == 2 and X.ndim == 1:
            X = np.tile(X[:, None], (1, Y.shape[1]))
        if X.shape != Y.shape:
            raise ValueError(f"Visdom.line: X and Y should be the same shape, got {X.shape} and {Y.shape}")
        if Y.ndim == 1:
            # As one table: of whole numbers and fractions both become fractions.
            table = np.column_stack((X, Y))
            return [(table[:, 0], table[:, 1])]
        if name is not None and Y.shape[1] > 1:
            raise ValueError("Visdom.line: name should not be specified with multiple labels or lines")
        dtype = np.result_type(X, Y)
        return [(X[:, place].astype(dtype), Y[:, place].astype(dtype)) for place in range(Y.shape[1])]

    @staticmethod
    def _traces(columns: Sequence[tuple[np.ndarray, np.ndarray]], opts: dict[str, Any], name: str | None) -> list[dict[str, Any]]:
        """The curves for plotly; completes ``opts`` as visdom does."""
        opts["markers"], opts["fillarea"] = opts.get("markers", False), opts.get("fillarea", False)
        opts["mode"] = "lines+markers" if opts["markers"] else "lines"
        for option, default in (("markersymbol", "dot"), ("markersize", 10), ("markerborderwidth", 0.5)):
            opts[option] = opts.get(option, default)
        legend, dash, colors = opts.get("legend"), opts.pop("dash", None), opts.pop("linecolor", None)
        if legend is not None and len(legend) < len(columns):
            raise ValueError(f"Visdom.line: {len(columns)} curves, but {len(legend)} names in the legend")
        marker = {"size": opts["markersize"], "symbol": opts["markersymbol"]}
        marker["line"] = {"color": "#000000", "width": opts["markerborderwidth"]}
        traces = []
        for place, (x, y) in enumerate(columns):
            curve = legend[place] if legend is not None else name if name is not None else str(place + 1)
            color = None if colors is None else "#{:02x}{:02x}{:02x}".format(*(int(part) for part in colors[place]))
            trace = {"x": _numbers(x), "y": _numbers(y), "name": curve, "type": "scattergl" if opts.get("webgl") else "scatter"}
            trace |= {"mode": opts["mode"], "textposition": "right", "marker": marker}
            trace["line"] = {"dash": None if dash is None else str(dash[place]), "color": color}
            if opts["fillarea"]:
                trace["fill"] = "tonexty"
            own = (opts.get("traceopts") or {}).get("plotly", {}).get(curve, {})
            traces.append(_without_none(trace | own))
        return traces
