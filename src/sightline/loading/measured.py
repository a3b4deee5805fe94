"""``measured``: what somebody measured, under the keys of results and in any unit of its quantity."""

from collections.abc import Mapping
from typing import Any

from sightline.errors import InputError
from sightline.kinds import Kind, flag, share
from sightline.loading.input.checks import Keys, each
from sightline.quantities import (
    BYTES,
    BYTES_PER_SECOND,
    COUNT,
    FLOPS,
    JOULES,
    SECONDS,
    TOKENS_PER_SECOND,
    USD,
    Dimension,
    parse_quantity,
    show,
)


def _amount(dimension: Dimension) -> Kind:
    """An amount of 0 or more; a plain number stays as it is."""

    def check(value: Any) -> float:
        amount = parse_quantity(value, dimension, zero=True)
        return amount if isinstance(value, str) else value

    return check


def _parts(of: Kind) -> Kind:
    """A mapping of parts to amounts."""

    def check(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise InputError(f"is {show(value)}; allowed: a mapping of its parts to amounts")
        return {str(part): _named(str(part), of, amount) for part, amount in value.items()}

    return check


def _named(part: str, of: Kind, amount: Any) -> Any:
    try:
        return of(amount)
    except InputError as error:
        raise InputError(f"has {part}, which {error}") from None


def _whole_or_parts(dimension: Dimension) -> Kind:
    """One amount, or a mapping of its parts to amounts."""
    whole, parts = _amount(dimension), _parts(_amount(dimension))
    return lambda value: parts(value) if isinstance(value, Mapping) else whole(value)


def _words(value: Any) -> str:
    if not isinstance(value, str):
        raise InputError(f"is {show(value)}; allowed: text")
    return value


TEXTS = ("source", "bottleneck", "evidence", "note", "date", "requests")
MEASURED: Keys = {
    **each(_words, " ".join(TEXTS)),
    **each(_amount(SECONDS), "step_time_s run_time_s forward_pass_s time_s"),
    **each(
        _amount(TOKENS_PER_SECOND),
        "tokens_per_s tokens_per_s_per_device output_tokens_per_s output_tokens_per_s_per_device",
    ),
    **each(_amount(FLOPS), "model_flops_per_s_per_device flops_per_s_per_device flops_per_s"),
    **each(share, "mfu hfu"),
    **each(_amount(JOULES), "energy_j energy_per_step_j"),
    **each(_amount(USD), "cost_usd cost_usd_per_million_tokens"),
    **each(_amount(BYTES), "layer_activation_bytes bytes"),
    "bytes_per_s": _amount(BYTES_PER_SECOND),
    **each(
        _amount(COUNT),
        "relative_layer_activations requests_per_s goodput_requests_per_s completed failed flops steps",
    ),
    "memory_bytes": _whole_or_parts(BYTES),
    **each(_whole_or_parts(SECONDS), "ttft_s tpot_s itl_s latency_s"),
    "phases": _parts(_amount(SECONDS)),
    "fits": flag,
}
"""``measured``."""
