"""``sightline check``: the exit code says whether a prediction meets what is required."""

import json

import pytest


def test_what_is_met_ends_with_zero_and_a_sentence_for_each_requirement(in_process, example):
    code, out, err = in_process("check", example, "--require", "fits,mfu>=0.01", "--require", "memory<=79 GiB")
    assert (code, err) == (0, "")
    assert out.count(": met") == 3
    assert "79 GiB" in out


def test_what_is_not_met_ends_with_one(in_process, example):
    code, out, err = in_process("check", example, "--require", "fits,step_time<=1 us")
    assert (code, err) == (1, "")
    assert ": met" in out
    assert out.rstrip().endswith("not met")


def test_whether_the_whole_interval_meets_it_may_be_required(in_process, example):
    figure = json.loads(in_process("predict", example, "--json")[1])["mfu"]
    require = ("--require", f"mfu>={figure - 1e-6}")
    assert in_process("check", example, *require)[0] == 0
    assert in_process("check", example, *require, "--whole-interval")[0] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--require"),
        (("--require", "mfuu>=0.1"), "did you mean 'mfu'?"),
        (("--require", "mfu"), "'mfu>=0.35'"),
        (("--require", "fits", "--set", "plan.zero_stag=2"), "zero_stage"),
        (("--require", "fits", "--markdown", "out.txt"), ".md"),
        (("--require", "fits", "--anchor", "nowhere.yaml"), "nowhere.yaml"),
    ],
)
def test_a_wrong_request_ends_with_two(in_process, example, arguments, said):
    code, out, err = in_process("check", example, *arguments)
    assert (code, out) == (2, "")
    assert said in err


def test_settings_and_anchors_are_heeded(in_process, example):
    required = ("--require", "mfu>=0", "--json")
    plain = json.loads(in_process("check", example, *required)[1])
    longer = json.loads(in_process("check", example, *required, "--set", "workload.sequence_length=1024")[1])
    anchor = example.parent / "llama-2-7b-measured-8xa800.yaml"
    anchored = json.loads(in_process("check", example, *required, "--anchor", anchor)[1])
    assert len({one["required"][0]["value"] for one in (plain, longer, anchored)}) == 3


def test_json_is_one_document_with_each_verdict(in_process, example):
    code, out, _ = in_process("check", example, "--require", "fits,mfu>=0.99", "--json")
    found = json.loads(out)
    assert (code, found["met"]) == (1, False)
    assert [(one["require"], one["key"], one["met"]) for one in found["required"]] == [
        ("fits", "fits", True),
        ("mfu>=0.99", "mfu", False),
    ]


def test_of_several_scenarios_each_has_to_meet_everything(in_process, example):
    sweep = ("--sweep", "workload.sequence_length=350,512", "--require")
    times = [one["step_time_s"] for one in json.loads(in_process("predict", example, *sweep[:2], "--json")[1])]
    between = f"step_time<={sum(times) / 2}"
    code, out, _ = in_process("check", example, *sweep, between)
    assert code == 1
    assert "1 of 2 scenarios" in out
    documents = json.loads(in_process("check", example, *sweep, between, "--json")[1])
    assert [one["met"] for one in documents] == [True, False]
    assert in_process("check", example, *sweep, f"step_time<={1.001 * max(times)}")[0] == 0


def test_an_impossible_combination_of_a_sweep_is_not_met(in_process, example):
    asked = ("check", example, "--require", "fits", "--sweep", "plan.micro_batch=2,4")
    why = "1 of 2 combinations are invalid: workload.global_batch is 16"
    code, out, err = in_process(*asked)
    assert code == 1
    assert "1 of 2 scenarios" in out
    assert err.count(why) == 1
    code, out, _ = in_process(*asked, "--json")
    (document,) = json.loads(out)
    assert (code, document["met"]) == (1, True)
    assert document["warnings"][0].startswith(why)
    code, out, _ = in_process(*asked, "--markdown", "-")
    assert code == 1
    assert "1 of 2 scenarios" in out
    assert "invalid: workload" in out


def test_markdown_marks_what_is_met(in_process, example, tmp_path):
    path = tmp_path / "check.md"
    code, out, err = in_process("check", example, "--require", "fits,mfu>=0.99", "--markdown", path)
    text = path.read_text(encoding="utf-8")
    assert (code, f"wrote {path}" in err) == (1, True)
    assert "- ✅ **fits**" in text
    assert "- ❌ **mfu\\>=0.99**" in text
    assert "1 of 2 requirements" in text
    assert "1 of 2" not in out


def test_markdown_of_several_is_a_table(in_process, example):
    sweep = ("--sweep", "workload.sequence_length=350,512")
    code, out, _ = in_process("check", example, *sweep, "--require", "step_time<=1 us", "--markdown", "-")
    assert code == 1
    assert out.count("| ❌ | step\\_time") == 2


def test_a_plan_that_does_not_fit_is_warned_of_where_that_is_not_required(in_process, example):
    unfit = example.parent / "llama-2-7b-does-not-fit.yaml"
    code, _, err = in_process("check", unfit, "--require", "mfu>=0.01")
    assert code == 0
    assert "sightline: warning: " in err
    code, out, err = in_process("check", unfit, "--require", "fits")
    assert (code, err) == (1, "")
    assert "fits" in out


@pytest.mark.slow
def test_a_load_is_simulated(in_process, tmp_path):
    file = tmp_path / "load.yaml"
    file.write_text(
        "model: llama-3.1-8b\ncluster: 1x h100-sxm-80gb\nplan: {framework: vllm}\n"
        "workload: {task: serve, requests: {count: 20, prompt_tokens: 512, output_tokens: 16}}\n"
    )
    code, out, _ = in_process("check", file, "--require", "fits,ttft_p90<=60 s,refused==0")
    assert code == 0
    assert "ttft_p90 is " in out
