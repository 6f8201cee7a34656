"""Names of the scripted modules that run, for a profile with ``with_modules``: ``TOP(Net)::forward.layer(Linear)::forward.``"""

from __future__ import annotations

import threading
from typing import Any

from ..core.profiling import Recorder
from ..nn import module as modules
from ._modules import ScriptModule
from ._state import thread


class ModuleNames:
    """Keeps, in each thread, the modules that are called within a scripted one, and tells a recorder of them.

    Args:
        recorder: whose ranges get the names.
    """

    def __init__(self, recorder: Recorder):
        self._here = threading.local()
        self._handles = [
            modules.register_module_forward_pre_hook(lambda module, args: self._begins(module)),
            modules.register_module_forward_hook(lambda module, args, result: self._ends(module), always_call=True),
        ]
        recorder.modules = self.text

    def end(self) -> None:
        """Take the hooks away."""
        for handle in self._handles:
            handle.remove()

    def text(self) -> str:
        """The names of this thread's modules, the outermost first; empty outside of scripted ones."""
        return "".join([name for _, name in self._running()])

    def _running(self) -> list[tuple[Any, str]]:
        found: list[tuple[Any, str]] = self._here.__dict__.setdefault("modules", [])
        return found

    def _begins(self, module: Any) -> None:
        running = self._running()
        if not running and not (isinstance(module, ScriptModule) and not thread.scripted):
            return
        kind = getattr(module, "original_name", type(module).__name__)
        running.append((module, f"{_name_in(running[-1][0], module) if running else 'TOP'}({kind})::forward."))

    def _ends(self, module: Any) -> None:
        running = self._running()
        if running and running[-1][0] is module:
            running.pop()


def _name_in(parent: Any, module: Any) -> str:
    """The name that a module has in another one, or in what that was scripted of; its class's where it has none."""
    for holder in (parent, parent.__dict__.get("_script_python")):
        for name, child in holder._modules.items() if holder is not None else ():
            if child is module:
                return str(name)
    return type(module).__name__
