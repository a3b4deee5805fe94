"""A launch is written by the module of its framework; what no module knows is refused."""

import pytest
from launching.launched import asked
from training_scenarios import training

from sightline.errors import InputError
from sightline.launching import Launch, read, save, write
from sightline.launching.registry import WRITERS


def test_a_framework_that_nobody_launches_is_refused():
    with pytest.raises(InputError, match=r"plan\.framework is reference, for which no launch is written"):
        write(training())


def test_a_file_of_no_framework_is_refused(tmp_path):
    path = tmp_path / "other.json"
    path.write_text('{"name": "else"}')
    with pytest.raises(InputError, match="of no framework that can be read back"):
        read(path)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("config.json", '{"model_type": "llama", "hidden_size": 8}', "a Hugging Face config, not a launch"),
        ("out.json", '{"guidellm_version": 1, "benchmarks": [], "metadata": {}, "args": {}}', "not a launch"),
        ("log.jsonl", '{"input_length": 1, "output_length": 1}\n' * 2, "a request trace, not a launch"),
        ("trace.json", '{"traceEvents": []}', "sightline explain"),
        ("own.yaml", "model: llama-2-7b\ncluster: 8x h100-sxm-80gb\n", "sightline predict"),
    ],
)
def test_a_file_of_another_kind_is_named_with_what_takes_it(tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=said):
        read(tmp_path / name)


@pytest.mark.parametrize(
    ("source", "taken_for"),
    [
        ("vllm serve Qwen/Qwen3-32B", "a command for vLLM"),
        ("services: {a: {image: 'vllm/vllm-openai', command: '--model Qwen/Qwen3-32B'}}\n", "Compose file for vLLM"),
        ("zero_optimization: {stage: 2}\ntrain_micro_batch_size_per_gpu: 1\n", "YAML for DeepSpeed"),
        ("finetuning_type: lora\nstage: sft\n", "YAML for LLaMA-Factory"),
    ],
)
def test_a_launch_says_what_it_was_taken_for(source, taken_for):
    assert taken_for in read(source).read_as


def test_a_missing_file_is_refused():
    with pytest.raises(InputError, match=r"nowhere\.json"):
        read("nowhere.json")


@pytest.mark.parametrize(
    ("framework", "tool"),
    [
        *((framework, None) for framework in WRITERS if framework != "maxtext"),
        *(("transformers", tool) for tool in ("llama-factory", "axolotl", "ms-swift")),
    ],
)
def test_blocking_launches_are_a_variable_of_the_script(framework, tool, tmp_path):
    task = "pretrain" if framework in ("megatron", "torchtitan") else "finetune"
    plan = {"framework": framework, "launch_blocking": True, "micro_batch": 1}
    if tool:
        plan |= {"adapter": "lora", "recompute": "full"}
    scenario = asked(plan, "llama-3.1-8b", "16x h100-sxm-80gb", task=task, total_tokens=1e8)
    launch = write(scenario, tool)
    assert not any("launch_blocking" in said for said in launch.without_counterpart)
    back = read(save(launch, tmp_path)[0])
    assert back.scenario["plan"]["launch_blocking"] is True
    assert (tmp_path / ".deepspeed_env").exists() is (framework == "deepspeed")


@pytest.mark.parametrize(
    ("before", "is_blocking"),
    [("CUDA_LAUNCH_BLOCKING=1 ", True), ("export CUDA_LAUNCH_BLOCKING=1\n", True), ("CUDA_LAUNCH_BLOCKING=0 ", None)],
)
def test_a_variable_lets_the_host_wait_for_every_kernel(before, is_blocking):
    found = read(f"{before}torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 2 --hidden-size 256")
    assert found.scenario["plan"].get("launch_blocking") is is_blocking
    served = read(f"{before}vllm serve Qwen/Qwen3-32B")
    assert ("CUDA_LAUNCH_BLOCKING" in served.unread) is bool(is_blocking)


@pytest.mark.parametrize(("framework", "device"), [("maxtext", "h100-sxm-80gb"), ("maxtext", "tpu-v5p")])
def test_a_compiled_step_launches_nothing_that_blocks(framework, device):
    with pytest.raises(InputError, match=r"plan\.launch_blocking is true"):
        training(cluster=f"8x {device}", plan={"framework": framework, "launch_blocking": True})


class TestSave:
    LAUNCH = Launch(framework="x", command="echo a", files={"a.json": "{}", "deep/b.txt": "b"})

    def test_files_and_command_are_written(self, tmp_path):
        paths = save(self.LAUNCH, tmp_path / "new")
        assert [p.relative_to(tmp_path / "new").as_posix() for p in paths] == ["launch.sh", "a.json", "deep/b.txt"]
        assert paths[1].read_text() == "{}"
        assert "echo a" in paths[0].read_text()

    def test_the_same_again_is_no_mistake(self, tmp_path):
        assert save(self.LAUNCH, tmp_path) == save(self.LAUNCH, tmp_path)

    def test_other_content_is_kept(self, tmp_path):
        (tmp_path / "a.json").write_text("mine")
        with pytest.raises(InputError, match="already exists with other content"):
            save(self.LAUNCH, tmp_path)
        assert not (tmp_path / "launch.sh").exists()
        save(self.LAUNCH, tmp_path, overwrite=True)
        assert (tmp_path / "a.json").read_text() == "{}"

    def test_a_folder_that_cannot_be_is_a_wrong_request(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(InputError, match="cannot write"):
            save(self.LAUNCH, tmp_path / "file")
