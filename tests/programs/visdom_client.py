"""The messages of visdom's own client and of ``flambeau.visdom``, sent to one server, compared: ``python -m tests.programs.visdom_client``.

By hand, in an environment with the visdom package and without PyTorch, for which flambeau stands in: visdom's client is given its tensors.
"""

from __future__ import annotations

import json
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np


@contextmanager
def standing_in() -> Iterator[tuple[int, list[tuple[str, dict[str, Any]]]]]:
    """A server that knows which windows there are: its port, and the list of the messages that came."""
    messages: list[tuple[str, dict[str, Any]]] = []
    windows: set[str] = set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            messages.append((self.path, message))
            answer = "true" if message.get("win") in windows else "false"
            if self.path in ("/events", "/update"):
                windows.add(message["win"])
                answer = message["win"]
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server.server_port, messages
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def program(Visdom: Any, torch: Any, port: int) -> None:
    """Everything that flambeau's client can draw."""
    torch.manual_seed(0)
    vis = Visdom(server="http://127.0.0.1", port=port, env="Learning curve", use_incoming_socket=False)
    assert vis.check_connection() is True
    labels = {"xlabel": "Epoch", "ylabel": "Loss", "showlegend": True}
    for epoch in range(2):
        for name in ("train", "val"):
            x, y = torch.Tensor([epoch + 1]), torch.Tensor([1.0 / (epoch + 1)])
            vis.line(X=x, Y=y, name=name, win="Loss", update="append", opts=dict(labels))
    look = {"fillarea": True, "markers": True, "dash": np.array(["dot", "solid"]), "linecolor": np.array([[1, 2, 3], [255, 0, 9]])}
    vis.line(Y=torch.tensor([[1.0, 2.0], [3.0, 4.0], [np.nan, 2.0]]), win="two", opts={"legend": ["p", "q"], "title": "T", **look})
    vis.line(Y=torch.tensor([1, 2]), X=torch.tensor([3, 4]), win="three", update="replace", name="n")
    vis.line(Y=torch.tensor([1, 2]), X=torch.tensor([3.0, 4]), win="three", opts={"xtickmin": 1, "xtickmax": 9, "webgl": True})
    vis.text("some", win="text")
    vis.text("more", win="text", append=True)
    vis.image(torch.rand(3, 4, 5), win="image", opts={"caption": "c"})
    vis.image(torch.rand(4, 5) * 200, win="image", opts={"jpgquality": 50})
    vis.image((torch.rand(1, 4, 5) * 255).to(torch.uint8), win="image")
    vis.images(torch.rand(3, 1, 4, 5), nrow=2, win="grid")
    vis.images([torch.rand(3, 4, 5) for _ in range(2)], padding=1, win="grid")
    vis.close("image")
    vis.close()
    vis.win_exists("two")
    vis.save(["main"])
    vis.delete_env("other")
    vis.get_window_data("two")


def sent(Visdom: Any, torch: Any) -> list[tuple[str, dict[str, Any]]]:
    """The program's messages but those that ask whether there is a server."""
    with standing_in() as (port, messages):
        program(Visdom, torch, port)
    return [message for message in messages if message[1].get("win") != ""]


def main() -> int:
    import flambeau.runner

    flambeau.runner.install()
    import torch
    from visdom import Visdom

    import flambeau.visdom

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, ours = sent(Visdom, torch), sent(flambeau.visdom.Visdom, torch)
    different = [(their, our) for their, our in zip(theirs, ours) if their != our]
    for their, our in different:
        print(f"visdom:   {their}\nflambeau: {our}")
    print(f"{len(theirs)} messages of visdom, {len(ours)} of flambeau, {len(different)} pairs differ")
    return len(different) + abs(len(theirs) - len(ours))


if __name__ == "__main__":
    sys.exit(main())
