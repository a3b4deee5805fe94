"""Wrong files by the hundred: whatever is in them, only `InputError` may come out."""

import json
from pathlib import Path
from typing import Any

import pytest
import strategies
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sightline.errors import InputError
from sightline.loading import load, scenario_from_mapping, to_mapping

many = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def answers_or_refuses(source: object, **options: Any) -> None:
    """Load; a refusal must be sentences that can be printed."""
    try:
        load(source, **options)
    except InputError as error:
        assert error.problems  # noqa: PT017 - either outcome is right
        for problem in error.problems:
            problem.encode()
            assert len(problem) < 4000


@many
@given(st.binary(max_size=300), st.sampled_from([".yaml", ".json", ".csv", ""]))
def test_random_bytes(tmp_path: Path, content: bytes, suffix: str) -> None:
    path = tmp_path / f"scenario{suffix}"
    path.write_bytes(content)
    answers_or_refuses(path)


@many
@given(strategies.WRONG_TEXTS, st.sampled_from([".yaml", ".json", ".csv", ""]))
def test_random_text(tmp_path: Path, content: str, suffix: str) -> None:
    path = tmp_path / f"scenario{suffix}"
    path.write_bytes(content.encode("utf-8", "surrogatepass"))
    answers_or_refuses(path)
    answers_or_refuses(content + "\n")


@many
@given(strategies.VALUES)
def test_random_structures(value: Any) -> None:
    answers_or_refuses([value])
    answers_or_refuses({"model": value, "cluster": value, "workload": value, "plan": value, "measured": value})
    answers_or_refuses({"model": {"model_type": "gpt2", "hidden_size": value}, "sweep": value})
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        return
    answers_or_refuses(text + "\n")


@many
@given(strategies.right_scenarios(), strategies.wrong_settings())
def test_right_scenarios_made_wrong(mapping: dict[str, Any], wrong: dict[str, Any]) -> None:
    answers_or_refuses(mapping, overrides=wrong)


@many
@given(strategies.right_scenarios(), st.data())
def test_right_files_with_a_typing_slip(mapping: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(mapping, indent=1)
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 3))
    answers_or_refuses(text[:at] + data.draw(st.text(max_size=2)) + text[at + cut :] + "\n")


@many
@given(
    st.lists(
        st.text(max_size=30) | st.sampled_from(["plan.micro_batch=", "model.hidden_size=[", "cluster.x.y.z=1"]),
        max_size=4,
    )
)
def test_random_arguments(arguments: list[str]) -> None:
    base = {"model": "llama-2-7b", "cluster": "8x a800-sxm-80gb", "plan": {}}
    answers_or_refuses(base, overrides=arguments)
    answers_or_refuses(base, sweeps=arguments)


@many
@given(strategies.right_scenarios())
def test_right_scenarios_load_and_round_trip(mapping: dict[str, Any]) -> None:
    scenario = scenario_from_mapping(mapping)
    resolved = to_mapping(scenario)
    again = load(json.dumps(resolved))
    assert to_mapping(again) == resolved  # type: ignore[arg-type]


def test_an_alias_bomb_is_refused_quickly() -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60)]
    bombs = "".join(f"{line}\n" for line in lines) + "model: *a59\nsweep: {plan.x: *a59}\nplan: {offload: *a59}\n"
    with pytest.raises(InputError):
        load(bombs)
    with pytest.raises(InputError, match=r"another spelling of it|hidden_size"):
        load(
            bombs.replace("model: *a59", "model: {model_type: gpt2, hidden_size: *a59, n_embd: *a58}").replace(
                "sweep", "swep"
            )
        )


def test_a_mistake_of_all_rows_is_said_once(tmp_path):
    table = tmp_path / "rows.csv"
    table.write_text("model,cluster,workload.task\n" + "llama-2-7b,8x a100-sxm-80gb,pretrain\n" * 3)
    with pytest.raises(InputError) as raised:
        load(table)
    assert len(raised.value.problems) == 2
    assert all("row 1" in said and said.endswith("(and 2 more)") for said in raised.value.problems)


def test_a_table_of_requests_in_place_of_a_scenario_is_told_where_it_belongs(tmp_path):
    table = tmp_path / "requests.csv"
    table.write_text("arrival_s,prompt_tokens,output_tokens\n" + "0,10,5\n" * 3)
    with pytest.raises(InputError) as raised:
        load(table)
    (said,) = raised.value.problems
    assert "workload.trace" in said


def test_a_table_of_which_no_column_is_known_is_refused_in_one_sentence(tmp_path):
    table = tmp_path / "some.csv"
    table.write_text("modle,tp,c,d,e,f,g\n1,2,3,,5,6,7\n4,5,6,1,,,\n", encoding="utf-8")
    with pytest.raises(InputError) as error:
        load(table)
    (problem,) = error.value.problems
    assert all(name in problem for name in ("some.csv", "'model'", "'tensor_parallel'", "cluster, workload", "2 more"))
