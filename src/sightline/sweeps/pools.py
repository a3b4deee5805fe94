"""Who does the work: processes of this machine, or the workers of a Ray or Dask cluster, and pools of them.

Joblib's backend is given single calls rather than ``joblib.Parallel`` a list: so it is known of each whether its
worker died, where ``Parallel`` gives up all of them.
"""

import logging
import os
import re
import signal
import socket
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from sightline.errors import InputError, WorkError, missing_extra, nearest, reason

KINDS = ("local", "ray", "dask")
ALLOWED = "local, ray or dask, with a worker count or cluster address, such as local:8 or dask:tcp://node0:8786"
"""What ``--workers`` may be."""
AUTO = "auto"
"""Ray's word for the cluster that this machine is part of."""

_ADDRESS = re.compile(r"(?:[a-z]+://)?(?P<host>[^\s/:\[\]]+|\[[^\s\[\]]+\]):(?P<port>\d{1,5})/?", re.ASCII)
_ANSWERS_WITHIN_S = 5.0
_MOST = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """Workers as ``--workers`` names them."""

    kind: str
    """One of ``KINDS``."""
    count: int | None = None
    """How many are started here; None for as many as there are cores, or as the cluster has."""
    address: str | None = None
    """Of a cluster that is already there; None to start one here."""

    def __str__(self) -> str:
        """As it is typed."""
        detail = self.address or self.count
        return self.kind if detail is None else f"{self.kind}:{detail}"


def read_workers(text: str) -> Workers:
    """Return the workers that a text names: ``local``, ``local:8``, ``ray``, ``dask:tcp://node0:8786``, ...

    Raises:
        InputError: It names none.
    """
    kind, separator, detail = text.strip().partition(":")
    if kind not in KINDS or (separator and not detail):
        raise InputError(
            f"--workers is '{text}'; allowed: {ALLOWED}{nearest(kind, KINDS) if kind not in KINDS else ''}"
        )
    if not separator:
        return Workers(kind=kind)
    if detail.isdecimal():
        if not 1 <= int(detail) <= _MOST:
            raise InputError(f"--workers is '{text}'; allowed: 1 to {_MOST} workers")
        return Workers(kind=kind, count=int(detail))
    if kind == "local":
        raise InputError(f"--workers is '{text}'; allowed after local: a worker count, such as local:8")
    return Workers(kind=kind, address=detail)


def require_answer(workers: Workers) -> None:
    """Raise `InputError` where nothing answers at a cluster's address; libraries wait long before they say so."""
    if workers.address is None or (workers.kind == "ray" and workers.address == AUTO):
        return
    found = _ADDRESS.fullmatch(workers.address)
    if found is None or int(found["port"]) > 65535:
        raise InputError(f"--workers is '{workers}': '{workers.address}' is not an address such as node0:6379")
    try:
        socket.create_connection((found["host"].strip("[]"), int(found["port"])), _ANSWERS_WITHIN_S).close()
    except OSError as error:
        raise unreachable(workers, error) from error


def unreachable(workers: Workers, error: Exception) -> InputError:
    """Return the error for a cluster that cannot be used."""
    return InputError(
        f"--workers is '{workers}': no cluster answers at '{workers.address}' "
        f"({' '.join(reason(error).lower().split())}); start one there, or use --workers {workers.kind} to start one "
        "here"
    )


Job = Any
"""A call that was given to a worker."""

_LEAST_OF_RAY = 2
"""Fewer are no pool."""
_DASK_IS_THERE = ("running", "connecting")
_DASK_ANSWERS_WITHIN = "10s"
_RAY_STORE_BYTES = 100_000_000
"""Shared memory of a local cluster: chunks and tables are small."""


def _called(call: Callable[[], Any]) -> Any:
    return call()


class Pool(ABC):
    """Workers that take calls. What a library raises where workers died is its own."""

    width: int
    """How many calls run at the same time."""

    def __init__(self, backend: Any, width: int) -> None:
        """Give calls to a library's own pool."""
        self._backend, self.width = backend, width
        self._ended = threading.Event()

    @abstractmethod
    def submit(self, function: Callable[..., Any], *arguments: Any) -> Job:
        """Give a call to some worker."""

    def wait(self, seconds: float) -> None:
        """Return when some call may have ended, or after so many seconds.

        Raises:
            ConnectionError: The cluster is gone.
        """
        self._ended.wait(seconds)
        self._ended.clear()

    def is_done(self, job: Job) -> bool:
        """Whether the call has ended, by the name that the library's kind of future has for it."""
        return bool(job.ready() if hasattr(job, "ready") else job.done())

    def result(self, job: Job) -> Any:
        """Return what a call that has ended returned."""
        return job.get() if hasattr(job, "get") else job.result()

    def mend(self) -> bool:
        """Replace workers after one has died; whether all calls that were running are lost."""
        return False

    def _tell(self, _: object) -> None:
        """Take note that some call has ended."""
        self._ended.set()


class _RayPool(Pool):
    """Tasks of Ray, which go to the nodes that there are: actors of a lost node would wait for another one."""

    def __init__(self, task: Any, width: int) -> None:
        super().__init__(task, width)
        self._given = dict[Job, Any]()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Job:
        """Give a call to some worker."""
        task = self._backend.remote(partial(function, *arguments))
        job = task.future()
        self._given[job] = task
        job.add_done_callback(self._tell)
        return job

    def result(self, job: Job) -> Any:
        """Return what a call that has ended returned."""
        del self._given[job]
        return super().result(job)

    def leave(self) -> None:
        """End what still runs."""
        import ray

        for task in self._given.values():
            ray.cancel(task, force=True)


class _LocalPool(Pool):
    """Processes of this machine, through joblib."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Job:
        """Give a call to some worker."""
        return self._backend.submit(partial(function, *arguments), self._tell)

    def mend(self) -> bool:
        """Start all again: loky gives up all processes when one dies."""
        self._backend.abort_everything(ensure_ready=True)
        return True


class _DaskPool(Pool):
    """Workers of Dask, which are asked directly: joblib's backend can miss that the only call that runs has ended."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Job:
        """Give a call to some worker."""
        job = self._backend.submit(function, *arguments, pure=False)
        job.add_done_callback(self._tell)
        return job

    def wait(self, seconds: float) -> None:
        """Return when some call may have ended, or after so many seconds."""
        if self._backend.status not in _DASK_IS_THERE:
            raise ConnectionError("the cluster is gone")
        super().wait(seconds)

    def result(self, job: Job) -> Any:
        """Return what a call that has ended returned."""
        if job.cancelled():
            raise ConnectionError("the cluster disconnected")
        return super().result(job)


@contextmanager
def open_pool(workers: Workers) -> Iterator[Pool]:
    """Start the workers, or connect to the cluster that has them; what was started here ends with the block.

    Raises:
        InputError: Nothing answers at the cluster's address.
        WorkError: A package is missing, or the cluster has no workers.
    """
    require_answer(workers)
    opened = {"local": _local, "ray": _ray, "dask": _dask}[workers.kind]
    with opened(workers) as pool:
        yield pool


@contextmanager
def _local(workers: Workers) -> Iterator[Pool]:
    from joblib import Parallel, cpu_count, parallel_config

    count = workers.count or cpu_count()
    with parallel_config(backend="loky", n_jobs=count, initializer=_ignore_interrupts):
        parallel = Parallel()
    with parallel:
        backend = parallel._backend  # noqa: SLF001 - joblib has no public way from a name to its backend
        try:
            yield _LocalPool(backend, count)
        finally:
            with suppress(Exception):
                backend.abort_everything(ensure_ready=False)


def _ignore_interrupts() -> None:
    """Leave Ctrl-C, which a terminal sends to all of its processes, to the one that was started there."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _ray(workers: Workers) -> Iterator[Pool]:
    if "ray" not in sys.modules:
        # No figures go to its makers, and what it says of dead workers does not go to stdout, which holds the answer.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    try:
        import ray
    except ImportError as error:
        raise missing_extra(f"--workers {workers}", "ray") from error
    is_ours = not ray.is_initialized()
    if is_ours:
        _begin_ray(workers)
    try:
        width = int(ray.cluster_resources().get("CPU", 0))
        if width < _LEAST_OF_RAY:
            raise WorkError(
                f"--workers is '{workers}': the cluster has {width} CPUs; at least {_LEAST_OF_RAY} are required"
            )
        # A lost call is given again where its deaths are counted, so Ray itself does not.
        pool = _RayPool(ray.remote(num_cpus=1, max_retries=0)(_called), width)
        try:
            yield pool
        finally:
            pool.leave()
    finally:
        if is_ours:
            ray.shutdown()


def _begin_ray(workers: Workers) -> None:
    """Connect to a cluster, or start one here."""
    import ray
    from joblib import cpu_count

    quiet = {"logging_level": "ERROR", "log_to_driver": False}
    if workers.address is None:
        cores = max(workers.count or cpu_count(), _LEAST_OF_RAY)
        ray.init("local", num_cpus=cores, include_dashboard=False, object_store_memory=_RAY_STORE_BYTES, **quiet)
        return
    try:
        ray.init(workers.address, **quiet)
    except (OSError, RuntimeError, TimeoutError, ValueError) as error:
        raise unreachable(workers, error) from error


@contextmanager
def _dask(workers: Workers) -> Iterator[Pool]:
    try:
        from distributed import Client
    except ImportError as error:
        raise missing_extra(f"--workers {workers}", "dask") from error
    with ExitStack() as opened:
        opened.enter_context(_without_logs(*_LOGS_OF_DASK))
        cluster = workers.address or opened.enter_context(_dask_cluster(workers))
        try:
            client = opened.enter_context(Client(cluster, timeout=_DASK_ANSWERS_WITHIN, set_as_default=False))
        except (OSError, TimeoutError, ValueError) as error:
            raise unreachable(workers, error) from error
        try:
            client.wait_for_workers(1, timeout=_DASK_ANSWERS_WITHIN)
        except TimeoutError as error:
            raise WorkError(f"--workers is '{workers}': the cluster has no workers") from error
        if workers.address is None:
            client.register_plugin(_undisturbed())
        yield _DaskPool(client, sum(client.nthreads().values()))


_LOGS_OF_DASK = ("distributed", "distributed.client", "tornado", "tornado.application", "bokeh", "asyncio")
"""What writes to stderr of workers that die and of a cluster that goes away, which we say in a sentence."""


@contextmanager
def _without_logs(*names: str) -> Iterator[None]:
    """Have loggers, and those below them, write nothing."""
    loggers = [logging.getLogger(name) for name in names]
    before = [(logger.handlers, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.handlers, logger.propagate = [logging.NullHandler()], False
    try:
        yield
    finally:
        for logger, usual in zip(loggers, before, strict=True):
            logger.handlers, logger.propagate = usual


def _dask_cluster(workers: Workers) -> Any:
    from distributed import LocalCluster
    from joblib import cpu_count

    return LocalCluster(
        n_workers=workers.count or cpu_count(),
        threads_per_worker=1,
        dashboard_address=None,
        silence_logs=logging.CRITICAL,
        # What kills its worker is found out by doing it alone, so that the scheduler need not try so often.
        scheduler_kwargs={"allowed_failures": 1},
    )


def _undisturbed() -> Any:
    """What has workers of Dask ignore interrupts, also those that replace dead ones."""
    from distributed import WorkerPlugin

    class Undisturbed(WorkerPlugin):  # type: ignore[misc]
        def setup(self, worker: Any) -> None:  # noqa: ARG002 - Dask gives it
            _ignore_interrupts()

    return Undisturbed()
