"""Operators for real on this processor: work is counted right, times are positive and repeat, wishes are refused."""

from dataclasses import replace

import pytest

from sightline.errors import InputError, WorkError
from sightline.loading import load
from sightline.measurement import machine as devices
from sightline.measurement.operators import operator_suite
from sightline.measurement.operators.kernels import ATTENTIONS, row_width
from sightline.measurement.operators.operator_suite import measure_operator
from sightline.measurement.timing import HostClock, Rule
from sightline.scenario.operation import ELEMENTWISE

torch = pytest.importorskip("torch")

SHORT = Rule(warm_up_s=0.02, least=8, most=20, longest_s=0.05)
ATTENTION = {"operator": "attention", "heads": 4, "kv_heads": 2, "head_dim": 32, "query_tokens": 64}


@pytest.fixture(autouse=True)
def one_thread_and_a_small_cache(monkeypatch):
    """One core, as on a busy machine the others come late; few buffers, as they need not outdo the cache here."""
    threads, here = torch.get_num_threads(), devices.processor()
    monkeypatch.setattr(devices, "processor", lambda: here._replace(cores=1, cache_bytes=2**20))
    yield
    torch.set_num_threads(threads)


def asked(cluster="this-machine", **workload):
    return load({"cluster": cluster, "workload": {"task": "operator", "dtype": "fp32", **workload}})


def measured(implementation=None, **workload):
    return measure_operator(asked(**workload), implementation, SHORT)


@pytest.mark.parametrize(("dtype", "width"), [("fp32", 4), ("bf16", 2), ("fp16", 2)])
def test_a_product_counts_its_work(dtype, width) -> None:
    profile = measured(operator="matmul", m=32, n=48, k=64, batch=3, dtype=dtype)
    assert profile.flops == pytest.approx(3 * 2 * 32 * 48 * 64)
    assert profile.bytes == pytest.approx(3 * width * (32 * 64 + 64 * 48 + 32 * 48))
    assert profile.time_s > 0
    assert profile.interval["time_s"][0] <= profile.time_s <= profile.interval["time_s"][1]


@pytest.mark.parametrize("implementation", ["auto", "flash", "math", "eager"])
@pytest.mark.parametrize("queries", [1, 16, 64])
def test_attention_in_every_way_the_processor_has(implementation, queries) -> None:
    profile = measured(implementation, **ATTENTION | {"query_tokens": queries, "context_tokens": 64})
    assert profile.measurement["implementation"] == implementation
    seen = sum(64 - queries + 1 + i for i in range(queries))
    assert profile.flops == pytest.approx(4 * 4 * 32 * seen, rel=0.02)
    assert profile.bytes == pytest.approx(4 * 32 * (2 * 4 * queries + 2 * 2 * 64), rel=0.02)


def test_all_ways_compute_the_same_attention() -> None:
    from sightline.measurement.machine import machine_of
    from sightline.measurement.operators.kernels import attention_case

    for queries in (1, 16, 64):
        scenario = asked(**ATTENTION | {"query_tokens": queries, "context_tokens": 64})
        machine = machine_of(scenario.cluster)
        results = [
            attention_case(scenario.workload, machine, name).call(0) for name in ("math", "flash", "eager", "auto")
        ]
        for result in results[1:]:
            torch.testing.assert_close(result, results[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("operator", ELEMENTWISE)
def test_every_kernel_runs(operator) -> None:
    profile = measured(operator=operator, tokens=8, width=256)
    assert profile.time_s > 0
    assert profile.bytes >= 2 * 4 * 8 * 256


@pytest.mark.parametrize("implementation", ["fused", "foreach", "loop"])
def test_every_optimizer_steps(implementation) -> None:
    assert measured(implementation, operator="adam", elements=1000).bytes == pytest.approx(28 * 1000)


def test_the_time_is_that_of_the_calls(monkeypatch) -> None:
    """On a clock that counts floating-point operations, a product of twice the rows takes twice as long."""
    from torch.utils.flop_counter import FlopCounterMode

    class Counting(HostClock):
        resolution_s = 0.0

        def measure(self, call, first, count):
            with FlopCounterMode(display=False) as counter:
                for turn in range(first, first + count):
                    call(turn)
            return float(counter.get_total_flops())

    here = devices.machine_of
    monkeypatch.setattr(operator_suite, "machine_of", lambda cluster: replace(here(cluster), clock=Counting()))
    small, large = (measured(operator="matmul", m=m, n=48, k=64) for m in (32, 64))
    assert (small.time_s, large.time_s) == (small.flops, 2 * small.flops)


def test_results_bear_the_documented_keys() -> None:
    result = measured(operator="norm", tokens=8, width=64).to_dict()
    assert {"scenario", "source", "time_s", "flops", "bytes", "interval", "measurement", "warnings"} <= result.keys()
    assert result["source"] == "measured"
    assert "bound" not in result
    assert {"repeats", "warm_up", "stable", "threads", "library", "width"} <= result["measurement"].keys()


@pytest.mark.parametrize(
    ("workload", "implementation", "sentence"),
    [
        ({"operator": "matmul", "m": 10**6, "n": 10**6, "k": 8}, None, "of which 60 % may be used"),
        ({"operator": "adam", "elements": 10**13}, None, "of which 60 % may be used"),
        (
            {"operator": "matmul", "m": 8, "n": 8, "k": 8},
            "cublas",
            "--implementation is 'cublas'; allowed for matmul: library",
        ),
        (ATTENTION, "flahs", "did you mean 'flash'?"),
        (ATTENTION, "efficient", "not available for these sizes"),
        (ATTENTION | {"window": 8}, None, "workload.window: "),
        ({"operator": "copy", "elements": 8}, "host-to-device", "needs 1 GPUs; this machine has 0"),
        ({"operator": "all_reduce", "bytes": 8}, None, "all_reduce needs at least two"),
        (
            {"operator": "grouped_matmul", "rows": 8, "experts": 2, "n": 8, "k": 8, "dtype": "bf16"},
            None,
            "workload.operator is 'grouped_matmul'",
        ),
    ],
)
def test_what_cannot_be_measured_is_a_sentence(workload, implementation, sentence) -> None:
    if workload["operator"] == "all_reduce":
        scenario = load({"cluster": "this-machine", "workload": {"task": "operator", **workload}})
    else:
        scenario = asked(**workload)
    if implementation == "host-to-device" and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(InputError) as refused:
        measure_operator(scenario, implementation, SHORT)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_another_machine_is_told_how_to_measure_this_one() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(InputError, match="--set cluster=this-machine"):
        measure_operator(asked(cluster="8x a100-sxm-80gb", operator="norm", elements=8), None, SHORT)


def test_backends_are_named_once() -> None:
    assert len(set(ATTENTIONS)) == len(ATTENTIONS)


@pytest.mark.parametrize(
    ("elements", "widest", "width"),
    [
        (8192, 4096, 4096),
        (96, 4096, 96),
        (10000, 4096, 2500),
        (9973 * 2, 4096, 19946),
        (15, 4096, 15),
        (64000, 32000, 32000),
    ],
)
def test_rows_divide_the_elements(elements, widest, width) -> None:
    assert row_width(elements, widest) == width


@pytest.mark.slow
def test_ranks_exchange_over_gloo() -> None:
    scenario = load(
        {"cluster": "2x this-machine", "workload": {"task": "operator", "operator": "all_reduce", "bytes": 65536}}
    )
    profile = measure_operator(scenario, None, replace(SHORT, longest_s=0.02))
    assert profile.measurement["implementation"] == "gloo"
    assert profile.time_s > 0
    assert profile.bytes == 65536


def test_of_several_rounds_the_one_in_the_middle_counts(monkeypatch) -> None:
    times = iter([3.0, 1.0, 2.0, "broken", 5.0, 4.0])

    def one(_arguments, _emit):
        time_s = next(times)
        if time_s == "broken":
            raise WorkError("once")
        return {"time_s": time_s, "measurement": {}}

    monkeypatch.setattr(operator_suite, "one", one)
    asked = [{"scenario": {"workload": {"operator": name}}} for name in ("norm", "rope")]
    found = operator_suite.several({"operators": asked, "rounds": 3, "quick": True}, lambda _: None)["results"]
    assert [r["time_s"] for r in found] == [3.0, 1.0]
    assert [r["measurement"]["rounds_s"] for r in found] == [[3.0, 2.0, 5.0], [1.0, 4.0]]
