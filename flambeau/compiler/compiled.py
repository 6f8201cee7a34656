"""Functions that ``torch.compile`` makes: the cache of programs, and the decision between replaying, recording and running as written."""

from __future__ import annotations

import threading
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from ..core.calls.machine_calls import DECLINED
from ..core.profiling import profiled
from ..core.state import active, autocasting, is_intercepted, profiling, thread
from . import logs
from .arguments import Arguments
from .dynamism import Dynamism, Wanted
from .programs import AS_WRITTEN, MISSED, REFUSED, Program, Recording, lowered, record

__all__ = ["FailOnRecompileLimitHit", "Compiled", "TorchDynamoException", "Unsupported", "counters", "reset", "settings"]


class TorchDynamoException(RuntimeError):
    """An error of the compiler's. Source: torch._dynamo.exc.TorchDynamoException."""


class Unsupported(TorchDynamoException):
    """Something that cannot be compiled, with ``fullgraph=True``. Source: torch._dynamo.exc.Unsupported."""


class FailOnRecompileLimitHit(TorchDynamoException):
    """Too many programs for one function, with ``fullgraph=True``. Source: torch._dynamo.exc.FailOnRecompileLimitHit."""


class Settings:
    """Settings of the whole process.

    Attributes:
        stance: as ``torch.compiler.set_stance`` says.
        backend: the one that is meant where none is named.
    """

    stance = "default"
    backend: Any = "inductor"


settings = Settings()
counters: defaultdict[str, Counter[str]] = defaultdict(Counter)  # by PyTorch's words: what was compiled, and what was not
_recording = threading.RLock()  # one program is recorded at a time
everything: weakref.WeakSet[Any] = weakref.WeakSet()  # all that ``reset`` clears
_PATIENCE = 3  # recordings without success, after which a function runs as it is written


def reset() -> None:
    """Forget all programs."""
    for each in list(everything):
        each.clear()


def label_of(function: Any) -> str:
    """The name of a function in messages."""
    return getattr(function, "__qualname__", type(function).__name__)


def stance_permits(label: str, count: int) -> bool:
    """Whether the stance lets a function that has ``count`` programs have one more.

    Raises:
        RuntimeError: a second one, where the stance makes that an error.
    """
    if settings.stance == "fail_on_recompile" and count:
        raise RuntimeError(f"Detected recompile when torch.compile stance is 'fail_on_recompile': {label}")
    return settings.stance != "force_eager" and not (settings.stance == "eager_on_recompile" and count)


def has_room(label: str, count: int, limit: int | None, fullgraph: bool) -> bool:
    """Whether a function that has ``count`` programs may have one more; ``limit`` is None for the process's setting.

    Raises:
        FailOnRecompileLimitHit: it may not, with ``fullgraph`` or ``torch.compiler.config.fail_on_recompile_limit_hit``.
    """
    from ..facades._dynamo import config

    if config.disable:
        return False
    limit = config.recompile_limit if limit is None else limit
    if count < limit:
        return True
    if fullgraph or config.fail_on_recompile_limit_hit:
        setting = "fullgraph=True" if fullgraph else "fail_on_recompile_limit_hit=True"
        raise FailOnRecompileLimitHit(f"recompile_limit reached with {setting}: {label} has {count} programs")
    if count == limit:
        logs.note("recompiles", f"{label}: recompile_limit ({limit}) is reached; further kinds of calls run as they are written")
    return False


def _declined(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return DECLINED


def _made(program: Program, replays: int) -> Any:
    from ._machine import made

    return made(program, replays)


class Compiled:
    """A function with its programs.

    Args:
        function: what is compiled.
        backend: 'inductor' or 'aot_eager'.
        fullgraph: whether it is an error if the function cannot be one graph.
        limit: most programs; None for the process's setting.
        names: of its parameters.
        dynamic: whether sizes are symbolic, see ``Dynamism``. choose: chooses guards, see ``filters``.

    Attributes:
        programs: those there are, the last used first.
        gave_up: why it runs as it is written from now on; None while it does not.
        quick: what is called first: machine code of the first program, which answers ``DECLINED`` for what is left to ``__call__``.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        backend: str = "inductor",
        fullgraph: bool = False,
        limit: int | None = None,
        names: Any = (),
        dynamic: bool | None = None,
        choose: Any = None,
    ):
        self.function, self.backend, self.fullgraph, self.limit, self.names = function, backend, fullgraph, limit, tuple(names)
        self.programs: list[Program] = []
        self.gave_up: str | None = None
        self.quick: Callable[[tuple[Any, ...], dict[str, Any]], Any] = _declined
        self.breaks: list[str] = []
        self.dynamism, self.choose = Dynamism(dynamic), choose
        everything.add(self)

    def clear(self) -> None:
        self.programs, self.gave_up, self.breaks, self.quick = [], None, [], _declined
        self.dynamism.clear()

    @property
    def label(self) -> str:
        return label_of(self.function)

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function."""
        is_modified = (active and is_intercepted()) or (autocasting and thread.autocast is not None)
        if is_modified or self.gave_up is not None:
            return self.function(*args, **kwargs)
        missed = None
        for i, program in enumerate(self.programs):
            if i and (direct := program.direct) is not None:
                result = direct.call(args, kwargs)
                if result is not DECLINED:
                    self._put_first(program)
                    return result
            given = program.fits(args, kwargs)
            if given is None:
                continue
            if i:
                self._put_first(program)
            if program.failure is not None:
                return self.function(*args, **kwargs)
            if profiling:
                with profiled(f"Torch-Compiled Region: {self.label}"):
                    result = program.run(given, args, kwargs)
            else:
                result = program.run(given, args, kwargs)
            if result is REFUSED:
                continue
            if result is AS_WRITTEN:
                return self.function(*args, **kwargs)
            if result is not MISSED:
                program.settle(_made)
                self._put_first(program)
                return result
            missed = program
        self.quick = _declined
        return self._record(args, kwargs, missed)

    def _put_first(self, program: Program) -> None:
        """Try a program before the others from now on, unless it has been forgotten meanwhile."""
        programs, direct = self.programs, program.direct
        if program not in programs:
            return
        if programs[0] is not program:
            self.programs = [program, *[other for other in programs if other is not program]]
        self.quick = _declined if direct is None else direct.call

    # -- recording ---------------------------------------------------------------------------------------------------------------
    def _record(self, args: tuple[Any, ...], kwargs: dict[str, Any], program: Program | None) -> Any:
        """Run the function as it is written, recorded where that makes sense."""
        if not self._may_record(args, kwargs, program) or not _recording.acquire(blocking=False):
            return self.function(*args, **kwargs)
        try:
            arguments = Arguments(args, kwargs, self.names)
            is_new = program is None and arguments.refusal is None
            wanted = self.dynamism.wanted(arguments) if is_new else None
            numbers = self.dynamism.numbers(args, kwargs) if is_new else []
            recording = record(self.function, args, kwargs, arguments)
            recording.choose = self.choose
            if program is not None and recording.arguments.count == program.arguments.count:
                if not program.add(recording):
                    self._broke(program.failure or "values that Python looks at vary")
            else:  # also where one tensor is now given twice
                made = self._program(recording, args, kwargs, wanted, numbers)
                self.programs = [made, *self.programs]
                self._tell(made, recording)
            return recording.result
        finally:
            if thread.recorder is not None:  # an interrupt came as the recorder was leaving
                thread.recorder.stop()
            _recording.release()

    def _program(self, recording: Recording, args: Any, kwargs: Any, wanted: Wanted | None, numbers: list[str]) -> Program:
        """The program of a recorded call: for many sizes or numbers where that is wanted and can be, or for these alone."""
        if wanted is not None and recording.failure is None:
            from .dynamic import generalized
            from .templates import Differs

            try:
                made = generalized(recording, args, kwargs, wanted, self.lower)
                logs.note("dynamic", f"{self.label}: a program for all sizes {made.condition}")
                return made
            except Differs as reason:
                self.dynamism.stays(wanted.symbols)
                logs.note("dynamic", f"{self.label}: each size has a program of its own: {reason}")
        if numbers and recording.failure is None:
            from . import numbers as of_numbers
            from .templates import Differs

            for places in (numbers, *([each] for each in numbers if len(numbers) > 1)):
                try:
                    return of_numbers.generalized(recording, args, kwargs, places, self.lower)
                except Differs as reason:
                    logs.note("dynamic", f"{self.label}: {', '.join(places)}: each number has a program of its own: {reason}")
            self.dynamism.stays(numbers)
        recording.let_go()
        return Program(recording, self.lower)

    def lower(self, graph: Any) -> Any:
        """A function that runs a graph."""
        return lowered(graph, self.backend)

    def _may_record(self, args: Any, kwargs: Any, program: Program | None) -> bool:
        if not stance_permits(self.label, len(self.programs)):
            return False
        if program is not None:
            return True
        if self.programs:
            logs.note("recompiles", f"{self.label}: {self.programs[0].reason(args, kwargs)}")
        return has_room(self.label, len(self.programs), self.limit, self.fullgraph)

    def _tell(self, made: Program, recording: Any) -> None:
        counters["frames"]["total"] += 1
        if made.failure is None:
            counters["frames"]["ok"] += 1
            counters["stats"]["unique_graphs"] += len(made.graphs)
            counters["stats"]["calls_captured"] += sum(node.kind == "op" for node in recording.recorder.nodes)
        undeclared = [look for look in recording.recorder.looks if not look.declared]
        for look in undeclared:
            self.breaks.append(f"Python looks at values ({look.how if isinstance(look.how, str) else 'a comparison'})")
        if made.failure is not None:
            self._broke(made.failure)
        elif undeclared and self.fullgraph:
            raise Unsupported(f"Data-dependent branching: {self.label} looks at values of tensors; with fullgraph=True it may not")
        for graph in made.graphs if logs.wanted("graph_code") else ():
            logs.note("graph_code", f"{self.label}\n{graph}")

    def _broke(self, reason: str) -> None:
        self.breaks.append(reason)
        counters["graph_break"][reason] += 1
        logs.note("graph_breaks", f"{self.label} runs as it is written: {reason}")
        if self.fullgraph:
            raise Unsupported(f"{self.label} cannot be compiled as one graph: {reason}")
        if sum(program.failure is not None for program in self.programs) >= _PATIENCE:
            self.gave_up = reason
            self.programs = []
