"""The few error types of Sightline: a wrong request, and work that failed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path


class SightlineError(Exception):
    """Base of every error raised on purpose; its message is a sentence for the user, or one per line.

    ``problems`` holds the sentences, mostly one.
    """

    def __init__(self, problems: str | Sequence[str] = "") -> None:
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))


class InputError(SightlineError):
    """The request was wrong. ``problems`` holds one sentence per mistake; the command line exits with 2.

    What a sentence quotes may be of any length and hold characters that no terminal shows.
    """

    def __init__(self, problems: str | Sequence[str] = "") -> None:
        listed = (problems,) if isinstance(problems, str) else problems
        super().__init__([sentence(one) for one in listed])


class WorkError(SightlineError):
    """The request was right but the work failed; the command line exits with 1."""


def reason(error: BaseException) -> str:
    """Return why something failed: the system's words where it has any, else the error's own."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def missing_file(path: str | Path) -> InputError:
    """Return the error for a file that is not there, with the nearest name beside it."""
    name, beside = Path(path), list[str]()
    with suppress(OSError):
        beside = [one.name for one in name.parent.iterdir() if nearest(name.stem, [one.stem])]
    return InputError(f"file '{path}' does not exist{nearest(name.name, beside)}")


@contextmanager
def prefixed(words: str) -> Iterator[None]:
    """Put words, such as the name of a file or a field, before each mistake of the request that is found inside."""
    try:
        yield
    except InputError as error:
        raise InputError([f"{words}{problem}" for problem in error.problems]) from None


@contextmanager
def noted(problems: list[str], words: str = "") -> Iterator[None]:
    """Add each mistake of the request that is found inside to ``problems``, with words before it, and go on behind."""
    try:
        yield
    except InputError as error:
        problems += [f"{words}{problem}" for problem in error.problems]


def refuse(problems: Sequence[str]) -> None:
    """Raise `InputError` with all problems, each once, if there are any."""
    if problems:
        raise InputError(list(dict.fromkeys(problems)))


LONGEST = 4000
"""Characters of a sentence."""


def sentence(text: str) -> str:
    """Return a text as one line that can be read, whatever it quotes: odd characters as escapes, cut where too long."""
    if text.isprintable() and len(text) <= LONGEST:
        return text
    shown = _escaped(text[:LONGEST])
    if len(text) <= LONGEST and len(shown) <= LONGEST:
        return shown
    return f"{shown[: LONGEST // 2]}...{_escaped(text[-LONGEST // 4 :])[-LONGEST // 4 :]}"


def _escaped(text: str) -> str:
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


_SEPARATORS = "-_. "
_MOST_NAMES = 4
"""Names that a hint lists at most."""


def nearest(value: object, allowed: Sequence[str]) -> str:
    """Return `` - did you mean 'x' or 'y'?`` for the allowed spellings nearest to a text, or an empty string.

    Those that begin with it come first, whole words ("h100-sxm" of "h100") before others, then the one most like it.
    Case and separators do not count.
    """
    if not isinstance(value, str):
        return ""
    asked, names = _folded(value), {str(name): _folded(str(name)) for name in allowed}
    beginnings = [name for name, folded in names.items() if len(asked) > 2 and folded.startswith(asked)]
    found = [name for name, folded in names.items() if folded == asked]
    found = found or [name for name in beginnings if _begins_whole(name, asked)] or beginnings
    if not found:
        close = get_close_matches(asked, names.values(), n=1, cutoff=0.6)
        found = [name for name, folded in names.items() if folded in close][:1]
    *others, last = [f"'{name}'" for name in sorted(found, key=len)[:_MOST_NAMES]] or [""]
    listed = f"{', '.join(others)} or {last}" if others else last
    return f" - did you mean {listed}?" if found else ""


def _folded(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter not in _SEPARATORS)


def _begins_whole(name: str, asked: str) -> bool:
    """Whether a word of ``name`` ends where ``asked`` does."""
    return any(_folded(name[:end]) == asked for end in range(len(name)) if name[end] in _SEPARATORS)


def missing_extra(what: str, extra: str) -> WorkError:
    """Return the error for something whose optional packages are not installed, with the command that installs them."""
    return WorkError(f"{what} needs packages that are not installed: {install(extra)}")


def install(extras: str, options: str = "") -> str:
    """Return the command that installs extras, from where this Sightline came: a clone, or the package index."""
    clone = _clone()
    where = "sightline" if clone is None else "." if clone == Path.cwd() else str(clone)
    return f"pip install {options}'{where}[{extras}]'"


def _clone() -> Path | None:
    """The folder with the sources that this package runs from or was installed from; None for a published package."""
    # Only a complaint needs these, and every command imports this module.
    import json
    from importlib import metadata
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    candidates = [Path(__file__).resolve().parents[2]]
    try:
        origin = json.loads(metadata.distribution("sightline").read_text("direct_url.json") or "{}")
    except (metadata.PackageNotFoundError, ValueError):
        origin = {}
    if "dir_info" in origin:
        candidates.append(Path(url2pathname(urlsplit(origin["url"]).path)))
    return next((folder for folder in candidates if (folder / "pyproject.toml").is_file()), None)
