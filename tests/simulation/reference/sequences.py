"""A request with what it has got so far."""

from dataclasses import dataclass, field

from sightline.simulation.load import Requests


@dataclass(eq=False)
class Block:
    """A block of the cache: how many sequences hold it, and which content others may find in it (None: none)."""

    number: int
    holders: int = 0
    content: tuple[tuple[object, ...], ...] | None = None
    written: bool = False
    """Whether it was written through to where that is done."""


@dataclass(eq=False)
class Sequence:
    """A request, from its arrival on."""

    row: int
    arrival_s: float
    prompt: int
    output: int
    prefix_id: int = -1
    prefix: int = 0
    session: int = -1
    transcript: int = 0
    priority: int = 0
    generated: int = 0
    """Tokens of its answer so far."""
    computed: int = 0
    """Its tokens that are in the cache, or will be when the iteration under way ends."""
    decoding: bool = False
    """Its prompt is in the cache; each iteration feeds in one token."""
    blocks: list[Block] = field(default_factory=list)
    scheduled_s: float | None = None
    token_s: list[float] = field(default_factory=list)
    cached: int = 0
    """Prompt tokens found in the prefix cache when it was first scheduled."""
    preemptions: int = 0
    per_pass: int = 1
    """Tokens that a decode pass computes of it."""
    expected: int = 0
    """Tokens of its prompt that were not cached when it was routed."""
    fetched_s: float = 0.0
    """When what it has in slower tiers is in the first."""
    further: int = 0
    """Tokens of its answer that another replica generates."""

    @property
    def length(self) -> int:
        """Its tokens: prompt, and answer so far."""
        return self.prompt + self.generated

    @property
    def lacking(self) -> int:
        """Tokens that have to be computed before the next one comes; 1 while it decodes."""
        return self.length - self.computed

    @property
    def to_come(self) -> int:
        """Tokens of the answer that are still to come."""
        return self.output - self.generated

    def token(self, position: int) -> tuple[object, ...]:
        """What identifies the token at a position."""
        if self.prefix_id >= 0 and position < self.prefix:
            return "prefix", self.prefix_id, position
        if self.session >= 0:
            return "session", self.session, self.transcript, position
        return "request", self.row, position


def sequence_of(requests: Requests, row: int, per_pass: int = 1) -> Sequence:
    """Return a request of a load, as it is before it was sent."""
    return Sequence(
        row=row,
        arrival_s=float(requests.arrival_s[row]),
        prompt=int(requests.prompt_tokens[row]),
        output=int(requests.output_tokens[row]),
        prefix_id=int(requests.prefix_id[row]),
        prefix=int(requests.prefix_tokens[row]),
        session=int(requests.session_id[row]),
        transcript=int(requests.transcript[row]),
        priority=int(requests.priority[row]),
        per_pass=per_pass,
    )
