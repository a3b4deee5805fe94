"""Comparing profiles: every level, either kind of side, what is missing, what is unfair, what is refused."""

import json
import math

import pytest
from compared_plans import GENERATION, TRAINING

import sightline as sl
from sightline.errors import InputError
from sightline.explanation.compared import RUN_TO_RUN, WIDER, Cell
from sightline.explanation.comparison import named_as
from sightline.runs import open_store

OPERATOR = {
    "cluster": "1x h100-sxm-80gb",
    "workload": {"task": "operator", "operator": "matmul", "m": 4096, "n": 4096, "k": 4096},
}


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("SIGHTLINE_RUNS", str(tmp_path / "runs"))
    return tmp_path


def measured(profile, factor=1.0, spread=0.002, **changes):
    """The profile as if it had been measured: all times longer by a factor, the median known to ``spread``."""
    step_s = profile.step_time_s * factor
    fields = {
        "source": "measured",
        "step_time_s": step_s,
        "phases": {phase: s * factor for phase, s in profile.phases.items()},
        "rows": [row.lasting(row.time_s * factor) for row in profile.rows],
        "interval": {"step_time_s": (step_s * math.exp(-spread), step_s * math.exp(spread))},
    }
    return profile.replace(**(fields | changes))


def stored(profile, name="tiny", **environment):
    """The profile as a run of the store, its table with intervals of its own where it has them."""
    from sightline.loading import to_mapping
    from sightline.runs import Run

    result = profile.to_dict()
    scenario = result.pop("scenario")
    assert scenario == to_mapping(profile.scenario)
    writer = open_store().begin(name, scenario=scenario)
    rows = profile.table.to_dicts() if hasattr(profile, "rows") else []
    run: Run = writer.finish(result=result, rows=rows, environment=environment)
    return run.id


def rows_at(comparison, level, **which):
    return [
        row
        for row in comparison.rows
        if row.level == level and all(getattr(row, key) == value for key, value in which.items())
    ]


def test_a_run_that_takes_longer_is_slower_at_every_level():
    before = measured(sl.predict(sl.load(TRAINING)))
    found = sl.compare(before, measured(before, 1.2))
    times = [row for row in found.rows if row.quantity.endswith("time_s")]
    assert {row.level for row in times} == {"step", "phase", "module", "operator"}
    assert {row.verdict for row in times} == {"slower"}
    assert [row.ratio for row in times] == pytest.approx([1.2] * len(times))
    assert [row.verdict for row in rows_at(found, "step", quantity="tokens_per_s")] == ["slower"]
    assert {row.verdict for row in rows_at(found, "memory")} == {"no difference found"}
    assert all(low < row.ratio < high for row in found.rows for low, high in [row.interval])


def test_noise_is_no_change_and_the_interval_is_that_of_both():
    before = measured(sl.predict(sl.load(TRAINING)), spread=0.02)
    found = sl.compare(before, measured(before, 1.03, spread=0.01))
    assert {row.verdict for row in found.rows} == {"no difference found"}
    (step,) = rows_at(found, "step", quantity="step_time_s")
    width = WIDER * math.sqrt(0.02**2 + 0.01**2 + 2 * RUN_TO_RUN**2)
    assert step.interval == pytest.approx((1.03 * math.exp(-width), 1.03 * math.exp(width)))


def test_modules_add_up_their_operators_and_phases_their_modules():
    profile = sl.predict(sl.load(TRAINING))
    found = sl.compare(profile, profile)
    for phase in ("forward", "backward"):
        modules = rows_at(found, "module", phase=phase)
        assert sum(row.a for row in modules) == pytest.approx(
            sum(row.a for row in rows_at(found, "operator", phase=phase)), rel=1e-12
        )
    mlp = rows_at(found, "module", phase="forward", module="mlp")
    assert sum(r.time_s for r in profile.rows if (r.phase, r.module) == ("forward", "mlp")) == pytest.approx(mlp[0].a)


def test_parts_of_two_predictions_are_what_the_model_says():
    larger = {"plan.micro_batch": 16, "workload.global_batch": 128}
    a = sl.predict(sl.load(TRAINING, larger))
    b = sl.predict(sl.load(TRAINING, larger | {"plan.recompute": "full"}))
    found = sl.compare(a, b, levels=["step", "phase", "memory"])
    assert {row.interval for row in found.rows if row.level != "step"} == {None}
    assert [row.verdict for row in rows_at(found, "phase", phase="forward")] == ["no difference found"]
    (recompute,) = rows_at(found, "phase", phase="recompute")
    assert (recompute.a, recompute.ratio, recompute.verdict) == (None, None, "only in b")
    assert rows_at(sl.compare(b, a), "phase", phase="recompute")[0].verdict == "only in a"
    # With recomputation memory is fullest while the optimizer steps.
    assert rows_at(found, "memory", quantity="memory_bytes.activations")[0].verdict == "only in a"
    assert rows_at(found, "memory", quantity="memory_bytes.total")[0].verdict == "less"
    assert found.about.endswith(": recompute none and full")
    assert not found.warnings


def test_answers_of_one_token_have_no_time_per_further_token():
    one, many = (sl.predict(sl.load(GENERATION, {"workload.output_tokens": n})) for n in (1, 32))
    for found, verdict in ((sl.compare(one, many), "only in b"), (sl.compare(many, one), "only in a")):
        (row,) = rows_at(found, "step", quantity="tpot_s")
        assert (row.ratio, row.verdict) == (None, verdict)


def test_what_one_plan_leaves_out_is_said_too():
    a, b = (sl.predict(sl.load(GENERATION, values)) for values in ({}, {"plan.quantization": "fp8"}))
    assert sl.compare(a, b).about == "plans differ: quantization none and fp8"


def test_adapters_differ_by_what_is_said_of_them():
    lora = {"workload.task": "finetune", "plan.adapter.kind": "lora"}
    plain, thin, thick = (
        sl.predict(sl.load(TRAINING, values))
        for values in ({}, lora | {"plan.adapter.rank": 8}, lora | {"plan.adapter.rank": 16})
    )
    assert sl.compare(thin, thick).about == "plans differ: adapter.rank 8 and 16"
    said = sl.compare(plain, thin).about
    assert said.startswith("plans differ: adapter none and lora (rank 8, ")
    assert "{" not in said


@pytest.mark.parametrize("scenario", [TRAINING, GENERATION, OPERATOR])
def test_a_run_is_compared_with_what_is_predicted_for_its_scenario(scenario):
    profile = sl.predict(sl.load(scenario))
    run = stored(profile.replace(source="measured"))
    found = sl.compare(run, "predicted")
    assert (found.a.name, found.b.name, found.b.source) == (run, "predicted", "predicted")
    assert [row.ratio for row in found.rows] == pytest.approx([1.0] * len(found.rows), rel=1e-9)
    levels = {"step"} if scenario is OPERATOR else {"step", "phase", "memory", "module", "operator"}
    assert {row.level for row in found.rows} == levels
    turned = sl.compare("predicted", run)
    assert [(row.a, row.b) for row in turned.rows] == [(row.b, row.a) for row in found.rows]
    assert sl.compare("latest", run).rows[0].verdict == "no difference found"


def test_the_interval_of_a_prediction_counts():
    scenario = sl.load(TRAINING)
    predicted = sl.predict(scenario)
    low, high = predicted.interval["step_time_s"]
    (step,) = rows_at(sl.compare(measured(predicted), predicted), "step", quantity="step_time_s")
    spread = math.log(high / predicted.step_time_s)
    assert math.log(step.interval[1]) == pytest.approx(WIDER * math.sqrt(spread**2 + 0.002**2 + RUN_TO_RUN**2))
    assert step.probability == 0.99
    far = sl.compare(predicted, measured(predicted, math.exp(1.2 * WIDER * spread)), levels=["step"])
    near = sl.compare(predicted, measured(predicted, math.exp(0.9 * WIDER * spread)), levels=["step"])
    assert [found.rows[0].verdict for found in (far, near)] == ["slower", "no difference found"]
    assert low < predicted.step_time_s


def test_a_prediction_that_does_not_know_its_error_is_remarked_on():
    predicted = sl.predict(sl.load(TRAINING)).replace(interval={})
    found = sl.compare(predicted, measured(predicted, 1.5), levels=["step"])
    (warning,) = found.warnings
    assert "predicted" in warning
    assert found.rows[0].verdict == "slower"


def test_prefill_is_as_uncertain_as_the_first_token_and_decode_as_the_others():
    profile = sl.predict(sl.load(GENERATION))
    ends = {"ttft_s": 0.3, "tpot_s": 0.1, "latency_s": 0.2}
    intervals = {k: (getattr(profile, k) / math.exp(s), getattr(profile, k) * math.exp(s)) for k, s in ends.items()}
    found = sl.compare(profile.replace(interval=intervals), profile.replace(source="measured", interval={}))
    for phase, spread in (("prefill", 0.3), ("decode", 0.1)):
        for level in ("phase", "module"):
            row = rows_at(found, level, phase=phase)[0]
            assert math.log(row.interval[1]) == pytest.approx(WIDER * math.hypot(spread, RUN_TO_RUN))


def test_rows_with_intervals_of_their_own_use_them():
    profile = measured(sl.predict(sl.load(TRAINING)))
    run = open_store().find(stored(profile))
    rows = [row | {"low_s": 0.5 * row["time_s"], "high_s": 2.0 * row["time_s"]} for row in profile.table.to_dicts()]
    second = open_store().begin("second", scenario=run.scenario).finish(result=run.result, rows=rows)
    found = sl.compare(run.id, second.id)
    assert rows_at(found, "module")[0].interval[1] == pytest.approx(2.0**WIDER, rel=0.01)
    assert rows_at(found, "phase")[0].interval[1] == pytest.approx(1.0, rel=0.05)


def test_a_busy_machine_makes_differences_uncertain_and_is_remarked_on():
    profile = measured(sl.predict(sl.load(TRAINING)))
    quiet, busy = stored(profile), stored(measured(profile, 1.09), contended=True, contention=["others took 40 %"])
    found = sl.compare(quiet, busy, levels=["step"])
    assert found.warnings == [f"{busy} was measured on a busy machine: others took 40 %"]
    assert found.rows[0].verdict == "no difference found"


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ({"model": "llama-2-13b"}, "models differ: llama-2-7b and llama-2-13b"),
        ({"model.vocab_size": 64000}, "models differ: vocab_size 32000 and 64000"),
        ({"cluster": "8x h100-sxm-80gb"}, "clusters differ: 8x a800-sxm-80gb and 8x h100-sxm-80gb"),
        ({"workload.global_batch": 32}, "workloads differ: global_batch 16 and 32"),
        ({"workload.task": "finetune"}, "workloads differ: task pretrain and finetune"),
    ],
)
def test_what_makes_a_comparison_unfair_is_said(override, sentence):
    a, b = (sl.predict(sl.load(TRAINING, values)) for values in ({}, override))
    assert sentence in sl.compare(a, b).warnings


def test_files_of_results_have_the_tables_that_their_scenarios_still_give(place):
    from sightline.render.csv import to_csv

    profile = sl.predict(sl.load(TRAINING))
    (place / "one.json").write_text(json.dumps(profile.to_dict()))
    (place / "one.csv").write_text(to_csv([profile, measured(profile, 2.0)]))
    found = sl.compare(place / "one.json", str(place / "one.csv#1"))
    assert {row.level for row in found.rows} == {"step", "phase", "memory", "module", "operator"}
    assert {row.verdict for row in found.rows} == {"no difference found"}
    second = sl.compare(profile, str(place / "one.csv#2"))
    assert second.rows[0].verdict == "slower"
    assert second.rows[0].interval[1] > 2.0 * 1.01
    assert any("has no table" in warning for warning in second.warnings)
    changed = profile.to_dict() | {"step_time_s": 1.1 * profile.step_time_s}
    (place / "old.json").write_text(json.dumps(changed))
    assert not rows_at(sl.compare(place / "old.json", profile), "module")


def test_a_file_of_a_bound_can_be_compared(place):
    from sightline.render.csv import to_csv

    profile = sl.predict(sl.load(TRAINING | {"plan": {"framework": "reference", "micro_batch": 1}}))
    (place / "bound.json").write_text(json.dumps(profile.to_dict()))
    (place / "bound.csv").write_text(to_csv([profile]))
    for name in ("bound.json", "bound.csv"):
        assert {row.verdict for row in sl.compare(place / name, profile).rows} == {"no difference found"}


def test_a_run_as_runs_show_writes_it_can_be_compared(place, capsys):
    from sightline.cli.main import run as command

    run = stored(measured(sl.predict(sl.load(TRAINING))))
    assert command(["runs", "show", run, "--json"]) == 0
    (place / "run.json").write_text(capsys.readouterr().out)
    found = sl.compare(place / "run.json", run)
    assert {row.verdict for row in found.rows} == {"no difference found"}
    assert rows_at(found, "operator")


def refusal(a, b, **options):
    with pytest.raises(InputError) as error:
        sl.compare(a, b, **options)
    (problem,) = error.value.problems
    return problem


def test_different_tasks_are_refused():
    training, generation = (sl.predict(sl.load(s)) for s in (TRAINING, GENERATION))
    assert "the same task" in refusal(training, generation)


def test_what_stands_for_nothing_is_refused_in_one_sentence(place):
    run = stored(measured(sl.predict(sl.load(TRAINING))))
    (place / "tiny.json").write_text(json.dumps([TRAINING, TRAINING]))
    (place / "broken.json").write_text(json.dumps({"source": "measured", "step_time_s": "soon", "scenario": TRAINING}))
    assert refusal(run[:-1] + "x", run).endswith(f"did you mean '{run}'?")
    assert "did you mean 'predicted'?" in refusal(run, "predictd")
    assert "did you mean 'tiny.json'?" in refusal(run, place / "tiy.json")
    assert "has 2 results" in refusal(run, place / "tiny.json")
    assert "the file has 2" in refusal(run, f"{place / 'tiny.json'}#3")
    assert "broken.json" in refusal(run, place / "broken.json")
    assert "'predicted'" in refusal("predicted", "predicted")
    assert "did you mean 'module'?" in refusal(run, run, levels=["modul"])
    assert "level is empty" in refusal(run, run, levels=[])
    assert "not int" in refusal(run, 3)


def test_runs_without_a_result_are_refused():
    failed = open_store().begin("large").finish(status="out_of_memory", reason="it took 3 GiB")
    suite = open_store().begin("suite").finish(result={"source": "measured", "results": [{}, {}]})
    assert f"run '{failed.id}' is out of memory (it took 3 GiB)" in refusal(failed.id, "predicted")
    assert "has 2 operators of a suite" in refusal(suite.id, "predicted")
    assert "has 2 operators of a suite" in refusal(suite, "predicted")


PREDICTED = [
    Cell("forward", "mlp", "up", 2.0),
    Cell("forward", "mlp", "activation", 1.0),
    Cell("forward", "mlp", "down", 1.0),
    Cell("forward", "mlp norm", "norm", 1.0),
    Cell("forward", "attention core", "scores", 1.0),
    Cell("forward", "attention core", "softmax", 1.0),
]


def names(*measured):
    return [cell.operator for cell in named_as([Cell(*cell, 1.0) for cell in measured], PREDICTED)]


def test_what_can_be_one_operator_alone_is_that_operator():
    mlp = [("forward", "mlp", name) for name in ("up", "silu", "mul", "down", "host")]
    assert names(*mlp) == ["up", "activation", "activation", "down", "host"]


def test_the_host_is_part_of_a_modules_only_operator():
    norm = [("forward", "mlp norm", name) for name in ("pow", "mean", "mul", "host")]
    assert names(*norm) == ["norm"] * 4


def test_what_could_be_several_keeps_its_name():
    core = [("forward", "attention core", name) for name in ("bmm", "_softmax")]
    assert names(*core) == ["bmm", "_softmax"]
    assert names(("backward", "mlp", "mul")) == ["mul"], "of which nothing was predicted"
    every = [("forward", "mlp", name) for name in ("up", "activation", "down", "copy_")]
    assert names(*every)[-1] == "copy_", "all that was predicted has its own row"


def test_seconds_stay_what_they_are():
    cell = Cell("forward", "mlp norm", "mul", 3.0, 2.0, 4.0)
    assert named_as([cell], PREDICTED) == [cell._replace(operator="norm")]
