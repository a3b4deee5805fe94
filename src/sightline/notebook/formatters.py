"""Which types a shell of IPython shows richly: by name, so that none is imported before an object is shown."""

from contextlib import suppress
from typing import Any

from sightline.commands import ANSWERS
from sightline.on_demand import named
from sightline.progress import watch_by

TYPES = {answer.type: answer for answer in ANSWERS.values() if answer.type}
CHANNELS = ("ipython_display_formatter", "mimebundle_formatter")


def register(shell: Any) -> None:
    """Show answers in a shell of IPython: in a notebook with their charts, elsewhere as text or one table."""
    display = shell.display_formatter
    has_page = hasattr(shell, "kernel")
    for path in TYPES:
        module, _, name = path.partition(":")
        display.mimebundle_formatter.for_type_by_name(module, name, _bundle)
        if has_page:
            display.ipython_display_formatter.for_type_by_name(module, name, lambda answer: view_of(answer).publish())
    display.mimebundle_formatter.for_type(list, _bundle_of_list)
    if has_page:
        from sightline.notebook.progress_line import progress_line

        watch_by(progress_line)


def unregister(shell: Any) -> None:
    """Undo ``register``."""
    for path in TYPES:
        module, _, name = path.partition(":")
        for channel in CHANNELS:
            formatter = getattr(shell.display_formatter, channel)
            formatter.deferred_printers.pop((module, name), None)
            # Once an object was shown, its type stands in place of the names.
            for kind in [kind for kind in formatter.type_printers if _path_of(kind) == path]:
                formatter.pop(kind)
    with suppress(KeyError):
        shell.display_formatter.mimebundle_formatter.pop(list)
    watch_by(None)


def _path_of(kind: type) -> str:
    return f"{kind.__module__}:{kind.__name__}"


def view_of(answer: Any) -> Any:
    """Return what a notebook shows of an answer, or of a list of answers of one type."""
    kind = TYPES[_path_of(type(answer[0] if isinstance(answer, list) else answer))]
    if isinstance(answer, list):
        outline = named(kind.outline)(answer)
    elif kind.single:
        outline = named(kind.single)(answer)
    else:
        outline = named(kind.outline)([answer] if kind.is_list else answer)
    return named("sightline.render.notebook:View")(outline)


def _bundle(answer: Any) -> dict[str, Any]:
    bundle: dict[str, Any] = view_of(answer).bundle()
    return bundle


def _bundle_of_list(answers: list[Any]) -> dict[str, Any] | None:
    """A table of several answers of one type; other lists stay as they are."""
    types = {type(one) for one in answers[:1000]}
    kind = TYPES.get(_path_of(types.pop())) if len(types) == 1 and len(answers) <= 1000 else None
    return _bundle(answers) if kind is not None and kind.is_list else None
