"""Futures of hooks that exchange something more than once.

Every rank must start its exchanges in one order. A callback in the thread of the exchanges could start the second exchange of one
bucket before or after the first of the next, as it happens. So what follows on a first exchange is done when the result is waited for,
which DDP does bucket by bucket.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....facades.futures import Future

__all__ = ["Deferred", "group_of", "mean_of", "work_of"]


class Deferred(Future[Any]):
    """A future whose result is computed by ``finish()`` when it is first waited for."""

    def __init__(self, finish: Callable[[], Any]) -> None:
        super().__init__()
        self._finish_by: Callable[[], Any] | None = finish

    def wait(self) -> Any:
        finish, self._finish_by = self._finish_by, None
        if finish is not None:
            try:
                self.set_result(finish())
            except Exception as error:  # so that who waits again gets it too
                self.set_exception(error)
        return super().wait()

    def then(self, callback: Callable[[Any], Any]) -> Deferred:
        def follow() -> Any:
            self.wait()
            return callback(self)

        return Deferred(follow)


def group_of(process_group: Any) -> Any:
    """The group that a hook's state means: all processes for None."""
    from .... import distributed

    return distributed.group.WORLD if process_group is None else process_group


def work_of(process_group: Any, tensor: Any) -> Any:
    """The work of summing a tensor over a group."""
    from .... import distributed

    return distributed.all_reduce(tensor, group=process_group, async_op=True)


def mean_of(process_group: Any, tensor: Any) -> Future[Any]:
    """A future of a tensor's mean over a group, which takes its place."""
    from .... import distributed

    tensor.div_(distributed.get_world_size(process_group))
    return work_of(process_group, tensor).get_future().then(lambda done: done.value()[0])
