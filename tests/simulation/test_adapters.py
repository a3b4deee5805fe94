"""LoRA adapters of a served model: their memory, and the time that they add."""

import pytest
from serving_scenarios import serving

import sightline as sl

RANK = 16


def _with(count, **cluster):
    plan = {"lora_adapters": {"count": count, "rank": RANK}} if count else {}
    return sl.simulate(serving(plan=plan, arrival={"process": "poisson", "rate": 8.0}, **cluster), intervals=False)


def test_adapters_take_memory_from_the_cache():
    alone, several = _with(0), _with(20)
    model = alone.scenario.model
    h, inner, kv = model.hidden_size, model.intermediate_size, model.kv_heads * model.head_dim
    widths = {"query": h + h, "key and value": 2 * (h + kv), "output": h + h, "mlp": 3 * (h + inner)}
    added = several.memory_bytes["weights"] - alone.memory_bytes["weights"]
    assert added == pytest.approx(2 * 20 * RANK * model.layers * sum(widths.values()))
    assert several.memory_bytes["kv_cache"] == pytest.approx(alone.memory_bytes["kv_cache"] - added, rel=0.01)


def test_more_adapters_take_more_time():
    times = [_with(count).tpot_s["mean"] for count in (0, 1, 16, 64)]
    assert times == sorted(times)
    assert times[0] < times[1]
    # What the kernels read is little next to the weights of the model.
    assert times[-1] < 1.5 * times[0]
