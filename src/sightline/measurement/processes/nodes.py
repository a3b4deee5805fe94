"""Several nodes that measure together: the first one decides what is run next, stores and prints; the others follow.

They meet at a key-value server of PyTorch's, which the first node's process runs or, under torchrun, torchrun's agent.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from sightline.errors import InputError, WorkError

FIRST_CONTACT = timedelta(minutes=5)
NEXT_CASE = timedelta(hours=12)
"""How long a node waits for the first one to begin another scenario."""
FAREWELL_S = 30.0
_LEFT, _NEXT = "sightline/left", "sightline/next"


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """Where this node stands among those that measure together."""

    count: int = 1
    rank: int = 0
    host: str = ""
    port: int = 0
    served: bool = False
    """torchrun runs the server."""
    local_rank: int | None = None
    """Under torchrun, where every process is a node of one device: which device of the machine that is."""
    local_count: int = 1
    """Nodes on this machine."""

    def to_dict(self, number: int) -> dict[str, Any]:
        """As an argument of the request's scenario of this number.

        It is empty for a single node, whose ranks meet by a file.
        """
        return {} if self.count == 1 else {**asdict(self), "prefix": f"sightline/ranks/{number}"}


def nodes_of(count: int | None, rank: int | None, rendezvous: str | None) -> Nodes:
    """Return what options say, or torchrun's environment where it started this process.

    Raises:
        InputError: Options contradict each other, or the rendezvous point is none.
    """
    if count is None and rank is None and rendezvous is None:
        return _of_torchrun(os.environ) if "TORCHELASTIC_RUN_ID" in os.environ else Nodes()
    count, rank = count or 1, rank or 0
    if not 0 <= rank < count:
        raise InputError(f"--node-rank is {rank}; allowed with --nnodes {count}: 0 to {count - 1}")
    if count == 1:
        return Nodes()
    host, _, port = (rendezvous or "").rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 2**16:
        raise InputError(
            f"--rendezvous is {rendezvous or 'missing'}; needed with --nnodes: HOST:PORT, where node 0 can be reached"
        )
    return Nodes(count=count, rank=rank, host=host, port=int(port))


def _of_torchrun(environment: Mapping[str, str]) -> Nodes:
    return Nodes(
        count=int(environment["WORLD_SIZE"]),
        rank=int(environment["RANK"]),
        host=environment["MASTER_ADDR"],
        port=int(environment["MASTER_PORT"]),
        served=environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        local_rank=int(environment["LOCAL_RANK"]),
        local_count=int(environment["LOCAL_WORLD_SIZE"]),
    )


class Rendezvous:
    """The key-value store that the nodes share."""

    def __init__(self, nodes: Nodes, store: Any) -> None:
        self._nodes, self._store, self._turn = nodes, store, 0

    def announce(self, number: int | None) -> None:
        """First node: the scenario of this number is run next; None ends the request."""
        self._store.set(f"{_NEXT}/{self._turn}", json.dumps(number))
        self._turn += 1

    def announced(self) -> Iterator[int]:
        """Other nodes: the numbers of the scenarios as they are announced."""
        while True:
            key = f"{_NEXT}/{self._turn}"
            try:
                self._store.wait([key], NEXT_CASE)
                number = json.loads(self._store.get(key))
            except Exception as error:
                raise WorkError(f"the first node at {self._nodes.host}:{self._nodes.port} is gone") from error
            self._turn += 1
            if number is None:
                return
            yield number

    def leave(self) -> None:
        """Leave; the first node waits until all others have left, since it may run the server."""
        self._store.add(_LEFT, 1)
        deadline = time.monotonic() + FAREWELL_S
        while self._nodes.rank == 0 and time.monotonic() < deadline:
            if self._store.add(_LEFT, 0) >= self._nodes.count:
                return
            time.sleep(0.05)


@contextmanager
def rendezvous_of(nodes: Nodes) -> Iterator[Rendezvous]:
    """Meet the other nodes.

    Raises:
        InputError: The port is taken, on the first node.
        WorkError: The first node does not answer, on the others.
    """
    import torch.distributed

    dist: Any = torch.distributed
    serves = nodes.rank == 0 and not nodes.served
    try:
        store = dist.TCPStore(nodes.host, nodes.port, is_master=serves, timeout=FIRST_CONTACT, wait_for_workers=False)
    except Exception as error:
        place = f"{nodes.host}:{nodes.port}"
        if serves:
            raise InputError(
                f"--rendezvous {place} cannot be listened on, perhaps the port is in use: {_first(error)}"
            ) from error
        raise WorkError(f"the first node at {place} does not answer: {_first(error)}") from error
    rendezvous = Rendezvous(nodes, store)
    try:
        yield rendezvous
    finally:
        if nodes.rank == 0:
            rendezvous.announce(None)
        # If the first node is gone, there is no other to wait for.
        with suppress(RuntimeError):
            rendezvous.leave()


def _first(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else type(error).__name__
