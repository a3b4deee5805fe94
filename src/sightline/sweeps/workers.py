"""Who does the work: processes of this machine, or the workers of a Ray or Dask cluster."""

import re
import socket
from dataclasses import dataclass

from sightline.errors import InputError, nearest

KINDS = ("local", "ray", "dask")
ALLOWED = (
    "local, ray or dask, with a number of workers or a cluster's address, such as local:8 or dask:tcp://node0:8786"
)
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
        raise InputError(f"--workers is '{text}'; allowed after local: a number of workers, such as local:8")
    return Workers(kind=kind, address=detail)


def require_answer(workers: Workers) -> None:
    """Raise `InputError` where nothing answers at a cluster's address; libraries wait long before they say so."""
    if workers.address is None or (workers.kind == "ray" and workers.address == AUTO):
        return
    found = _ADDRESS.fullmatch(workers.address)
    if found is None or int(found["port"]) > 65535:
        raise InputError(f"--workers is '{workers}': '{workers.address}' is no address such as node0:6379")
    try:
        socket.create_connection((found["host"].strip("[]"), int(found["port"])), _ANSWERS_WITHIN_S).close()
    except OSError as error:
        raise unreachable(workers, error) from error


def unreachable(workers: Workers, error: Exception) -> InputError:
    """Return the error for a cluster that cannot be used."""
    why = (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
    return InputError(
        f"--workers is '{workers}': no cluster answers at '{workers.address}' ({' '.join(why.split())}); "
        f"start one there, or use --workers {workers.kind} to start one here"
    )
