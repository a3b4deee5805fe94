"""Answers as a shell of IPython shows them, in process."""

import re
import subprocess
import sys
from dataclasses import replace

import pytest
from IPython.core.interactiveshell import InteractiveShell

import sightline as sl
from sightline.answers.outline import Outline
from sightline.notebook import load_ipython_extension, unload_ipython_extension
from sightline.notebook.formatters import view_of
from sightline.render.notebook import WIDE, View, chart_bundle
from sightline.runs import Run
from sightline.validation.coverage import cells_of

TINY = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "intermediate_size": 704,
    "vocab_size": 4096,
}
DEVICE = "8x a100-sxm-80gb"
NAME = "<b>7B & more</b>"
LOAD = {
    "task": "serve",
    "requests": {"count": 40, "prompt_tokens": 200, "output_tokens": 20},
    "arrival": {"process": "poisson", "rate": 4},
    "slo": {"ttft": "1 s", "tpot": "50 ms", "percentile": 90},
}


def asked(task, **plan):
    workload = {
        "pretrain": {"task": "pretrain", "sequence_length": 2048, "global_batch": 64},
        "finetune": {"task": "finetune", "sequence_length": 2048, "global_batch": 64},
        "generate": {"task": "generate", "batch": 8, "prompt_tokens": 512, "output_tokens": 64},
        "serve": LOAD,
    }[task]
    return sl.load({"name": NAME, "model": "llama-2-7b", "cluster": DEVICE, "workload": workload, "plan": plan})


def operator():
    work = {"task": "operator", "operator": "matmul", "m": 512, "n": 512, "k": 512}
    return sl.load({"name": NAME, "cluster": DEVICE, "workload": work})


def of_nodes():
    axes = {"cluster.device.technology.node": ["7nm", "5nm"], "cluster.device.technology.memory": ["hbm2e", "hbm3"]}
    base = {
        "model": "llama-2-7b",
        "cluster": DEVICE,
        "workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": 64},
    }
    study = {"study": NAME, "base": base, "axes": axes, "view": "ideal", "report": ["step_time_s", "mfu"]}
    return sl.explore(study)


def plans():
    source = {"name": NAME, "model": "llama-2-7b", "cluster": DEVICE, "plan": {"framework": "megatron"}}
    work = {"task": "pretrain", "sequence_length": 2048, "global_batch": 64}
    return sl.plan(source | {"workload": work}, top=3)


def served():
    return sl.simulate(asked("serve"), intervals=False)


def capacity():
    return sl.find_capacity(asked("serve"), intervals=False)


def compared():
    return sl.compare(sl.predict(asked("pretrain")), sl.predict(asked("pretrain", zero_stage=3)))


def stored():
    return Run(id="2026-1", name=NAME, created="2026-01-01T00:00:00+00:00", status="ok", result={"step_time_s": 0.5})


CASES = {
    "training scenario": lambda: asked("pretrain"),
    "fine-tuning scenario": lambda: asked("finetune", adapter={"kind": "lora", "rank": 8}),
    "generation scenario": lambda: asked("generate"),
    "serving scenario": lambda: asked("serve"),
    "operator scenario": operator,
    "training": lambda: sl.predict(asked("pretrain")),
    "what does not fit": lambda: sl.predict(asked("pretrain", micro_batch=8, attention="eager")),
    "generation": lambda: sl.predict(asked("generate")),
    "operator": lambda: sl.predict(operator()),
    "serving": served,
    "capacity": capacity,
    "plans": plans,
    "study": of_nodes,
    "comparison": compared,
    "explanation": lambda: sl.explain(asked("pretrain")),
    "sensitivity": lambda: sl.sensitivity(asked("pretrain")),
    "roofline": lambda: sl.roofline(asked("generate")),
    "validation": lambda: sl.validate("bigscience-tr11")[0],
    "run": stored,
    "requirements": lambda: sl.check(asked("pretrain"), "mfu >= 0.1, mfu >= 0.99"),
    "reproduction": lambda: sl.reproduce("2311.03687", only=["A8", "A9", "modules", "phases"]),
    "reproduced table": lambda: sl.reproduce("2311.03687", only=["phases"]),
}
WITHOUT_NAME = ("roofline", "validation", "capacity", "reproduction", "reproduced table")
"""Which do not show the name of a scenario."""
WITHOUT_CHART = ("requirements", "reproduction")
LONG = ("capacity", "serving", "comparison", "plans", "study")
"""Whose charts take long to draw."""
ALL = [pytest.param(case, marks=[pytest.mark.slow] if case == "capacity" else []) for case in CASES]
FOUND = {}


def answer(case):
    """Each answer once: several tests look at it."""
    if case not in FOUND:
        FOUND[case] = CASES[case]()
    return FOUND[case]


def view(case):
    found = answer(case)
    return view_of(found)


@pytest.fixture(scope="module")
def shell():
    found = InteractiveShell.instance()
    load_ipython_extension(found)
    yield found
    unload_ipython_extension(found)
    InteractiveShell.clear_instance()


def shown(shell, found):
    return shell.display_formatter.format(found)[0]


@pytest.mark.parametrize("case", ALL)
def test_every_answer_is_shown_as_text_and_as_a_bounded_table(shell, case):
    data = shown(shell, answer(case))
    assert data["text/plain"].strip()
    assert "object at 0x" not in data["text/plain"]
    assert 'class="sightline"' in data["text/html"]
    assert sum(map(len, data.values())) < 100_000


@pytest.mark.parametrize("case", [case for case in CASES if case not in WITHOUT_NAME])
def test_names_are_escaped(shell, case):
    html = shown(shell, answer(case))["text/html"]
    assert "<b>7B" not in html
    assert "&lt;b&gt;7B &amp; more&lt;/b&gt;" in html


@pytest.mark.parametrize("case", ALL)
def test_colors_are_the_themes_and_nothing_is_wider_than_its_place(shell, case):
    html = shown(shell, answer(case))["text/html"]
    style, body = html.split("</style>", 1)
    assert not re.search(r"(?<![-\w])color: (?!inherit)", style)
    assert not re.search(r"background: (?!transparent)", style)
    assert "style=" not in body
    widths = [int(pixels) for pixels in re.findall(r"width: ?(\d+)px", html)]
    assert max(widths, default=0) <= WIDE
    assert body.count("<table>") == body.count('<div class="scroll"')
    assert "…" not in body
    assert "text-overflow" not in style


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[pytest.mark.slow] if case in LONG else [])
        for case in CASES
        if "scenario" not in case and case not in ("run", "operator")
    ],
)
def test_charts_are_live_and_pictures_on_a_ground_of_their_own(case):
    bundles = [chart_bundle(spec) for spec in view(case).charts]
    assert bool(bundles) == (case not in WITHOUT_CHART)
    for bundle in bundles:
        assert "application/vnd.vegalite.v6+json" in bundle
        assert "image/svg+xml" in bundle or "image/png" in bundle
        if svg := bundle.get("image/svg+xml"):
            assert "max-width:100%" in svg
            assert "background:white" in svg
            assert "prefers-color-scheme" not in svg
            assert float(re.search(r' width="([\d.]+)', svg)[1]) <= WIDE


def test_a_scenario_says_what_was_left_to_the_framework(shell):
    html = shown(shell, asked("pretrain", zero_stage=2))["text/html"]
    stated, _, defaults = html.partition("At their defaults")
    assert "zero_stage: 2" in stated
    assert "optimizer" in defaults
    assert "plan.framework is not set" in stated


def test_lists_of_one_kind_of_answer_are_a_table_and_others_stay_lists(shell):
    several = [sl.predict(asked("pretrain", zero_stage=stage)) for stage in (0, 1)]
    html = shown(shell, several)["text/html"]
    assert html.count("<tr") == 3
    assert shown(shell, [1, 2]) == {"text/plain": "[1, 2]"}
    assert shown(shell, []) == {"text/plain": "[]"}
    assert "text/html" not in shown(shell, [several[0], 1])


def test_what_is_required_is_marked_and_several_scenarios_have_a_line_each(shell):
    one = answer("requirements")
    html = shown(shell, one)["text/html"]
    assert '<dd class="good">' in html
    assert '<dd class="bad">' in html
    assert "1 of 2 requirements" in html
    assert shown(shell, [one, one])["text/html"].count("❌") == 2


def test_warnings_and_footnotes_of_an_outline_are_in_its_text_too(shell):
    too_large = sl.check(asked("pretrain", micro_batch=8, attention="eager"), "mfu >= 0.01")
    assert too_large.warnings
    data = shown(shell, too_large)
    for one in too_large.warnings:
        assert f"warning: {one}" in " ".join(data["text/plain"].split())
    outline = Outline(title="a title", footnotes=["a footnote"])
    assert "a footnote" in View(outline).bundle()["text/plain"]


def test_a_reproduction_shows_findings_and_folds_what_is_behind_them(shell):
    html = shown(shell, answer("reproduction"))["text/html"]
    open_part, *folded = html.split("<details>")
    assert "findings A" in open_part
    assert any("A8 7B without memory techniques" in one and "Criterion: " in one for one in folded)
    assert "phases" in folded[-2]


def test_coverage_is_a_table(shell):
    cells = list(cells_of("techniques", "megatron"))
    html = shown(shell, cells)["text/html"]
    assert "megatron: techniques" in html
    assert "calibrated" in html


def test_a_profile_of_many_plans_is_shown_as_ranges(shell):
    import numpy as np

    scenario = asked("pretrain")
    many = replace(scenario, plan=replace(scenario.plan, micro_batch=np.array([1, 2])))
    assert "2 plans" in shown(shell, sl.predict(many))["text/html"]


def test_unloading_shows_answers_as_python_does():
    shell = InteractiveShell()
    load_ipython_extension(shell)
    shown(shell, answer("training scenario"))
    unload_ipython_extension(shell)
    assert "text/html" not in shown(shell, answer("training scenario"))
    assert "text/html" not in shown(shell, [answer("training")])


def test_registering_imports_nothing_heavy():
    code = (
        "import sys\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "InteractiveShell.instance()\n"
        "before = {*sys.modules}\n"
        "import sightline\n"
        "print(*sorted(name for name in {*sys.modules} - before if not name.startswith('sightline')))\n"
        "print(*sorted(name for name in sys.modules if name.startswith('sightline.')))\n"
    )
    others, ours = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert not {"numpy", "altair", "rich", "polars"} & {name.partition(".")[0] for name in others.split()}
    assert "sightline.notebook.formatters" in ours.split()
    assert not {
        name
        for name in ours.split()
        if name.startswith(("sightline.answers", "sightline.render", "sightline.charts", "sightline.profile"))
    }


def test_outside_of_ipython_nothing_is_registered():
    code = "import sys, sightline; print(*(name for name in sys.modules if name.startswith('sightline.notebook')))"
    assert not subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
