"""Keys and passwords: found where they are stated, and hidden in whatever is kept."""

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

HIDDEN: Final = "***"
_TYPED = re.compile(
    r"(?:--[\w-]*(?:key|token|password|secret)(?:=|\s+)|\b\w*(?:KEY|TOKEN|PASSWORD|SECRET)=)(['\"]?)([^\s'\"]+)\1"
)
"""An option or a variable of a command whose value is a credential."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Texts that nothing kept may hold."""

    texts: frozenset[str] = frozenset()

    def __or__(self, other: "Credentials") -> "Credentials":
        """Return those of both."""
        return Credentials(self.texts | other.texts)

    def hide(self, text: str) -> str:
        """Return a text with asterisks in place of every credential; hide before cutting, which leaves parts."""
        for secret in sorted(self.texts, key=len, reverse=True):
            text = text.replace(secret, HIDDEN)
        return text


def of_request(headers: Mapping[str, str], url: str = "") -> Credentials:
    """Return what authorizes a request: values of headers, also without their scheme, and the password of a URL."""
    return Credentials(frozenset(filter(None, (*_of_headers(headers), *_of_url(url)))))


def _of_headers(headers: Mapping[str, str]) -> Iterator[str]:
    for value in headers.values():
        yield value.strip()
        yield value.strip().rpartition(" ")[2]


def _of_url(url: str) -> Iterator[str]:
    parts = urlsplit(url)
    if parts.password:
        name, password = unquote(parts.username or ""), unquote(parts.password)
        yield from (parts.password, password, b64encode(f"{name}:{password}".encode()).decode())


def of_command(words: Sequence[str]) -> Credentials:
    """Return the values of a command's options and variables that are called keys, tokens, passwords or secrets."""
    return Credentials(frozenset(found[2] for found in _TYPED.finditer(" ".join(words))))


def without_credentials(url: str) -> str:
    """Return a URL without name, password and query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
