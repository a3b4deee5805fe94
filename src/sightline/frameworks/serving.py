"""How an engine serves requests that arrive: the rules and limits of its scheduler.

Rules of each policy, and where they were read: ``docs/decisions/serving-policies.md``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from sightline.content import fix_mappings

Policy = Literal["vllm", "vllm-0", "sglang", "tgi", "lightllm", "transformers", "tensorrt-llm", "orca", "static"]
Order = Literal["fcfs", "priority", "longest-prefix"]
Reservation = Literal["chunk", "prompt", "estimate", "answer"]
MOST_SEQUENCES = 256
"""Sequences that run at once where an engine states no limit of any kind."""
LEAST_BUDGET = 2048
"""Tokens per iteration of vLLM before chunked prefill, for models with a shorter context."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClass:
    """Limits that an engine takes on devices with at least so much memory."""

    from_memory_bytes: float
    except_devices: tuple[str, ...] = ()
    """Beginnings of names of devices that the class leaves out."""
    max_sequences: int | None = None
    max_batched_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """The scheduler of an engine under load."""

    policy: Policy = "vllm"
    """Which rules form its iterations."""
    max_sequences: int | None = 256
    """Sequences that run at once; None: as many as the server holds (`max_concurrent_requests`)."""
    max_batched_tokens: int | None = None
    """New tokens per iteration; None: as many as the model's context has, and no fewer than `LEAST_BUDGET`."""
    budget_share: float = 0.0
    """Share of the cache's tokens that an iteration may have of new ones, where that is more."""
    device_classes: tuple[DeviceClass, ...] = ()
    """By memory, ascending: the last that a device is in replaces the two limits above."""
    max_prefill_tokens: int | None = None
    """Prompt tokens after which an iteration takes no further prompt, where that is not the budget; None for no such
    limit."""
    max_concurrent_requests: int | None = None
    """Requests in the server, waiting or running, beyond which others are refused; None for any number."""
    order: Order = "fcfs"
    """Which of the waiting requests goes first."""
    orders: tuple[Order, ...] = ("fcfs",)
    """What ``plan.scheduler`` may ask of it."""
    reserves: Reservation = "chunk"
    """What has to fit in free blocks before a request is admitted: its first chunk, its whole prompt, its prompt and
    what the policy estimates for answers, or its prompt and its longest answer."""
    watermark: float = 0.0
    """Share of the cache's blocks that admission leaves free."""
    reserved_blocks: int = 0
    """Blocks that no request gets: for padding, or for health checks."""
    prefix_from: Literal["scheduled", "computed", "ended"] = "scheduled"
    """When others may find a prompt's blocks: once it is scheduled, has been computed, or has been answered."""
    prefix_answers: bool = True
    """Answers stay in the prefix cache too."""
    schedules_ahead: bool = False
    """The next iteration is scheduled while one runs: arrivals and completions are seen one iteration later."""
    hides_host: bool = False
    """Where it is, the host's times that were fitted are those of an engine that does not: they hide behind the
    device's, and a prompt's pass before the engine's queue. Otherwise the fit had releases that schedule ahead, and
    found what the device waits for in spite of it."""
    wait_steps: int = 0
    """Decode steps between looks at the waiting prompts, where there are running sequences."""
    waiting_share: float = 0.0
    """Waiting requests, as a share of the running ones, that end this wait sooner; 0: nothing does."""
    answer_share: float = 1.0
    """Share of the tokens to come that running sequences are expected to need, at first (SGLang's new token ratio)."""
    least_answer_share: float = 1.0
    """What that share falls to, step by step."""
    answer_share_steps: int = 1
    """Decode steps in which it does."""
    computes_last: bool = False
    """Where other workers process prompts, those that decode compute the last token of each again, whose result is the
    first token; otherwise that comes with the keys and values."""
    decode_tokens: int = 0
    """Tokens that these workers keep free for the answer of each request, before they take another one."""
    defaults: Mapping[str, object] = field(default_factory=dict)
    """Plan fields whose value, unless stated, is another under load than for a batch."""
    assumed: tuple[str, ...] = ()
    """Fields of this group that were not read in the engine's sources, but taken from another engine or release."""
    source: str = ""

    def __post_init__(self) -> None:
        fix_mappings(self)

    def running_of(self, held: int | None = None) -> int:
        """Return how many sequences run at once where the server holds so many requests; None: its default."""
        return self.max_sequences or held or self.max_concurrent_requests or MOST_SEQUENCES


class Limits(NamedTuple):
    """What an iteration of an engine may hold at most."""

    max_sequences: int
    max_batched_tokens: int


def serving_limits(
    serving: Serving, device: str, memory_bytes: float, context_tokens: int, *, chunked: bool = True
) -> Limits:
    """Return the limits that an engine takes by itself on a device, for a model with a context.

    Where prompts are not ``chunked``, vLLM's iterations have room for the longest (``EngineArgs``: the larger of its
    usual budget and ``max_model_len``).
    """
    sequences, tokens = serving.running_of(), serving.max_batched_tokens
    for known in serving.device_classes:
        if memory_bytes >= known.from_memory_bytes and not device.startswith(known.except_devices or ("?",)):
            sequences = known.max_sequences or sequences
            tokens = known.max_batched_tokens or tokens
    least = context_tokens if serving.policy == "vllm" and not chunked else 0
    return Limits(sequences, max(context_tokens, LEAST_BUDGET) if tokens is None else max(tokens, least))
