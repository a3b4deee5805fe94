"""The files that launch a scenario, and what keeps it from being launched."""

from collections.abc import Iterator
from typing import Any, Final

from sightline.answers.outline import Lines, Part, Section, Text
from sightline.errors import InputError

_TOOLS: Final = {"finetune": ("llama-factory", "axolotl", "ms-swift")}
"""Tools on frameworks whose launches are shown too, by task."""


def launch_parts(scenario: Any, title: str = "Run") -> list[Part]:
    """Return the command and the files that run a scenario in its framework, or why there are none; then in tools."""
    return list(_launches(scenario, title))


def _launches(scenario: Any, title: str) -> Iterator[Part]:
    from sightline.launching import write
    from sightline.launching.launch import SCRIPT, script_of

    for tool in (None, *_TOOLS.get(scenario.workload.task, ())):
        try:
            launch = write(scenario, tool)
        except InputError as error:
            yield Lines(title=f"No launch{f' with {tool}' if tool else ''}", lines=error.problems)
            continue
        files = {SCRIPT: script_of(launch), **launch.files}
        texts = [Text(title=name, text=text, file=name, is_open=name == SCRIPT) for name, text in files.items()]
        yield Section(title=f"{title} with {launch.framework}", parts=texts, is_folded=tool is not None)
