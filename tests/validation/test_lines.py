"""Tables whose lines hold several measurements, or columns in others' places."""

import pytest

from sightline.validation import adapters as lines
from sightline.validation.evaluation import suites
from sightline.validation.tables import Line

NEW = {"model": "LLAMA3_70B", "System": "DGX-GB200", "Model": "", "Precision": "MXFP8", "Tokens / sec / GPU": "3837"}
OLD = {"model": "System: DGX-B200", "System": "", "Model": "LLAMA3_8B", "Precision": "FP8-CS (FP8-MX)"}


def test_a_line_with_one_precision_stays_as_it_is() -> None:
    assert list(lines.megatron_bridge(Line(NEW, "here"))) == [NEW]


def test_a_line_with_two_precisions_is_two_measurements() -> None:
    first, second = lines.megatron_bridge(Line({**OLD, "Tokens / sec / GPU": "30624 (29521)"}, "here"))
    assert (first["System"], first["model"]) == (second["System"], second["model"]) == ("DGX-B200", "LLAMA3_8B")
    assert (first["Precision"], first["Tokens / sec / GPU"]) == ("FP8-CS", "30624")
    assert (second["Precision"], second["Tokens / sec / GPU"]) == ("FP8-MX", "29521")


def test_a_pair_without_a_precision_is_told_apart_by_its_order() -> None:
    pair = lines.megatron_bridge(Line({**OLD, "Precision": "", "Tokens / sec / GPU": "29994 (29388)"}, "here"))
    assert [line["Precision"] for line in pair] == list(lines.UNNAMED)


@pytest.mark.parametrize(("logged", "derived", "taken"), [("9.5", "10.4", "9.5"), ("", "13.4", "13.4")])
def test_a_step_is_as_it_was_logged_or_follows_from_the_throughput(logged: str, derived: str, taken: str) -> None:
    (line,) = lines.mlperf_training(Line({"logged_step_time_s": logged, "derived_step_time_s": derived}, "here"))
    assert line["logged_step_time_s"] == taken


def test_named_models_need_no_shape_and_split_by_name(tmp_path) -> None:
    header = "release,task,model,System,#-GPUs,Precision,GBS,MBS,Sequence Length,TP,PP,CP,VP,EP,Tokens / sec / GPU"
    header += ",Model TFLOP / sec / GPU,FSDP,Model,GA,file"
    lines = [
        "26.06 NeMo Container,Pre-Training Performance,LLAMA3.1_405B,DGX-GB300,256,FP8,1536,1,8192,4,8,1,4,n/a,1000,2600,,,,f",
        "26.04 NeMo Container,Pre-Training Performance,LLAMA3_70B,DGX-GB200,64,FP8,256,2,8192,1,1,1,n/a,n/a,4000,1800,64,,,f",
        "26.06 NeMo Container,SFT Performance,LLAMA3_70B,DGX-GB200,32,FP8,32,1,4096,1,8,1,10,n/a,3864,1671,,,,f",
    ]
    (tmp_path / "nvidia_megatron_bridge_performance.csv").write_text(
        "\n".join([header, *lines]) + "\n", encoding="utf-8"
    )
    (suite,) = suites(tmp_path, ["megatron-bridge-dense"])
    assert [case.scenario["model"] for case in suite.cases] == ["llama-3.1-405b", "llama-3-70b"]
    assert [case.scenario["plan"].get("zero_stage") for case in suite.cases] == [1, 3]
    assert [case.measured for case in suite.cases] == [1000, 4000]
    assert dict(suite.left_out) == {"task is SFT Performance": 1}
