"""An OpenAI-compatible server: its model, which requests it takes, and how many tokens it adds to a prompt."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sightline.errors import InputError, WorkError
from sightline.measurement.serving.answer import Answer, Client
from sightline.measurement.serving.prompts import Content, PromptEncoding, TokenIds, words_of
from sightline.runs import credentials

if TYPE_CHECKING:
    from aiohttp import ClientSession

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
