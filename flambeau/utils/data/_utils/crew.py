"""A loader's side of its workers: they are started, given tasks, listened to and ended here, be they processes or threads."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import select
import signal
import socket
import threading
import time
from collections import deque
from typing import Any

from . import messages, worker
from .shared_memory import Mappings
from .streams import OwnStreams
from .worker import Epoch, Job

_PATIENCE = 5.0  # seconds that a worker has to finish its sample when the loader ends


class Answer:
    """Reply of a worker about one task; a batch in shared memory is unpacked when its turn comes."""

    __slots__ = ("_crew", "_reply", "ended", "epoch", "number", "state", "worker")

    def __init__(self, crew: Any, worker: int, reply: messages.Reply) -> None:
        self._crew, self.worker, self._reply = crew, worker, reply
        self.epoch, self.number, self.ended, self.state = reply.epoch, reply.number, reply.ended, reply.state

    def data(self) -> Any:
        """The batch, or an :class:`ExceptionWrapper`."""
        return self._crew.unpack(self.worker, self._reply)

    def discard(self) -> None:
        """Nobody wants it."""
        self._crew.discard(self.worker, self._reply)


class ProcessCrew:
    """Workers that are processes.

    Args:
        job: what they do.
        context: of multiprocessing, says how they are started; as the program's own processes are when None.
    """

    def __init__(self, job: Job, context: Any) -> None:
        import multiprocessing  # late: most programs load in one process

        self.processes: list[Any] = []
        self._sockets: list[socket.socket] = []
        self._receivers: list[messages.Receiver] = []
        self._outgoing: list[bytearray] = []
        self._mappings: list[Mappings] = []
        self._answers: deque[Answer] = deque()
        self._owner = os.getpid()
        self._poll = select.poll()
        self._worker_at: dict[int, int] = {}  # by descriptor of its socket or sentinel
        self._finished: set[int] = set()
        self._closed = False
        try:
            for number in range(job.num_workers):
                self._start(job, number, context or multiprocessing)
        except BaseException:
            self.close()
            raise

    def _start(self, job: Job, number: int, context: Any) -> None:
        ours, theirs = socket.socketpair()
        worker.ends_of_parent.add(ours)
        self._sockets.append(ours)
        try:
            process = context.Process(target=worker.process_main, args=(job, number, theirs, self._owner), daemon=True)
            process.start()
        finally:
            theirs.close()
        self.processes.append(process)
        ours.setblocking(False)
        self._receivers.append(messages.Receiver(ours))
        self._outgoing.append(bytearray())
        self._mappings.append(Mappings())
        self._worker_at[ours.fileno()] = self._worker_at[process.sentinel] = number
        self._poll.register(ours, select.POLLIN)
        self._poll.register(process.sentinel, select.POLLIN)

    # -- tasks
    def begin(self, worker: int, epoch: Epoch) -> None:
        """Start a pass."""
        self._send(worker, epoch)

    def give(self, worker: int, number: int, index: Any) -> None:
        """A task, and the memory that is free again."""
        self._send(worker, (number, index, self._mappings[worker].freed()))

    def _send(self, number: int, message: Any) -> None:
        from multiprocessing.reduction import ForkingPickler  # late: most programs load in one process

        data = ForkingPickler.dumps(message, 5)
        self._outgoing[number] += worker.LENGTH.pack(len(data)) + bytes(data)
        self._flush(number)

    def _flush(self, number: int) -> None:
        """Send as much as goes without waiting: a worker that waits for us to listen does not listen itself."""
        data, sock = self._outgoing[number], self._sockets[number]
        while data:
            try:
                del data[: sock.send(data)]
            except BlockingIOError:
                self._poll.modify(sock, select.POLLIN | select.POLLOUT)
                return
            except ConnectionError:
                return  # noticed where answers are read
        self._poll.modify(sock, select.POLLIN)

    # -- answers
    def receive(self, timeout: float | None) -> Answer | None:
        """The next answer of any worker; None when none comes within ``timeout`` seconds.

        Raises:
            RuntimeError: a worker has ended.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._answers:
            wait = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
            events = self._poll.poll(wait)
            if not events:
                return None
            dead = set()
            for descriptor, event in events:
                number = self._worker_at[descriptor]
                if descriptor == self.processes[number].sentinel:
                    dead.add(number)
                else:
                    if event & select.POLLOUT:
                        self._flush(number)
                    if event & ~select.POLLOUT and not self._read(number):
                        dead.add(number)
            for number in dead:  # what it said before is there to be read
                while self._has_more(number):
                    if not self._read(number):
                        break
            dead -= self._finished
            if dead and not self._answers:
                raise self._death(dead)
        return self._answers.popleft()

    def _has_more(self, number: int) -> bool:
        probe = select.poll()
        probe.register(self._sockets[number], select.POLLIN)
        return bool(probe.poll(0))

    def _read(self, number: int) -> bool:
        receiver = self._receivers[number]
        alive = receiver.read()
        while (message := receiver.next()) is not None:
            data, descriptors = message
            reply, sizes = pickle.loads(data)
            for descriptor, size in zip(descriptors, sizes, strict=True):
                self._mappings[number].add(descriptor, size)
            self._answers.append(Answer(self, number, messages.Reply(*reply)))
        return alive

    def unpack(self, number: int, reply: messages.Reply) -> Any:
        """The data of a reply."""
        return messages.unpack(reply, self._mappings[number])

    def discard(self, number: int, reply: messages.Reply) -> None:
        """Give back the memory of a reply."""
        messages.discard(reply, self._mappings[number])

    def _death(self, dead: set[int]) -> RuntimeError:
        for number in dead:
            self.processes[number].join(_PATIENCE)
        processes = [self.processes[number] for number in sorted(dead)]
        error = RuntimeError(f"DataLoader worker (pid(s) {', '.join(str(process.pid) for process in processes)}) exited unexpectedly")
        error.__cause__ = RuntimeError(_reason(processes[0].pid, processes[0].exitcode))
        return error

    # -- the end
    def finish(self, number: int) -> None:
        """A worker has no more to do, and ends by itself."""
        self._finished.add(number)
        self._unregister(number)
        self._sockets[number].shutdown(socket.SHUT_WR)

    def _unregister(self, number: int) -> None:
        for descriptor in [at for at, of in self._worker_at.items() if of == number]:
            del self._worker_at[descriptor]
            self._poll.unregister(descriptor)

    def close(self, patience: float = _PATIENCE) -> None:
        """End all workers: those that wait at once, others after their sample, or after ``patience`` seconds."""
        if self._closed:
            return
        self._closed = True
        in_child = os.getpid() != self._owner  # of a fork: the workers are not its children
        for sock in self._sockets:
            worker.ends_of_parent.discard(sock)
            if not in_child:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        if in_child:
            return
        deadline = time.monotonic() + patience
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        for process in self.processes:
            process.join(1.0)
            if process.is_alive():  # it ignores SIGTERM, or is stopped
                process.kill()
                process.join()


def _reason(pid: int | None, code: int | None) -> str:
    """Why a worker ended."""
    if code is None or code >= 0:
        return (
            f"DataLoader worker (pid {pid}) exited unexpectedly with exit code {code}. Details are lost due to multiprocessing. "
            "Rerunning with num_workers=0 may give better error trace."
        )
    text = f"DataLoader worker (pid {pid}) is killed by signal: {signal.strsignal(-code) or -code}. "
    if -code == signal.SIGBUS:
        text += "It is possible that dataloader's workers are out of shared memory. Please try to raise your shared memory limit."
    return text


class ThreadCrew:
    """Workers that are threads of this process: nothing is copied, and the dataset is shared.

    Args:
        job: what they do.
    """

    def __init__(self, job: Job) -> None:
        self.processes: list[Any] = []
        self._tasks: list[queue.SimpleQueue[Any]] = [queue.SimpleQueue() for _ in range(job.num_workers)]
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self._ending = threading.Event()
        # The threads must not refer to the crew: it ends them when the loop over the batches is dropped.
        for number, tasks in enumerate(self._tasks):
            args = (job, number, tasks, self._answers, self._ending)
            threading.Thread(target=_thread_main, args=args, name=f"DataLoader worker {number}", daemon=True).start()

    def begin(self, worker: int, epoch: Epoch) -> None:
        """Start a pass."""
        self._tasks[worker].put(epoch)

    def give(self, worker: int, number: int, index: Any) -> None:
        """A task."""
        self._tasks[worker].put((number, index))

    def receive(self, timeout: float | None) -> Answer | None:
        """The next answer of any worker; None when none comes within ``timeout`` seconds."""
        try:
            return self._answers.get(timeout=timeout)
        except queue.Empty:
            return None

    def finish(self, number: int) -> None:
        """A worker has no more to do, and ends by itself."""
        self._tasks[number].put(None)

    @staticmethod
    def unpack(worker: int, reply: Any) -> Any:
        """The data of a reply, which lies in it."""
        return reply.body.pop()

    @staticmethod
    def discard(worker: int, reply: Any) -> None:
        """Forget the data of a reply."""
        reply.body.clear()

    def close(self, patience: float = 0.0) -> None:
        """End all workers after their samples, without waiting for them: a thread cannot be ended from outside."""
        self._ending.set()
        for tasks in self._tasks:
            tasks.put(None)


def _thread_main(job: Job, number: int, tasks: Any, answers: Any, ending: threading.Event) -> None:
    info = worker.enter_thread(job, number)
    loop = worker.TaskLoop(job, number, OwnStreams(info.rng))
    loop.initialize()
    while (message := tasks.get()) is not None and not ending.is_set():
        if isinstance(message, Epoch):
            loop.begin(message)
            continue
        task, index = message
        try:
            box: Any = loop.perform(task, index)
        except BaseException:  # sys.exit, say: the loader would wait for ever
            box = [loop.error()]
            box[0].exc_type = RuntimeError
        if box is not None:
            try:
                state = loop.state()
            except Exception:
                box, state = [loop.error()], None
            answers.put(Answer(ThreadCrew, number, messages.Reply(loop.epoch, task, loop.ended, box, [], state)))
            del box
