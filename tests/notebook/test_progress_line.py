"""Long work in a notebook: watched where nobody passed a progress, and ended by the stop button."""

import signal

import pytest

from sightline.notebook import progress_line as module
from sightline.notebook.progress_line import progress_line
from sightline.progress import SILENT, Cancelled, Progress, watch_by, watched


@watched
def work(*, steps=10, progress: Progress = SILENT):
    found = []
    for step in progress.over(range(steps), "counting <steps>"):
        found.append(step)
        if step == 3:
            signal.raise_signal(signal.SIGINT)
    return found


@watched
def unstoppable(*, progress: Progress = SILENT):
    progress.begin(2, "counting")
    signal.raise_signal(signal.SIGINT)
    progress.check()


@pytest.fixture
def outputs(monkeypatch):
    """What the front end would get."""
    found = []

    class Handle:
        def update(self, data, **_):
            found.append(data)

    def display(data, **_):
        found.append(data)
        return Handle()

    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setattr(module, "APPEARS_AFTER_S", 0.0)
    watch_by(progress_line)
    yield found
    watch_by(None)


def test_the_stop_button_returns_what_was_found_and_the_line_is_gone(outputs):
    assert work() == [0, 1, 2, 3]
    assert "counting &lt;steps&gt;: 0 of 10" in outputs[0]["text/html"]
    assert outputs[-1] == {"text/plain": "", "text/html": ""}


def test_work_that_found_nothing_ends_as_an_interrupted_cell(outputs):
    with pytest.raises(KeyboardInterrupt):
        unstoppable()
    assert outputs[-1]["text/html"] == ""


def test_who_passes_a_progress_gets_its_states_alone(outputs):
    states = []
    assert work(steps=2, progress=Progress(states.append)) == [0, 1]
    assert states
    assert not outputs


def test_without_a_notebook_an_interrupt_is_one():
    with pytest.raises(KeyboardInterrupt):
        work()


def test_short_work_shows_nothing(outputs, monkeypatch):
    monkeypatch.setattr(module, "APPEARS_AFTER_S", 60.0)
    assert work(steps=3) == [0, 1, 2]
    assert not outputs


def test_cancelled_is_what_the_work_itself_says():
    progress = Progress()
    progress.cancel()
    with pytest.raises(Cancelled):
        unstoppable_without_signal(progress)


def unstoppable_without_signal(progress):
    progress.check()
