"""Shell scripts read as far as they are literal.

Understood are continued lines, quotes, comments, assignments and arrays, and variables with their defaults. What only
running the script would tell - the output of a command, an argument, a variable of the machine - stays as written.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sightline.launching.shell.scanner import Scanner, computed

LAUNCHERS: Final = (
    *("torchrun", "deepspeed", "accelerate", "python", "python3", "srun", "mpirun", "vllm", "sglang", "trtllm-serve"),
    *(
        "docker",
        "podman",
        "llama-server",
        "llama-cli",
        "transformers",
        "text-generation-launcher",
        "bash",
        "run_train.sh",
        "uv",
    ),
)
"""Commands that start training or serving."""
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?:\[[@*]\])?(?:(:?[-=])([^}]*))?\})")
_PASSED_ON = ("$@", "$*")
"""Arguments of the script itself."""
_SBATCH = re.compile(r"^#SBATCH[ \t]+--?([\w-]+)[= \t]\s*(?:gpu:)?(?:[a-z]\w*:)?(\d+)[ \t]*(?:#.*)?$", re.MULTILINE)
_OF_SLURM: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("nodes", "N"), ("SLURM_NNODES", "SLURM_JOB_NUM_NODES")),
    "ntasks-per-node": ("SLURM_NTASKS_PER_NODE",),
    **dict.fromkeys(("ntasks", "n"), ("SLURM_NTASKS",)),
    **dict.fromkeys(("gpus-per-node", "gres"), ("SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE")),
}
"""Variables that Slurm sets by options of a batch script."""
_ENDS = "\n;&|<>"


def looks_like_a_command(text: str) -> bool:
    """Whether a text launches something, perhaps after settings of the environment."""
    if text.startswith("#!"):
        return True
    commands = _Script().commands(text)
    return any(_starts_something(words) for words in commands if len(words) > 1)


def launch_words(text: str) -> tuple[str, ...]:
    """Return the words of the longest command of a shell text, which is the one that launches something."""
    commands = _Script().commands(text)
    launching = [words for words in commands if _starts_something(words)]
    longest: list[str] = max(launching or commands, key=len, default=[])
    return tuple(longest)


def commands_of(text: str) -> list[list[str]]:
    """Return the words of every command of a shell text in order, settings of the environment left out."""
    return _Script().commands(text)


def _starts_something(words: Sequence[str]) -> bool:
    return _program(words) in LAUNCHERS or _program(words).endswith(".py")


def _program(words: Sequence[str]) -> str:
    """The name of the program that a command runs, settings of the environment aside."""
    named = (word for word in words if not _ASSIGNMENT.match(word) and word not in ("env", "exec", "nohup", "sudo"))
    return next(named, "").rpartition("/")[2]


@dataclass(slots=True)
class _Script:
    """What a script has assigned so far."""

    values: dict[str, list[str]] = field(default_factory=dict)

    def commands(self, text: str) -> list[list[str]]:
        """Return the words of every command in order, assignments carried out."""
        found: list[list[str]] = []
        for option, number in _SBATCH.findall(text):
            self.values |= {name: [number] for name in _OF_SLURM.get(option, ())}
        source = Scanner(re.sub(r"\\\r?\n", " ", text))
        while source.left():
            words = [word for word in self._command(source) if word not in _PASSED_ON]
            if words:
                found.append(words)
        return found

    def _command(self, source: "Scanner") -> list[str]:
        """The words up to the command's end, its assignments carried out."""
        words: list[str] = []
        while source.left():
            here = source.peek()
            if here in _ENDS:
                source.take()
                # The number before a redirection is no argument.
                words = words[:-1] if here in "<>" and words[-1:] in (["1"], ["2"]) else words
                break
            if here in " \t\r":
                source.take()
            elif here == "#":
                source.until("\n")
            elif words in ([], ["export"], ["declare"], ["local"]) and (name := source.match(_ASSIGNMENT)):
                self._assign(name, source)
            else:
                words += self._words(source)
        return [] if words in (["export"], ["declare"], ["local"]) else words

    def _assign(self, name: re.Match[str], source: "Scanner") -> None:
        if source.left() and source.peek() == "(":
            source.take()
            value = self._array(source)
        else:
            value = self._words(source, split=False)
        self.values[name[1]] = [*self.values.get(name[1], []), *value] if name[2] else value

    def _array(self, source: "Scanner") -> list[str]:
        """The words up to the closing bracket of an array."""
        words: list[str] = []
        while source.left() and source.peek() != ")":
            if source.peek() in " \t\r\n":
                source.take()
            elif source.peek() == "#":
                source.until("\n")
            else:
                words += self._words(source, ends=_ENDS + ")")
        source.take()
        return words

    def _words(self, source: "Scanner", *, split: bool = True, ends: str = _ENDS) -> list[str]:
        """One word as the shell passes it: several where an unquoted variable holds several, none where it is empty."""
        pieces: list[tuple[str, bool]] = []
        while source.left() and source.peek() not in " \t\r" + ends:
            here = source.peek()
            if here == "'":
                source.take()
                pieces.append((source.until("'", closed=True), True))
            elif here == '"':
                pieces += self._double_quoted(source)
            elif here == "\\":
                source.take()
                pieces.append((source.take(), True))
            elif here == "$":
                pieces += [(value, not split or value.startswith("$(")) for value in self._expanded(source)]
            else:
                pieces.append((source.take(), True))
        return _joined(pieces)

    def _double_quoted(self, source: "Scanner") -> list[tuple[str, bool]]:
        """What stands in double quotes; of a whole array each value is a word of its own."""
        source.take()
        pieces: list[tuple[str, bool]] = [("", True)]
        while source.left() and source.peek() != '"':
            if source.peek() == "\\":
                source.take()
                pieces.append((source.take(), True))
            elif source.peek() != "$":
                pieces.append((source.take(), True))
            elif array := source.match(re.compile(r"\$\{(\w+)\[[@*]\]\}")):
                values = self.values.get(array[1], [array[0]])
                separated = [piece for value in values for piece in ((value, True), (" ", False))]
                pieces += separated[:-1]
            else:
                pieces += [(value, True) for value in self._expanded(source)]
        source.take()
        return pieces

    def _expanded(self, source: "Scanner") -> Iterator[str]:
        """The value of a variable or of arithmetic; what cannot be known stays as it is written."""
        if source.starts("$(("):
            written = source.balanced()
            inner = "".join(self._inside(written[3:-2]))
            result = computed(re.sub(r"[A-Za-z_]\w*", lambda found: self._value(found[0]) or found[0], inner))
            yield written if result is None else str(result)
        elif source.starts("$("):
            yield source.balanced()
        elif variable := source.match(_VARIABLE):
            name = variable[1] or variable[2]
            if name in self.values:
                yield " ".join(self.values[name])
            elif variable[3]:
                yield from self._inside(variable[4].strip("\"'"))
            else:
                yield variable[0]
        else:
            yield source.take()

    def _inside(self, text: str) -> Iterator[str]:
        """A text with its variables in place."""
        source = Scanner(text)
        while source.left():
            if source.peek() == "$":
                yield from self._expanded(source)
            else:
                yield source.take()

    def _value(self, name: str) -> str:
        return " ".join(self.values.get(name, []))


def _joined(pieces: Sequence[tuple[str, bool]]) -> list[str]:
    """Pieces as words: whole ones are added to the last word, others are cut at their spaces."""
    words: list[str] = []
    opened = False
    for text, whole in pieces:
        parts = [text] if whole else text.split()
        if not whole and text[:1].isspace():
            opened = False
        for number, part in enumerate(parts):
            if opened and number == 0:
                words[-1] += part
            else:
                words.append(part)
            opened = True
        if not whole and text[-1:].isspace():
            opened = False
    return words
