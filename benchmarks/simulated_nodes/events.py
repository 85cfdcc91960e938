"""Rates by simulating the threads of all workers of a node, event by event.

Threads take samples from their readers, wait for the storage, compute on CPUs whose clock and cores they share, wait for locks, and
move bytes through the memory of their socket. Nothing here is a formula of the product's model, and nothing of it is imported.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from functools import cache
from heapq import heappop, heappush
from itertools import count

from benchmarks.simulated_nodes.truth import Node, Rates, Truth, WorkerRate

# Samples that each thread takes on average, and those of them that pass before the measuring begins.
SAMPLES_PER_THREAD, WARM_SHARE = 60, 0.25
LEAST_SAMPLES = 2_000

Step = Generator["float | Lock", None, None]
"""A thread: it yields seconds to pass, or a lock to get."""


def rates_of(truth: Truth) -> Rates:
    """Return the rates of a truth whose `simulates` is `events`. Each launch is simulated once."""

    @cache
    def rate(nodes: int, tasks: int, cpus: int) -> WorkerRate:
        return _Simulation(truth, nodes, tasks, cpus).run()

    return rate


@dataclass
class Lock:
    """One server with a queue in the order of arrival."""

    is_held: bool = False
    queue: deque[Step] = field(default_factory=deque)


@dataclass
class _Worker:
    cores: list[int]
    slowdown: float
    memory: list[Lock]  # of the sockets that it lies on
    locks: dict[str, Lock]
    read: int = 0  # samples that its readers hold ready
    readers: list[Step] = field(default_factory=list)  # that wait for room
    hungry: deque[Step] = field(default_factory=deque)  # threads that wait for a sample
    done: int = 0


class _Simulation:
    """One node of a launch; the storage gives it its share."""

    def __init__(self, truth: Truth, nodes: int, tasks: int, cpus: int) -> None:
        self.pipeline, self.node, self.tasks, self.cpus = truth.pipeline, truth.node, tasks, cpus
        self.random = random.Random(f"{truth.name} {nodes}x{tasks}x{cpus}")
        self.now, self.order = 0.0, count()
        self.events: list[tuple[float, int, Step]] = []
        self.busy = [0] * self.node.cores
        self.busy_cores = 0
        self.cpu_s = self.last_s = 0.0
        pipeline = self.pipeline
        locked_s = {"handoff": pipeline.handoff_s, "python": pipeline.python_s, "serial": pipeline.serial_s}
        self.locked_s = {name: seconds for name, seconds in locked_s.items() if seconds}
        self.spent_s = dict.fromkeys(locked_s, 0.0)
        sockets = [Lock() for _ in range(self.node.sockets)]
        self.workers = [self._worker(index, sockets) for index in range(tasks)]
        self.storage = Lock()
        whole = truth.cluster.storage_bytes_per_s
        self.storage_s = self.pipeline.read_bytes * nodes / whole if whole else 0.0
        memory = self.node.memory_bytes_per_s
        self.memory_s = self.pipeline.memory_bytes * self.node.sockets / memory if memory else 0.0

    def run(self) -> WorkerRate:
        reads = self.pipeline.read_bytes > 0
        for worker in self.workers:
            for number in range(self.cpus):
                # Threads do not start in step.
                thread = self._thread(worker, worker.cores[number % len(worker.cores)], reads)
                self._after(self.random.random() * self.pipeline.cpu_s, thread)
            for _ in range(self.pipeline.readers if reads else 0):
                self._after(0.0, self._reader(worker))
        wanted = max(LEAST_SAMPLES, SAMPLES_PER_THREAD * self.tasks * self.cpus)
        warm = int(WARM_SHARE * wanted)
        began_s, before = 0.0, 0.0
        while self._done() < wanted:
            for _ in range(200):
                self.now, _, step = heappop(self.events)
                self._advance(step)
            if not began_s and self._done() >= warm:
                began_s, before, warm = self.now, self.cpu_s, self._done()
        samples, done = self._done() - warm, self._done()
        return WorkerRate(
            samples_per_s=samples / (self.now - began_s) / self.tasks,
            cpu_s_per_sample=(self.cpu_s - before) / samples,
            serial_s=self.spent_s["serial"] / done,
            python_s=self.spent_s["python"] / done,
        )

    def _done(self) -> int:
        return sum(worker.done for worker in self.workers)

    # --- threads ----------------------------------------------------------------------------------------------------------------

    def _thread(self, worker: _Worker, core: int, reads: bool) -> Step:
        pipeline = self.pipeline
        while True:
            if reads:
                while not worker.read:
                    worker.hungry.append(self.current)
                    yield math.inf
                worker.read -= 1
                if worker.readers:
                    self._after(0.0, worker.readers.pop())
            yield from self._compute(worker, core, pipeline.parallel_s * self._element())
            for name, lock in worker.locks.items():
                yield lock
                yield from self._compute(worker, core, self.locked_s[name] * self._element())
                self.spent_s[name] += self.last_s
                self._release(lock)
            worker.done += 1

    def _reader(self, worker: _Worker) -> Step:
        room = 2 * self.cpus
        while True:
            while worker.read >= room:
                worker.readers.append(self.current)
                yield math.inf
            if self.pipeline.read_wait_s:
                yield self.random.expovariate(1 / self.pipeline.read_wait_s)
            if self.storage_s:
                yield self.storage
                yield self.storage_s
                self._release(self.storage)
            worker.read += 1
            if worker.hungry:
                self._after(0.0, worker.hungry.popleft())

    def _compute(self, worker: _Worker, core: int, seconds: float) -> Step:
        """Hold a CPU: for the time at the clock of now, and for the bytes that go through memory in that time."""
        if not self.busy[core]:
            self.busy_cores += 1
        self.busy[core] += 1
        took = seconds * worker.slowdown / self._speed(core)
        began = self.now
        yield took
        if self.memory_s:
            memory = self.random.choice(worker.memory)
            yield memory
            yield self.memory_s * seconds / self.pipeline.cpu_s
            self._release(memory)
        self.last_s = self.now - began
        self.cpu_s += self.last_s
        self.busy[core] -= 1
        if not self.busy[core]:
            self.busy_cores -= 1

    def _element(self) -> float:
        cv = self.pipeline.element_cv
        return self.random.lognormvariate(-math.log1p(cv * cv) / 2, math.sqrt(math.log1p(cv * cv))) if cv else 1.0

    # --- CPUs -------------------------------------------------------------------------------------------------------------------

    def _clock(self) -> float:
        cores = max(2, self.node.cores)
        return 1 - (1 - self.node.all_core_clock) * math.log2(max(1, self.busy_cores)) / math.log2(cores)

    def _speed(self, core: int) -> float:
        """Return the speed of a thread on a core, as the core is used now."""
        threads = self.busy[core]
        return self._clock() * (1.0 if threads <= 1 else (1 + self.node.smt_gain * min(1, threads - 1)) / threads)

    def _worker(self, index: int, sockets: list[Lock]) -> _Worker:
        """Return a worker on whole cores, one after the other, as `srun --cpu-bind=cores` deals them out."""
        node: Node = self.node
        per_core = node.threads_per_core
        first = index * self.cpus
        cores = [(first + number) // per_core % node.cores for number in range(self.cpus)]
        used = {core * node.sockets // node.cores for core in cores}
        slowdown = node.remote_slowdown if len(used) > 1 else 1.0
        locks = {name: Lock() for name in self.locked_s}
        return _Worker(cores=cores, slowdown=slowdown, memory=[sockets[number] for number in sorted(used)], locks=locks)

    # --- the clock --------------------------------------------------------------------------------------------------------------

    def _after(self, seconds: float, step: Step) -> None:
        heappush(self.events, (self.now + seconds, next(self.order), step))

    def _advance(self, step: Step) -> None:
        self.current = step
        wanted = next(step)
        if isinstance(wanted, Lock):
            if wanted.is_held:
                wanted.queue.append(step)
            else:
                wanted.is_held = True
                self._after(0.0, step)
        elif wanted < math.inf:
            self._after(wanted, step)

    def _release(self, lock: Lock) -> None:
        if lock.queue:
            self._after(0.0, lock.queue.popleft())
        else:
            lock.is_held = False
