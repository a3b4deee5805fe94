"""``measured``: amounts in any unit of their quantity."""

import pytest

from sightline import load
from sightline.errors import InputError

REST = "model: llama-2-7b\ncluster: 8x a100-sxm-80gb\nworkload: {task: pretrain, sequence_length: 2048, global_batch: 64}\n"


@pytest.mark.parametrize(
    ("stated", "key", "amount"),
    [
        ("step_time_s: 480 ms", "step_time_s", 0.48),
        ("step_time_s: 1.2 s", "step_time_s", 1.2),
        ("step_time_s: 2", "step_time_s", 2),
        ("run_time_s: 3 days", "run_time_s", 3 * 86400.0),
        ("tokens_per_s: 12000 tokens/s", "tokens_per_s", 12000.0),
        ("model_flops_per_s_per_device: 150 TFLOP/s", "model_flops_per_s_per_device", 150e12),
        ("mfu: 45 %", "mfu", 0.45),
        ("energy_j: 2 kWh", "energy_j", 7.2e6),
        ("memory_bytes: 40 GiB", "memory_bytes", 40 * 2.0**30),
        ("memory_bytes: {total: 40 GiB}", "memory_bytes", {"total": 40 * 2.0**30}),
        ("ttft_s: {p50: 80 ms, p90: 0.2}", "ttft_s", {"p50": 0.08, "p90": 0.2}),
    ],
)
def test_amounts_have_units(stated: str, key: str, amount: object) -> None:
    assert load(f"{REST}measured: {{{stated}}}").measured[key] == amount


@pytest.mark.parametrize(
    ("stated", "same"),
    [
        ("{ttft_s.mean: 60 ms}", "{ttft_s: {mean: 0.06}}"),
        ("{ttft_s.p99.9: 1, ttft_s.p50: 80 ms}", "{ttft_s: {p99.9: 1, p50: 0.08}}"),
        ("{ttft_s.mean: 1, ttft_s: {p50: 2}}", "{ttft_s: {p50: 2, mean: 1}}"),
        (
            "{memory_bytes.total: 40 GiB, phases.forward: 2 s}",
            "{memory_bytes: {total: 40 GiB}, phases: {forward: 2 s}}",
        ),
    ],
)
def test_a_dotted_key_is_a_part_of_its_figure(stated: str, same: str) -> None:
    dotted, nested = (load(f"{REST}measured: {text}").measured for text in (stated, same))
    assert dotted == nested


@pytest.mark.parametrize(
    ("stated", "key"),
    [
        ("{ttft_s.mean: 1, ttft_s: {mean: 2}}", "measured.ttft_s.mean"),
        ("{ttft_s.mean: 1, ttft_s: 2}", "measured.ttft_s.mean"),
        ("{ttft.mean: 1}", "measured.ttft.mean"),
        ("{step_time_s.mean: 1}", "measured.step_time_s"),
        ("{ttft_s.: 1}", "measured.ttft_s."),
        ("{ttft_s.mean: fast}", "measured.ttft_s has mean"),
    ],
)
def test_a_wrong_dotted_key_is_named(stated: str, key: str) -> None:
    with pytest.raises(InputError) as refused:
        load(f"{REST}measured: {stated}")
    (problem,) = refused.value.problems
    assert key in problem
