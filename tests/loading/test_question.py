"""Questions without a file: options become the scenario that they stand for."""

import pytest

from sightline.errors import InputError
from sightline.loading import read_all
from sightline.loading.question import over_files, question

WHERE = {"model": "llama-3.1-8b", "cluster": "64x h100-sxm-80gb"}
TRAINING = """
model: llama-3.1-8b
cluster: 8x h100-sxm-80gb
workload: {task: pretrain, sequence_length: 4096, global_batch: 64}
plan: {framework: megatron, micro_batch: 1}
"""
SERVING = """
model: llama-3.1-8b
cluster: 1x h100-sxm-80gb
workload:
  task: serve
  requests: {count: 10, prompt_tokens: 100, output_tokens: 10}
  arrival: {process: closed, concurrency: 4}
"""


def asked(overrides=(), task="", **options):
    return read_all([question({**WHERE, **options}, overrides, task)], list(overrides)).scenarios[0]


@pytest.mark.parametrize(
    ("options", "task"),
    [
        ({}, "pretrain"),
        ({"tokens": "2T"}, "pretrain"),
        ({"prompt": "1000"}, "generate"),
        ({"output": "10"}, "generate"),
        ({"framework": "vllm"}, "generate"),
        ({"framework": "deepspeed"}, "pretrain"),
        ({"rate": "4"}, "serve"),
        ({"slo": "ttft<=1s"}, "serve"),
        ({"prompt": "100", "output": "10", "rate": "4"}, "serve"),
    ],
)
def test_the_task_follows_from_the_options(options, task):
    assert asked(**options).workload.task == task
    assert task in question({**WHERE, **options}).remarks[0]


def test_a_command_or_a_setting_says_the_task():
    assert asked(task="serve").workload.task == "serve"
    assert asked(["workload.task=finetune"]).workload.task == "finetune"


def test_options_are_keys_of_the_task():
    workload = asked(tokens="2T", sequence="8192", batch="512").workload
    assert (workload.total_tokens, workload.sequence_length, workload.global_batch) == (2e12, 8192, 512)
    workload = asked(prompt="1000", output="200", batch="8").workload
    assert (workload.prompt_tokens, workload.output_tokens, workload.batch) == (1000, 200, 8)
    workload = asked(prompt="1000", rate="4", slo="ttft<=500ms, tpot 50 ms,percentile=99").workload
    assert (workload.requests.prompt_tokens, workload.arrival.rate, workload.arrival.process) == (1000, 4, "poisson")
    assert (workload.slo.ttft_s, workload.slo.tpot_s, workload.slo.percentile) == (0.5, 0.05, 99)


def test_settings_win_over_options_and_over_usual_values():
    scenario = asked(["workload.global_batch=128", "workload.sequence_length=2048"], batch="512")
    assert (scenario.workload.global_batch, scenario.workload.sequence_length) == (128, 2048)


@pytest.mark.parametrize(("cluster", "sequence", "batch"), [("1x h100", "4096", 16), ("96x h100", "8192", 768)])
def test_the_usual_batch_grows_with_the_cluster(cluster, sequence, batch):
    assert asked(cluster=cluster, sequence=sequence).workload.global_batch == batch


def test_the_usual_batch_stops_growing_and_divides_among_replicas():
    workload = asked(cluster="2048x h100-sxm-80gb").workload
    assert workload.global_batch == 4096
    assert asked(cluster="2048x h100-sxm-80gb", sequence="128k").workload.global_batch == 2048


def test_the_usual_length_is_not_beyond_the_trained_context():
    assert asked(model="llama-2-7b").workload.sequence_length == 4096
    config = "{same_as: llama-2-7b, max_position_embeddings: 1024}"
    assert asked([f"model={config}"]).workload.sequence_length == 1024


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rate": "4", "batch": "8"}, "--batch"),
        ({"rate": "4", "tokens": "1T"}, "--tokens"),
        ({"prompt": "4", "sequence": "8"}, "--sequence"),
        ({"slo": "fast"}, "--slo"),
        ({"slo": "ttff<=1s"}, "workload.slo.ttff"),
        ({"batch": "many"}, "workload.global_batch"),
        ({"cluster": "8x h101"}, "cluster.device is 'h101'"),
        ({"model": "lama-3.1-8b"}, "llama-3.1-8b"),
    ],
)
def test_what_does_not_apply_is_refused(options, said):
    with pytest.raises(InputError, match=said):
        asked(**options)


def test_over_a_file_options_are_settings_of_its_task(tmp_path):
    (tmp_path / "training.yaml").write_text(TRAINING)
    sources, settings = over_files([tmp_path / "training.yaml"], {"batch": "32", "framework": "deepspeed"})
    scenario = read_all(sources, settings).scenarios[0]
    assert (scenario.workload.global_batch, scenario.plan.framework.name) == (32, "deepspeed")
    with pytest.raises(InputError, match="--prompt applies to generate, serve"):
        over_files([tmp_path / "training.yaml"], {"prompt": "10"})


def test_a_rate_replaces_an_arrival_that_has_none(tmp_path):
    (tmp_path / "load.yaml").write_text(SERVING)
    arrival = read_all(*over_files([tmp_path / "load.yaml"], {"rate": "3"})).scenarios[0].workload.arrival
    assert (arrival.process, arrival.rate) == ("poisson", 3)


def test_a_model_of_the_command_line_is_not_relative_to_the_file(tmp_path, monkeypatch):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "training.yaml").write_text(TRAINING)
    config = '{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,'
    (tmp_path / "config.json").write_text(f'{config} "intermediate_size": 128, "vocab_size": 256}}')
    monkeypatch.chdir(tmp_path)
    sources, settings = over_files(["there/training.yaml"], {"model": "config.json"})
    assert read_all(sources, settings).scenarios[0].model.layers == 2
