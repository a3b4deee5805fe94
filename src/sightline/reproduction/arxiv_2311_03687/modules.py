"""Findings on modules: what a decoder layer's time goes to, idle devices, and FlashAttention's effect."""

from itertools import pairwise, product

from sightline.profile import Profile
from sightline.quantities import percent
from sightline.reproduction.answer import Choice, Interpretation, judged, taken
from sightline.reproduction.arxiv_2311_03687.pretraining import largest
from sightline.reproduction.arxiv_2311_03687.settings import A800, EXPOSED, FLASH_GAIN, TIMED_BATCH, TIMED_PASS, trained
from sightline.reproduction.asking import Ask, Findings

NORMS = ("attention norm", "mlp norm")
ATTENTION = ("qkv", "rope", "attention core", "output projection")
"""Modules of what the study calls the attention module."""
LAUNCHES, MICRO_BATCH = "waiting for launches", "framework, per micro-batch"
"""Operators of the host that leave the device idle during the passes."""


def layer_times(profile: Profile, phase: str) -> dict[str, float]:
    """Return seconds of a decoder layer's modules in a phase; the attention core as its single operators."""
    times: dict[str, float] = {}
    for row in profile.rows:
        if row.block == "layer" and row.phase == phase and not row.network_bytes:
            name = f"attention {row.operator}" if row.module == "attention core" else row.module
            times[name] = times.get(name, 0.0) + float(row.time_s)
    return times


def a13(ask: Ask) -> list[Interpretation]:
    """Return the ratios of MLP to QKV and of QKV to the next module, in both passes."""
    return [_order(ask, batch) for batch in TIMED_BATCH]


def _order(ask: Ask, batch: Choice[int]) -> Interpretation:
    profile = ask.profile(trained(A800, batch=batch.value))
    ratios, said = [], []
    for phase in ("forward", "backward"):
        times = layer_times(profile, phase)
        most = max((name for name in times if name not in ("mlp", "qkv")), key=lambda name: times[name])
        order = ("mlp", "qkv", most)
        ratios += [times[before] / times[after] for before, after in pairwise(order)]
        said.append(f"{phase}: {', '.join(f'{name} {times[name] * 1e3:.1f} ms' for name in order)}")
    return Interpretation(choices=taken(batch), values=ratios, sentence=f"A step at {batch.name}, {'; '.join(said)}.")


def a14(ask: Ask) -> list[Interpretation]:
    """Return the share of RMSNorm and rotary embedding in a decoder layer's time."""
    interpretations = []
    for batch, phase in product(TIMED_BATCH, TIMED_PASS):
        times = layer_times(ask.profile(trained(A800, batch=batch.value)), phase.value)
        element_wise = sum(times[name] for name in (*NORMS, "rope"))
        whole = sum(times.values())
        interpretations.append(
            Interpretation(
                choices=taken(phase, batch),
                values=[element_wise / whole],
                sentence=f"They take {element_wise * 1e3:.1f} ms of {whole * 1e3:.1f} ms.",
            )
        )
    return interpretations


def a15(ask: Ask) -> list[Interpretation]:
    """Return how many of two statements hold: idle 3 to 12 % at batch 1, at most 2 % at the largest batch."""
    most = largest(ask, A800)
    small, large = (idle_share(ask.profile(trained(A800, batch=batch))) for batch in (1, most))
    statements = {
        "idle for 3 to 12 % at batch 1": 0.03 <= small <= 0.12,
        "idle for 2 % at most at the largest batch": large <= 0.02,
    }
    said = f"The device is idle for {percent(small)} of both passes at batch 1, {percent(large)} at batch {most}."
    return [judged(statements, said, taken(EXPOSED.first))]


def idle_share(profile: Profile) -> float:
    """Return the share of the passes, communication apart, in which the device waits for the host."""
    idle = _idle_s(profile)
    return idle / (idle + sum(float(profile.phases[phase]) for phase in ("forward", "backward")))


def _idle_s(profile: Profile) -> float:
    """Seconds in which the device waits for the host during or around the passes."""
    return sum(float(row.time_s) for row in profile.rows if row.operator in (LAUNCHES, MICRO_BATCH))


def a16(ask: Ask) -> list[Interpretation]:
    """Return FlashAttention's gain for the attention module, forward: as speed-up, and as saved share of time."""
    return _flash_gains(ask, "forward")


def a17(ask: Ask) -> list[Interpretation]:
    """Return FlashAttention's gain for the attention module, backward."""
    return _flash_gains(ask, "backward")


def _flash_gains(ask: Ask, phase: str) -> list[Interpretation]:
    interpretations = []
    for batch, form in product(TIMED_BATCH, FLASH_GAIN):
        eager, flash = (_attention_s(ask.profile(trained(A800, row, batch=batch.value)), phase) for row in ("N", "F"))
        said = f"The module takes {eager * 1e3:.1f} ms eager and {flash * 1e3:.1f} ms with FlashAttention."
        gain = 1 - flash / eager if form.value else eager / flash - 1
        interpretations.append(Interpretation(choices=taken(form, batch), values=[gain], sentence=said))
    return interpretations


def _attention_s(profile: Profile, phase: str) -> float:
    """Seconds of a layer's attention module in a phase."""
    return sum(
        float(row.time_s)
        for row in profile.rows
        if row.block == "layer" and row.phase == phase and row.module in ATTENTION and not row.network_bytes
    )


def a36(ask: Ask) -> list[Interpretation]:
    """Return the share of kernels in the backward phase at batch 2, unoverlapped communication apart."""
    profile = ask.profile(trained(A800, batch=2))
    backward = float(profile.phases["backward"])
    # Both passes wait for the host in proportion to their time.
    idle = _idle_s(profile) * backward / (backward + float(profile.phases["forward"]))
    return [
        Interpretation(
            values=[backward / (backward + idle)],
            sentence=f"Its kernels take {backward * 1e3:.0f} ms, the host lets the device wait {idle * 1e3:.0f} ms.",
        )
    ]


FINDINGS: Findings = {
    "A13": a13,
    "A14": a14,
    "A15": a15,
    "A16": a16,
    "A17": a17,
    "A36": a36,
}
