"""The ranks that a case runs on this machine: started together, listened to, and ended together when one fails."""

import contextlib
import json
import os
import selectors
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NoReturn

from sightline.errors import WorkError
from sightline.measurement.processes import tree
from sightline.measurement.processes.isolation import Emit, OutOfMemoryError, UnsupportedCaseError, run_entry

GRACE_S = 5.0
"""After one rank has failed, how long the others may still say why they did."""
PATIENCE = timedelta(minutes=10)
"""How long a rank waits for the others in a collective; what hangs longer than the case may take is ended before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """Which ranks of all run here."""

    here: int
    first: int = 0
    world: int = 0
    """All ranks on all nodes; 0 means those here."""
    threads: int = 1
    """Of each rank, which it finds in the variable ``SIGHTLINE_THREADS``."""
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """All ranks on all nodes."""
        return self.world or self.here


def run_ranks(entry: str, arguments: Mapping[str, Any], ranks: Ranks, emit: Emit) -> list[Mapping[str, Any]]:
    """Run ``entry`` once per rank and return what each returned; samples of this node's first rank are passed on.

    Raises:
        UnsupportedCaseError, OutOfMemoryError, WorkError: How the first rank that failed did; the others are ended.
    """
    kills = tree.kernel_kills()
    request = {"entry": entry, "arguments": arguments, "path": list(sys.path)}
    started = [_Rank(number, ranks, request) for number in range(ranks.here)]
    try:
        _listen(started, emit)
    finally:
        for rank in started:
            rank.end()
    failed = [rank for rank in started if rank.status != "ok"]
    if failed:
        _complain(min(failed, key=lambda rank: rank.ended), tree.kernel_kills() > kills)
    return [rank.result for rank in started]


class _Rank:
    """One rank's process and what it has said."""

    def __init__(self, number: int, ranks: Ranks, request: Mapping[str, Any]) -> None:
        self.number = ranks.first + number
        self.status, self.reason, self.ended = "", "", float("inf")
        self.result: Mapping[str, Any] = {}
        self._rest = b""
        self.messages, writing = os.pipe()
        variables = {
            "RANK": str(self.number),
            "LOCAL_RANK": str(number),
            "WORLD_SIZE": str(ranks.total),
            "LOCAL_WORLD_SIZE": str(ranks.here),
            "SIGHTLINE_THREADS": str(ranks.threads),
            "OMP_NUM_THREADS": str(ranks.threads),
            "MKL_NUM_THREADS": str(ranks.threads),
            **ranks.variables,
        }
        self._parent = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._become(request, variables, writing)
        os.close(writing)

    def _become(self, request: Mapping[str, Any], variables: Mapping[str, str], messages: int) -> NoReturn:
        """Be the rank: what this process has loaded is there already, and nothing of it has run yet."""
        try:
            tree.die_with_parent(self._parent)
            os.environ.update(variables)
            run_entry(request, messages)
        finally:
            os._exit(1)

    def hear(self, emit: Emit | None) -> bool:
        """Take in what was said; False when the rank has no more to say."""
        piece = os.read(self.messages, 65536)
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for message in (json.loads(line) for line in lines if line):
            if "sample" not in message:
                self.status, self.reason, self.ended = message["status"], message.get("reason", ""), time.monotonic()
                self.result = message.get("result", {})
            elif emit is not None:
                emit(message["sample"])
        if not piece:
            self.ended = min(self.ended, time.monotonic())
        return bool(piece)

    def end(self) -> None:
        """Kill what is left of it."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        self.code = os.waitstatus_to_exitcode(status)
        os.close(self.messages)


def _listen(ranks: Sequence[_Rank], emit: Emit) -> None:
    """Listen until all ranks have ended, or until one has failed and the others had time to say why."""
    deadline = float("inf")
    with selectors.DefaultSelector() as selector:
        for rank in ranks:
            selector.register(rank.messages, selectors.EVENT_READ, rank)
        while selector.get_map() and time.monotonic() < deadline:
            for key, _ in selector.select(timeout=0.2):
                heard: _Rank = key.data
                if not heard.hear(emit if heard is ranks[0] else None):
                    selector.unregister(heard.messages)
                    if heard.status != "ok":
                        deadline = min(deadline, time.monotonic() + GRACE_S)


def _complain(rank: _Rank, kernel_killed: bool) -> None:
    which = f"rank {rank.number}: "
    if rank.status == "unsupported":
        raise UnsupportedCaseError(rank.reason)
    if rank.status == "out_of_memory":
        raise OutOfMemoryError(which + rank.reason)
    if rank.status:
        raise WorkError(which + rank.reason)
    if rank.code == -signal.SIGKILL and kernel_killed:
        raise OutOfMemoryError(which + "killed by the kernel: out of memory")
    raise WorkError(f"{which}exited with {rank.code} before it returned")


def device_of_rank() -> str:
    """Return this rank's device, as PyTorch writes it, and limit the rank to its threads."""
    import torch

    torch.set_num_threads(int(os.environ["SIGHTLINE_THREADS"]))
    if os.environ["SIGHTLINE_DEVICE"] == "cpu":
        return "cpu"
    device = f"cuda:{os.environ['LOCAL_RANK']}"
    torch.cuda.set_device(device)
    return device


def join(rendezvous: Mapping[str, Any]) -> str:
    """Become one of the ranks of PyTorch's default group, and return this one's device.

    Ranks find each other by ``rendezvous``: a ``file``, or ``host``, ``port`` and ``prefix`` of a server.
    """
    import torch
    import torch.distributed

    dist: Any = torch.distributed
    device, rank, world = device_of_rank(), int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if "file" in rendezvous:
        store = dist.FileStore(rendezvous["file"], world)
    else:
        server = dist.TCPStore(rendezvous["host"], int(rendezvous["port"]), is_master=False, timeout=PATIENCE)
        store = dist.PrefixStore(rendezvous["prefix"], server)
    library, on_device = ("gloo", {}) if device == "cpu" else ("nccl", {"device_id": torch.device(device)})
    dist.init_process_group(library, store=store, rank=rank, world_size=world, timeout=PATIENCE, **on_device)
    return device
