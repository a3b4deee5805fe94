"""Answers that say what is wrong: the same JSON for pages, their files and programs."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.responses import Response


def document(problems: str | Sequence[str]) -> dict[str, Any]:
    """Return what programs read of mistakes: ``error``, the first sentence, and ``problems``, all of them."""
    found = [problems] if isinstance(problems, str) else list(problems)
    return {"error": found[0], "problems": found}


def as_json(problems: str | Sequence[str]) -> bytes:
    """Return the document as JSON; what of a request is no text, and is repeated, becomes question marks."""
    return json.dumps(document(problems), ensure_ascii=False).encode("utf-8", "replace")


def refused(problems: str | Sequence[str], status: int = 422, headers: Mapping[str, str] | None = None) -> "Response":
    """Return the answer to a request with mistakes."""
    from starlette.responses import Response

    return Response(as_json(problems), status, dict(headers or {}), media_type="application/json")
