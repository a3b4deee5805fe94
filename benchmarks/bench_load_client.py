"""How exactly the load client times tokens: many streams at once, each chunk stamped by the server that sends it.

The server is a process of its own on another core; both read the machine's monotonic clock, so the error of a token is
when the client says that it came less when the server says that it sent it. It contains the way through the kernel.

    python benchmarks/bench_load_client.py [--streams 2000] [--rate 5] [--seconds 10] [--together]
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

import numpy as np
from aiohttp import web

from sightline.measurement.serving import load as loads
from sightline.measurement.serving.stream import Answer, Client
from sightline.simulation.load import Floats, Requests

RAMP_S = 4.0
TARGET_S = 2e-3


def main() -> None:
    """Start the server, send the load, print percentiles of the error."""
    asked = _arguments()
    if asked.serve:
        asyncio.run(_serve(asked.rate, together=asked.together))
        return
    cores = sorted(os.sched_getaffinity(0))
    server = subprocess.Popen(
        [sys.executable, __file__, *sys.argv[1:], "--serve"],
        stdout=subprocess.PIPE,
    )
    assert server.stdout is not None
    os.sched_setaffinity(server.pid, {cores[-1]})
    os.sched_setaffinity(0, {cores[0]})
    try:
        _measure(int(server.stdout.readline()), asked)
    finally:
        server.kill()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--rate", type=float, default=5.0, help="tokens per second and stream")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long all streams are there")
    parser.add_argument("--together", action="store_true", help="tokens of all streams at once, as of one iteration")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _measure(port: int, asked: argparse.Namespace) -> None:
    streams, tokens = asked.streams, int((RAMP_S + asked.seconds + 2.0) * asked.rate)
    part = Requests(
        arrival_s=np.linspace(0.0, RAMP_S, streams),
        prompt_tokens=np.full(streams, 128),
        output_tokens=np.full(streams, tokens),
    )
    answers = _keep_answers()
    how = loads.ClientSettings(url=f"http://127.0.0.1:{port}", vocabulary=32000, warm_up=0)
    records: list[loads.Record] = []
    begun, begun_cpu = time.perf_counter(), time.process_time()
    asyncio.run(loads.send_load([part], how, records.append))
    cpu = (time.process_time() - begun_cpu) / (time.perf_counter() - begun)
    begin_ns = min(answer.sent_ns for answer in answers[1:])
    came = np.concatenate([answer.stream.times_ns for answer in answers])
    sent = np.concatenate([[int(text) for text in answer.stream.text] for answer in answers])
    steady = (came > begin_ns + (RAMP_S + 1.0) * 1e9) & (came < begin_ns + (RAMP_S + 1.0 + asked.seconds) * 1e9)
    late = np.array([record["sent_s"] - record["intended_s"] for record in records])
    _print((came - sent)[steady] / 1e9, late, cpu, failed=sum(bool(record["failure"]) for record in records))


def _keep_answers() -> list[Answer]:
    """Have every answer kept with its text, which holds the server's times."""
    kept: list[Answer] = []
    send = Client.send

    async def sends(self: Client, body: bytes, tokens: int) -> Answer:
        kept.append(await send(self, body, tokens))
        return kept[-1]

    Client.send = sends  # type: ignore[method-assign]
    return kept


def _print(error_s: Floats, late_s: Floats, cpu: float, *, failed: int) -> None:
    p50, p90, p99, p999 = np.percentile(error_s, [50, 90, 99, 99.9]) * 1e3
    print(f"{error_s.size} tokens timed, {failed} requests failed, load average {os.getloadavg()[0]:.1f}")
    print(f"error of a token's time: p50 {p50:.2f}, p90 {p90:.2f}, p99 {p99:.2f}, p99.9 {p999:.2f} ms")
    print(f"lateness of sending: p50 {np.median(late_s) * 1e3:.2f}, p99 {np.percentile(late_s, 99) * 1e3:.2f} ms")
    print(f"the client used {cpu:.0%} of its core; target p99 <= {TARGET_S * 1e3:g} ms: {_met(p99 / 1e3)}")


def _met(p99_s: float) -> str:
    return "met" if p99_s <= TARGET_S else "missed"


async def _serve(rate: float, *, together: bool) -> None:
    """Answer completions with one token per period; its text is when it was sent."""
    period_s = 1.0 / rate

    async def pause(begun: float, number: int) -> None:
        now = time.perf_counter()
        due = (int(now / period_s) + 1) * period_s if together else begun + (number + 1) * period_s
        await asyncio.sleep(max(due - now, 0.0))

    runner = web.AppRunner(_app(pause), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


def _app(pause: Callable[[float, int], Awaitable[None]]) -> web.Application:
    async def models(_request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "stamps"}]})

    async def complete(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        begun = time.perf_counter()
        for number in range(body["max_tokens"]):
            await pause(begun, number)
            stamp = time.perf_counter_ns()
            await stream.write(b'data: {"choices": [{"index": 0, "text": "%d", "finish_reason": null}]}\n\n' % stamp)
        counts = {"prompt_tokens": len(body["prompt"]), "completion_tokens": body["max_tokens"]}
        await stream.write(b"data: " + json.dumps({"choices": [], "usage": counts}).encode() + b"\n\ndata: [DONE]\n\n")
        return stream

    app = web.Application()
    app.router.add_get("/v1/models", models)
    app.router.add_post("/v1/completions", complete)
    return app


if __name__ == "__main__":
    main()
