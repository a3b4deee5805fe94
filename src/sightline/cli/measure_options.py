"""Which options of ``sightline measure`` mean anything for what is measured; the others are refused, not left unread."""

from collections.abc import Collection, Iterable, Mapping

from sightline.errors import InputError

TRAINING, GENERATION, OPERATOR = "training", "generation", "single operators"
FILES = (TRAINING, GENERATION, OPERATOR)
STANDARD, STUDY = "--suite standard", "--suite 2311.03687"

USED_BY: Mapping[str, Collection[str]] = {
    "--implementation": (GENERATION, OPERATOR),
    "--weights": (TRAINING, GENERATION),
    **dict.fromkeys(("--level", "--steps", "--warmup", "--repeats", "--time-limit"), (TRAINING,)),
    "--force": (TRAINING, GENERATION),
    **dict.fromkeys(("--nnodes", "--node-rank", "--rendezvous"), (TRAINING,)),
    **dict.fromkeys(("--set", "--sweep"), FILES),
    **dict.fromkeys(("--dtype", "--cluster"), (STANDARD,)),
    **dict.fromkeys(("--csv", "--out"), (*FILES, STANDARD)),
    "--rerun": (STANDARD, STUDY),
}
"""What each option is for, as far as it is not for everything."""


def refuse_idle(options: Mapping[str, object], measured: Iterable[str]) -> None:
    """Raise `InputError` for every option that is given and that nothing of what is measured has a use for."""
    what = list(dict.fromkeys(measured))
    given = [name for name, value in options.items() if value not in (None, []) and value is not False]
    idle = [name for name in given if not set(USED_BY[name]) & set(what)]
    if idle:
        raise InputError(
            [f"{name} is for {', '.join(USED_BY[name])}; measured here: {', '.join(what)}" for name in idle]
        )
