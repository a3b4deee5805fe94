"""A streamed answer as it came over the network, read as tokens: server-sent events of the OpenAI interface."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sightline.runs.credentials import Credentials

DONE: Final = b"[DONE]"
MALFORMED, CUT, CONTRADICTED, REPORTED = (
    "malformed stream",
    "connection dropped",
    "wrong token counts",
    "server error",
)
"""Why a stream that began is no answer."""


@dataclass(slots=True, kw_only=True)
class AnswerStream:
    """What a stream says; it grows event by event."""

    times_ns: list[int] = field(default_factory=list)
    """When each chunk with tokens had come, on the clock of the reader."""
    tokens: list[int] = field(default_factory=list)
    """Tokens of each of these chunks: the server's running count where it sends one, else 1."""
    prompt_tokens: int = -1
    """As the server counted them; -1 where it does not say."""
    output_tokens: int = -1
    cached_tokens: int = 0
    text: list[str] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    """Of the answer, where the server sends them."""
    finished: bool = False
    credentials: Credentials = field(default_factory=Credentials)
    """What details must not hold."""
    failure: str = ""
    detail: str = ""
    _told: int = 0
    """Tokens of the running count so far."""

    def take(self, data: bytes, time_ns: int) -> None:
        """Read the content of one event."""
        if data == DONE:
            self.finished = True
            return
        try:
            event = json.loads(data)
        except ValueError:
            event = None
        if not isinstance(event, dict):
            self._fail(MALFORMED, f"an event is no JSON object: {self._quoted(data)}")
            return
        if error := event.get("error"):
            said = error.get("message", error) if isinstance(error, Mapping) else error
            self._fail(REPORTED, self.credentials.hide(str(said)).strip().partition("\n")[0][:200])
            return
        try:
            self._add(event, time_ns)
        except (TypeError, ValueError, AttributeError, KeyError, IndexError):
            self._fail(MALFORMED, f"an event has not the form of a completion: {self._quoted(data)}")

    def _add(self, event: Mapping[str, Any], time_ns: int) -> None:
        """One chunk of the answer, and whatever counts come with it."""
        usage = event.get("usage")
        if usage:
            self.prompt_tokens = int(usage["prompt_tokens"])
            self.output_tokens = int(usage.get("completion_tokens") or 0)
            self.cached_tokens = int((usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0)
        choices = event.get("choices") or ()
        text = ""
        ids: list[int] = []
        for choice in choices:
            delta = choice.get("delta") or {}
            text = choice.get("text") or delta.get("content") or delta.get("reasoning_content") or ""
            ids = choice.get("token_ids") or []
            self.finished = self.finished or choice.get("finish_reason") is not None
        if not isinstance(text, str):
            raise TypeError("text is no text")
        new = len(ids) or (self.output_tokens - self._told if usage and choices else int(bool(text)))
        # A last event that only tells the counts is no chunk: its tokens came before.
        if not text and not ids and not (usage and new == 1):
            return
        self.times_ns.append(time_ns)
        self.tokens.append(max(new, 1))
        self._told += max(new, 1)
        self.text.append(text)
        self.token_ids += ids

    def _quoted(self, data: bytes) -> str:
        """The begin of an event, as details have it."""
        return self.credentials.hide(data.decode(errors="replace"))[:80]

    def _fail(self, failure: str, detail: str) -> None:
        if not self.failure:
            self.failure, self.detail = failure, detail

    def close(self) -> None:
        """The stream has ended: say what is wrong with it as a whole."""
        if not self.finished:
            self._fail(CUT, f"the stream ended after {sum(self.tokens)} tokens without its last event")
        told = self.output_tokens
        if 0 <= told < len(self.times_ns):
            self._fail(CONTRADICTED, f"{len(self.times_ns)} chunks have tokens, but the server counts {told}")
        if told > 0 and not self.times_ns:
            self._fail(CONTRADICTED, f"the server counts {told} tokens and sent none")
        if told < 0:
            self.output_tokens = sum(self.tokens)


def events(pieces: Sequence[bytes], times_ns: Sequence[int]) -> Iterator[tuple[bytes, int]]:
    """Yield the data of each event with the time at which its last byte had come; pieces are cut anywhere."""
    rest = b""
    for piece, time_ns in zip(pieces, times_ns, strict=True):
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            # Events of this interface have one line of data; comments, names and empty lines say nothing.
            if line.startswith(b"data:"):
                yield line[5:].strip(), time_ns
    if rest.strip():
        yield rest.removeprefix(b"data:").strip(), times_ns[-1]
