"""Loads sent to the misbehaving server, in one loop with it."""

import asyncio

import numpy as np
from aiohttp import web
from measurement.serving.misbehaving import Server
from waiting import PATIENCE_S

from sightline.measurement.serving.load import ClientSettings, send_load
from sightline.measurement.serving.stream import Limits
from sightline.simulation.load import Requests

PATIENT = Limits(stall_s=PATIENCE_S, total_s=PATIENCE_S)


def load(count=24, *, spacing_s=0.005, **columns):
    """Return requests of 20 prompt and 9 output tokens."""
    neutral = {
        "arrival_s": np.arange(count) * spacing_s,
        "prompt_tokens": np.full(count, 20),
        "output_tokens": np.full(count, 9),
    }
    return [Requests(**(neutral | {name: np.asarray(values) for name, values in columns.items()}))]


def send(parts, behavior="well", **asked):
    """Return records by number, what was sent, and the server."""

    async def run():
        server = Server(behavior)
        runner = web.AppRunner(server.app(), access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        records = []
        how = ClientSettings(**({"url": url, "vocabulary": 1000, "limits": PATIENT, "warm_up": 2} | asked))
        try:
            sent = await send_load(parts, how, records.append)
        finally:
            await runner.cleanup()
        return sorted(records, key=lambda record: record["number"]), sent, server

    return asyncio.run(run())
