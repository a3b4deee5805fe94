"""How an engine's commands are read: what each engine's module says of its own."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sightline.launching.options import Options


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dialect:
    """How an engine's commands are read."""

    engine: str
    """As ``plan.framework`` names it."""
    programs: Sequence[Sequence[str]]
    """Words that begin its command, the first without its folder."""
    image: str
    """What its containers are called."""
    plan: Callable[[Options, str], Mapping[str, Any]]
    """Keys of ``plan`` that a server's options say; the text is the catalog's name of its model."""
    models: Sequence[str] = ("model", "model-path")
    """Options that name the model."""
    called: Callable[[str], str] = field(default=lambda written: written)
    """The repository or folder that the written model stands for."""
    positional: bool = False
    """Whether the first plain word names it."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    flags: Collection[str] = ()
    role: Callable[[Options], str] = field(default=lambda _: "")
    """prefill or decode of servers that do one of them."""
    tiers: Callable[[Options], bool] = field(default=lambda _: False)
    """Whether a server keeps evicted keys and values in memories behind the device's."""
    later_node: Callable[[Options], bool] = field(default=lambda _: False)
    """Whether a command joins a server that another one starts."""
    longest: str = ""
    """Option with the most tokens of a sequence."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Options by the variables of the environment that stand for them."""
    files: Sequence[str] = ()
    """Options that name a YAML file with further ones."""
    files_win: bool = False
    """Whether what such a file says replaces options of the command."""
    quiet: Collection[str] = ()
    """Options of its own that change neither time nor memory, or that say where servers are."""
