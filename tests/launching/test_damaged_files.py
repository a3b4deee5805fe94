"""Files of a launch that somebody has damaged are read or refused in sentences, never with a traceback."""

import json
import tempfile
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from launching.launched import SMALL, asked

from sightline.errors import InputError
from sightline.launching import completed, read, save, write
from sightline.launching.training.torchtitan import toml_text

PLAN = {
    "deepspeed": {"zero_stage": 3, "offload": "optimizer"},
    "fsdp": {"zero_stage": 3},
    "transformers": {},
    "torchtitan": {"pipeline_parallel": 2, "virtual_stages": 2},
}
FILES = {
    "deepspeed": ["ds_config.json", "training.json", "model/config.json"],
    "fsdp": ["accelerate.yaml", "training.json", "model/config.json"],
    "torchtitan": ["train.toml"],
    "transformers": ["training_arguments.json", "training.json", "model/config.json"],
}
JUNK = st.sampled_from([None, True, 3, -1, 0, 2.5, "", "word", [], ["x"], {}, {"x": 1}, 10**12])


def paths_of(value, within=()):
    """The keys of every value of a file."""
    for key, inner in value.items():
        yield (*within, key)
        if isinstance(inner, dict):
            yield from paths_of(inner, (*within, key))


def parsed(text, name):
    """Return what a file holds."""
    return tomllib.loads(text) if name.endswith("toml") else yaml.safe_load(text)


def damaged(text, name, path, junk):
    """Return a file's text with another value at a path."""
    whole = parsed(text, name)
    place = whole
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = junk
    if name.endswith("toml"):
        # TOML has no null.
        return toml_text({key: "null" if value is None else value for key, value in whole.items()})
    return yaml.safe_dump(whole) if name.endswith("yaml") else json.dumps(whole)


@pytest.mark.parametrize("framework", sorted(FILES))
@given(data=st.data())
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_damaged_value_is_read_or_refused(framework, data):
    launch = write(asked({"framework": framework, **PLAN[framework]}, model=SMALL))
    name = data.draw(st.sampled_from(FILES[framework]))
    path = data.draw(st.sampled_from(list(paths_of(parsed(launch.files[name], name)))))
    text = damaged(launch.files[name], name, path, data.draw(JUNK))
    with tempfile.TemporaryDirectory() as folder:
        save(launch, folder)
        (Path(folder) / name).write_text(text)
        with suppress(InputError):
            completed(read(folder), {"cluster": "8x h100-sxm-80gb"})


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ('{"train_batch_size": 8, "zero_optimization": true}', "zero_optimization is true; allowed: a mapping"),
        ("distributed_type: FSDP\nfsdp_config: 3\n", "fsdp_config is 3; allowed: a mapping"),
        ("distributed_type: FSDP\nmixed_precision: int3\n", "mixed_precision is 'int3'; allowed: no, fp16, bf16"),
        ("model: llama-2-7b\ncluster: 8x h100\nplan: {}\n", "is a scenario, not a launch: use sightline predict"),
        ("a = " + "[" * 500 + "]" * 500 + "\n[parallelism]\n", "not valid TOML: nested"),
        ("a = " + "9" * 5000 + "\n[parallelism]\n", "not valid TOML: a whole number has more than 4,300 digits"),
        ('{"a": ' + "[" * 500 + "]" * 500 + "}", "not valid JSON: nested more than 200 levels deep"),
        ("x" * 300 + " y", "does not exist|cannot read"),
        ("vllm serve x --max-num-seqs " + "9" * 400 + "k", "--max-num-seqs is '9999"),
        ("vllm serve x --max-num-seqs " + "x" * 9999, "--max-num-seqs is 'xxx"),
        ("torchrun --nproc_per_node 8 train.py", "starts train.py, but does not say how it trains"),
        ("accelerate launch train.py", "starts train.py, but does not say how it trains"),
        ("deepspeed train.py --batch 3", "starts train.py, but does not say how it trains"),
    ],
)
def test_what_cannot_be_read_is_said(source, said):
    with pytest.raises(InputError) as raised:
        read(source)
    assert any(part in str(raised.value) for part in said.split("|"))
    assert len(str(raised.value)) < 2000


@pytest.mark.parametrize("optim", [["adamw"], "adafactor"])
def test_an_optimizer_that_is_not_predicted_is_refused(optim):
    with pytest.raises(InputError, match="optim is"):
        read(json.dumps({"per_device_train_batch_size": 8, "optim": optim}))


def test_a_folder_without_a_script_is_said(tmp_path):
    with pytest.raises(InputError, match=r"is a folder without launch\.sh; name the file to read"):
        read(tmp_path)


def test_a_script_without_its_launcher_is_a_command():
    command = "pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --micro-batch-size 2"
    assert read(command).scenario["plan"]["micro_batch"] == 2
