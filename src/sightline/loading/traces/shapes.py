"""Tables of requests that are known: which of their columns say what, told apart by their headers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from sightline.catalog.yaml12 import parse
from sightline.content import description, fix_mappings
from sightline.errors import InputError, nearest

TIME: Final = "arrival_s"
NEEDED: Final = ("prompt_tokens", "output_tokens")
WHOLE: Final = (*NEEDED, "prefix_tokens", "transcript", "priority")
"""Columns of whole numbers."""
IDS: Final = ("prefix_id", "session_id", "adapter")
"""Columns whose values only tell requests apart: numbers or words."""
MOMENTS: Final = (TIME, "first_token_s", "last_token_s")
"""Columns of times by one clock."""
SPANS: Final = ("ttft_s", "latency_s")
"""Columns of seconds from a request's arrival to its first and its last token."""
SECONDS: Final = (*MOMENTS, *SPANS, "think_s")
KNOWN: Final = (*SECONDS, *WHOLE, *IDS)
"""Columns of our own traces."""


Spellings = Mapping[str, tuple[str, ...]]
"""By our name, how a table may spell a column, in lower case; the first is the usual one."""


@description
class Shape:
    """A kind of table."""

    name: str
    """What it is, in words; empty for our own."""
    columns: Spellings
    """Columns that are needed."""
    optional: Spellings = field(default_factory=dict)
    marks: tuple[str, ...] = ()
    """Other columns that tell it from shapes with the same names."""
    unit_s: float = 1.0
    """Seconds that a unit of its times stands for."""
    from_first: bool = True
    """Times are those of a clock: the first request arrives at 0."""
    blocks: str = ""
    """Column with the numbers of the blocks of tokens that a prompt is made of."""
    block_tokens: int = 0
    """Tokens of such a block."""
    arrival: Mapping[str, Any] = field(default_factory=dict)
    """Keys of ``workload.arrival`` that the file states."""

    def __post_init__(self) -> None:
        fix_mappings(self)

    def found(self, header: Sequence[str]) -> dict[str, str]:
        """Return by our name the columns of a table that has this shape, as the table spells them."""
        spelled = {name.strip().lower(): name for name in reversed(header)}
        both = {**self.optional, **self.columns}
        there = {ours: [name for name in names if name in spelled] for ours, names in both.items()}
        return {ours: spelled[names[0]] for ours, names in there.items() if names}

    def fits(self, header: Sequence[str]) -> bool:
        """Whether a table with these columns has this shape."""
        return self.found(header).keys() >= self.columns.keys() and {*self.marks} <= {*header}

    @property
    def usual(self) -> str:
        """Its needed columns by their usual names."""
        return ", ".join(names[0] for names in self.columns.values())


def _spelled(time: str, prompt: str, output: str) -> Spellings:
    return {TIME: (time,), "prompt_tokens": (prompt,), "output_tokens": (output,)}


MEASURED: Spellings = {name: (name,) for name in (*MOMENTS[1:], *SPANS)}
_PROMPT = ("prompt_tokens", "input_tokens", "context_tokens", "prompt_len", "input_len", "input_length", "isl")
_OUTPUT = ("output_tokens", "completion_tokens", "generated_tokens", "output_len", "output_length", "osl")
_LENGTHS: Spellings = {"prompt_tokens": _PROMPT, "output_tokens": _OUTPUT}
_TIMES = (TIME, "timestamp", "arrival_time", "arrival", "start_time", "request_start_time", "queued_s", "time")
_OPTIONAL: Spellings = {name: (name,) for name in KNOWN if name not in (TIME, *NEEDED)}
OWN: Final = Shape(name="", columns=_spelled(TIME, *NEEDED), optional=_OPTIONAL, from_first=False)
LOG: Final = Shape(
    name="a request log with times in seconds or as dates", columns={TIME: _TIMES, **_LENGTHS}, optional=_OPTIONAL
)
_TRACES: Final = (
    Shape(
        name="an Azure LLM inference trace (as used by Splitwise)",
        columns=_spelled("timestamp", "contexttokens", "generatedtokens"),
    ),
    Shape(
        name="a Qwen-Bailian trace (times in seconds, blocks of 16 tokens)",
        columns=_spelled("timestamp", "input_length", "output_length"),
        marks=("chat_id", "hash_ids"),
        blocks="hash_ids",
        block_tokens=16,
    ),
    Shape(
        name="a Mooncake trace (times in milliseconds, blocks of 512 tokens)",
        columns=_spelled("timestamp", "input_length", "output_length"),
        unit_s=1e-3,
        marks=("hash_ids",),
        blocks="hash_ids",
        block_tokens=512,
    ),
    Shape(
        name="a BurstGPT trace",
        columns=_spelled("timestamp", "request tokens", "response tokens"),
        optional={"session_id": ("session id",)},
    ),
    Shape(name="a SplitwiseSim trace", columns=_spelled("arrival_timestamp", "prompt_size", "token_size")),
    Shape(name="a Vidur trace", columns=_spelled("arrived_at", "num_prefill_tokens", "num_decode_tokens")),
    Shape(
        name="an LLMServingSim trace (times in nanoseconds)",
        columns=_spelled("arrival_time_ns", "input_toks", "output_toks"),
        unit_s=1e-9,
    ),
)
UNTIMED: Final = Shape(
    name="a table of lengths without times: requests arrive all at once, or as set in workload.arrival",
    columns={
        name: tuple(dict.fromkeys(each for shape in (LOG, *_TRACES) for each in shape.columns[name])) for name in NEEDED
    },
    optional=_OPTIONAL,
)
SHAPES: Final = (OWN, *_TRACES, LOG, UNTIMED)
"""Shapes in the order in which they are tried."""


def recognized(header: Sequence[str], place: str) -> Shape:
    """Return the shape of a table with these columns; raise `InputError` that names what is missing at a ``place``."""
    shape = next((shape for shape in SHAPES if shape.fits(header)), None)
    if shape is not None and (shape is not UNTIMED or not nearest(TIME, _others(shape, header))):
        return shape
    # The shape that is meant has most of its columns there; of several such ours, then the most general.
    meant = max((OWN, LOG, *SHAPES), key=lambda shape: len(shape.found(header).keys() & shape.columns.keys()))
    raise InputError(list(_missing(meant, header, place)))


def _others(shape: Shape, header: Sequence[str]) -> list[str]:
    """Columns of a table that a shape has no use for."""
    used = shape.found(header).values()
    return [name for name in header if name not in used]


def unread(shape: Shape, header: Sequence[str]) -> list[str]:
    """Return the columns of a table that are not read and may change something."""
    stated: Mapping[str, str] = parse(Path(__file__).with_name("columns.yaml").read_text(encoding="utf-8"))
    harmless = {name for names in stated.values() for name in names.split()}
    known = {*harmless, *shape.marks, shape.blocks}
    return [name for name in _others(shape, header) if name.strip().lower().replace(" ", "_") not in known]


def _missing(shape: Shape, header: Sequence[str], place: str) -> Iterator[str]:
    there = shape.found(header)
    if not there.keys() & shape.columns.keys():
        known = "; ".join(dict.fromkeys(shape.usual for shape in SHAPES[: SHAPES.index(LOG)]))
        yield f"{place} has columns {', '.join(header)}, which match no known trace; known: {known}"
        return
    optional = ", ".join(names[0] for names in shape.optional.values())
    kind = f"{shape.name} has {shape.usual}" if shape.name else f"a trace has {shape.usual}, and optionally {optional}"
    for ours, names in shape.columns.items():
        if ours not in there:
            yield f"{place} lacks the column {names[0]}{nearest(names[0], _others(shape, header))}; {kind}"
