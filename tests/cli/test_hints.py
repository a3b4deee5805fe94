"""Words that users of other tools type are answered with what they are here."""

import shlex

import pytest

TRAINING = "examples/llama-2-7b-zero2-8xa800.yaml"
LOAD = "examples/serving/llama-3.1-8b-h100.yaml"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (f"simulate {LOAD} --users 64", "concurrency: N"),
        (f"simulate {LOAD} --set workload.users=64", "workload.arrival: {process: closed, concurrency: N}"),
        (f"simulate {LOAD} --set plan.enforce_eager=true", "'cuda_graphs'"),
        (f"simulate {LOAD} --set workload.sampling.min_p=0.1", "never measured"),
        (f"plan {LOAD} --no-intervals", "use `sightline simulate`"),
        ('import "lmdeploy serve api_server Qwen/Qwen3-8B"', "LMDeploy"),
        ('import "vllm serve somebody/qwen3-33b"', "did you mean 'qwen3-32b'"),
        (f"predict {TRAINING} --gpus 8", "--cluster"),
        (f"predict {TRAINING} --seq-len 8", "--sequence"),
        (f"predict {TRAINING} --set plan.engine=megatron", "'framework'"),
        (f"predict {TRAINING} --set workload.task=sft", "'finetune'"),
        (f"predict {TRAINING} --set plan.framework=axolotl", "transformers"),
        (f"predict {TRAINING} --sweep cluster.device.memory=hbm4", "cluster.device.technology"),
        (f"plan {TRAINING} --objective cheapest", "'cost'"),
        (f"plan {TRAINING} --devices '4x a100'", "devices: device is 'a100'"),
        ("catalog technologies", "memories"),
        ("catalog hbm4", "sightline catalog memories hbm4"),
        ("catalog h100", "sightline catalog devices h100-sxm-80gb"),
        ("explore hbm4", "cluster.device.technology"),
        ("explain nothere", "there is no results or scenario file 'nothere', and no run"),
        ("explain llama-3.1-8b", "--model llama-3.1-8b"),
        ("simulate examples/llama-2-7b-qlora-a100.yaml --set workload.task=serve", "plan.adapter applies to training"),
    ],
)
def test_a_word_of_others_is_answered_with_ours(in_process, tmp_path, monkeypatch, command, said):
    monkeypatch.chdir(tmp_path)
    code, out, err = in_process(*shlex.split(command))
    assert (code, out) == (2, "")
    assert said in err
    assert "{'" not in err
