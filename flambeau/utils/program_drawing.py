"""Pictures of compiled functions: their graphs as drawings and tables, with shapes, groups, memory and times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..capture.lowering import Lowered
from ..capture.picture import Picture, Timed
from ..compiler.compiled import Compiled
from ..compiler.entry import innermost
from .model_drawing import GraphDrawing

__all__ = ["ProgramDrawing", "draw_compiled"]


class ProgramDrawing(GraphDrawing):
    """A graph as an SVG document, and as a table.

    Args:
        svg: the document. text: the table.
    Source: flambeau's own.
    Example:
        >>> drawing = torch.utils.draw_compiled(lambda x: (x * 2 + 1).sum(), torch.ones(8))[0]
        >>> drawing.startswith("<svg"), drawing.text.splitlines()[0].split()
        (True, ['#', 'what', 'result', 'from', 'memory', 'at', 'us'])
    """

    text: str

    def __new__(cls, svg: str, text: str) -> ProgramDrawing:
        drawing = super().__new__(cls, svg)
        drawing.text = text
        return drawing

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        return str(self), self.text


class _Run:
    """A graph's function; whether it was called, which one that a later program replaced is not."""

    def __init__(self, graph: Any, run: Any, is_timed: bool):
        self.graph, self.run, self.was_called = graph, Timed(run) if is_timed and isinstance(run, Lowered) else run, False

    def __call__(self, arrays: Any) -> Any:
        self.was_called = True
        return self.run(arrays)

    def drawing(self) -> ProgramDrawing:
        run, times = (self.run.run, self.run.times) if isinstance(self.run, Timed) else (self.run, None)
        picture = Picture(run if isinstance(run, Lowered) else self.graph, times)
        return ProgramDrawing(picture.svg(), picture.text())


class _Drawn(Compiled):
    """A compiled function that keeps its graphs' functions, in the order in which they were made."""

    def __init__(self, function: Callable[..., Any], is_timed: bool):
        super().__init__(function)
        self.runs: list[_Run] = []
        self._is_timed = is_timed

    def lower(self, graph: Any) -> Any:
        self.runs.append(_Run(graph, super().lower(graph), self._is_timed))
        return self.runs[-1]


def draw_compiled(function: Callable[..., Any], *args: Any, calls: int = 5, **kwargs: Any) -> list[ProgramDrawing]:
    """Draw the graphs that compiling a function gives: a function, a module, or a whole training step.

    The function is compiled anew and called, so that a training step trains. In the calls behind the first three, every launch runs by
    itself and its time is taken; without kernels (no llvmlite) there are neither times nor places in memory.

    Args:
        function: what ``torch.compile`` takes, or what it returned.
        args, kwargs: the arguments of each call.
        calls: how many are timed, the least time of which counts; 0: none.
    Returns:
        A drawing for each graph: a string that notebooks show as a picture, with ``text`` (a table, a row for each node) and
        ``save(path)``. A function that Python branches in has several; a backward pass outside of it is a graph of its own.
    Raises:
        ValueError: fewer than no calls.
        RuntimeError: the function cannot be compiled; the message says why.
    Source: flambeau's own.
    Example:
        >>> layer, x = torch.nn.Linear(8, 8), torch.ones(4, 8)
        >>> drawings = torch.utils.draw_compiled(lambda x: layer(x).relu().sum(), x)
        >>> len(drawings), "linear" in drawings[0].text
        (1, True)
    """
    if calls < 0:
        raise ValueError(f"draw_compiled: expected a number of calls, got {calls}")
    compiled = _Drawn(innermost(function), calls > 0)
    for _ in range(3 + calls):
        compiled(args, kwargs)
    runs = [run for run in compiled.runs if run.was_called] or compiled.runs
    if not runs:
        reasons = "; ".join(dict.fromkeys(compiled.breaks)) or "it is not recorded"
        raise RuntimeError(f"draw_compiled: {compiled.label} runs as it is written: {reasons}")
    return [run.drawing() for run in runs]
