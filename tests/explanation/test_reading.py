"""What is compared, read from files, profiles and runs."""

import json

import sightline as sl

LOAD = {
    "model": "llama-3.1-8b",
    "cluster": "1x h100-sxm-80gb",
    "workload": {
        "task": "serve",
        "requests": {"count": 60, "prompt_tokens": 512, "output_tokens": 64},
        "arrival": {"process": "poisson", "rate": 4},
    },
    "plan": {"framework": "vllm"},
}


def test_anchors_correct_the_simulation_of_a_load(tmp_path) -> None:
    file, scenario = tmp_path / "load.yaml", sl.load(LOAD)
    file.write_text(json.dumps(LOAD))
    plain = sl.simulate(scenario, intervals=False)
    slower = {key: 1.3 * getattr(plain, key)["mean"] for key in ("ttft_s", "tpot_s")}
    ours = sl.anchored([sl.load(LOAD | {"measured": slower})])
    anchored = sl.simulate(scenario, anchor=ours, intervals=False)
    found = sl.compare(file, plain, anchor=ours)
    first = found.rows[0]
    assert first.a == anchored.ttft_s["mean"] > first.b == plain.ttft_s["mean"]
