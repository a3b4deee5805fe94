"""``sightline plan`` as a user meets it."""

import csv
import io
import json
import shlex
import stat
import subprocess
import sys

import pytest

FAST = {
    "model": "llama-2-7b",
    "cluster": "8x a100-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": 64, "total_tokens": 1e10},
    "plan": {
        "framework": "megatron",
        "context_parallel": 1,
        "expert_parallel": 1,
        "offload": "none",
        "attention": "flash",
        "schedule": "1f1b",
        "virtual_stages": 1,
    },
}


@pytest.fixture
def file(tmp_path):
    """A scenario that leaves a few fields open."""
    path = tmp_path / "scenario.yaml"
    path.write_text(json.dumps(FAST), encoding="utf-8")
    return path


def test_a_person_reads_a_table_reasons_and_commands(file, in_process):
    code, out, err = in_process("plan", file, "-v")
    # A slow machine shows progress.
    assert (code, [line for line in err.splitlines() if not line.startswith("sightline: searching")]) == (0, [])
    for said in (
        "llama-2-7b on 8 x a100-sxm-80gb",
        "evaluated",
        "feasible",
        "Alternatives",
        "Better hardware",
        "Try next",
    ):
        assert said in out
    assert "bound by" in out


def test_json_has_the_documented_keys_and_as_many_plans_as_asked_for(file, in_process):
    code, out, _ = in_process("plan", file, "--top", 3, "--json")
    document = json.loads(out)
    assert code == 0
    assert [one["rank"] for one in document["plans"]] == [1, 2, 3]
    assert document["evaluated"] >= document["feasible"] > 3
    times = [one["step_time_s"] for one in document["plans"]]
    assert times[1] <= times[2]
    assert any("torchrun" in (one["launch"] or "") for one in document["plans"] if one["launchable"])


def test_csv_has_a_line_per_plan(file, in_process):
    _, out, _ = in_process("plan", file, "--top", 4, "--csv")
    lines = list(csv.DictReader(io.StringIO(out)))
    assert [line["rank"] for line in lines] == ["1", "2", "3", "4"]


def test_the_command_to_try_next_predicts_the_first_plan_that_can_run(file, in_process):
    _, out, _ = in_process("plan", file, "--json")
    best = next(one for one in json.loads(out)["plans"] if one["launchable"])
    _, text, _ = in_process("plan", file, "-v")
    _, _, after = text.partition(f"where the time and memory of plan {best['rank']} go\n")
    lines = [line for line in after.replace("\\\n", "").splitlines() if "sightline predict" in line]
    code, predicted, _ = in_process(*shlex.split(lines[0])[1:], "--json")
    assert code == 0
    assert json.loads(predicted)["step_time_s"] == pytest.approx(best["step_time_s"], rel=1e-9)


def test_launch_writes_a_script_and_says_of_which_plan(file, in_process, tmp_path):
    code, _, err = in_process("plan", file, "--launch", tmp_path / "run")
    script = tmp_path / "run" / "launch.sh"
    assert code == 0
    assert f"wrote {script}: plan 1 " in err
    assert "torchrun" in script.read_text(encoding="utf-8")
    assert script.stat().st_mode & stat.S_IXUSR


def test_a_launch_may_be_of_a_tool(file, in_process, tmp_path):
    fine_tuned = ("plan.framework=fsdp", "workload.task=finetune", "model=qwen3-8b", "cluster=8x h100-sxm-80gb")
    asked = ("plan", file, *(word for one in fine_tuned for word in ("--set", one)), "--top", 1)
    code, _, err = in_process(*asked, "--launch", tmp_path / "run", "--with", "llama-factory")
    assert (code, "LLaMA-Factory" in err) == (0, True)
    assert "Qwen/Qwen3-8B" in (tmp_path / "run" / "train.yaml").read_text()
    code, out, err = in_process(*asked, "--with", "axolotl")
    assert (code, out, "--launch" in err) == (2, "", True)
    code, out, err = in_process("plan", file, "--launch", tmp_path / "other", "--with", "axolotl")
    assert (code, "plan.framework is" in err) == (2, True)


def test_a_launch_says_why_it_is_not_of_the_first_plan(file, in_process, tmp_path):
    asked = ["plan", file, "--set", "plan.zero_stage={any: [1, 2]}", "--set", "plan.recompute=none"]
    _, out, _ = in_process(*asked, "--json")
    plans = json.loads(out)["plans"]
    first = next(one for one in plans if one["launchable"])
    code, _, err = in_process(*asked, "--launch", tmp_path / "run")
    assert code == 0
    assert f"plan {first['rank']} " in err
    assert plans[0]["launchable"] or "plan 1 " in err or "plans 1" in err


def test_the_default_answer_can_be_run_and_all_shows_the_others_with_what_prevents_them(file, in_process, tmp_path):
    asked = ["plan", file, "--set", "plan.zero_stage={any: [1, 2]}", "--set", "plan.attention={any: [flash, eager]}"]
    default, same, every = (
        json.loads(in_process(*asked, *more, "--json", "--top", 12)[1]) for more in ([], ["--launchable"], ["--all"])
    )
    assert all(one["launchable"] and one["launch"] for one in default["plans"])
    assert [one["plan"] for one in same["plans"]] == [one["plan"] for one in default["plans"]]
    assert default["evaluated"] == same["evaluated"] < every["evaluated"]
    first = every["plans"][0]
    assert (first["launchable"], first["launch"]) == (False, None)
    assert first["obstacles"]
    assert default["held_fixed"]["plan.compile"] is False
    code, _, err = in_process(*asked, "--all", "--top", 1, "--launch", tmp_path / "run")
    assert code == 2
    assert "plan 1 not launchable" in err


def test_where_nothing_can_be_launched_each_reason_is_said_once(file, in_process, tmp_path):
    code, out, err = in_process("plan", file, "--set", "plan.framework=reference", "--launch", tmp_path / "run")
    assert code == 2
    assert "The best plans" in out
    assert err.count("--launch: plans 1") == 1
    assert "none of the 10 plans" in err
    assert not (tmp_path / "run").exists()


def test_a_scenario_on_standard_input_is_read_once(run, tmp_path):
    asked = json.dumps(FAST | {"plan": FAST["plan"] | {"zero_stage": {"any": [1, 2]}}})
    more = ("--devices", "h100-sxm-80gb", "--top", 1, "--launch", tmp_path / "run")
    done = run("plan", "-", *more, "--json", stdin=asked)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["plans"][0]["cluster"] == "8x h100-sxm-80gb"
    assert (tmp_path / "run" / "launch.sh").exists()


def test_charts_and_reports_are_written(file, in_process, tmp_path):
    chart, page = tmp_path / "chart.svg", tmp_path / "plan.html"
    code, _, err = in_process("plan", file, "--chart", chart, "--html", page, "--top", 2)
    assert code == 0
    assert f"wrote {chart}" in err
    assert "<svg" in chart.read_text(encoding="utf-8")
    text = page.read_text(encoding="utf-8")
    for said in ("Search space", "Alternatives", "Better hardware", "The best plans", "matchMedia("):
        assert said in text


def test_a_front_holds_plans_that_trade_one_for_the_other(file, in_process):
    _, out, _ = in_process("plan", file, "--pareto", "time,memory", "--json")
    document = json.loads(out)
    on_front = [document["plans"][position] for position in document["pareto"]]
    times = [one["step_time_s"] for one in on_front]
    memory = [one["memory_bytes"]["total"] for one in on_front]
    assert times == sorted(times)
    assert memory == sorted(memory, reverse=True)


def test_a_limit_on_memory_is_drawn_on_the_axis_of_memory(file, in_process, tmp_path):
    chart = tmp_path / "front.svg"
    asked = ("--pareto", "time,memory", "--max-memory", "70 GB", "--chart", chart)
    code, _, err = in_process("plan", file, *asked)
    assert code == 0, err
    assert "shaded" in chart.read_text(encoding="utf-8")


def test_nothing_fits_is_an_answer_with_the_nearest_that_does(example, in_process):
    too_large = ["--set", "cluster=1x rtx-4090", "--set", "plan.adapter=none"]
    code, out, _ = in_process(
        "plan", example.parent / "plans/llama-3.1-8b-rtx-4090.yaml", *too_large, "--price", "4090=0.5", "-v"
    )
    assert code == 0
    assert out.startswith("No launchable plan fits")
    assert "virtual_stages" not in out
    assert "held fixed: framework, " in out
    assert "--all" in out.partition("Try next")[2]
    _, _, near = out.partition("Nearest plans that fit")
    commands = [line for line in near.replace("\\\n", "").splitlines() if "sightline plan" in line]
    assert "--price rtx-4090=0.5" in commands[0]
    code, tried, _ = in_process(*shlex.split(commands[0])[1:], "--top", 1, "--json")
    assert code == 0
    assert json.loads(tried)["plans"][0]["fits"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--top", "0"], "--top is '0'; allowed: a whole number from 1 to 1,000"),
        (["--top", "1001"], "--top is '1001'; allowed: a whole number from 1 to 1,000"),
        (["--top", "100000000"], "--top is '100000000'; allowed: a whole number from 1 to 1,000"),
        (["--top", "9" * 5_000], "allowed: a whole number from 1 to 1,000"),
        (["--objective", "tiem"], "did you mean 'time'?"),
        (["--pareto", "time"], "pareto is"),
        (["--pareto", "time,cost", "--objective", "time"], "--objective"),
        (["--deadline", "soon"], "deadline is 'soon'"),
        (["--max-memory", "lots"], "max_memory is 'lots'"),
        (["--max-memory", "70"], "'70 GB'"),
        (["--deadline", "30"], "'30d'"),
        (["--price", "h1000=1"], "price"),
        (["--devices", "h1000"], "h1000"),
        (["--set", "plan.dtype={any:[bf16]}"], "'any:'"),
        (["--set", "plan.dtype=any"], "{any: [...]}"),
        (["--set", "plan.micro_batch=auto"], "{any: [...]}"),
        (["--json", "--csv"], "--csv"),
        (["--set", "plan.tensor_parallel=3"], "plan.tensor_parallel is 3; allowed: "),
        (["--set", "plan.pipeline_parallel=5"], "plan.pipeline_parallel"),
        (["--chart", "chart.bmp"], "'chart.bmp'"),
    ],
)
def test_a_wrong_request_is_refused_in_a_sentence(file, in_process, arguments, said):
    code, out, err = in_process("plan", file, *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


def test_a_file_cannot_be_the_folder_of_a_launch(file, in_process):
    code, _, err = in_process("plan", file, "--launch", file)
    assert code == 2
    assert "is a file" in err


def test_a_folder_that_cannot_be_written_is_refused_before_the_search(file, in_process, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "launch.sh").write_text("echo mine\n", encoding="utf-8")
    code, out, err = in_process("plan", file, "--launch", folder)
    assert (code, out) == (2, "")
    assert "launch.sh' " in err
    code, out, err = in_process("plan", file, "--launch", file.with_name("scenario.yaml") / "below")
    assert (code, out) == (2, "")
    assert "is a file" in err


def test_a_range_of_a_count_is_one_of_whole_numbers(file, in_process):
    steps = "plan.micro_batch={from: 1, to: 4, factor: 1.1}"
    _, out, _ = in_process("plan", file, "--set", steps, "--top", 50, "--json")
    sizes = {one["scenario"]["plan"]["micro_batch"] for one in json.loads(out)["plans"]}
    assert {1} < sizes <= {1, 2, 3, 4}


def test_a_launch_that_fails_leaves_the_answer(file, in_process, tmp_path):
    in_process("plan", file, "--launch", tmp_path / "run")
    code, out, err = in_process("plan", file, "--launch", tmp_path / "run", "--set", "workload.sequence_length=1024")
    assert code == 2
    assert "launch.sh" in err
    assert "The best plans" in out


def test_a_fine_tune_is_run_with_the_weights_that_its_script_asks_for(in_process, tmp_path):
    asked = {
        **FAST,
        "workload": {"task": "finetune", "sequence_length": 512, "global_batch": 8},
        "plan": {"framework": "transformers", "adapter": "lora"},
    }
    path = tmp_path / "tune.yaml"
    path.write_text(json.dumps(asked), encoding="utf-8")
    code, out, err = in_process("plan", path, "--launch", tmp_path / "run", "-v")
    assert code == 0
    assert "WEIGHTS=WEIGHTS bash" in out
    assert "training_arguments.json" in err
    assert json.loads((tmp_path / "run" / "training_arguments.json").read_text(encoding="utf-8"))["learning_rate"]
    lines = (tmp_path / "run" / "launch.sh").read_text(encoding="utf-8").splitlines()
    assert lines[-1].endswith(' "$@"')


def test_a_launch_after_a_search_that_was_stopped_is_an_interruption(file, in_process, tmp_path, monkeypatch):
    from sightline.planning import search

    def stopped(*args, progress, **kwargs):
        progress.cancel()
        return usual(*args, progress=progress, **kwargs)

    usual = search.plan
    monkeypatch.setattr(search, "plan", stopped)
    code, _, err = in_process("plan", file, "--launch", tmp_path / "run")
    assert code == 130
    assert "--launch: " in err
    assert "interrupted" in err


def test_operators_have_no_plan_to_look_for(example, in_process):
    alone = ["--set", "workload={task: operator, operator: adam, elements: 1e9}"]
    code, out, err = in_process("plan", example, *alone, "--set", "plan=null", "--set", "model=null")
    assert (code, out) == (2, "")
    assert "workload.task" in err
    code, out, err = in_process("plan", example.parent / "operators.yaml")
    assert (code, out) == (2, "")
    assert "allowed: one" in err


def test_a_search_reads_stdin_and_suggests_no_command_for_it(run):
    answer = run("plan", "-", "-v", stdin=json.dumps(FAST))
    assert answer.returncode == 0
    assert "evaluated" in answer.stdout
    assert "try next" not in answer.stdout


def test_nothing_heavy_is_imported_for_a_table(file):
    code = f"import sys\nfrom sightline.cli.main import run\nrun(['plan', {str(file)!r}, '--json'])\n"
    code += "print([m for m in ('altair', 'polars', 'torch', 'joblib', 'scipy') if m in sys.modules], file=sys.stderr)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stderr.strip().splitlines()[-1] == "[]"


def test_examples_of_the_help_stay_on_a_line_of_80_columns(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = [line.rstrip() for line in run("plan", "--help").stdout.splitlines()]
    start = next(place for place, line in enumerate(lines) if line.strip() == "Examples:")
    examples = lines[start + 1 : lines.index("", start)]
    assert len(examples) == 5
    assert all(line.startswith("   sightline plan ") for line in examples)


def test_without_a_file_one_is_asked_for(in_process):
    code, _, err = in_process("plan")
    assert code == 2
    assert "a scenario file" in err


def test_a_model_in_place_of_a_file_is_told_with_the_option_that_takes_it(in_process):
    code, _, err = in_process("plan", "llama-2-13b")
    (line,) = err.splitlines()
    assert code == 2
    option = line.partition("use ")[2].split()
    assert option == ["--model", "llama-2-13b"]
    assert in_process("plan", *option, "--cluster", "8x h100", "--top", "1", "--json")[0] == 0


def test_the_command_that_follows_asks_for_the_load_that_the_plan_was_tried_with(tmp_path, in_process):
    work = {"task": "serve", "requests": {"count": 50, "prompt_tokens": 512, "output_tokens": 32}}
    own = {"framework": "vllm", "quantization": "none"}
    question = {"model": "llama-3.1-8b", "cluster": "1x h100-sxm-80gb", "workload": work, "plan": own}
    path = tmp_path / "load.yaml"
    path.write_text(json.dumps(question), encoding="utf-8")
    _, out, _ = in_process("plan", path, "--top", 1, "--ttft", "500 ms", "--tpot", "30 ms")
    text = " ".join(out.replace("\\\n", " ").split())
    command = text[text.index("sightline simulate") : text.index("--capacity")]
    settings = dict(word.strip("'").split("=", 1) for word in shlex.split(command) if "=" in word)
    assert settings["workload.slo.ttft"] == "500 ms"
    assert settings["workload.slo.tpot"] == "30 ms"
    _, out, _ = in_process("plan", path, "--top", 1, "--ttft", "500 ms", "--tpot", "30 ms", "--json")
    (best,) = json.loads(out)["plans"]
    assert int(settings["workload.requests.count"]) == best["completed"] > 50
