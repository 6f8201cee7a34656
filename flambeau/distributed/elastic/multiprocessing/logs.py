"""Workers' output and errors: in files by attempt and rank, on the console, or both.

Source: torch.distributed.elastic.multiprocessing.
"""

from __future__ import annotations

import codecs
import enum
import io
import os
import shutil
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

__all__ = ["DefaultLogsSpecs", "LogsDest", "LogsSpecs", "Std", "to_map"]


class Std(enum.IntFlag):
    """Streams of a process.

    Source: torch.distributed.elastic.multiprocessing.Std.
    Example:
        >>> Std.from_str("0:1,1:3")
        {0: <Std.OUT: 1>, 1: <Std.ALL: 3>}
    """

    NONE = 0
    OUT = 1
    ERR = 2
    ALL = OUT | ERR

    @classmethod
    def from_str(cls, vm: str) -> Std | dict[int, Std]:
        """One value for all ranks (``"3"``), or values by local rank (``"0:1,1:2"``).

        Raises:
            ValueError: neither.
        """
        try:
            if vm.isdigit():
                return cls._of(vm)
            return {int(rank): cls._of(value) for rank, value in (each.split(":") for each in vm.split(","))}
        except ValueError:
            raise ValueError(f"{vm} does not match: <N> or <rank>:<N>,<rank>:<N>,... with N from 0 to 3") from None

    @classmethod
    def _of(cls, digit: str) -> Std:
        value = int(digit)
        if value > 3:
            raise ValueError
        return cls(value)


def to_map(val_or_map: Std | dict[int, Std], local_world_size: int) -> dict[int, Std]:
    """Streams by local rank.

    Args:
        val_or_map: one value for all, or values of some; the others have none.
        local_world_size: number of ranks.
    Returns: a dict with all ranks.
    Source: torch.distributed.elastic.multiprocessing.to_map.
    Example:
        >>> to_map({1: Std.OUT}, 2)
        {0: <Std.NONE: 0>, 1: <Std.OUT: 1>}
    """
    given = val_or_map if isinstance(val_or_map, dict) else dict.fromkeys(range(local_world_size), val_or_map)
    return {rank: given.get(rank, Std.NONE) for rank in range(local_world_size)}


@dataclass
class LogsDest:
    """Files of one attempt, by local rank; an empty path leaves the stream with the console.

    Args:
        stdouts, stderrs: where output and errors go.
        tee_stdouts, tee_stderrs: files that the console shows, too.
        error_files: where exceptions are told.
    Source: torch.distributed.elastic.multiprocessing.LogsDest.
    Example:
        >>> LogsDest(stdouts={0: "out.log"}).stdouts[0]
        'out.log'
    """

    stdouts: dict[int, str] = field(default_factory=dict)
    stderrs: dict[int, str] = field(default_factory=dict)
    tee_stdouts: dict[int, str] = field(default_factory=dict)
    tee_stderrs: dict[int, str] = field(default_factory=dict)
    error_files: dict[int, str] = field(default_factory=dict)


class LogsSpecs:
    """Base of what chooses files for workers' streams.

    Args:
        log_dir: the folder; a temporary one when None.
        redirects: streams that go into files, for all or by local rank.
        tee: streams that go into files and to the console.
        local_ranks_filter: local ranks whose streams the console shows; all when None.
    Source: torch.distributed.elastic.multiprocessing.LogsSpecs.
    Example:
        >>> issubclass(DefaultLogsSpecs, LogsSpecs)
        True
    """

    def __init__(
        self,
        log_dir: str | None = None,
        redirects: Std | dict[int, Std] = Std.NONE,
        tee: Std | dict[int, Std] = Std.NONE,
        local_ranks_filter: set[int] | None = None,
    ) -> None:
        self._root_log_dir, self._redirects, self._tee, self._local_ranks_filter = log_dir, redirects, tee, local_ranks_filter

    @property
    def root_log_dir(self) -> str:
        raise NotImplementedError("LogsSpecs.root_log_dir")

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """The files for workers with these environments; makes their folders."""
        raise NotImplementedError("LogsSpecs.reify")


class DefaultLogsSpecs(LogsSpecs):
    """Files ``stdout.log``, ``stderr.log`` and ``error.json`` in ``LOG_DIR/JOB/attempt_N/LOCAL_RANK``.

    Args:
        log_dir, redirects, tee, local_ranks_filter: see ``LogsSpecs``.
    Source: torch.distributed.elastic.multiprocessing.DefaultLogsSpecs.
    Example:
        >>> import tempfile
        >>> files = DefaultLogsSpecs(tempfile.mkdtemp(), redirects=Std.OUT).reify({0: {"TORCHELASTIC_RUN_ID": "job"}})
        >>> files.stdouts[0].endswith("/attempt_0/0/stdout.log"), files.stderrs[0]
        (True, '')
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._run_log_dir: str | None = None
        self._temporary: str | None = None

    @property
    def root_log_dir(self) -> str:
        return str(self._root_log_dir or "")

    def remove(self) -> None:
        """Remove the folder, if it is a temporary one."""
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def _folder(self, run_id: str) -> str:
        if self._run_log_dir is None:
            if self._root_log_dir is None:
                self._root_log_dir = self._temporary = tempfile.mkdtemp(prefix="torchelastic_")
            os.makedirs(self._root_log_dir, exist_ok=True)
            self._run_log_dir = tempfile.mkdtemp(prefix=f"{run_id}_", dir=self._root_log_dir)
        return self._run_log_dir

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        redirects, tees = to_map(self._redirects, len(envs)), to_map(self._tee, len(envs))
        shown = self._local_ranks_filter
        files = LogsDest()
        for rank, env in envs.items():
            attempt = f"attempt_{env.get('TORCHELASTIC_RESTART_COUNT', '0')}"
            folder = Path(self._folder(env.get("TORCHELASTIC_RUN_ID", "test_run_id")), attempt, str(rank))
            folder.mkdir(parents=True, exist_ok=True)
            hidden = shown is not None and rank not in shown
            tee = Std.NONE if hidden else tees[rank]
            filed = Std.ALL if hidden else redirects[rank] | tee
            for stream, name in ((Std.OUT, "stdout"), (Std.ERR, "stderr")):
                path = str(folder / f"{name}.log")
                getattr(files, name + "s")[rank] = path if stream in filed else ""
                if stream in tee:
                    getattr(files, f"tee_{name}s")[rank] = path
            files.error_files[rank] = str(folder / "error.json")
        return files


class Tail(threading.Thread):
    """Shows on the console what is written into a file, each line behind a prefix."""

    def __init__(self, path: str, prefix: str, console: TextIO) -> None:
        super().__init__(daemon=True, name="tee")
        self._path, self._prefix, self._console, self._ended = path, prefix, console, threading.Event()

    def run(self) -> None:
        # A worker may be in the middle of a character, which decoding a file's present end would take for a broken one.
        rest, decoder = "", io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), translate=True)
        with open(self._path, "rb") as file:
            while True:
                last = self._ended.wait(0.05)
                *lines, rest = (rest + decoder.decode(file.read(), last)).split("\n")
                if last and rest:
                    lines, rest = [*lines, rest], ""
                if lines:
                    self._console.write("".join(f"{self._prefix}{line}\n" for line in lines))
                    self._console.flush()
                if last:
                    return

    def end(self) -> None:
        """Show the rest."""
        self._ended.set()
        self.join(5.0)


def consoles() -> tuple[TextIO, TextIO]:
    return sys.stdout, sys.stderr
