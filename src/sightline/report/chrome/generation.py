"""A predicted generation as a Chrome trace: prefill and decode, modules nested, the middle of decoding added up."""

from collections.abc import Iterator

from sightline.profile import Profile
from sightline.report.chrome import events
from sightline.report.chrome.contents import Block, blocks_of, drawn
from sightline.report.chrome.events import CALL, COMPUTE, RANGE, Event, slice_of, trace_text

_FIRST, _LAST = 3, 1
"""Steps of decoding with their modules: the first and the last ones."""
_MOST_PREFILLS = 8
"""Passes of a prefill in pieces that are drawn with their modules."""


def generation_trace(profile: Profile) -> str:
    """Return the JSON text of a generation's trace, of one device: those of a replica do the same.

    Every step of decoding has the mean length of all of them; between the first and the last ones, one slice stands for
    the others.
    """
    work = profile.scenario.workload
    steps = max(0, int(work.output_tokens) - 1)
    about = {
        "scenario": profile.scenario.name,
        "source": f"sightline, {profile.source}",
        "latency_s": float(profile.latency_s),
        "ttft_s": float(profile.ttft_s),
        "tpot_s": float(profile.tpot_s),
        "decode_steps": steps,
        "decode_steps_with_modules": min(steps, _FIRST + _LAST),
    }
    return trace_text({0: "device"}, list(_events(profile, steps)), about)


def _events(profile: Profile, steps: int) -> Iterator[Event]:
    ttft_s, whole_s = float(profile.ttft_s), float(profile.latency_s)
    yield slice_of("ProfilerStep#0", events.STEP, 0, events.HOST, 0.0, whole_s)
    yield from _memory(profile, ttft_s, whole_s)
    yield from _prefill(profile, ttft_s)
    if not steps:
        return
    step_s = (whole_s - ttft_s) / steps
    # A step is one pass of decoding; the rows hold all of them.
    blocks = blocks_of(profile, ("decode",), steps)
    host_s = _host_s(profile, "decode") / steps
    full = [*range(min(_FIRST, steps)), *range(max(_FIRST, steps - _LAST), steps)]
    for step in full:
        start_s = ttft_s + step * step_s
        yield from _pass(f"decode {step + 1}", blocks, start_s, start_s + step_s, host_s)
    left = steps - len(full)
    if left > 0:
        start_s = ttft_s + _FIRST * step_s
        name = f"{left:,} more decode steps, not drawn individually"
        yield slice_of(name, RANGE, 0, COMPUTE, start_s, start_s + left * step_s, steps=left)


def _prefill(profile: Profile, ttft_s: float) -> Iterator[Event]:
    """The pass, or the passes of a prefill in pieces, up to the first token."""
    counts = [float(row.count) for row in profile.rows if row.phase == "prefill" and row.block in ("head", "embedding")]
    passes = max(1, round(max(counts, default=1.0)))
    blocks, host_s = blocks_of(profile, ("prefill",), passes), _host_s(profile, "prefill")
    each_s = ttft_s / passes
    for number in range(min(passes, _MOST_PREFILLS)):
        name = f"prefill {number}" if passes > 1 else "prefill"
        yield from _pass(name, blocks, number * each_s, (number + 1) * each_s, host_s / passes)
    if passes > _MOST_PREFILLS:
        left = passes - _MOST_PREFILLS
        name = f"{left:,} more prefill passes, not drawn individually"
        yield slice_of(name, RANGE, 0, COMPUTE, _MOST_PREFILLS * each_s, ttft_s, passes=left)


def _pass(name: str, blocks: list[Block], start_s: float, end_s: float, host_s: float) -> Iterator[Event]:
    """A pass with its modules, and before it the host's part that the device waits for."""
    begun_s = start_s + min(host_s, 0.9 * (end_s - start_s))
    yield slice_of(name, RANGE, 0, COMPUTE, start_s, end_s)
    if begun_s > start_s:
        yield slice_of(f"host: {name}", CALL, 0, events.HOST, start_s, begun_s)
    yield from drawn(blocks, 0, begun_s, end_s)


def _host_s(profile: Profile, phase: str) -> float:
    own = [row for row in profile.rows if row.phase == "host" and row.operator.endswith(f"in {phase}")]
    return sum(float(row.exposed_s) for row in own)


def _memory(profile: Profile, ttft_s: float, whole_s: float) -> Iterator[Event]:
    """The memory of the fullest device as the cache fills, in bytes."""
    memory, work = profile.memory_bytes, profile.scenario.workload
    if not memory:
        return
    cache = float(memory.get("kv_cache", 0.0))
    rest = float(memory["total"]) - cache
    prompt, tokens = float(work.prompt_tokens), float(work.prompt_tokens) + float(work.output_tokens)
    for at_s, share in ((0.0, 0.0), (ttft_s, prompt / tokens), (whole_s, 1.0)):
        yield events.counter("memory", 0, at_s, other=rest, kv_cache=cache * share)
