"""The few error types of Sightline: a wrong request, and work that failed."""

from collections.abc import Sequence
from difflib import get_close_matches


class SightlineError(Exception):
    """Base of every error raised on purpose; its message is a sentence for the user."""


class InputError(SightlineError):
    """The request was wrong. ``problems`` holds one sentence per mistake; the command line exits with 2."""

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))


class WorkError(SightlineError):
    """The request was right but the work failed; the command line exits with 1."""


def nearest(value: object, allowed: Sequence[str]) -> str:
    """Return `` - did you mean 'x'?`` for the allowed spelling closest to a text, or an empty string."""
    if not isinstance(value, str):
        return ""
    asked = value.lower()
    names = [str(a) for a in allowed]
    beginnings = [name for name in names if len(asked) > 2 and name.lower().startswith(asked)]
    matches = sorted(beginnings, key=len) or get_close_matches(asked, names, n=1, cutoff=0.6)
    return f" - did you mean '{matches[0]}'?" if matches else ""


def missing_extra(what: str, extra: str) -> WorkError:
    """Return the error for something whose optional packages are not installed, with the command that installs them."""
    return WorkError(f"{what} needs packages that are not installed: pip install 'sightline[{extra}]'")
