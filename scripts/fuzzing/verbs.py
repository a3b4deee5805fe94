"""What is asked about an input, and what may come of it: an answer, or sentences that say what is wrong."""

import contextlib
import io
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

LONGEST_SENTENCE: Final = 5_000
ANSWERED, REFUSED, FAILED = "answered", "refused", "failed"


class Defect(Exception):  # noqa: N818 - what the search looks for
    """Something other than an answer or a sentence."""


def check_sentences(problems: Sequence[str]) -> None:
    """Raise `Defect` for refusals that a terminal cannot show, or that are none."""
    if not problems:
        raise Defect("an InputError without a sentence")
    for problem in problems:
        _check_sentence(problem)


def _check_sentence(sentence: str) -> None:
    try:
        sentence.encode()
    except UnicodeEncodeError:
        raise Defect(f"a sentence with half a surrogate pair: {sentence!a:.300}") from None
    if not sentence.strip() or len(sentence) > LONGEST_SENTENCE:
        raise Defect(f"a sentence of {len(sentence)} characters: {sentence:.300}")
    if re.search(r"[\n\r\0\x1b]", sentence):
        raise Defect(f"a sentence with a character that moves the cursor: {sentence!a:.300}")
    if re.search(r"Traceback|object at 0x|site-packages", sentence):
        raise Defect(f"a sentence about the program: {sentence:.300}")


def command(arguments: Sequence[str]) -> str:
    """Run a command of the command line in this process."""
    from sightline.cli.main import run

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(arguments)
    said, written = out.getvalue(), err.getvalue()
    sentences = written.removesuffix("\n").split("\n") if written else []
    if code not in (0, 1, 2):
        raise Defect(f"exit code {code}: {written:.300}")
    wrong = [line for line in sentences if not line.startswith("sightline: ")]
    if wrong:
        raise Defect(f"a line of stderr that is no sentence of ours: {wrong[0]!a:.300}")
    for line in sentences:
        _check_sentence(line)
        if "out of memory; run fewer" in line:
            raise Defect(line)
    if code and not sentences and not said:
        raise Defect(f"exit code {code} without a sentence")
    if code == 2 and said:
        raise Defect("a refused request with an answer")
    if not code and "--json" in arguments:
        json.loads(said, parse_constant=_no_constant)
    return (ANSWERED, FAILED, REFUSED)[code]


def _no_constant(word: str) -> float:
    raise Defect(f"an answer in JSON with {word}")


def _asked(ask: Callable[[], object]) -> str:
    """Ask the library, which may refuse by `InputError` alone."""
    from sightline.errors import InputError

    try:
        ask()
    except InputError as error:
        check_sentences(error.problems)
        return REFUSED
    return ANSWERED


def requests(arguments: Sequence[str]) -> str:
    """Read all requests of a file."""
    from sightline.loading.traces import open_trace

    remarks: list[str] = []

    def ask() -> None:
        for _ in open_trace(Path(arguments[0]), remarks.append).columns(remarks.append):
            pass

    outcome = _asked(ask)
    if remarks:
        check_sentences(remarks)
    return outcome


def tables(arguments: Sequence[str]) -> str:
    """Read tables of measured operators, without a fit to them."""
    from sightline.calibration.from_tables import read_tables

    path, device = arguments
    return _asked(lambda: read_tables([Path(path)], device, shape="32-8-128", model="llama-2-7b"))


def suite(arguments: Sequence[str]) -> str:
    """Read the published table of a suite out of a folder, without predicting its cases."""
    from sightline.validation.evaluation import choose

    name, folder = arguments
    return _asked(lambda: choose(name, folder))


def quantity(arguments: Sequence[str]) -> str:
    """Read a text as a quantity of some dimension, show it, and read that again."""
    from sightline import quantities

    name, text = arguments
    dimension = getattr(quantities, name)

    def ask() -> None:
        value = quantities.parse_quantity(text, dimension, zero=True)
        shown = quantities.format_quantity(value, dimension, digits=12)
        again = quantities.parse_quantity(shown.replace(",", ""), dimension, zero=True) if "e+" not in shown else value
        if abs(again - value) > 1e-9 * abs(value):
            raise Defect(f"{text!r} is {value!r}, shown as {shown!r}, which is {again!r}")

    return _asked(ask)


def request(arguments: Sequence[str]) -> str:
    """Send a request to the page, whose body is the file ``body``."""
    method, address, kind = arguments
    body = Path("body").read_bytes()
    headers = {"content-type": kind} if kind else {}
    answer = _client().request(method, address, content=body, headers=headers)
    if answer.status_code >= 500:
        raise Defect(f"status {answer.status_code}: {answer.text:.300}")
    if answer.headers.get("content-type", "").startswith("application/json"):
        found = json.loads(answer.text, parse_constant=_no_constant)
        if answer.status_code >= 400:
            check_sentences(found["problems"])
    return ANSWERED if answer.status_code < 400 else REFUSED


@cache
def _client() -> Any:
    from starlette.testclient import TestClient

    from sightline.web.jobs import Jobs
    from sightline.web.server import create_app

    return TestClient(
        create_app(Jobs(Path(os.environ["SIGHTLINE_JOBS"]))),
        base_url="http://127.0.0.1:8750",
        follow_redirects=False,
    )


VERBS: Mapping[str, Callable[[Sequence[str]], str]] = {
    verb.__name__: verb for verb in (command, requests, tables, suite, quantity, request)
}
