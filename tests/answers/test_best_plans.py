"""The answer of a search of plans as text."""

import re
import shlex
from dataclasses import replace

import plan_answers
import pytest
import rendered
from hypothesis import given
from hypothesis import strategies as st

from sightline.answers import plan_columns, plan_sentences
from sightline.answers.best_plans import plan_outline
from sightline.frameworks import read_framework
from sightline.loading import load
from sightline.planning.plan_answer import PlanAnswer
from sightline.render import terminal_parts
from sightline.render.html import outline_piece


def render(answer, width=80, commands=()):
    return rendered.text(plan_outline(answer, commands), width)


def row(text, start):
    """The cells of the first line that starts so, which is the table's."""
    return next(line for line in text.splitlines() if line.startswith(start)).split()


def test_only_columns_in_which_the_plans_differ_are_shown():
    text = render(plan_answers.trained())
    heading = next(line for line in text.splitlines() if line.startswith("plan ")).split()
    assert heading[:6] == ["plan", "tp", "pp", "micro", "ZeRO", "recompute"]
    assert not {"cp", "sp", "attention", "dtype", "framework"} & set(heading)
    assert "all plans: megatron" in text


def test_a_column_comes_back_with_the_plan_that_differs():
    answer = plan_answers.trained()
    first = answer.plans[0]
    scenario = first.profile.scenario
    other = first.profile.replace(
        scenario=replace(scenario, plan=replace(scenario.plan, offload=frozenset({"optimizer"})))
    )
    text = render(replace(answer, plans=[replace(first, profile=other), *answer.plans[1:]]), 120)
    assert "offload" in text
    assert "optimizer" in row(text, "1 ")


@pytest.mark.parametrize(
    ("key", "value", "heading"),
    [
        ("gradient_reduce_dtype", "bf16", "reduce"),
        ("compile", True, "compiled"),
        ("fused_norm", False, "fused norm"),
        ("fused_rope", False, "fused rope"),
        ("fused_activation", False, "fused activation"),
    ],
)
def test_kernels_and_formats_have_a_column_where_they_differ_within_a_framework(key, value, heading):
    answer = plan_answers.trained()
    first = answer.plans[0]
    scenario = first.profile.scenario
    other = first.profile.replace(scenario=replace(scenario, plan=replace(scenario.plan, **{key: value})))
    shown = replace(answer, plans=[replace(first, profile=other), *answer.plans[1:]])
    assert {column.key: column.heading for column in plan_columns.choices(shown)}[key] == heading
    assert key not in {column.key for column in plan_columns.choices(answer)}
    by_framework = replace(scenario.plan, framework=read_framework("fsdp"))
    foreign = first.profile.replace(scenario=replace(scenario, plan=by_framework))
    frameworks = replace(answer, plans=[replace(first, profile=foreign), *answer.plans[1:]])
    assert key not in {column.key for column in plan_columns.choices(frameworks)}


def test_ties_are_marked_and_said_with_their_chances():
    text = render(plan_answers.trained())
    assert [row(text, f"{rank} ")[1] == "tied" for rank in (1, 2, 3)] == [True, True, False]
    assert "43 %" in " ".join(text.split())


def test_a_page_has_chips_and_the_figures_that_rows_are_sorted_by():
    answer = plan_answers.trained()
    html = outline_piece(plan_outline(answer)).html
    assert '<span class="chip bad">not launchable</span>' in html
    assert f'data-value="{answer.plans[0].profile.step_time_s!r}"' in html


def test_a_tie_of_all_plans_marks_none():
    plans = [replace(one, tied=one.rank > 1) for one in plan_answers.trained().plans]
    assert row(render(plan_answers.trained(plans=plans)), "1 ")[1] != "tied"


def test_it_says_by_what_the_second_plan_stands_below_the_first():
    answer = plan_answers.trained()
    first, second = (one.profile.step_time_s for one in answer.plans[:2])
    (said,) = plan_sentences.second(answer)
    assert f"{100 * (second / first - 1):.2g} % longer step time" in said
    swapped = [replace(answer.plans[1], rank=1, preferred=("less offload",)), replace(answer.plans[0], rank=2)]
    (said,) = plan_sentences.second(replace(answer, plans=swapped))
    assert "shorter step time" in said
    assert "less offload" in said


def test_without_a_tie_the_runner_up_has_its_chance():
    plans = [replace(one, tied=False) for one in plan_answers.trained().plans]
    text = render(plan_answers.trained(plans=plans))
    assert "tied" not in text
    assert "43 %" in text
    sure = [replace(one, better=None if one.rank == 1 else 0.001) for one in plans]
    assert "under 1 %" in render(plan_answers.trained(plans=sure))


def test_what_was_searched_is_counted_with_the_words_of_each_rule():
    text = render(plan_answers.trained(), 120)
    assert "evaluated 1,204,331 plans in 420 ms: 81,203 feasible" in text
    assert "812,001  memory  " in text
    assert "120,000  tensor_heads  " in text
    assert "stopped early" in render(plan_answers.trained(stopped=True), 120)


def test_plans_that_bounds_left_out_have_a_line_of_their_own():
    text = render(plan_answers.trained(rejected={"slower": 39_315_840, "tensor_heads": 7}), 120)
    assert "39,315,840 skipped" in text
    assert text.count("39,315,840") == 1
    assert text.index("39,315,840") < text.index("Invalid, by rule") < text.index("7  tensor_heads")
    large = render(plan_answers.trained(rejected={"micro_batch": 1_232, "memory": 80}), 120)
    assert "1,232 skipped" in large
    assert "skipped" not in render(plan_answers.trained(), 120)


def test_many_rules_are_added_up():
    many = {f"rule_{n}": 10 * n for n in range(1, 10)}
    text = render(plan_answers.trained(rejected=many))
    assert re.search(r"210 +6 more rules", text)


def test_it_says_why_and_what_better_hardware_gives():
    text = render(plan_answers.trained(), 120)
    assert re.search(r"bound by +compute \d+ %", text)
    assert "2 is bound by" not in text
    assert "recompute full  +18.3 %" in text
    assert text.index("2 x device.memory_bandwidth") < text.index("2 x network.bandwidth_per_node")
    assert "-9.4 %" in text


def test_what_no_framework_runs_is_marked():
    text = render(plan_answers.trained())
    assert row(text, "4 ")[1:3] == ["not", "launchable"]
    assert "4 not launchable: megatron" in text


def test_plans_on_the_front_are_marked():
    text = render(plan_answers.generating())
    assert [row(text, f"{rank} ")[1] == "Pareto" for rank in range(1, 7)] == [True, False, True, False, False, True]
    assert "tok/s/device" in text
    assert "TPOT" in text


@pytest.mark.parametrize(
    ("rejected", "said"),
    [
        ({"memory": 3120}, "No plan fits"),
        ({"memory": 3000, "deadline": 120, "budget": 0}, "No plan that fits meets the deadline\n"),
        ({"deadline": 100, "budget": 20}, "No plan that fits meets the deadline and the budget\n"),
    ],
)
def test_what_no_plan_meets_is_in_the_title(rejected, said):
    assert render(replace(plan_answers.empty(), rejected=rejected)).startswith(said)


def test_nothing_fits_is_an_answer_with_the_nearest_that_does():
    text = render(plan_answers.empty())
    assert text.startswith("No plan fits")
    assert "evaluated 3,120 plans in 30.0 ms: none fits" in text
    assert "adapter qlora: needs 11.2 GiB of 23.6 GiB" in text
    assert "sightline plan scenario.yaml --set plan.adapter=qlora" in text


def test_where_nothing_is_near_what_was_tried_is_said():
    text = render(plan_answers.empty(nearest=()), 200)
    assert "none found among" in text
    assert "none found among" not in render(plan_answers.empty(), 200)


@pytest.mark.parametrize("width", [40, 60, 80])
@pytest.mark.parametrize("answer", [plan_answers.trained, plan_answers.generating, plan_answers.empty])
def test_no_line_is_wider_than_the_terminal_and_no_figure_is_cut(answer, width):
    text = render(answer(), width, [("try it", "sightline predict scenario.yaml --set plan.tensor_parallel=2")])
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    for one in answer().plans:
        assert f"{float(one.profile.memory_bytes['total']) / 2**30:.1f} GiB" in text


def test_a_number_stays_with_its_unit():
    for width in range(40, 80):
        assert not re.search(r"^\s*(%|GiB|ms)", render(plan_answers.trained(), width), re.MULTILINE)


def test_settings_make_the_scenario_of_a_plan():
    answer = plan_answers.trained()
    for one in answer.plans:
        options = shlex.split(" ".join(plan_sentences.settings(answer, one)))
        found = load({**plan_answers.TRAINED}, options[1::2])
        assert found.plan.to_dict() == one.profile.scenario.plan.to_dict()


WORDS = st.lists(st.text("abc=.[],'$ ", min_size=1, max_size=30), min_size=1, max_size=8)


@given(WORDS, st.integers(20, 100))
def test_a_shell_reads_a_folded_command_as_the_command(words, width):
    command = shlex.join(["sightline", "plan", *words, "--set", words[0]])
    lines = terminal_parts.folded(command, width)
    joined = "\n".join(lines).replace("\\\n", "")
    assert shlex.split(joined) == shlex.split(command)
    assert all(len(line) <= width or len(line.split()) <= 3 for line in lines if "'" not in line)


def test_an_answer_without_plans_or_reasons_still_speaks():
    bare = PlanAnswer(objective="time", evaluated=0, feasible=0, rejected={}, seconds=0.001, plans=[])
    assert "evaluated 0 plans in 1.00 ms: none fits" in render(bare)


@pytest.mark.parametrize(
    ("answer", "changes", "compared"),
    [
        (plan_answers.trained, {}, "step time"),
        (plan_answers.trained, {"objective": "memory"}, "memory of the fullest device"),
        (plan_answers.trained, {"objective": "memory", "pareto_axes": ("memory", "cost")}, "step time"),
        (plan_answers.generating, {"objective": "energy"}, "energy per million output tokens"),
    ],
)
def test_neighbours_stand_under_what_they_are_compared_by(answer, changes, compared):
    assert plan_sentences.compared_by(replace(answer(), **changes)) == compared
    assert plan_sentences.compared_by(plan_answers.empty()) == ""


def test_the_text_names_what_neighbours_and_hardware_are_compared_by():
    text = render(plan_answers.trained(objective="memory"))
    assert "Alternatives: memory of the fullest device" in text
    assert "Better hardware: memory of the fullest device" in text


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_run_of_the_first_plan_is_told_on_every_terminal(width):
    text = " ".join(render(costed(), width).split())
    assert re.search(r"cost \$\S+ per million tokens · [\d.]+ days \(80 %: [\d.]+ to [\d.]+ days\), \$", text)
    assert "no plan shown finishes" not in text


def test_a_run_of_unknown_length_has_no_sentence():
    assert " days (80 %" not in render(plan_answers.trained())


def test_what_was_asked_for_is_told_of_the_run():
    assert re.search(r"cost .*\$\S+, energy \d", render(costed(objective="energy"), 200))


def test_a_run_that_nobody_waits_for_is_told_first():
    text = render(costed(slower=2000.0))
    assert text.count("no plan shown finishes within 3") == 1


@pytest.mark.parametrize("width", [60, 80])
def test_plans_in_blocks_keep_their_figures(width):
    heading = next(line for line in render(costed(frameworks=True), width).splitlines() if " 80 % " in line)
    assert "step" in heading
    assert "80 %" in heading
    assert "calendar" in heading
    assert "rent" in heading


def test_a_front_that_nobody_asked_for_is_not_told_where_all_plans_are_on_it():
    every = range(len(plan_answers.trained().plans))
    assert "Pareto" not in render(plan_answers.trained(pareto=every))
    assert "on the Pareto front" in render(plan_answers.trained(pareto=every, pareto_axes=("time", "memory")))


def costed(slower=1.0, frameworks=False, **changes):
    """An answer whose plans have figures of the whole run; with ``frameworks`` each has a long choice of its own."""
    plans = []
    for place, one in enumerate(plan_answers.trained().plans):
        seconds = slower * one.profile.run_time_s
        figures = {"run_time_s": seconds, "calendar_time_s": seconds, "cost_usd": 7e4 + place, "energy_j": 1e10 + place}
        scenario = one.profile.scenario
        if frameworks:
            moved = replace(scenario.plan, schedule="x" * (20 + place), attention="y" * (70 + place))
            scenario = replace(scenario, plan=moved)
        profile = one.profile.replace(scenario=scenario)
        plans.append(replace(one, figures=figures, profile=profile))
    return plan_answers.trained(plans=plans, **changes)


def test_rent_stays_before_the_schedule_which_is_said():
    plans = []
    for place, one in enumerate(costed().plans):
        scenario = one.profile.scenario
        moved = replace(scenario, plan=replace(scenario.plan, schedule=("1f1b", "dualpipe")[place % 2]))
        plans.append(replace(one, profile=one.profile.replace(scenario=moved), obstacles=()))
    text = render(plan_answers.trained(plans=plans), 72)
    heading = next(line for line in text.splitlines() if line.startswith("plan "))
    assert "rent" in heading
    assert "schedule" not in heading
    assert re.search("left out at [0-9]+ columns: .*schedule", text)
    assert "left out at" not in render(plan_answers.trained(plans=plans), 120)
