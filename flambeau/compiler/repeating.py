"""Running a recorded program again, for other sizes or numbers: what it changes is put back each time."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from ..capture.recorder import Step
from ..core.random.generator import default_generator
from .arguments import Arguments
from .programs import Recording, record
from .segments import Undo
from .templates import Differs

__all__ = ["FAILURES", "Kept", "quietly"]

# what a program may raise for arguments that it is not called with
FAILURES = (RuntimeError, ValueError, TypeError, LookupError, ArithmeticError, AssertionError, AttributeError, NotImplementedError)


class Kept:
    """Everything that a recorded run may change, to be put back: a context in which its program may run any number of times.

    Args:
        recording: of the run.
    """

    def __init__(self, recording: Recording):
        self._recording, self._recorder = recording, recording.recorder
        self._before = [(tensor, grad) for tensor, _, grad, _, _ in recording.before]

    def __enter__(self) -> Kept:
        nodes = self._recorder.nodes
        self._back: list[Callable[[], Any]] = Undo(nodes).save(self._arrays())
        state = default_generator.state_bytes()
        self._back.append(lambda: default_generator.load_state_bytes(state))
        tensors = list(self._recording.surroundings.tensors.values())
        self._storages = [(s, s.version, s.changed) for s in (tensor._storage for tensor in tensors) if s is not None]
        for node in nodes:
            if isinstance(node.op, Step):
                self._back += [_state_setter(state, dict(state)) for state in node.op.optimizer.state.values() if isinstance(state, dict)]
        self._grads = [(tensor, getattr(tensor, "_grad", None)) for tensor, _ in self._before]
        self._as_before()
        return self

    def _arrays(self) -> dict[Any, Any]:
        """Arrays of the run's inputs."""
        given = self._recording.arguments.tensors
        have: dict[Any, Any] = dict(zip(self._recorder.inputs, [tensor._array for tensor in given], strict=False))
        for value, leaf in self._recorder.gradients.items():
            grads = [grad for tensor, grad in self._before if tensor is leaf and grad is not None]
            have[value] = grads[0]._array if grads else None
        return have

    def _as_before(self) -> None:
        for tensor, grad in self._before:
            if getattr(tensor, "_grad", None) is not grad:
                tensor._grad = grad

    def once_more(self, args: Any, kwargs: Any, arguments: Arguments | None, prepare: Any, others: str) -> Recording:
        """The program with other arguments, recorded; what it changes is put back.

        Args:
            arguments, prepare: see ``record``. others: words for what the arguments are of.
        Raises:
            Differs: it raises an exception, looks at values, or cannot be recorded.
        """
        try:
            other = record(self._recording.function, args, kwargs, arguments, prepare)
        except FAILURES as error:
            raise Differs(f"it raises {type(error).__name__} {others} ({error})") from None
        finally:
            self._put_back()
        if other.failure is not None or other.recorder.looks:
            raise Differs(other.failure or "Python looks at values")
        other.let_go()
        return other

    def _put_back(self) -> None:
        for back in self._back:
            back()
        self._as_before()

    def __exit__(self, *exc_info: object) -> None:
        self._put_back()
        for tensor, grad in self._grads:
            if getattr(tensor, "_grad", None) is not grad:
                tensor._grad = grad
        for storage, version, changed in self._storages:
            storage.version, storage.changed = version, changed


def _state_setter(state: dict[Any, Any], was: dict[Any, Any]) -> Callable[[], Any]:
    def back() -> None:
        state.clear()
        state.update(was)

    return back


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """A block in which nothing is warned of: the program has warned already."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
