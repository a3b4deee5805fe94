"""A small real server with the OpenAI interface, which misbehaves in the way that its model's name says.

Run as ``python misbehaving.py PORT [BEHAVIOR]``; it listens when it has printed "ready" and its port.
"""

import asyncio
import json
import sys
import time

from aiohttp import web

BEHAVIORS = (
    "well",
    "several-tokens",
    "no-counts",
    "text-only",
    "strict",
    "early-end",
    "hang",
    "drop",
    "429",
    "500",
    "malformed",
    "wrong-counts",
    "error-event",
    "no-end",
    "echo",
    "echo-event",
    "endless-tokens",
    "endless-line",
    "endless-comments",
    "huge-counts",
    "deep",
    "forbidden",
    "busy",
    "slow",
)
SLOW_S = 2.0
"""How long a slow server takes for the first token of an odd request."""


def event(**keys):
    return f"data: {json.dumps(keys)}\n\n".encode()


def chunk(text, **keys):
    return event(choices=[{"index": 0, "text": text}], **keys)


MALFORMED = {
    "malformed": b'data: {"choices": [{"te\n\n',
    "deep": b"data: " + b"[" * 5_000 + b"\n\n",
    "huge-counts": b'data: {"usage": {"prompt_tokens": 1e999, "completion_tokens": 1}}\n\n',
}
ENDLESS = {"endless-tokens": chunk(" word"), "endless-line": b"x" * 4096, "endless-comments": b":" * 512 + b"\n"}


class Server:
    """Answers with tokens every ``token_s``; ``behavior`` of every third request is another than well."""

    def __init__(self, behavior="well", token_s=0.002):
        self.behavior, self.token_s, self.seen, self.keys, self.asked = behavior, token_s, [], set(), 0

    def app(self):
        app = web.Application(client_max_size=2**26)
        app.router.add_get("/v1/models", self.models)
        app.router.add_post("/v1/completions", self.complete)
        app.router.add_post("/v1/chat/completions", self.complete)
        return app

    async def models(self, _request):
        return web.json_response({"data": [{"id": "tiny"}]})

    def refusal(self, body):
        """What a server that is particular about requests says."""
        text = isinstance(body.get("prompt"), str)
        if self.behavior == "text-only" and not text:
            return "prompt must be a string."
        if self.behavior == "strict" and (not text or {"ignore_eos", "min_tokens"} & body.keys()):
            return "Unexpected fields in the request"
        return ""

    async def complete(self, request):
        body = await request.json()
        self.asked += 1
        key = request.headers.get("Authorization")
        self.keys.add(key)
        if self.behavior == "forbidden":
            return web.Response(status=401, text=f"{' ' * 190}bad key {key}")
        if self.behavior == "busy" and self.asked < 3:
            return web.Response(status=429, text="slow down")
        if said := self.refusal(body):
            return web.json_response({"detail": said}, status=422)
        self.seen.append(body)
        prompt = body.get("prompt") or body["messages"][0]["content"]
        prompt_tokens = len(prompt.split()) + 1 if isinstance(prompt, str) else len(prompt)
        odd = len(self.seen) > 8 and len(self.seen) % 3 == 0
        if odd and self.behavior in ("429", "500"):
            return web.json_response({"error": {"message": "not now"}}, status=int(self.behavior))
        if odd and self.behavior == "echo":
            return web.Response(status=403, text=f"bad key {key}")
        if odd and self.behavior == "slow":
            await asyncio.sleep(SLOW_S)
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        await self.stream(stream, request, body["max_tokens"], prompt_tokens, self.behavior if odd else "well")
        return stream

    async def stream(self, stream, request, tokens, prompt_tokens, behavior):
        counted = self.behavior != "no-counts"
        size = 3 if self.behavior == "several-tokens" else 1
        tokens = tokens // 2 if behavior == "early-end" else tokens
        for sent in range(0, tokens, size):
            await asyncio.sleep(self.token_s)
            if behavior == "hang" and sent:
                await asyncio.sleep(3600)
            if behavior == "drop" and sent:
                request.transport.abort()
                return
            if behavior in MALFORMED and sent:
                await stream.write(MALFORMED[behavior])
                continue
            while behavior in ENDLESS and not request.transport.is_closing():
                await stream.write(ENDLESS[behavior])
            if behavior == "echo-event" and sent:
                await stream.write(event(error=f"bad key {request.headers['Authorization'].split()[1]}"))
                return
            if behavior == "error-event" and sent:
                await stream.write(event(error={"message": "the engine died"}))
                return
            now = min(sent + size, tokens)
            usage = {"prompt_tokens": prompt_tokens, "completion_tokens": now}
            told = {"usage": usage} if self.behavior == "several-tokens" else {}
            await stream.write(chunk(" word" * (now - sent), sent_ns=time.perf_counter_ns(), **told))
        if behavior == "no-end":
            return
        await stream.write(event(choices=[{"index": 0, "text": "", "finish_reason": "length"}]))
        if counted:
            told = 1 if behavior == "wrong-counts" else tokens
            usage = {"prompt_tokens": prompt_tokens, "completion_tokens": told}
            await stream.write(event(choices=[], usage=usage))
        await stream.write(b"data: [DONE]\n\n")


async def main(port, behavior="well", *marks):
    runner = web.AppRunner(Server(behavior).app(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", int(port)).start()
    sys.stdout.write(f"ready {runner.addresses[0][1]}\nstarted with {' '.join(marks)}\n")
    sys.stdout.flush()
    await asyncio.sleep(3600)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
