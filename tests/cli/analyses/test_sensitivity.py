import json


def test_the_table_ranks_numbers_and_lists_neighbours(in_process, example):
    code, out, err = in_process("sensitivity", example, "--set", "plan.dtype=fp16", "-v")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    ranked = [line for line in lines if line.startswith(("device:", "links:", "network:"))]
    figures = [abs(float(line.split()[-1])) for line in ranked]
    assert len(figures) > 3
    assert figures == sorted(figures, reverse=True)
    assert "fits " in out
    assert any(line.endswith("  no") for line in lines)
    assert all(len(line) <= 80 for line in lines)


def test_json_holds_the_prediction_and_what_it_hangs_on(in_process, example):
    document = json.loads(in_process("sensitivity", example, "--json")[1])
    assert document["source"] == "predicted"
    assert -1 < document["elasticity"]["device.peak_flops"]["step_time_s"] < 0
    assert {"change", "step_time_s", "memory_bytes", "fits"} == set(document["neighbours"][0])


def test_several_scenarios_are_a_list(in_process, example):
    generation = example.parent / "llama-2-7b-generate-a100.yaml"
    documents = json.loads(in_process("sensitivity", generation, "--json", "--sweep", "workload.batch=1,16")[1])
    assert [set(d["elasticity"]["intra_node.bandwidth"]) for d in documents] == [{"ttft_s", "tpot_s", "latency_s"}] * 2


def test_text_says_that_it_is_anchored(in_process, example):
    anchor = example.parent / "llama-2-7b-measured-8xa800.yaml"
    code, out, _ = in_process("sensitivity", example.parent / "llama-2-7b-zero2-8xa800.yaml", "--anchor", anchor)
    assert code == 0
    assert "anchored to" in out


def test_a_wrong_file_is_a_sentence(in_process):
    code, out, err = in_process("sensitivity", "nowhere.yaml")
    assert (code, out) == (2, "")
    assert "nowhere.yaml" in err
    assert "Traceback" not in err
