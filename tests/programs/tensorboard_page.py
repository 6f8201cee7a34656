"""TensorBoard's own page in headless Chromium, on files that flambeau wrote.

    python -m tests.programs.tensorboard_page [FOLDER FOR PICTURES]

By hand: Chromium has to be installed, and the page takes some seconds to draw itself.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import flambeau as torch
from flambeau.utils.tensorboard import SummaryWriter

SECONDS = 40.0
PAGES = {  # of TensorBoard's page: words that must stand in it
    "timeseries": ["loss", "accuracy", "weights", "digit"],
    "scalars": ["loss", "accuracy", "run/first"],
    "images": ["digit", "step 0"],
    "graphs": ["Main Graph", "Sequential", "input", "output", "1×10"],
    "distributions": ["weights"],
    "histograms": ["weights"],
    "text": ["note", "bold words"],
    "hparams": ["adam", "0.10000", "0.90000"],
}
# All text of a document, of what its elements hide in shadow trees too.
TEXT = """
(() => {
  const words = node => node.nodeType === 3 ? node.data
    : ["STYLE", "SCRIPT", "TEMPLATE"].includes(node.nodeName) ? ""
    : (node.shadowRoot ? words(node.shadowRoot) : "") + Array.from(node.childNodes, words).join("");
  return words(document.body).replace(/\\s+/g, " ");
})()
"""


def write(folder: Path) -> None:
    """A run with something for each page."""
    torch.manual_seed(0)
    nn = torch.nn
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))
    with SummaryWriter(folder / "run") as writer:
        for step in range(20):
            writer.add_scalar("loss", torch.rand(1) / (step + 1), step)
            writer.add_scalar("accuracy", 1 - torch.rand(1) / (step + 1), step)
            writer.add_histogram("weights", torch.randn(500) + step / 10, step)
        writer.add_image("digit", torch.rand(3, 16, 16))
        writer.add_text("note", "**bold** words")
        writer.add_graph(net, torch.rand(1, 1, 8, 8))
        writer.add_hparams({"lr": 0.1, "kind": "adam"}, {"hparam/accuracy": 0.9}, run_name="first")


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """TensorBoard on a port that the system chooses; its address."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tensorboard import default, program

    board = program.TensorBoard(plugins=default.get_plugins())
    board.configure(argv=[None, "--logdir", str(folder), "--port", "0", "--load_fast", "false"])
    server = board._make_server()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.get_url()
    finally:
        server.shutdown()
        server.server_close()


class Browser:
    """Chromium without a window, told what to do through a pair of pipes."""

    def __init__(self, chromium: str) -> None:
        theirs_in, self._commands = os.pipe()
        self._answers, theirs_out = os.pipe()
        options = "--headless --no-sandbox --disable-gpu --window-size=1400,1000 --remote-debugging-pipe about:blank"
        shell = f"exec {chromium} {options} 3<&{theirs_in} 4>&{theirs_out}"  # it reads descriptor 3 and writes 4
        self._process = subprocess.Popen(
            ["bash", "-c", shell], pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._received = b""
        self._number = 0
        target = next(one for one in self.ask("Target.getTargets")["targetInfos"] if one["type"] == "page")
        self._session = self.ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]

    def ask(self, method: str, session: str | None = None, **parameters: Any) -> Any:
        """The answer to one command of the DevTools protocol."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self._received:
                received = os.read(self._answers, 1 << 16)
                if not received:
                    raise RuntimeError("Chromium has ended")
                self._received += received
            text, _, self._received = self._received.partition(b"\0")
            answer = json.loads(text)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def page(self, address: str, words: list[str], picture: Path) -> str:
        """The text of a page as soon as all words stand in it, at the latest after SECONDS; a picture of it goes to a file."""
        self.ask("Page.navigate", self._session, url="about:blank")
        self.ask("Page.navigate", self._session, url=address)
        text, end = "", time.monotonic() + SECONDS
        while not all(word in text for word in words) and time.monotonic() < end:
            time.sleep(0.5)
            text = self.ask("Runtime.evaluate", self._session, expression=TEXT, returnByValue=True)["result"].get("value") or ""
        time.sleep(1)  # what is drawn follows the text
        picture.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", self._session)["data"]))
        return text

    def close(self) -> None:
        self.ask("Browser.close")
        self._process.wait(30)
        os.close(self._commands)
        os.close(self._answers)


def main(arguments: list[str]) -> int:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        print("no Chromium is installed: apt-get install chromium")
        return 2
    missing = 0
    with tempfile.TemporaryDirectory() as scratch:
        pictures = Path(arguments[0]) if arguments else Path(scratch)
        write(Path(scratch) / "logs")
        with serving(Path(scratch) / "logs") as address:
            browser = Browser(chromium)
            for page, words in PAGES.items():
                text = browser.page(f"{address}#{page}", words, pictures / f"{page}.png")
                absent = [word for word in words if word not in text]
                missing += len(absent)
                print(f"{page}: " + (f"{absent} not in {text[:300]!r}" if absent else f"all of {words}"))
            browser.close()
    return missing


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
