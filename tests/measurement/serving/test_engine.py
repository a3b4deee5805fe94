"""Commands that start engines for a load, from the plan of its scenario."""

import pytest

from sightline.errors import InputError
from sightline.launching.engines.requests import as_generation
from sightline.loading.serving import serving_from_mapping
from sightline.measurement.serving.case import command_of, program_of
from sightline.simulation.load import joined, load_of

ENGINES = ("vllm", "sglang", "tgi", "lightllm", "transformers")


def scenario(cluster="1x h100-sxm-80gb", **plan):
    lengths = {"distribution": "uniform", "min": 10, "max": 90}
    work = {"task": "serve", "requests": {"count": 50, "prompt_tokens": lengths, "output_tokens": 20}}
    return serving_from_mapping({"model": "llama-3.1-8b", "cluster": cluster, "workload": work, "plan": plan})


def load(asked):
    return joined(list(load_of(asked)))


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_serves_the_folder_at_the_port(engine, tmp_path):
    asked = scenario(framework=engine)
    words = command_of(asked, load(asked), tmp_path, 4321)
    assert str(tmp_path) in words
    assert words[words.index("--port") + 1] == "4321"
    assert "meta-llama/Llama-3.1-8B" not in words


def test_an_engine_is_started_for_the_longest_request():
    asked = scenario(framework="vllm")
    part = load(asked)
    work = as_generation(asked, part).workload
    assert (work.prompt_tokens, work.output_tokens) == (90, 20)
    assert as_generation(asked, part).plan.max_sequences == 50
    assert as_generation(scenario(framework="vllm", max_sequences=7), part).plan.max_sequences == 7


def test_several_servers_are_not_started():
    asked = scenario(cluster="2x h100-sxm-80gb", framework="vllm", replicas=2)
    with pytest.raises(InputError, match="needs more than one command"):
        command_of(asked, load(asked), "model", 1)


def test_a_program_that_is_missing_is_named():
    with pytest.raises(InputError, match="no-such-engine is not installed"):
        program_of(["no-such-engine", "serve"], "vllm")
