"""Read files, standard input and text as plain scenario mappings: YAML, JSON and CSV, one scenario or many."""

import csv
import io
import json
import re
import shlex
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from sightline.catalog.yaml12 import MAX_DEPTH, holds_releases, parse, parse_all, plain_reason
from sightline.content import record
from sightline.errors import InputError, missing_file, reason
from sightline.folders import default_place, located
from sightline.loading.checks import with_value
from sightline.quantities import show

_forbidden: ContextVar[bool] = ContextVar("_forbidden", default=False)


@contextmanager
def without_files() -> Iterator[None]:
    """Read scenarios meanwhile without opening, or looking for, any file that they name."""
    before = _forbidden.set(True)
    try:
        yield
    finally:
        _forbidden.reset(before)


def files_allowed() -> bool:
    """Return whether what a scenario names may be a file."""
    return not _forbidden.get()


OPENED: Final = "opened:"
"""Begins what stands for a file that was opened on the page, whose server keeps it for a while."""
_KEPT: Final = re.compile(r"[0-9a-f]{12}-[\w.-]{1,80}")


def opened_folder() -> Path:
    """Return where files are kept that were opened on the page."""
    return default_place() / "opened"


def opened_file(stated: object) -> Path | None:
    """Return the path of a file that was opened on the page; None for what stands for none."""
    name = stated.removeprefix(OPENED) if isinstance(stated, str) else stated
    return opened_folder() / str(name) if name != stated and _KEPT.fullmatch(str(name)) else None


def check_file(key: str, value: object) -> None:
    """Raise `InputError` for a ``key`` that names a file where none is opened, or one that is kept no longer."""
    if kept := opened_file(value):
        if not kept.is_file():
            raise InputError(f"{key} is {show(value)}, which is not kept any more; open the file again")
    elif not files_allowed():
        raise InputError(f"{key} is {show(value)}; the server does not read files; use the command line")


def stated_path(folder: Path, stated: str) -> Path:
    """Return the path that a file in a folder states; one with the backslashes of Windows is found everywhere."""
    path = opened_file(stated) or folder / stated
    if "\\" in stated and files_allowed() and not path.exists():
        return folder / stated.replace("\\", "/")
    return path


def numbered(name: str | Path) -> tuple[Path, int | None]:
    """Return a path and, after #, which of the file's results is meant; None where none is named."""
    path, _, number = str(name).rpartition("#")
    return (Path(path), int(number)) if path and number.isdigit() and not Path(name).exists() else (Path(name), None)


LARGEST_FILE = 64 * 2**20
"""Bytes read of one file; a scenario file beyond is a mistake."""

_JSON_RELEASE = re.compile(r'("(?:[\w-]+\.)*(?:framework_)?version"\s*:\s*)(-?\d+\.\d+|\[[^\[\]{}"]*\])')
"""A release of a framework, or a list of them, that JSON states as numbers."""
_POINT = re.compile(r"-?\d+\.\d+")
_CSV_HEADER = re.compile(r"\s*[\w.-]+\s*(,\s*[\w.-]+\s*)+")


@record
class Document:
    """One scenario as it was written, and where."""

    mapping: Any
    place: str = ""
    """What a message calls it: "rows.csv, row 3"; empty for a mapping handed over in Python."""
    problems: tuple[str, ...] = ()
    """Why a row of a table holds no mapping."""


@record
class Source:
    """The scenarios of one file."""

    documents: tuple[Document, ...]
    single: bool
    """One scenario by its form, not a list, several documents or a table."""
    folder: Path
    """What relative paths are relative to."""
    words: tuple[str, ...] = ()
    """What is typed to ask for it, where that is no file."""
    remarks: tuple[str, ...] = ()
    """What was assumed for it."""


def question_of(mapping: Any) -> Any:
    """Return the scenario that a result or a stored run answers, without what was measured; others stay."""
    is_answer = isinstance(mapping, Mapping) and isinstance(mapping.get("scenario"), Mapping)
    if not is_answer or not {"source", "result"} & mapping.keys():
        return mapping
    return {key: value for key, value in mapping["scenario"].items() if key != "measured"}


def read_source(source: object, *, skip_invalid: bool = False) -> Source:
    """Return the scenarios of a path, ``-`` (standard input), a text of several lines, a mapping or a list of them.

    What was read already is returned as it is: standard input can be read once only. Rows of a table that cannot be
    read are refused, or with ``skip_invalid`` are documents with ``problems``.
    """
    read = _read(source)
    problems = [f"{row.place}: {problem}" for row in read.documents for problem in row.problems]
    if problems and not skip_invalid:
        raise InputError(problems)
    return read


def _read(source: object) -> Source:
    if isinstance(source, Source):
        return source
    if isinstance(source, Mapping) or _is_list(source):
        return _source([source], place="", folder=Path())
    if hasattr(source, "read"):
        return _from_text(_decoded(source.read(), "the input"), place="", folder=Path())
    if not isinstance(source, str | Path):
        raise InputError(f"a scenario must be a path, '-', a text or a mapping, not {type(source).__name__}")
    if isinstance(source, str) and ("\n" in source or source.lstrip()[:1] in ("", "{", "[")):
        return _from_text(_decoded(source, "the text"), place="", folder=Path())
    if str(source) == "-":
        return _from_text(read_stdin(), "standard input", Path())
    path = Path(source)
    check_file("the source", str(path))
    place, path = str(path), located(path)
    return _from_text(read_text(path), place=place, folder=path.parent, suffix=path.suffix.lower())


def read_stdin() -> str:
    """Return the text on standard input."""
    stream = getattr(sys.stdin, "buffer", sys.stdin)
    return _decoded(stream.read(LARGEST_FILE + 1), "standard input")


def read_text(path: Path) -> str:
    """Return a file's text; raise `InputError` with one sentence where there is none."""
    check_file("the source", str(path))
    try:
        if stat.S_ISDIR(path.stat().st_mode):
            raise InputError(f"{_shown(path)} is a folder; give a file")
        with path.open("rb") as file:
            return _decoded(file.read(LARGEST_FILE + 1), _shown(path))
    except FileNotFoundError:
        raise missing_file(path) from None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {_shown(path)}: {reason(error).lower()}") from None


def read_json(text: str, *, infinities: bool = False) -> Any:
    """Return the value of a JSON text.

    Duplicate keys and deep nesting are refused, NaN and infinities unless ``infinities`` allows them.

    Published configs hold them in keys that matter to nobody here.
    """
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=float if infinities else _no_constant)
        if "\\u" in text:  # only an escape can smuggle half a surrogate pair in
            json.dumps(value, ensure_ascii=False).encode()
        refuse_deep(value, "JSON")
    except json.JSONDecodeError as error:
        raise InputError(f"not valid JSON at line {error.lineno}, column {error.colno}: {error.msg.lower()}") from None
    except UnicodeEncodeError:
        raise InputError("not valid JSON: unpaired surrogate escape") from None
    except RecursionError:
        raise InputError("not valid JSON: nested too deeply") from None
    except ValueError as error:
        raise InputError(f"not valid JSON: {plain_reason(error)}") from None
    return value


def refuse_deep(value: Any, form: str) -> None:
    """Raise `InputError` for a value whose lists and mappings nest deeper than YAML's may."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [inner for one in level for inner in _within(one)]
        if not level:
            return
    raise InputError(f"not valid {form}: nested more than {MAX_DEPTH} levels deep")


def _within(value: Any) -> Iterable[Any]:
    """What a container holds that may be a container."""
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def is_folder(path: Path) -> bool:
    """Return whether a path is one of a folder; a text that no file system takes for a path is none."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        keys = [k for k, _ in pairs]
        twice = next(k for k in keys if keys.count(k) > 1)
        raise ValueError(f"key {twice!r} appears twice")
    return mapping


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is not a number")


def _shown(path: Path) -> str:
    return str(path) if str(path).isprintable() else repr(str(path))


def _decoded(data: bytes | str, place: str) -> str:
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogatepass")
    if len(data) > LARGEST_FILE:
        raise InputError(f"{place} is larger than {LARGEST_FILE // 2**20} MiB, the limit for a scenario file")
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise InputError(f"{place} is not a text file; allowed: YAML, JSON or CSV in UTF-8")
    return text


def _from_text(text: str, place: str, folder: Path, suffix: str = "") -> Source:
    prefix = f"{place}: " if place else ""
    if not text.strip():
        raise InputError(f"{place or 'the text'} is empty")
    try:
        first = text.lstrip().splitlines()[0]
        if suffix == ".csv" or (not suffix and _CSV_HEADER.fullmatch(first)):
            rows = tuple(_csv_rows(text, place or "the table"))
            return Source(documents=rows, single=False, folder=folder)
        if suffix == ".json" or (not suffix and text.lstrip()[0] in "{["):
            return _source([_json_or_yaml(text, suffix)], place, folder)
        return _source(parse_all(text), place, folder)
    except InputError as error:
        raise InputError([prefix + problem for problem in error.problems]) from None


def _json_or_yaml(text: str, suffix: str) -> Any:
    """What has no suffix and begins like JSON may still be YAML in its flow style.

    A release stays as it is written: 0.10 is another than 0.1.
    """
    try:
        return read_json(_JSON_RELEASE.sub(lambda found: found[1] + _POINT.sub(r'"\g<0>"', found[2]), text))
    except InputError:
        if suffix == ".json":
            raise
        return parse(text)


def _source(values: Sequence[Any], place: str, folder: Path) -> Source:
    """Scenarios out of documents, each a mapping or a list of mappings; empty documents are left out."""
    stated = [v for v in values if v is not None]
    if not stated:
        raise InputError("contains no scenario")
    single = len(values) == 1 and not _is_list(stated[0])
    scenarios = [s for v in stated for s in (v if _is_list(v) else [v])]
    if not scenarios:
        raise InputError("the list of scenarios is empty")
    places = [place] if single else [f"{place}, scenario {n}".lstrip(", ") for n in range(1, len(scenarios) + 1)]
    documents = tuple(Document(mapping=s, place=p) for s, p in zip(scenarios, places, strict=True))
    return Source(documents=documents, single=single, folder=folder)


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _csv_rows(text: str, place: str) -> Iterator[Document]:
    reader = csv.reader(io.StringIO(text.lstrip()), skipinitialspace=True)
    try:
        header = [cell.strip() for cell in next(reader)]
        if len(header) == 1 and ";" in header[0]:
            raise InputError("the columns are separated by ';'; allowed: commas")
        _refuse_headers(header)
        rows = 0
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            rows += 1
            at = f"{place}, row {rows}"
            try:
                yield Document(mapping=_row(header, cells), place=at)
            except InputError as error:
                yield Document(mapping={}, place=at, problems=error.problems)
    except csv.Error as error:
        raise InputError(f"not valid CSV at line {reader.line_num}: {error}") from None
    if not rows:
        raise InputError("the table has a header but no rows")


def _refuse_headers(header: list[str]) -> None:
    twice = sorted({h for h in header if header.count(h) > 1})
    if "" in header:
        raise InputError(f"column {header.index('') + 1} of the table has no header")
    if twice:
        raise InputError([f"column '{h}' appears twice" for h in twice])


def _row(header: list[str], cells: list[str]) -> dict[str, Any]:
    if len(cells) > len(header):
        raise InputError(f"{len(cells)} cells for {len(header)} columns")
    mapping: dict[str, Any] = {}
    # The shorter key first: `cluster` before `cluster.network.latency`, which adds to it.
    for key, cell in sorted(zip(header, cells, strict=False), key=lambda pair: pair[0].count(".")):
        value = value_of(key, cell.strip())
        if value is not None:
            mapping = with_value(mapping, key, value)
    return mapping


def value_of(key: str, cell: str) -> Any:
    """Return what a cell or a ``--set`` value holds for a key; a release stays as it is written: 0.10 is not 0.1."""
    value = cell_value(cell)
    if not holds_releases(key):
        return value
    return (
        parse(f"version: {cell}")["version"] if isinstance(value, list) else cell if isinstance(value, float) else value
    )


_JOINED = re.compile(r"(?<=[{,\s])[A-Za-z_]\w*:(?=[\[{\w])")
"""A key of a mapping in braces that its value follows without the space that YAML needs."""


@lru_cache(maxsize=4096)
def cell_value(cell: str) -> Any:
    """Return the YAML scalar (or flow list or mapping) a cell or a ``--set`` value holds; other text is itself."""
    if not cell:
        return None
    try:
        value = parse(cell)
    except InputError as error:
        if cell[0] not in "[{\"'":
            return cell
        joined = _JOINED.search(cell)
        if joined is None:
            raise
        hint = f"; add a space after '{joined[0]}'"
        raise InputError([f"{problem}{hint}" for problem in error.problems]) from None
    return cell if isinstance(value, dict | list) and cell[0] not in "[{" else value


def as_options(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield a ``--set`` for each dotted key, quoted for a shell."""
    for key, value in settings.items():
        yield f"--set {shlex.quote(f'{key}={as_text(value)}')}"


def with_settings(command: str, settings: Mapping[str, Any]) -> str:
    """Return a command with settings, in place of those that it has of the same keys."""
    words, kept = shlex.split(command), list[str]()
    while words:
        taken = words[:2] if words[0] == "--set" else words[:1]
        words = words[len(taken) :]
        if taken[-1].partition("=")[0] not in settings or len(taken) == 1:
            kept += taken
    return " ".join((shlex.join(kept), *as_options(settings)))


def as_text(value: Any) -> str:
    """Return a value as ``--set`` reads it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple | frozenset):
        return f"[{','.join(map(as_text, sorted(value) if isinstance(value, frozenset) else value))}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {as_text(item)}" for key, item in value.items()) + "}"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
