"""Threads that go through the steps of one computation together, inside of one launch.

Every chunk of the launch goes through all steps. A step has parts, and a part is done by the thread that takes it, whose word in memory
goes from FREE to TAKEN to DONE:

              step 0    step 1    step 2
    part 0    DONE      DONE      TAKEN     <- one thread works on it
    part 1    DONE      DONE      DONE      <- another one waits for the first, which has step 3 begin for both

A thread waits for parts alone that others have taken, and which they are at work on; when it is alone, it takes all parts itself. So it
does not matter how many threads there are and when they come: a chunk that begins when all is done finds nothing to do. Chunks of the
upper half look at the last part first, so that a thread meets the same parts, and what they read in its own caches, at each step.
"""

from __future__ import annotations

from collections.abc import Callable

from ..compiler.language import Builder, Value
from ..compiler.pool import PATIENCE, instructions

LINE = 8  # words of a cache line
_FREE, _TAKEN, _DONE = range(3)


class Meeting:
    """``words``: zeros for ``parts`` lines of ``pitch`` words, a multiple of ``LINE``, that are at least as many as steps."""

    def __init__(self, k: Builder, words: Value, parts: Value, pitch: Value):
        self.k, self.words, self.parts, self.pitch = k, words, parts, pitch
        declaration, self._pause, self._give_way = instructions(k.target)
        k.declared[declaration] = declaration

    def _word(self, part: Value, step: Value) -> Value:
        return self.k.at(self.words, part * self.pitch + step, "i64")

    def _state(self, word: Value) -> Value:
        return self.k.emit(f"load atomic i64, ptr {word.text} acquire, align 8", "i64")

    def step(self, step: Value, chunk: Value, body: Callable[[Value], None]) -> None:
        """``body(part)`` for all parts of a step that are left to this thread; behind it, all of them are done."""
        k, last = self.k, self.parts - 1
        is_lower = chunk * 2 <= last

        def look(i: Value) -> None:
            part = k.select(is_lower, i, last - i)
            word = self._word(part, step)

            def take() -> None:
                swap = k.emit(f"cmpxchg ptr {word.text}, i64 {_FREE}, i64 {_TAKEN} acquire monotonic", "i64")
                k.when(k.emit(f"extractvalue {{ i64, i1 }} {swap.text}, 1", "b1"), work)

            def work() -> None:
                body(part)
                k.effect(f"store atomic i64 {_DONE}, ptr {word.text} release, align 8")

            k.when(self._state(word).eq(_FREE), take)

        k.loop(0, self.parts, look)
        k.loop(0, self.parts, lambda part: self._wait(self._word(part, step)))

    def _wait(self, word: Value) -> None:
        k = self.k

        def pause(count: Value) -> Value:
            k.effect(self._pause)
            k.when(count > PATIENCE, lambda: k.effect(f"{k.fresh()} = {self._give_way}"))
            return count + 1

        k.repeat(lambda _: self._state(word).ne(_DONE), pause, [k.const(0, "i64")])
