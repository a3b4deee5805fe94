"""Tables of several profiles: a column for each swept key, what all share above, nothing cut in a narrow terminal."""

import io

import pytest
import rendered
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from sightline.answers import units
from sightline.answers.several import profiles_outline
from sightline.render.terminal import outline_text
from sightline.render.terminal_parts import Column, Listing


def swept(build, make_scenario):
    """Three plans, of which the last does not fit, with the values that a sweep gave them."""
    sizes = (1, 2, 4)
    profiles = [build(scenario=make_scenario(micro_batch=m), step_time_s=2.0 / m, fits=m < 4) for m in sizes]
    links = ("400 Gbit/s", "50 GB/s", "1.6 Tbit/s")
    cells = [
        {"plan.micro_batch": m, "cluster.network.bandwidth_per_node": link}
        for m, link in zip(sizes, links, strict=True)
    ]
    return profiles, cells


def test_every_swept_key_has_a_column_in_the_units_that_were_typed(build, make_scenario):
    profiles, cells = swept(build, make_scenario)
    text = rendered.text(profiles_outline(profiles, cells))
    assert [line.split()[:3] for line in text.splitlines()[-3:]] == [
        ["1", "400", "Gbit/s"],
        ["2", "50", "GB/s"],
        ["4", "1.6", "Tbit/s"],
    ]
    assert "llama-2-7b on 8 x a800-sxm-80gb by micro batch and bandwidth per node" in text
    assert "zero" not in text.lower().replace("zero-2", "")


def test_what_all_share_is_said_once_and_what_differs_is_a_column(build, make_scenario):
    profiles, cells = swept(build, make_scenario)
    text = rendered.text(profiles_outline(profiles, cells), 200)
    assert text.count(f"{units.money(profiles[0].usd_per_hour)} per hour") == 1
    assert text.count("bound by compute") == 1
    assert "fits" in text.splitlines()[-4]
    assert "all fit in 80.0 GiB" in rendered.text(profiles_outline(profiles[:2], cells[:2]), 200)


def test_interval_evidence_and_price_are_there(build, make_scenario):
    profiles, cells = swept(build, make_scenario)
    of = [{"framework": word} for word in ("calibrated", "extrapolated", "calibrated")]
    known = [p.replace(evidence=e, interval={"step_time_s": (0.1, 3.0)}) for p, e in zip(profiles, of, strict=True)]
    text = rendered.text(profiles_outline(known, cells), 200)
    for said in ("80 %", "± 50 %", "evidence", "extrapolated", "per hour", "rent"):
        assert said in text


def test_the_best_that_fits_is_bold(generations):
    cells = [{"workload.batch": p.scenario.workload.batch} for p in generations]
    console = Console(file=io.StringIO(), width=120, force_terminal=True, color_system="standard", legacy_windows=False)
    console.print(outline_text(profiles_outline(generations, cells)))
    lines = console.file.getvalue().splitlines()[-4:]
    assert ["\x1b[1m" in line or "\x1b[1;" in line for line in lines] == [False, False, True, False]
    assert "no" in rendered.text(profiles_outline(generations, cells), 120).splitlines()[-1].split()


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_nothing_is_wider_than_the_terminal_or_cut(build, make_scenario, generations, width):
    plans = swept(build, make_scenario)
    batches = generations, [{"workload.batch": p.scenario.workload.batch} for p in generations]
    for profiles, cells in (plans, batches, (plans[0], [])):
        text = rendered.text(profiles_outline(profiles, cells), width)
        assert "…" not in text
        assert max(len(line.rstrip()) for line in text.splitlines()) <= width
        for profile in profiles:
            assert f"{float(profile.memory_bytes['total']) / 2**30:.1f}" in text


def test_names_are_shown_where_they_differ(build, make_scenario):
    profiles, cells = swept(build, make_scenario)
    assert "scenario" not in rendered.text(profiles_outline(profiles, cells), 200)
    assert "micro_batch 2" in rendered.text(profiles_outline(profiles), 200)


def test_only_the_chosen_are_shown_in_their_order(build, make_scenario):
    profiles, cells = swept(build, make_scenario)
    text = rendered.text(profiles_outline(profiles, cells, order=[2, 0]), 120)
    assert "first 2 of 3" in text
    assert [line.split()[0] for line in text.splitlines()[-2:]] == ["4", "1"]


@given(
    rows=st.lists(
        st.tuples(st.text("ab c", min_size=1, max_size=40), st.integers(0, 10**9), st.integers(0, 99)),
        min_size=1,
        max_size=5,
    ),
    width=st.integers(24, 100),
)
def test_a_listing_shows_every_label_and_never_cuts_a_figure(rows, width):
    names, large, small = zip(*rows, strict=True)
    figures = [
        Column(heading="large", cells=list(map(str, large))),
        Column(heading="small", cells=list(map(str, small))),
    ]
    lines = Listing(labels=[Column(heading="name", cells=list(names), is_number=False)], figures=figures).lines(width)
    assert max(len(line.plain.rstrip()) for line in lines) <= width
    words = " ".join(line.plain for line in lines).split()
    assert all(str(figure) in words for figure in (*large, *small))
    assert all(word in words for name in names for word in name.split())


def test_a_listing_says_what_it_has_no_room_for():
    columns = [Column(heading=name, cells=["1234567890"]) for name in ("first", "second", "third")]
    listing = Listing(labels=[Column(heading="name", cells=["x"])], figures=columns, least=["second"])
    text = "\n".join(line.plain for line in listing.lines(30))
    assert "second" not in text.splitlines()[0]
    assert "left out at 30 columns: second" in " ".join(text.split())
    assert "no room" not in "\n".join(line.plain for line in listing.lines(60))


def test_groups_are_named_once():
    listing = Listing(
        labels=[Column(heading="name", cells=list("abc"))],
        figures=[Column(heading="n", cells=list("123"))],
        groups=["first", "first", "second"],
    )
    assert [line.plain.strip() for line in listing.lines(60)][1:] == ["first", "a  1", "b  2", "second", "c  3"]
