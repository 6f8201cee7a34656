"""Execution traces: every operation with its arguments and results, as JSON that Chakra's tools and PyTorch's replay read.

    1   process                                 ids number nodes, tensors and memory alike, in the order in which they are met
    2     thread
    3       aten::linear                        a node says what it is within (``ctrl_deps``)
    7         aten::addmm                       a tensor is [id, id of its memory, offset, elements, bytes of one, device]

A node is written when it ends, so that those within come first. Nodes are the calls that ran: what is one kernel here is one node.
Source: torch.profiler.ExecutionTraceObserver.
"""

from __future__ import annotations

import gzip
import itertools
import json
import math
import os
import threading
import time
import weakref
from typing import Any, TextIO

import numpy as np

from ..aten.event_arguments import is_tensor, shape_of, strides_of, type_name
from ..core.device import device
from ..core.profiling import EVALUATION, NODE, OPERATION, RANGE, Range, tracing
from ..core.random.generator import Generator
from ..core.tensor import Tensor

SCHEMA = "1.1.1-chakra.0.0.4"
_handles = itertools.count(1)  # of ranges, over the whole process
_PREFIX = "[pytorch|profiler|execution_trace|"


class _Node:
    """A range that is open: its number, what it is within, and its inputs."""

    __slots__ = ("forward_parent", "handle", "inputs", "number", "outputs", "parent", "schema")

    def __init__(self, number: int, parent: int):
        self.number, self.parent, self.handle = number, parent, next(_handles)
        self.forward_parent, self.schema = 0, ""
        self.inputs = self.outputs = _sides([])


class ExecutionTrace:
    """Writes a trace to a file until ``finish``; in between it may be started and stopped.

    Args:
        path: the file, compressed if it ends in ``.gz``.
    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: str):
        compressed = path.endswith(".gz")
        self._file: TextIO | None = gzip.open(path, "wt", encoding="utf-8") if compressed else open(path, "w", encoding="utf-8")
        self._has_begun = False
        self._lock = threading.RLock()  # a tensor may end, and so be forgotten, while a node is written
        self._count = itertools.count(2)
        self._threads: dict[int, int] = {}  # number of a thread -> its node
        self._open: dict[Range, _Node] = {}
        self._stacks: dict[int, list[_Node]] = {}  # by number of the thread
        self._known: dict[int, tuple[Any, int]] = {}  # by id of a tensor or an array: who tells of its end, and its number
        self._tracing: tracing | None = None
        self._is_first = True
        self._process = os.getpid()

    # -- life ---------------------------------------------------------------------------------------------------------------------------
    @property
    def is_running(self) -> bool:
        """Whether it is being told of what runs."""
        return self._tracing is not None

    def start(self) -> None:
        """Write what runs from now on."""
        if self._tracing is not None or self._file is None:
            return
        if not self._has_begun:
            self._begin()
        self._tracing = tracing(self)
        self._tracing.start()

    def stop(self) -> None:
        """Stop writing; ranges that are still open are never written."""
        if self._tracing is None:
            return
        self._tracing.stop()
        self._tracing = None
        with self._lock:
            self._open.clear()
            self._stacks.clear()

    def finish(self) -> None:
        """End the file."""
        self.stop()
        if self._file is None or os.getpid() != self._process:
            return
        if self._has_begun:
            root = _Node(1, 1)
            root.handle = 0
            self._write(f"{_PREFIX}process]", root, RANGE, -1, 0, 0)
            self._file.write(f'\n  ],\n  "finish_ts": {time.monotonic_ns() // 1_000_000}\n}}\n')
        self._file.close()
        self._file = None

    def _begin(self) -> None:
        assert self._file is not None
        day = time.strftime("%Y-%m-%d %H:%M:%S")
        head = {"schema": SCHEMA, "pid": self._process, "time": day, "start_ts": time.monotonic_ns() // 1_000_000}
        self._file.write(f'{{\n  {json.dumps(head)[1:-1]},\n  "nodes": [\n')
        self._has_begun = True

    # -- what the recorder tells ----------------------------------------------------------------------------------------------------------
    def opened(self, opened: Range) -> None:
        """A range begins."""
        with self._lock:
            stack = self._stack_of(opened.thread)
            node = _Node(next(self._count), stack[-1].number if stack else self._threads[opened.thread])
            stack.append(node)
            self._open[opened] = node

    def reads(self, opened: Range, schema: Any, values: Any) -> None:
        """The inputs of a range.

        Args:
            schema: of the kernel; None for what has none.
        """
        with self._lock:
            node = self._open.get(opened)
            if node is None:
                return
            node.schema = "" if schema is None else str(schema)
            node.inputs = _sides([self._described(value) for value in values])
            if opened.scope is NODE and (forward := self._stacks.get(opened.forward_thread or opened.thread)):
                node.forward_parent = forward[-1].number if forward[-1] is not node else node.parent

    def returns(self, opened: Range, result: Any) -> None:
        """The results of a range."""
        with self._lock:
            node = self._open.get(opened)
            if node is not None:
                several = isinstance(result, tuple) and not (node.schema.endswith("[]") or isinstance(result, list))
                given = [list(result)] if node.schema.endswith("[]") else list(result) if several else [result]
                node.outputs = _sides([self._described(value) for value in given if value is not None or several])

    def closed(self, opened: Range) -> None:
        """A range ends."""
        with self._lock:
            node = self._open.pop(opened, None)
            if node is None or self._file is None or os.getpid() != self._process:
                return
            stack = self._stack_of(opened.thread)
            while stack and stack.pop() is not node:
                pass
            if opened.argument is not None:
                node.inputs = _sides([self._described(opened.argument)])
            scope = OPERATION if opened.scope is EVALUATION else opened.scope
            forward = (opened.forward_thread or opened.thread) if opened.scope is NODE else 0
            sequence = -1 if opened.scope is EVALUATION else opened.sequence
            self._write(opened.name, node, scope, sequence, opened.thread, forward)

    def _stack_of(self, thread: int) -> list[_Node]:
        if thread not in self._threads:
            self._threads[thread] = next(self._count)
            node = _Node(self._threads[thread], 1)
            node.handle = 0
            self._write(f"{_PREFIX}thread]", node, RANGE, -1, thread, 0)
        return self._stacks.setdefault(thread, [])

    # -- values -------------------------------------------------------------------------------------------------------------------------
    def _number_of(self, thing: Any) -> int:
        """A number for a tensor or its memory, which nothing else has while it lives."""
        known = self._known.get(id(thing))
        if known is not None:
            return known[1]
        key, number = id(thing), next(self._count)
        self._known[key] = weakref.ref(thing, lambda _: self._known.pop(key, None)), number
        return number

    def _described(self, value: Any) -> tuple[Any, Any, str, Any]:
        """A value, its shape, the name of its type, and its strides."""
        if is_tensor(value):
            return self._tensor(value), shape_of(value), f"Tensor({type_name(value)})", strides_of(value)
        if isinstance(value, (list, tuple)):
            parts = [self._described(part) for part in value]
            kind = f"GenericList[{','.join(part[2] for part in parts)}]"
            return [part[0] for part in parts], [part[1] for part in parts], kind, [part[3] for part in parts]
        for kinds, name, shown in _PLAIN:
            if isinstance(value, kinds):
                return shown(value), [], name, []
        return "<Object>", [], "Object", []

    def _tensor(self, value: Any) -> list[Any]:
        array = value._array if isinstance(value, Tensor) else value.array
        number = self._number_of(value)
        if not isinstance(array, np.ndarray):  # its memory has no number: sizes alone, or another library's
            return [number, 0, 0, math.prod(shape_of(value)), getattr(value, "itemsize", 4), _place(value)]
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        offset = value.storage_offset() if isinstance(value, Tensor) else 0
        return [number, self._number_of(root), offset, array.size, array.itemsize, _place(value)]

    # -- writing ------------------------------------------------------------------------------------------------------------------------
    def _write(self, name: str, node: _Node, scope: int, sequence: int, thread: int, forward_thread: int) -> None:
        assert self._file is not None
        attributes = (
            ("rf_id", "uint64", node.handle), ("fw_parent", "uint64", node.forward_parent), ("seq_id", "int64", sequence),
            ("scope", "uint64", scope), ("tid", "uint64", thread), ("fw_tid", "uint64", forward_thread),
            ("op_schema", "string", node.schema),
            *[(name, "string", "") for name in ("kernel_backend", "kernel_file", "tensor_range")],
        )  # fmt: skip
        written = {
            "id": node.number,
            "name": name,
            "ctrl_deps": node.parent,
            "inputs": node.inputs,
            "outputs": node.outputs,
            "attrs": [{"name": word, "type": kind, "value": value} for word, kind, value in attributes],
        }
        self._file.write(("" if self._is_first else ",\n") + "      " + json.dumps(written))
        self._is_first = False


def _sides(described: list[tuple[Any, Any, str, Any]]) -> dict[str, list[Any]]:
    values, shapes, types, strides = zip(*described, strict=True) if described else ((), (), (), ())
    return {"values": list(values), "shapes": list(shapes), "types": list(types), "strides": list(strides)}


def _place(value: Any) -> str:
    return str(value.device) if isinstance(value, Tensor) else "cpu"


def _finite(value: float) -> Any:
    """A number as JSON has it; words for those that it has not."""
    return value if math.isfinite(value) else str(value)


# Kinds of values that are no tensors -> their names in PyTorch, and how they are written; truth values stand before whole numbers.
_PLAIN: tuple[tuple[Any, str, Any], ...] = (
    (type(None), "None", lambda value: "<None>"),
    (bool, "Bool", bool),
    (int, "Int", int),
    (float, "Double", _finite),
    (complex, "ComplexDouble", str),
    (str, "String", str),
    (device, "Device", str),
    (Generator, "Generator", lambda value: "<Generator>"),
)
