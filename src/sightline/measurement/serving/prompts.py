"""Write prompts of exact lengths in the form that an OpenAI-compatible server accepts.

Prompts are token ids or words drawn at random, with the prefixes and conversations of a load.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InputError, WorkError
from sightline.measurement.serving.stream import Answer, Client
from sightline.runs import credentials
from sightline.simulation.load import Requests

if TYPE_CHECKING:
    from aiohttp import ClientSession

Content = Any
"""A prompt or a part of one: a list of token ids, or text. Parts of one kind are joined by +."""
TRIED = 4000
"""Entries of a vocabulary that are tried as words."""
FEWEST_WORDS = 16
OWN, SHARED, ANSWER = 0, 1, 2
"""Kinds of drawn tokens: no two kinds, and no two numbers of a kind, begin alike."""


class Row(NamedTuple):
    """One request of a load."""

    number: int
    """From 0, in order of the load."""
    arrival_s: float
    prompt_tokens: int
    output_tokens: int
    prefix_id: int
    prefix_tokens: int
    session_id: int
    think_s: float
    priority: int
    adapter: int


def rows_of(part: Requests, first: int) -> list[Row]:
    """Return the requests of a part one by one, numbered from ``first``."""
    columns = [getattr(part, name).tolist() for name in Row._fields[1:]]
    return [Row(first + i, *values) for i, values in enumerate(zip(*columns, strict=True))]


class PromptEncoding(Protocol):
    """How drawn tokens are written in a request."""

    @property
    def size(self) -> int:
        """Different tokens that can be drawn."""

    @property
    def empty(self) -> Content:
        """Content of no tokens."""

    def write(self, drawn: NDArray[np.int64]) -> Content:
        """Return drawn tokens, numbers below ``size``, as content."""


class TokenIds:
    """Content is a list of token ids: exactly the tokens that are asked for."""

    empty: Final[Content] = []

    def __init__(self, vocabulary: int) -> None:
        # Special tokens stand at either end of vocabularies.
        self._first, self.size = vocabulary // 8, max(vocabulary * 3 // 4, 1)

    def write(self, drawn: NDArray[np.int64]) -> Content:
        """Return the ids of drawn tokens."""
        return (drawn + self._first).tolist()


@dataclass(frozen=True, slots=True)
class Words:
    """Content is text of words that are one token each, wherever they stand."""

    words: Sequence[str]
    empty: str = ""

    @property
    def size(self) -> int:
        """Different words."""
        return len(self.words)

    def write(self, drawn: NDArray[np.int64]) -> Content:
        """Return drawn words, each behind a space."""
        return "".join(f" {self.words[i]}" for i in drawn)


def words_of(folder: Path) -> Words:
    """Return the words of the tokenizer in a model's folder.

    Raises:
        InputError: There is none, or hardly any of its tokens is a word.
    """
    from tokenizers import Tokenizer

    file = folder / "tokenizer.json"
    if not file.is_file():
        raise InputError(f"'{folder}' has no tokenizer.json, which prompts of exact lengths are written with")
    tokenizer: Any = Tokenizer.from_file(str(file))
    size = tokenizer.get_vocab_size()
    found = dict.fromkeys(tokenizer.decode([i]).strip() for i in range(0, size, max(1, size // TRIED)))
    words = [word for word in found if word.isalnum() and _is_one_token(tokenizer, word)]
    if len(words) < FEWEST_WORDS:
        raise InputError(f"'{file}' has {len(words)} words of one token; prompts need {FEWEST_WORDS}")
    return Words(words)


def _is_one_token(tokenizer: Any, word: str) -> bool:
    """Whether every further occurrence adds one token."""
    counts = [len(tokenizer.encode(f" {word}" * n, add_special_tokens=False).ids) for n in (1, 2, 4)]
    return counts[1] - counts[0] == 1 and counts[2] - counts[1] == 2


class Prompts:
    """The prompts of a load; the same seed draws the same ones."""

    def __init__(self, encoding: PromptEncoding, seed: int, *, overhead: int = 0) -> None:
        """Write what is drawn in an encoding; ``overhead`` tokens are what the server itself adds to each prompt."""
        self._encoding, self._seed, self._overhead = encoding, seed, overhead
        self._histories: dict[int, tuple[Content, int]] = {}

    def prompt(self, row: Row) -> Content:
        """Return the prompt of a request; earlier turns of its conversation have ended."""
        wanted = max(row.prompt_tokens - self._overhead, 1)
        begin, there = self._histories.get(row.session_id, (self._encoding.empty, 0))
        if row.session_id < 0 or not there:
            there = min(row.prefix_tokens, wanted) if row.prefix_id >= 0 else 0
            begin = self._drawn(SHARED, row.prefix_id, there) if there else self._encoding.empty
        if there >= wanted:
            return begin[:wanted] if isinstance(begin, list) else begin
        return begin + self._drawn(OWN, row.number, wanted - there)

    def answered(self, row: Row, prompt: Content, text: str, token_ids: Sequence[int]) -> None:
        """Keep what a conversation consists of so far: the prompt and its answer, drawn anew where ids are unknown."""
        if row.session_id < 0:
            return
        answer: Content = text
        if isinstance(prompt, list):
            answer = list(token_ids) or self._drawn(ANSWER, row.number, row.output_tokens)
        tokens = max(row.prompt_tokens - self._overhead, 1) + row.output_tokens
        self._histories[row.session_id] = (prompt + answer, tokens)

    def _drawn(self, kind: int, number: int, tokens: int) -> Content:
        draw = np.random.default_rng((self._seed, kind, number + 1))
        return self._encoding.write(draw.integers(0, self._encoding.size, tokens))


COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
PATIENCE_S = 10.0
PROBE_PROMPT, PROBE_OUTPUT = 32, 4
"""Tokens of the requests that find out what a server takes."""
EXACT: Final[Mapping[str, Any]] = {"ignore_eos": True}
COUNTED: Final[Mapping[str, Any]] = {"stream_options": {"include_usage": True}}
COUNTED_ALWAYS: Final[Mapping[str, Any]] = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
FIELDS: Final[Sequence[Mapping[str, Any]]] = (
    {**EXACT, **COUNTED_ALWAYS, "return_token_ids": True},
    {**EXACT, **COUNTED},
    COUNTED,
    {},
)
"""What requests have beyond the interface's own fields, most first; servers refuse fields that they do not know."""
UNKNOWN: Final = ("HTTP 400", "HTTP 404", "HTTP 415", "HTTP 422")
"""Failures of servers that do not know a field, or take no token ids."""
BUSY: Final = ("HTTP 429", "HTTP 503")
"""Failures that pass."""
WAITS_S: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
"""How long a busy server is left alone before it is asked again."""
FORBIDDEN: Final = ("HTTP 401", "HTTP 403")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFormat:
    """How requests to a server are written."""

    model: str
    chat: bool = False
    encoding: PromptEncoding
    fields: Mapping[str, Any] = field(default_factory=dict)
    overhead: int = 0
    """Tokens that the server adds to each prompt: a first token, or a chat's template."""
    counts: bool = False
    """Whether the server says how many tokens it processed."""

    def body(self, prompt: Content, output_tokens: int, priority: int = 0) -> bytes:
        """Return the body of a request for exactly so many tokens."""
        asked: dict[str, Any] = {"model": self.model, "stream": True, "temperature": 0, "max_tokens": output_tokens}
        asked |= self.fields
        if "ignore_eos" in self.fields:
            asked["min_tokens"] = output_tokens
        if priority:
            asked["priority"] = priority
        asked |= {"messages": [{"role": "user", "content": prompt}]} if self.chat else {"prompt": prompt}
        return json.dumps(asked).encode()


async def model_of(session: "ClientSession", url: str, headers: Mapping[str, str], key_variable: str = "") -> str:
    """Return the name of the only model that a server lists.

    Raises:
        WorkError: It does not answer, or lists several or none.
    """
    import aiohttp

    patience, hide = aiohttp.ClientTimeout(total=PATIENCE_S), credentials.of_request(headers, url).hide
    asked, url = f"{url}/v1/models", credentials.without_credentials(url)
    address = f"{url}/v1/models"
    try:
        async with session.get(asked, headers=headers, timeout=patience) as response:
            said = await response.text()
            if response.status != 200:
                answered = f"HTTP {response.status}"
                why = f"{answered}: {' '.join(hide(said).split())[:200]}"
                raise WorkError(f"{address} answers {why}{_about_key(answered, key_variable)}")
            names = [str(model["id"]) for model in json.loads(said)["data"]]
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise WorkError(f"no server answers at {url}: {hide(str(error)) or type(error).__name__}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise WorkError(f"{address} is no list of models; is this an OpenAI-compatible server?") from error
    if len(names) != 1:
        listed = ", ".join(names[:8]) or "none"
        raise WorkError(f"{url} lists {len(names)} models; name one by --served-model: {listed}")
    return names[0]


def _about_key(failure: str, key_variable: str) -> str:
    """What to do where a server wants another key."""
    if failure not in FORBIDDEN:
        return ""
    if key_variable:
        return f"; the key was that of {key_variable}, which --api-key-env names"
    return "; no key was sent: name the environment variable that holds it by --api-key-env"


async def request_format_of(
    client: Client, model: str, *, vocabulary: int, tokenizer: Path | None, chat: bool = False, key_variable: str = ""
) -> RequestFormat:
    """Return the fullest format of requests that a server takes, found out by short requests.

    Token ids come before text, and running counts before counts at the end.

    Raises:
        WorkError: It takes none of them, refuses the key, or stays busy.
        InputError: It takes only text, and there is no tokenizer to write prompts with.
    """
    encodings: list[PromptEncoding] = [] if chat else [TokenIds(vocabulary)]
    if tokenizer is not None:
        encodings.append(words_of(tokenizer))
    address, last = credentials.without_credentials(client.address), "chats are text"
    for encoding, fields in product(encodings, FIELDS):
        request_format = RequestFormat(chat=chat, model=model, encoding=encoding, fields=fields)
        answer = await _probe(client, request_format)
        if not answer.failure:
            counted = answer.stream.prompt_tokens
            return replace(request_format, overhead=counted - PROBE_PROMPT if counted >= 0 else 0, counts=counted >= 0)
        last = f"{answer.failure}: {answer.detail}"
        if answer.failure not in UNKNOWN:
            raise WorkError(f"{address} answers no completion: {last}{_about_key(answer.failure, key_variable)}")
    if tokenizer is None:
        raise InputError(
            f"{address} takes no prompts of token ids ({last}); to write text of exact lengths, name the "
            "folder with the model's tokenizer by --weights"
        )
    raise WorkError(f"{address} answers no completion: {last}")


async def _probe(client: Client, request_format: RequestFormat) -> Answer:
    """Ask for a few tokens, again where the server is busy."""
    body = request_format.body(
        request_format.encoding.write(np.arange(PROBE_PROMPT) % request_format.encoding.size), PROBE_OUTPUT
    )
    answer = await client.send(body)
    for wait_s in WAITS_S:
        if answer.failure not in BUSY:
            break
        await asyncio.sleep(wait_s)
        answer = await client.send(body)
    return answer
