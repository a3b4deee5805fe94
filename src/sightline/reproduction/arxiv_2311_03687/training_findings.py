"""Findings on training: frameworks, platforms, batches, modules, the links inside servers, and adapters."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from statistics import fmean
from typing import Any

from sightline.exploration.study_answer import Column, Figure
from sightline.profile import Profile
from sightline.quantities import GIB, percent
from sightline.reproduction.arxiv_2311_03687 import settings
from sightline.reproduction.asking import Ask, Asked, Findings, Row, Tables
from sightline.reproduction.outcomes import Choice, Interpretation, judged, taken

FINDINGS, TABLES = Findings(), Tables()
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Samples per GPU, or of Megatron-LM's only replica, that are tried."""


@FINDINGS.add(settings.ZERO, settings.EQUAL_BATCH)
def a5(ask: Ask, zero: Choice[str], batch: Choice[int]) -> Interpretation:
    """Return Megatron-LM's throughput over DeepSpeed's with batch 1."""
    deepspeed = settings.rate(ask.profile(settings.trained(settings.A800, zero.value)))
    megatron = settings.rate(ask.profile(settings.trained(settings.A800, framework="megatron", batch=batch.value)))
    rates = f"Megatron-LM: {settings.rate_in_words(megatron)}, DeepSpeed: {settings.rate_in_words(deepspeed)}."
    return Interpretation(values=[settings.ratio(megatron, deepspeed)], sentence=rates)


@FINDINGS.add(settings.ZERO)
def a6(ask: Ask, zero: Choice[str]) -> Interpretation:
    """Return DeepSpeed's throughput over Megatron-LM's, each at its largest batch that fits."""
    most, split = largest(ask, settings.A800, zero.value), largest(ask, settings.A800, framework="megatron")
    deepspeed = settings.rate(ask.profile(settings.trained(settings.A800, zero.value, batch=most)))
    megatron = settings.rate(ask.profile(settings.trained(settings.A800, framework="megatron", batch=split)))
    rates = (
        f"DeepSpeed: {settings.rate_in_words(deepspeed)} at batch {most}, "
        f"Megatron-LM: {settings.rate_in_words(megatron)} at batch {split}."
    )
    return Interpretation(values=[settings.ratio(deepspeed, megatron)], sentence=rates)


@FINDINGS.add(settings.ZERO, settings.EQUAL_BATCH)
def a7(ask: Ask, zero: Choice[str], equal: Choice[int]) -> Interpretation:
    """Return DeepSpeed's memory over Megatron-LM's at the same batches."""
    needs = {
        batch: (
            settings.memory_gib(ask.profile(settings.trained(settings.A800, zero.value, batch=batch))),
            settings.memory_gib(
                ask.profile(settings.trained(settings.A800, framework="megatron", batch=batch * equal.value))
            ),
        )
        for batch in (1, 2, 4, 8)
    }
    gib = [f"{deepspeed:.0f} and {other:.0f} GiB at batch {batch}" for batch, (deepspeed, other) in needs.items()]
    return Interpretation(
        values=[deepspeed / other for deepspeed, other in needs.values()],
        sentence=f"DeepSpeed and Megatron-LM need {', '.join(gib)}.",
    )


@FINDINGS.add()
def a8(ask: Ask) -> Interpretation:
    """Return whether 7B without techniques is out of memory on both RTX cards."""
    needs = [ask.profile(settings.trained(card)) for card in settings.CARDS]
    agree = sum(not one.fits for one in needs) / len(needs)
    gib = " and ".join(f"{settings.memory_gib(one):.0f} GiB" for one in needs)
    return Interpretation(values=[agree], sentence=f"It needs {gib} on cards of 24 GiB.")


@FINDINGS.add(settings.CARD, settings.COMPARED_BATCH)
def a9(ask: Ask, card: Choice[str], batch: Choice[bool]) -> Interpretation:
    """Return the A800's best throughput in full pre-training over the best of RTX cards, batch 1 and the largest."""
    (row, a800), (other, reached) = (_best(ask, name, at_largest=batch.value) for name in (settings.A800, card.value))
    best = settings.rate_in_words(a800)
    rates = f"The A800: {best} with {row}, {card.name}: {settings.rate_in_words(reached)} with {other}."
    return Interpretation(
        values=[settings.ratio(a800, reached)], sentence=rates, choices=settings.as_described(card.value)
    )


def _best(ask: Ask, platform: str, *, at_largest: bool) -> tuple[str, float | None]:
    """The fastest row of full pre-training that fits a platform, and its throughput."""
    rates: dict[str, float] = {}
    for row in settings.PRETRAINING:
        batch = largest(ask, platform, row) if at_largest else 1
        value = settings.rate(ask.profile(settings.trained(platform, row, batch=batch))) if batch else None
        if value is not None and "Q" not in row.split("+"):
            rates[row] = value
    best = max(rates, key=lambda row: rates[row], default="nothing")
    return best, rates.get(best)


@FINDINGS.add(settings.COMPARED_BATCH)
def a10(ask: Ask, batch: Choice[bool]) -> Interpretation:
    """Return the throughput of RTX cards over the A800's with 4-bit weights, at batch 1 and the largest of each."""
    a800, *cards = (_quantized(ask, name, at_largest=batch.value) for name in (settings.A800, *settings.CARDS))
    shares = [settings.ratio(card, a800) for card in cards]
    listed = " and ".join(settings.OUT_OF_MEMORY if share is None else f"{share:.2f}" for share in shares)
    sentence = f"RTX 4090 and RTX 3090 reach {listed} of the A800's throughput."
    return Interpretation(values=shares, sentence=sentence, choices=settings.as_described(*settings.CARDS))


@FINDINGS.add(settings.COMPARED_BATCH)
def a11(ask: Ask, batch: Choice[bool]) -> Interpretation:
    """Return the RTX 4090's throughput over the RTX 3090's with 4-bit weights, at batch 1 and the largest of each."""
    ada, ampere = (_quantized(ask, card, at_largest=batch.value) for card in settings.CARDS)
    rates = f"The RTX 4090: {settings.rate_in_words(ada)}, the RTX 3090: {settings.rate_in_words(ampere)}."
    return Interpretation(
        values=[settings.ratio(ada, ampere)], sentence=rates, choices=settings.as_described(*settings.CARDS)
    )


def _quantized(ask: Ask, platform: str, *, at_largest: bool) -> float | None:
    """The throughput of a platform with 4-bit weights."""
    batch = largest(ask, platform, "Q") if at_largest else 1
    return settings.rate(ask.profile(settings.trained(platform, "Q", batch=batch)))


@FINDINGS.add(settings.EXPOSED)
def a12(ask: Ask, exposed: Choice[bool]) -> Interpretation:
    """Return the optimizer's share of a step at batch 2, without and with the communication that nothing hides."""
    profile = ask.profile(settings.trained(settings.A800, batch=2))
    step, update = float(profile.step_time_s), float(profile.phases["optimizer"])
    whole = step if exposed.value else step - float(profile.phases["communication_exposed"])
    return Interpretation(values=[update / whole], sentence=f"The update takes {update:.3f} s of {whole:.3f} s.")


@FINDINGS.add()
def a37(ask: Ask) -> Interpretation:
    """Return the smallest gain from one batch to the next that fits: N on the A800, 4-bit weights on the RTX cards."""
    gains, said = [], []
    for platform, row in ((settings.A800, "N"), (settings.RTX_4090, "Q"), (settings.RTX_3090, "Q")):
        rates = list(_rates(ask, platform, row))
        gains += [after / before for before, after in pairwise(rates)]
        said.append(f"{settings.NAMES[platform]} {', '.join(f'{one:,.0f}' for one in rates)}")
    sentence = f"Tokens per second at batch 1, 2, 4, …: {'; '.join(said)}."
    return Interpretation(values=gains, sentence=sentence, choices=settings.as_described(*settings.CARDS))


def largest(
    ask: Ask, platform: str, techniques: str = "N", *, framework: str = "deepspeed", model: str = settings.SEVEN
) -> int:
    """Return the largest of `BATCHES` that fits; 0 where none does."""
    most = 0
    for batch in BATCHES:
        if not ask.profile(settings.trained(platform, techniques, batch=batch, framework=framework, model=model)).fits:
            break
        most = batch
    return most


def _rates(ask: Ask, platform: str, techniques: str) -> Iterator[float]:
    """Tokens per second by batch, up to the largest that fits."""
    for batch in BATCHES:
        value = settings.rate(ask.profile(settings.trained(platform, techniques, batch=batch)))
        if value is None:
            return
        yield value


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


@FINDINGS.add(settings.TIMED_BATCH)
def a13(ask: Ask, batch: Choice[int]) -> Interpretation:
    """Return the ratios of MLP to QKV and of QKV to the next module, in both passes."""
    profile = ask.profile(settings.trained(settings.A800, batch=batch.value))
    ratios, said = [], []
    for phase in ("forward", "backward"):
        times = layer_times(profile, phase)
        most = max((name for name in times if name not in ("mlp", "qkv")), key=lambda name: times[name])
        order = ("mlp", "qkv", most)
        ratios += [times[before] / times[after] for before, after in pairwise(order)]
        said.append(f"{phase}: {', '.join(f'{name} {times[name] * 1e3:.1f} ms' for name in order)}")
    return Interpretation(values=ratios, sentence=f"A step at {batch.name}, {'; '.join(said)}.")


@FINDINGS.add(settings.TIMED_BATCH, settings.TIMED_PASS, last_first=True)
def a14(ask: Ask, batch: Choice[int], phase: Choice[str]) -> Interpretation:
    """Return the share of RMSNorm and rotary embedding in a decoder layer's time."""
    times = layer_times(ask.profile(settings.trained(settings.A800, batch=batch.value)), phase.value)
    element_wise, whole = sum(times[name] for name in (*NORMS, "rope")), sum(times.values())
    sentence = f"They take {element_wise * 1e3:.1f} ms of {whole * 1e3:.1f} ms."
    return Interpretation(values=[element_wise / whole], sentence=sentence)


@FINDINGS.add()
def a15(ask: Ask) -> Interpretation:
    """Return how many of two statements hold: idle 3 to 12 % at batch 1, at most 2 % at the largest batch."""
    most = largest(ask, settings.A800)
    small, large = (idle_share(ask.profile(settings.trained(settings.A800, batch=batch))) for batch in (1, most))
    statements = {
        "idle for 3 to 12 % at batch 1": 0.03 <= small <= 0.12,
        "idle for 2 % at most at the largest batch": large <= 0.02,
    }
    said = f"The device is idle for {percent(small)} of both passes at batch 1, {percent(large)} at batch {most}."
    return judged(statements, said, taken(settings.EXPOSED.first))


def idle_share(profile: Profile) -> float:
    """Return the share of the passes, communication apart, in which the device waits for the host."""
    idle = _idle_s(profile)
    return idle / (idle + sum(float(profile.phases[phase]) for phase in ("forward", "backward")))


def _idle_s(profile: Profile) -> float:
    """Seconds in which the device waits for the host during or around the passes."""
    return sum(float(row.time_s) for row in profile.rows if row.operator in (LAUNCHES, MICRO_BATCH))


@FINDINGS.add(settings.TIMED_BATCH, settings.FLASH_GAIN, last_first=True)
def a16(ask: Ask, batch: Choice[int], form: Choice[bool]) -> Interpretation:
    """Return FlashAttention's gain for the attention module, forward: as speed-up, and as saved share of time."""
    return _flash_gain(ask, batch.value, "forward", as_share=form.value)


@FINDINGS.add(settings.TIMED_BATCH, settings.FLASH_GAIN, last_first=True)
def a17(ask: Ask, batch: Choice[int], form: Choice[bool]) -> Interpretation:
    """Return FlashAttention's gain for the attention module, backward."""
    return _flash_gain(ask, batch.value, "backward", as_share=form.value)


def _flash_gain(ask: Ask, batch: int, phase: str, *, as_share: bool) -> Interpretation:
    eager, flash = (
        _attention_s(ask.profile(settings.trained(settings.A800, row, batch=batch)), phase) for row in ("N", "F")
    )
    sentence = f"The module takes {eager * 1e3:.1f} ms eager and {flash * 1e3:.1f} ms with FlashAttention."
    return Interpretation(values=[1 - flash / eager if as_share else eager / flash - 1], sentence=sentence)


def _attention_s(profile: Profile, phase: str) -> float:
    """Seconds of a layer's attention module in a phase."""
    return sum(
        float(row.time_s)
        for row in profile.rows
        if row.block == "layer" and row.phase == phase and row.module in ATTENTION and not row.network_bytes
    )


@FINDINGS.add()
def a36(ask: Ask) -> Interpretation:
    """Return the share of kernels in the backward phase at batch 2, unoverlapped communication apart."""
    profile = ask.profile(settings.trained(settings.A800, batch=2))
    backward = float(profile.phases["backward"])
    # Both passes wait for the host in proportion to their time.
    idle = _idle_s(profile) * backward / (backward + float(profile.phases["forward"]))
    sentence = f"Its kernels take {backward * 1e3:.0f} ms, the host lets the device wait {idle * 1e3:.0f} ms."
    return Interpretation(values=[backward / (backward + idle)], sentence=sentence)


BATCH_PER_GPU = 2


@FINDINGS.add()
def a1(ask: Ask) -> Interpretation:
    """Return the A800's scaling efficiency."""
    return _scaled(ask, settings.A800)


@FINDINGS.add(settings.LINKS)
def a2(ask: Ask, links: Choice[settings.Parts]) -> Interpretation:
    """Return the RTX 4090's scaling efficiency."""
    return _scaled(ask, settings.RTX_4090, links.value)


@FINDINGS.add(settings.HOST_MEMORY)
def a3(ask: Ask, memory: Choice[settings.Parts]) -> Interpretation:
    """Return the RTX 3090's scaling efficiency."""
    return _scaled(ask, settings.RTX_3090, memory.value)


@FINDINGS.add(settings.HOST_MEMORY)
def a4(ask: Ask, memory: Choice[settings.Parts]) -> Interpretation:
    """Return the RTX 3090's efficiency with NVLink over that without."""
    bridged, plain = (
        _efficiency(ask, platform, memory.value) for platform in (settings.RTX_3090_NVLINK, settings.RTX_3090)
    )
    figures = f"{_share(bridged)} with NVLink and {_share(plain)} without"
    return Interpretation(values=[settings.ratio(bridged, plain)], sentence=f"The efficiency is {figures}.")


@FINDINGS.add(settings.HOST_MEMORY)
def a35(ask: Ask, memory: Choice[settings.Parts]) -> Interpretation:
    """Return the mean gain from NVLink over the rows of pre-training that fit the RTX 3090."""
    gains = dict(_gains(ask, memory.value))
    least, most = (pick(gains, key=lambda row: gains[row]) for pick in (min, max))
    span = f"from {percent(gains[least], 1)} ({least}) to {percent(gains[most], 1)} ({most})"
    return Interpretation(values=[fmean(gains.values())], sentence=f"{len(gains)} rows at batch 1 gain {span}.")


def _gains(ask: Ask, parts: settings.Parts) -> Iterator[tuple[str, float]]:
    """Rows of pre-training that fit with and without NVLink, and the throughput that it adds to each."""
    rows = [row for row in settings.PRETRAINING if not ask.small or row in settings.QUICK_ROWS]
    for model, row in product((settings.SEVEN, settings.THIRTEEN), rows):
        bridged, plain = (
            settings.rate(ask.profile(changed(settings.trained(platform, row, model=model), parts)))
            for platform in (settings.RTX_3090_NVLINK, settings.RTX_3090)
        )
        gain = settings.ratio(bridged, plain)
        if gain is not None:
            yield f"{settings.MODELS[model]} {row}", gain - 1.0


def changed(asked: Asked, parts: settings.Parts) -> Asked:
    """Return a scenario with parts of its server replaced."""
    cluster = asked["cluster"]
    whole = {"same_as": cluster} if isinstance(cluster, str) else cluster
    return {**asked, "cluster": {**whole, **parts}} if parts else asked


def _scaled(ask: Ask, platform: str, parts: settings.Parts = settings.AS_DESCRIBED) -> Interpretation:
    """A platform's efficiency as an interpretation, with what a step takes on one GPU and on all."""
    alone, whole = (ask.profile(_step(platform, devices, parts)) for devices in (1, settings.GPUS))
    exposed = float(whole.phases["communication_exposed"])
    times = f"{alone.step_time_s * 1e3:.0f} ms on one GPU and {whole.step_time_s * 1e3:.0f} ms on {settings.GPUS}"
    sentence = f"A step takes {times}, {exposed * 1e3:.0f} ms of it unoverlapped communication."
    return Interpretation(values=[_efficiency(ask, platform, parts)], sentence=sentence)


def _efficiency(ask: Ask, platform: str, parts: settings.Parts, devices: int = settings.GPUS) -> float | None:
    """Throughput per GPU of several over that of one; None where a plan does not fit."""
    whole, alone = (settings.rate(ask.profile(_step(platform, n, parts))) for n in (devices, 1))
    each = settings.ratio(whole, alone)
    return None if each is None else each / devices


def _step(platform: str, devices: int, parts: settings.Parts) -> Asked:
    return changed(settings.trained(platform, "Q", batch=BATCH_PER_GPU, devices=devices), parts)


def _share(value: float | None) -> str:
    return "not available" if value is None else percent(value, 1)


FIRST = "as described"
"""Of the servers as the catalog has them, the first of their interpretations."""


@TABLES.add(
    "scaling",
    "From one GPU to eight: 7B, batch 2 per GPU, 4-bit weights",
    about={
        "platform": settings.PLATFORM,
        "interpretation": Column(label="interpretation"),
        "devices": Column(label="GPUs"),
        "tokens_per_s": settings.THROUGHPUT,
        "efficiency": Column(label="scaling efficiency", unit="share"),
    },
    figures=[
        Figure(
            kind="lines",
            title="Scaling efficiency",
            x="devices",
            y="efficiency",
            series="platform",
            where={"interpretation": FIRST},
        )
    ],
)
def scaling(ask: Ask) -> Iterator[Row]:
    """Yield throughput and efficiency from one GPU to eight on every platform."""
    for platform in settings.PLATFORMS:
        others = [one for one in settings.SERVERS.get(platform, ()) if one.value]
        interpretations = {FIRST: settings.AS_DESCRIBED, **{one.name: one.value for one in others}}
        for (said, parts), devices in product(interpretations.items(), (1, 2, 4, settings.GPUS)):
            yield {
                "platform": settings.NAMES[platform],
                "interpretation": said,
                "devices": devices,
                "tokens_per_s": settings.rate(ask.profile(_step(platform, devices, parts))),
                "efficiency": _efficiency(ask, platform, parts, devices),
            }


Adapters = Choice[Mapping[str, Any]]
SIZES = (settings.SEVEN, settings.THIRTEEN)
ROWS_WITH_BOTH = ("L", "L+F", "L+Z2", "QL", "QL+F", "QL+Z2")
RECOMPUTED = (("L+R", "L"), ("L+F+R", "L+F"), ("QL+R", "QL"), ("QL+F+R", "QL+F"))
"""Rows with recomputation and the same without."""


@FINDINGS.add(settings.ADAPTERS)
def a18(ask: Ask, adapters: Adapters) -> Interpretation:
    """Return LoRA's throughput over QLoRA's."""
    return _adapted_rates(ask, adapters, "L", "QL")


@FINDINGS.add(settings.ADAPTERS)
def a19(ask: Ask, adapters: Adapters) -> Interpretation:
    """Return QLoRA's memory over LoRA's."""
    qlora, lora = (
        settings.memory_gib(_adapted(ask, settings.A800, techniques, adapters)) for techniques in ("QL", "L")
    )
    return Interpretation(values=[qlora / lora], sentence=f"QLoRA needs {qlora:.1f} GiB, LoRA {lora:.1f} GiB.")


@FINDINGS.add(settings.ADAPTERS, settings.FLASH_ROWS)
def a20(ask: Ask, adapters: Adapters, rows: Choice[str]) -> Interpretation:
    """Return what FlashAttention adds to LoRA's throughput."""
    return _gain(ask, adapters, f"L+F{rows.value}", f"L{rows.value}")


@FINDINGS.add(settings.ADAPTERS)
def a21(ask: Ask, adapters: Adapters) -> Interpretation:
    """Return what ZeRO-2 adds to LoRA's throughput."""
    return _gain(ask, adapters, "L+Z2", "L")


@FINDINGS.add(settings.ADAPTERS)
def a22(ask: Ask, adapters: Adapters) -> Interpretation:
    """Return how much slower 13B is than 7B, of LoRA and of QLoRA."""
    losses = {}
    for techniques in ("L", "QL"):
        large, small = (
            settings.rate(_adapted(ask, settings.A800, techniques, adapters, model))
            for model in (settings.THIRTEEN, settings.SEVEN)
        )
        share = settings.ratio(large, small)
        losses[techniques] = None if share is None else 1 - share
    listed = ", ".join(
        f"{row} {settings.OUT_OF_MEMORY if loss is None else percent(loss, 1)}" for row, loss in losses.items()
    )
    return Interpretation(values=list(losses.values()), sentence=f"13B is slower than 7B by: {listed}.")


@FINDINGS.add(settings.ADAPTERS, settings.COMBINED, last_first=True)
def a23(ask: Ask, adapters: Adapters, server: Choice[tuple[str, Mapping[str, Any]]]) -> Interpretation:
    """Return tokens per second of 70B with LoRA, FlashAttention, recomputation, ZeRO-3 and offload on 24 GB cards."""
    card, plan = server.value
    profile = _adapted(ask, card, "L+F+R+Z3+O", adapters, settings.SEVENTY, **plan)
    usable = float(profile.usable_bytes) / GIB
    memory = f"{settings.memory_gib(profile):.1f} of {usable:.1f} GiB"
    sentence = f"{settings.NAMES[card]}: {memory}, {settings.rate_in_words(settings.rate(profile))}."
    return Interpretation(values=[settings.rate(profile)], sentence=sentence, choices=settings.as_described(card))


@FINDINGS.add(settings.ADAPTERS)
def a24(ask: Ask, adapters: Adapters) -> Interpretation:
    """Return the share of the study's statements on techniques that hold."""
    found = {
        "ZeRO-2 saves memory at no cost in speed": _saves_for_nothing(ask, adapters),
        "ZeRO-3 pays off for larger models: it saves more of ZeRO-2's memory the larger they are, and 70B fits with "
        "ZeRO-3 alone": _pays_off(ask, adapters),
        "offload slows down": _slower(ask, adapters, (("L+Z2+O", "L+Z2"), ("L+Z3+O", "L+Z3"))),
        "recomputation trades speed for memory": _slower(ask, adapters, RECOMPUTED)
        and _smaller(ask, adapters, RECOMPUTED),
    }
    platforms = ", ".join(settings.NAMES[one] for one in _platforms(ask))
    said = f"{len(found)} statements on 7B with LoRA and QLoRA ({platforms}) and 70B (A800)."
    return judged(found, said, settings.as_described(*_platforms(ask)))


@TABLES.add(
    "adapters",
    "LoRA and QLoRA with DeepSpeed on 8 A800, by the projections that have adapters",
    about={
        "adapters": Column(label="adapters on"),
        "model": settings.MODEL,
        "row": settings.ROW,
        "tokens_per_s": settings.THROUGHPUT,
        "memory_bytes": settings.MEMORY,
        "host_share": Column(label="waits for the host", unit="share"),
    },
    figures=[
        Figure(kind="bars", title="Throughput, 7B", x="row", y="tokens_per_s", series="adapters", where={"model": "7B"})
    ],
)
def adapters(ask: Ask) -> Iterator[Row]:
    """Yield what the number of adapters does to the findings' rows."""
    for choice, model, row in product(settings.ADAPTERS, SIZES, ROWS_WITH_BOTH):
        profile = _adapted(ask, settings.A800, row, choice, model)
        yield {
            "adapters": choice.name.removeprefix("adapters on ").partition(",")[0],
            "model": settings.MODELS[model],
            "row": row,
            "tokens_per_s": settings.rate(profile),
            "memory_bytes": float(profile.memory_bytes["total"]),
            "host_share": float(profile.phases["host"] / profile.step_time_s),
        }


def _platforms(ask: Ask) -> tuple[str, ...]:
    return (settings.A800,) if ask.small else (settings.A800, *settings.CARDS)


def _saves_for_nothing(ask: Ask, adapters: Adapters) -> bool:
    """Whether ZeRO-2 takes less memory and no more time than none."""
    pairs = (("L+Z2", "L"), ("QL+Z2", "QL"))
    return _smaller(ask, adapters, pairs) and not _slower(ask, adapters, pairs, of=any)


def _pays_off(ask: Ask, adapters: Adapters) -> bool:
    """Whether ZeRO-3's share of ZeRO-2's memory falls with the model and 70B with LoRA fits in no other way."""
    shares = []
    for model in (settings.SEVEN, settings.THIRTEEN, settings.SEVENTY):
        three, two = (
            settings.memory_gib(_adapted(ask, settings.A800, f"L+{stage}", adapters, model)) for stage in ("Z3", "Z2")
        )
        shares.append(three / two)
    fits = {
        row: bool(_adapted(ask, settings.A800, row, adapters, settings.SEVENTY).fits)
        for row in ("L", "L+F+R", "L+F+R+Z2", "L+Z3")
    }
    falls = all(after < before for before, after in pairwise(shares))
    return falls and [row for row, does in fits.items() if does] == ["L+Z3"]


def _slower(
    ask: Ask, adapters: Adapters, pairs: Sequence[tuple[str, str]], *, of: Callable[[Sequence[bool]], bool] = all
) -> bool:
    """Whether the first row of pairs takes longer than the second, on ``of`` the platforms and pairs."""
    steps = [
        [float(_adapted(ask, card, row, adapters).step_time_s) for row in pair]
        for card, pair in product(_platforms(ask), pairs)
    ]
    return of([one > other for one, other in steps])


def _smaller(ask: Ask, adapters: Adapters, pairs: Sequence[tuple[str, str]]) -> bool:
    """Whether the first row of all pairs needs less memory than the second."""
    return all(
        settings.memory_gib(_adapted(ask, card, one, adapters))
        < settings.memory_gib(_adapted(ask, card, other, adapters))
        for card, (one, other) in product(_platforms(ask), pairs)
    )


def _adapted(
    ask: Ask, platform: str, techniques: str, adapters: Adapters, model: str = settings.SEVEN, **plan: Any
) -> Profile:
    """The prediction of fine-tuning with adapters on the chosen projections."""
    adapter = {"kind": "qlora" if "QL" in techniques.split("+") else "lora", **adapters.value}
    return ask.profile(settings.trained(platform, techniques, model=model, adapter=adapter, **plan))


def _adapted_rates(ask: Ask, adapters: Adapters, *rows: str) -> Interpretation:
    """The throughput of one row over another's, 7B on the A800."""
    rates = {row: settings.rate(_adapted(ask, settings.A800, row, adapters)) for row in rows}
    listed = ", ".join(f"{row} {settings.rate_in_words(value)}" for row, value in rates.items())
    return Interpretation(values=[settings.ratio(*rates.values())], sentence=f"7B on 8 A800: {listed}.")


def _gain(ask: Ask, adapters: Adapters, *rows: str) -> Interpretation:
    """What one row gains over another."""
    rates = _adapted_rates(ask, adapters, *rows)
    return replace(rates, values=[None if value is None else value - 1 for value in rates.values])
