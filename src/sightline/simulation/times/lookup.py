"""Seconds of an iteration from a replica's tables: what `iteration_time` says, a thousand times faster."""

from math import sqrt

from sightline.simulation.compiled import compiled, entry
from sightline.simulation.times.axes import place_on
from sightline.simulation.times.packed import PackedTimes
from sightline.simulation.times.tables import (
    ATTENTION_BITS,
    COLLECTIVES,
    CONTEXT_BITS,
    COUNT_BITS,
    HANDOVER,
    LAUNCHES,
    WORK,
)


@entry
def step_seconds(
    times: PackedTimes, decodes: int, context_sum: int, new_tokens: int, prompts: int, attention_s: float
) -> float:
    """Return the seconds of an iteration from its begin to its tokens, through all pipeline stages.

    ``decodes`` sequences that decode have ``context_sum`` tokens in the cache; ``prompts`` prompts or chunks of them
    have ``new_tokens`` new tokens, whose attention takes ``attention_s`` (`prompt_attention_seconds` of each).
    """
    f = times.figures
    if prompts == 0:
        work_s, collective_s, launches, boundary_s = _row(times, f.decodes_at, f.decodes_size, 1.0 * decodes)
        work_s += decode_attention_seconds(times, decodes, context_sum)
        launches += f.decode_launches
    else:
        work_s, collective_s, launches, boundary_s = _mixed(times, decodes, context_sum, new_tokens, prompts)
        work_s += attention_s - f.attention_start_s * (prompts - 1.0 + (decodes > 0 and f.joins_attention > 0))
    device_s = work_s + collective_s
    wait_s = 0.0
    if not _captured(times, decodes, new_tokens, prompts):
        wait_s = _joined(f.launch_s * launches, device_s) - device_s
    sends = 0.0 if f.stages == 1.0 else f.stages - 1.0 + (decodes > 0)
    host_s = _host(times, decodes, new_tokens, prompts)
    if f.ahead:
        host_s = max(host_s - device_s, 0.0)
    return device_s + wait_s + sends * boundary_s + f.boundaries_s + host_s


@entry
def prompt_attention_seconds(times: PackedTimes, new_tokens: int, context_tokens: int) -> float:
    """Return the seconds that the attention of a prompt's new tokens takes behind those of it that are cached."""
    f = times.figures
    return _cell(
        times,
        f.prompt_attention_at,
        f.prompt_attention_size,
        f.prompt_attention_width,
        1.0 * new_tokens,
        1.0 * context_tokens,
    )


@entry
def decode_attention_seconds(times: PackedTimes, decodes: int, context_sum: int) -> float:
    """Return the seconds that the attention of decoding sequences takes, drafts included."""
    f = times.figures
    if decodes == 0:
        return 0.0
    return _cell(
        times,
        f.decode_attention_at,
        f.decode_attention_size,
        f.decode_attention_width,
        1.0 * decodes,
        context_sum / decodes,
    )


@compiled
def _captured(times: PackedTimes, decodes: int, new_tokens: int, prompts: int) -> bool:
    """Whether a pass is launched as graphs, which keep the device waiting for nothing."""
    f = times.figures
    if prompts == 0:
        return bool(f.captured)
    return bool(decodes * f.tokens_per_decode + new_tokens <= f.captured_tokens)


@compiled
def _joined(host_s: float, device_s: float) -> float:
    """The norm of exponent 4 (``HOST_OVERLAP``) in which launches and the device's work join; roots are fast."""
    return sqrt(sqrt(host_s * host_s * host_s * host_s + device_s * device_s * device_s * device_s))


@compiled
def _mixed(
    times: PackedTimes, decodes: int, context_sum: int, new_tokens: int, prompts: int
) -> tuple[float, float, float, float]:
    """Seconds of work and collectives, launches, and seconds of a boundary, of a pass with prompts but their attention.

    Collectives slow down with prompts beyond a length (``InferenceConstants.long_prefill_slowdown``).
    """
    f = times.figures
    decoded = decodes * f.tokens_per_decode
    work_s, collective_s, launches, boundary_s = _row(times, f.tokens_at, f.tokens_size, decoded + new_tokens)
    logits = _row(times, f.logits_at, f.logits_size, decoded + prompts)
    work_s += logits[0]
    collective_s += logits[1]
    if decodes > 0:
        drafts = _row(times, f.drafts_at, f.drafts_size, 1.0 * decodes)
        work_s += drafts[0] + decode_attention_seconds(times, decodes, context_sum)
        collective_s += drafts[1]
        launches += drafts[2] + f.decode_launches
    if new_tokens > f.long_prompt_tokens:
        collective_s *= 1.0 + (1.0 - f.long_prompt_tokens / new_tokens) * f.long_prompt_slowdown
    return work_s, collective_s, launches + prompts * f.prompt_launches, boundary_s


@compiled
def _host(times: PackedTimes, decodes: int, new_tokens: int, prompts: int) -> float:
    """Seconds of the engine's own code: once per iteration, per token of a prompt, per decoding sequence."""
    f = times.figures
    once_s = f.iteration_s if decodes > 0 else 0.0
    if new_tokens > prompts or (prompts > 0 and not f.single_tokens_decode):
        once_s = max(once_s, f.prefill_s)
    return once_s + f.sequence_s * decodes + f.prompt_token_s * new_tokens


@compiled
def _row(times: PackedTimes, at: int, size: int, x: float) -> tuple[float, float, float, float]:
    """The columns of a table over counts at ``x``."""
    i, share = place_on(COUNT_BITS, size, x)
    low, high = at + i, at + i + 1
    rows = times.rows
    return (
        rows[low, WORK] + share * (rows[high, WORK] - rows[low, WORK]),
        rows[low, COLLECTIVES] + share * (rows[high, COLLECTIVES] - rows[low, COLLECTIVES]),
        rows[low, LAUNCHES] + share * (rows[high, LAUNCHES] - rows[low, LAUNCHES]),
        rows[low, HANDOVER] + share * (rows[high, HANDOVER] - rows[low, HANDOVER]),
    )


@compiled
def _cell(times: PackedTimes, at: int, size: int, width: int, tokens: float, context: float) -> float:
    """A table of attention at so many new tokens or sequences and so much context."""
    i, down = place_on(ATTENTION_BITS, size, tokens)
    j, along = place_on(CONTEXT_BITS, width, context)
    cells, first = times.cells, at + i * width + j
    second = first + width
    upper = cells[first] + along * (cells[first + 1] - cells[first])
    lower = cells[second] + along * (cells[second + 1] - cells[second])
    seconds: float = upper + down * (lower - upper)
    return seconds
