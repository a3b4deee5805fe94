"""A search in parts gives the answer of one process, exactly."""

import polars as pl
import pytest

from sightline.errors import InputError
from sightline.loading.written import to_mapping
from sightline.planning.search import plan
from sightline.planning.training import distributed, training_search
from sightline.planning.training import training_search as pieces
from sightline.progress import Progress

DENSE = {"model_type": "llama", "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4}
DENSE |= {"num_key_value_heads": 2, "intermediate_size": 640, "vocab_size": 1024}
ASKED = {
    "model": DENSE,
    "cluster": {"any": ["2x a100-sxm-80gb", "4x a100-sxm-80gb", "2x h100-sxm-80gb"]},
    "workload": {"task": "pretrain", "sequence_length": 64, "global_batch": 8, "total_tokens": 1e9},
    "plan": {"framework": "megatron", "recompute": {"any": ["none", "full"]}, "attention": "flash", "offload": "none"},
}


@pytest.fixture
def small_pieces(monkeypatch):
    """Pieces so small that even this space has many, and parts of one or two."""
    monkeypatch.setattr(pieces, "ROWS_PER_CHECK", 24)
    monkeypatch.setattr(pieces, "ROWS_PER_CHUNK", 10)
    monkeypatch.setattr(distributed, "PIECES", 2)


def shown(answer):
    """All of an answer but the seconds."""
    plans = [(one.rank, to_mapping(one.profile.scenario), one.value, one.tied, one.better) for one in answer.plans]
    counts = answer.evaluated, answer.feasible, dict(answer.rejected)
    return plans, counts, answer.pareto, answer.stopped, answer.free


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize(
    "asked",
    [
        {},
        pytest.param({"objective": "cost", "top": 20}, marks=pytest.mark.slow),
        pytest.param({"objective": "memory"}, marks=pytest.mark.slow),
        pytest.param({"objective": "energy", "max_memory": "4 GB"}, marks=pytest.mark.slow),
        {"pareto": ("time", "memory")},
        pytest.param({"deadline": "30h", "launchable": True}, marks=pytest.mark.slow),
    ],
)
def test_parts_together_are_the_answer_of_one_process(asked, tmp_path):
    whole = plan(ASKED, **asked)
    parts = plan(ASKED, **asked, where=str(tmp_path / "search"))
    assert whole.plans
    assert len(list((tmp_path / "search" / "parts").iterdir())) > 4
    assert shown(parts) == shown(whole)
    assert parts.assumptions == whole.assumptions


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("whole", [0, 100, 400])
def test_parts_evaluate_the_plans_that_one_process_evaluates_within_bounds(whole, monkeypatch, tmp_path):
    monkeypatch.setattr(pieces, "EVALUATED_WHOLE", whole)
    monkeypatch.setattr(pieces, "SAMPLED", 2)
    monkeypatch.setattr(training_search, "SPARE", 3)
    asked = {"launchable": False, "top": 1}
    everything = plan(ASKED, **asked, objective="memory")
    one, parts = plan(ASKED, **asked), plan(ASKED, **asked, where=str(tmp_path / "search"))
    assert shown(parts) == shown(one)
    assert one.rejected["slower"] > 0
    valid = everything.evaluated + everything.rejected["micro_batch"]
    assert one.evaluated + one.rejected["slower"] + one.rejected["micro_batch"] == valid
    for part in (tmp_path / "search" / "parts").iterdir():
        if int(part.stem[-1]) % 2:
            part.unlink()
    assert shown(plan(ASKED, **asked, where=str(tmp_path / "search"))) == shown(one)


@pytest.mark.usefixtures("small_pieces")
def test_equally_good_plans_at_the_edge_are_chosen_alike(monkeypatch, tmp_path):
    # Memory does not depend on the schedule of one stage, so that many plans are equally good.
    monkeypatch.setattr(training_search, "SPARE", 3)
    asked = {"objective": "memory", "top": 1}
    assert shown(plan(ASKED, **asked, where=str(tmp_path / "search"))) == shown(plan(ASKED, **asked))


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.slow
def test_a_stopped_search_shows_what_it_found_and_goes_on(tmp_path):
    progress = Progress(lambda state: progress.cancel() if state.done == 2 else None, every_s=0)
    first = plan(ASKED, where=str(tmp_path), progress=progress)
    assert first.stopped
    assert first.plans
    assert len(list((tmp_path / "parts").iterdir())) == 2
    assert shown(plan(ASKED, where=str(tmp_path))) == shown(plan(ASKED))


@pytest.mark.usefixtures("small_pieces")
def test_another_question_does_not_go_on_with_it(tmp_path):
    plan(ASKED, where=str(tmp_path))
    for other in ({"objective": "cost"}, {"top": 1000}, {"prices": ["h100-sxm-80gb=9"]}, {"max_memory": "9 GB"}):
        with pytest.raises(InputError, match="holds another sweep"):
            plan(ASKED, **other, where=str(tmp_path))


@pytest.mark.usefixtures("small_pieces")
def test_parts_are_tables_of_plans(tmp_path):
    answer = plan(ASKED, where=str(tmp_path))
    table = pl.read_parquet(tmp_path / "parts" / "*.parquet")
    assert table["evaluated"].sum() == answer.evaluated
    best = table.explode("plans").unnest("plans").drop_nulls("time").sort("time").row(0, named=True)
    assert best["tensor_parallel"] == answer.plans[0].profile.scenario.plan.tensor_parallel


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["local:2", "ray:2", "dask:2"])
def test_workers_give_the_answer_of_one_process(workers, tmp_path, monkeypatch):
    monkeypatch.setattr(distributed, "PIECES", 1)
    asked = {**ASKED, "plan": {"framework": "megatron", "offload": "none"}}
    found = plan(asked, top=2, workers=workers, where=str(tmp_path / "search"))
    assert len(list((tmp_path / "search" / "parts").iterdir())) > 5
    assert shown(found) == shown(plan(asked, top=2))
