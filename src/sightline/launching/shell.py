"""Read shell scripts as far as they are literal, and write commands as text for a shell."""

import ast
import operator
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from sightline.errors import InputError


class Scanner:
    """A text that is read from its beginning to its end."""

    def __init__(self, text: str) -> None:
        """Begin at the first character."""
        self.text, self.at = text, 0

    def left(self) -> bool:
        """Whether there is more."""
        return self.at < len(self.text)

    def peek(self) -> str:
        """Return the next character."""
        return self.text[self.at]

    def take(self) -> str:
        """Return the next character, and go on; an empty text at the end."""
        self.at += 1
        return self.text[self.at - 1 : self.at]

    def starts(self, with_text: str) -> bool:
        """Whether this comes next."""
        return self.text.startswith(with_text, self.at)

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Return what comes next if it is of a pattern, and go on behind it."""
        found = pattern.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found

    def until(self, end: str, *, closed: bool = False) -> str:
        """Return the text before the next ``end``, which is passed where it closes something."""
        place = self.text.find(end, self.at)
        place = len(self.text) if place < 0 else place
        found, self.at = self.text[self.at : place], place + len(end) * closed
        return found

    def balanced(self) -> str:
        """Return a substitution with all of its brackets."""
        start, depth = self.at, 0
        while self.left():
            here = self.take()
            depth += (here == "(") - (here == ")")
            if here == ")" and depth == 0:
                break
        return self.text[start : self.at]


_OPERATIONS: Final[Mapping[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.Mod: operator.mod,
}


_ARITHMETIC = re.compile(r"[\dxA-Fa-f\s()+*/%-]*")


def computed(text: str) -> int | None:
    """Return the value of whole-number arithmetic; None where it is not all numbers, or beyond the shell's 64 bits."""
    try:
        value = _of(ast.parse(text.strip(), mode="eval").body) if _ARITHMETIC.fullmatch(text) else None
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None
    return value if value is not None and abs(value) < 2**63 else None


def _of(node: ast.expr) -> int:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            return _OPERATIONS[type(op)](_of(left), _of(right))
    raise ValueError(ast.unparse(node))


LAUNCHERS: Final = (
    *("torchrun", "deepspeed", "accelerate", "python", "python3", "srun", "mpirun", "vllm", "sglang", "trtllm-serve"),
    *("docker", "podman", "llama-server", "llama-cli", "transformers", "text-generation-launcher", "bash"),
    *("run_train.sh", "uv", "llamafactory-cli", "lmf", "axolotl", "swift", "megatron", "tune", "nemo", "colossalai"),
    *("unsloth", "trl", "litgpt", "lmdeploy", "mlc_llm"),
)
"""Commands that start training or serving."""
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?:\[[@*]\])?(?:(:?[-=])([^}]{0,200}))?\})")
_PLAIN = re.compile(r"(?:[^ \t\r\n;&|<>()'\"\\$]|\$(?![\w{(]))+")
_PLAIN_IN_QUOTES = re.compile(r'[^"\\$]+')
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
_HERE = re.compile(r"""(?<!<)<<-?[ \t]*["']?([A-Za-z_]\w*)""")
_PRINTS = re.compile(r"^[^#]*\b(?:cat|tee|echo|printf|read|true)\b")
_RUNS = re.compile(r"\b(?:sh|bash|zsh|ssh|kubectl|oc|sbatch|srun|qsub|docker|podman|xargs|python3?)\b")
"""Commands, and endings of files, that run the text they are given."""
_ENDS = "\n;&|<>"
LONGEST: Final = 2**19
"""Characters of a script, and of what its variables stand for."""


def looks_like_a_command(text: str) -> bool:
    """Whether a text launches something, perhaps after settings of the environment."""
    if text.startswith("#!"):
        return True
    commands = _Script().commands(text) if len(text) <= LONGEST else []
    return any(_starts_something(words) for words in commands if len(words) > 1)


def launch_words(text: str) -> tuple[str, ...]:
    """Return the words of the longest command of a shell text, which is the one that launches something."""
    commands = commands_of(text)
    launching = [words for words in commands if _starts_something(words)]
    longest: list[str] = max(launching or commands, key=len, default=[])
    return tuple(longest)


def commands_of(text: str) -> list[list[str]]:
    """Return the words of every command of a shell text in order, settings of the environment left out."""
    return [words for words, _, _ in placed_commands(text)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where in a script a command stands."""

    branches: Mapping[int, int]
    """By the ``if`` or ``case`` around it, unless that asks for the node, which of its branches it is in."""
    is_repeated: bool
    """Whether it is run any number of times: in a loop, or in a function that is called several times."""

    def excludes(self, other: "Place") -> bool:
        """Whether one run of the script does not come by both."""
        return any(other.branches.get(number, branch) != branch for number, branch in self.branches.items())


def placed_commands(text: str) -> Iterator[tuple[list[str], Mapping[str, list[str]], Place]]:
    """Yield the words of every command in order, what the variables of the shell hold there, and its place."""
    script = _Script()
    for words in script.commands(text):
        branches = {inner.number: len(inner.ends) for inner in script.branches if not inner.asks_for_node}
        yield words, script.values, Place(branches=branches, is_repeated=any(script.blocks))


def variables_of(text: str) -> dict[str, str]:
    """Return the variables that a shell text has set to one word at its end, those before its commands too."""
    script = _Script()
    for _ in script.commands(text):
        pass
    return {name: words[0] for name, words in script.values.items() if len(words) == 1}


def _starts_something(words: Sequence[str]) -> bool:
    return _program(words) in LAUNCHERS or _program(words).endswith(".py")


def _program(words: Sequence[str]) -> str:
    """The name of the program that a command runs, settings of the environment aside."""
    named = (word for word in words if not _ASSIGNMENT.match(word) and word not in ("env", "exec", "nohup", "sudo"))
    return next(named, "").rpartition("/")[2]


_Values = dict[str, list[str]]
_KEYWORD = re.compile(r"(if|elif|else|then|fi|case|esac|do)(?=[ \t\r\n;])")
_TEST = re.compile(
    r"[ \t]*\[\[?[ \t]+(-[nz](?=[ \t]))?[ \t]*(\S+)(?:[ \t]+(==?|!=|-eq|-ne|-gt|-ge|-lt|-le)[ \t]+(\S+))?"
    r"[ \t]+\]\]?[ \t]*(?=[;\r\n])"
)
"""A test of one or two words."""
_COMPARED: Final[Mapping[str, Callable[[int, int], bool]]] = {
    f"-{name}": getattr(operator, name) for name in ("eq", "ne", "gt", "ge", "lt", "le")
}
_CASE = re.compile(r"[ \t]*(\S+)[ \t]+in(?=\s)")
_NODE = re.compile(r"rank|node|host|worker|index|role|mode", re.IGNORECASE)
"""What a condition asks for that differs between the commands of one run."""
_PATTERN = re.compile(r"\(?[^ \t\r\n;&|<>()'\"$]+(?:[ \t]*\|[ \t]*[^ \t\r\n;&|<>()'\"$]+)*\)")
"""What a branch of ``case`` begins with."""


@dataclass(slots=True)
class _Branches:
    """The branches of an ``if`` or a ``case`` that is not over."""

    before: _Values
    is_case: bool
    number: int
    asks_for_node: bool
    ends: list[_Values] = field(default_factory=list)
    """What variables hold at the end of each branch."""
    is_open: bool = True
    """Perhaps none of the branches is run."""
    word: str | None = None
    """Of a ``case`` what is compared, where that is known."""
    is_run: bool | None = None
    """Whether this branch is run, where its test says."""
    is_decided: bool = False
    """One of the branches before it is run."""

    def end(self, values: _Values) -> None:
        """Keep what a branch has set, unless it is not run."""
        if self.is_run is not False and not self.is_decided:
            self.ends.append(values)
        self.is_decided = self.is_decided or self.is_run is True


@dataclass(slots=True)
class _Script:
    """What a script has assigned so far."""

    values: _Values = field(default_factory=dict)
    branches: list[_Branches] = field(default_factory=list)
    blocks: list[bool] = field(default_factory=list)
    """Loops and functions that are not over, and whether each is run any number of times."""
    taken: int = 0
    """Characters of the script, and of every value that it has passed on."""

    def commands(self, text: str) -> Iterator[list[str]]:
        """Yield the words of every command in order, assignments carried out."""
        self._take(2 * len(text))
        for option, number in _SBATCH.findall(text):
            self.values |= {name: [number] for name in _OF_SLURM.get(option, ())}
        source = Scanner(re.sub(r"\\\r?\n", " ", _without_printed(text)))
        while source.left():
            words = [word for word in self._command(source) if word not in _PASSED_ON]
            if words[-1:] == ["{"] and (name := next((w[:-2] for w in words if w.endswith("()")), words[-2:][0])):
                self.blocks.append(len(re.findall(rf"^[ \t]*{re.escape(name)}\b(?!\s*\()", text, re.MULTILINE)) > 1)
            elif words[:1] in (["done"], ["}"]):
                del self.blocks[-1:]
            if words and not any(inner.is_run is False or inner.is_decided for inner in self.branches):
                yield words

    def _take(self, characters: int) -> None:
        self.taken += characters
        if self.taken > 2 * LONGEST:
            raise InputError(f"with its variables in place the script is longer than {LONGEST // 2**10} KiB, the limit")

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
            elif not words and self._branched(source):
                continue
            elif words in ([], ["export"], ["declare"], ["local"]) and (name := source.match(_ASSIGNMENT)):
                self._assign(name, source)
            else:
                words += self._words(source)
        for gone in words[1:] if words[:1] == ["unset"] else ():
            self.values.pop(gone, None)
        return [] if words in (["export"], ["declare"], ["local"]) else words

    def _branched(self, source: "Scanner") -> bool:
        """Whether a word of ``if`` or ``case`` comes next: each branch begins with what was known before it."""
        inner = self.branches[-1] if self.branches else None
        if inner is not None and inner.is_case and (pattern := source.match(_PATTERN)):
            patterns = [one.strip(" \t") for one in pattern[0].strip("()").split("|")]
            inner.is_open = inner.is_open and patterns != ["*"]
            word = inner.word
            self._end_branch(inner, None if word is None else any(fnmatchcase(word, one) for one in patterns))
            return True
        keyword = source.match(_KEYWORD)
        if keyword is None:
            return False
        if keyword[1] in ("if", "case"):
            compared = _CASE.match(source.text, source.at) if keyword[1] == "case" else None
            here = _Branches(
                before=dict(self.values),
                is_case=keyword[1] == "case",
                number=source.at,
                asks_for_node=_NODE.search(source.text, source.at, source.text.find("\n", source.at)) is not None,
                word=self._literal(compared[1]) if compared else None,
                is_run=self._holds(source) if keyword[1] == "if" else None,
            )
            self.branches.append(here)
            self._take(len(self.values))
        elif inner is not None and keyword[1] in ("elif", "else"):
            inner.is_open = inner.is_open and keyword[1] == "elif"
            self._end_branch(inner, self._holds(source) if inner.is_open else None)
        elif keyword[1] == "do":
            self.blocks.append(True)
        elif inner is not None and keyword[1] in ("fi", "esac"):
            self.branches.pop()
            inner.end(self.values)
            ends = [*inner.ends[inner.is_case :], *([inner.before] if inner.is_open and not inner.is_decided else [])]
            self.values = _merged(ends or [inner.before])
        return True

    def _end_branch(self, inner: _Branches, is_run: bool | None) -> None:
        inner.end(self.values)
        inner.is_run, self.values = is_run, dict(inner.before)
        self._take(len(self.values))

    def _literal(self, text: str) -> str | None:
        """A word of a test without its quotes; None where only running the script would tell."""
        word = "".join(self._inside(text.strip("\"'")))
        return None if "$" in word or "`" in word else word

    def _holds(self, source: "Scanner") -> bool | None:
        """Whether the test that comes next holds; None where only running the script would tell."""
        test = _TEST.match(source.text, source.at)
        left, right = (self._literal(test[n] or "") for n in (2, 4)) if test else (None, None)
        if test is None or left is None or right is None or not (test[1] or test[3]):
            return None
        if test[1]:
            return (not left) is (test[1][1] == "z")
        if test[3] in ("=", "==", "!="):
            return fnmatchcase(left, right) is (test[3] != "!=")
        numbers = [int(side) for side in (left, right) if side.isdecimal()]
        return _COMPARED[test[3]](*numbers) if len(numbers) == len((left, right)) else None

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
            if source.peek() in " \t\r" + _ENDS:  # signs that bash refuses here
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
            elif plain := source.match(_PLAIN):
                pieces.append((plain[0], True))
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
            elif plain := source.match(_PLAIN_IN_QUOTES):
                pieces.append((plain[0], True))
            elif array := source.match(re.compile(r"\$\{(\w+)\[[@*]\]\}")):
                values = self._known(array[1]) or [array[0]]
                separated = [piece for value in values for piece in ((value, True), (" ", False))]
                pieces += separated[:-1]
            else:
                pieces += [(value, True) for value in self._expanded(source)]
        source.take()
        return pieces

    def _expanded(self, source: "Scanner") -> Iterator[str]:
        """The value of a variable or of arithmetic; what cannot be known stays as it is written."""
        if source.starts("$((") or source.starts("$(expr "):
            written = source.balanced()
            inner = "".join(self._inside(written[3:-2] if written[2] == "(" else written[6:-1]))
            result = computed(
                re.sub(r"[A-Za-z_]\w*", lambda found: " ".join(self._known(found[0]) or ()) or found[0], inner)
            )
            yield written if result is None else str(result)
        elif source.starts("$("):
            yield source.balanced()
        elif variable := source.match(_VARIABLE):
            name = variable[1] or variable[2]
            if (values := self._known(name)) is not None:
                yield " ".join(values)
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
                yield source.until("$")

    def _known(self, name: str) -> list[str] | None:
        """The words that a variable holds; None where the script has not set it."""
        words = self.values.get(name)
        self._take(sum(map(len, words or ())) + len(words or ()))
        return words


def _without_printed(text: str) -> str:
    """A script without the texts behind ``<<END`` that a command only prints or copies."""
    lines, kept = iter(text.splitlines(keepends=True)), list[str]()
    ends = {line.strip() for line in text.splitlines()}
    for line in lines:
        kept.append(line)
        begin = _HERE.search(line)
        if begin and begin[1] in ends and _PRINTS.search(line) and not _RUNS.search(line):
            next((inner for inner in lines if inner.strip() == begin[1]), "")
    return "".join(kept)


_WORD = re.compile(r"(?:\$\([^()]*\)|\S)+")
"""A word of a text that the shell cuts at its spaces, but not in what only a run knows."""


def _joined(pieces: Sequence[tuple[str, bool]]) -> list[str]:
    """Pieces as words: whole ones are added to the last word, others are cut at their spaces."""
    words: list[list[str]] = []
    opened = False
    for text, whole in pieces:
        parts = [text] if whole else _WORD.findall(text)
        if not whole and text[:1].isspace():
            opened = False
        for number, part in enumerate(parts):
            if opened and number == 0:
                words[-1].append(part)
            else:
                words.append([part])
            opened = True
        if not whole and text[-1:].isspace():
            opened = False
    return ["".join(parts) for parts in words]


def _merged(ends: Sequence[_Values]) -> _Values:
    """What variables hold behind branches, of which any may have been run."""
    merged: _Values = {}
    for name in dict.fromkeys(name for end in ends for name in end):
        held = list(map(list, dict.fromkeys(tuple(end[name]) for end in ends if name in end)))
        held = [_options_apart(words) for words in held] if len(held) > 1 else held
        shared = 0
        while len(held) > 1 and all(len(words) > shared for words in held) and len({w[shared] for w in held}) == 1:
            shared += 1
        merged[name] = [*held[0][:shared], *_either([words[shared:] for words in held])] if len(held) > 1 else held[0]
    return merged


PERHAPS: Final = " or nothing)"
"""How the value of an option ends that not all branches have."""


def _options_apart(words: Sequence[str]) -> list[str]:
    """Words, of which those that hold several options are cut at their spaces."""
    return [part for word in words for part in (_WORD.findall(word) if word.lstrip().startswith("-") else [word])]


def _either(branches: Sequence[Sequence[str]]) -> list[str]:
    """The words of branches as those of one: an option stands once, its value open if not all have the same."""
    options: dict[str, list[str]] = {}
    for words in branches:
        stated: dict[str, list[str]] = {}
        name = ""
        for word in words:
            written, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
            name = written if word.startswith("-") else name
            stated.setdefault(name, []).extend([value] if equals else [] if word == name else [word])
        for name, values in stated.items():
            options.setdefault(name, []).append(shlex.join(values))
    return [word for name, found in options.items() for word in _value(name, found, len(branches)) if word]


def _value(name: str, found: Sequence[str], branches: int) -> list[str]:
    """The words of an option, its value one that only a run knows where branches differ."""
    everywhere = not name or len(found) == branches
    if everywhere and len({*found}) == 1:
        return [name, *shlex.split(found[0])]
    said = "$(" + " or ".join(one or "set" for one in dict.fromkeys(found)) + (")" if everywhere else PERHAPS)
    return [f"{name}={said}"] if name and "" in found else [name, said]


_SETTING: Final = re.compile(r"[A-Za-z_]\w*\+?=")


def command_line(words: Sequence[str], arguments: Mapping[str, object]) -> str:
    """Return a command with an option a line; an option that is true stands alone, of a list each value follows."""
    return " \\\n    ".join(command_lines(words, arguments))


def command_lines(words: Sequence[str], arguments: Mapping[str, object]) -> list[str]:
    """Return the program and every option of a command as the shell reads them."""
    lines = [" ".join(word if _SETTING.match(word) else _quoted(word) for word in words)] if words else []
    for option, value in arguments.items():
        if value is True:
            lines.append(option)
        elif isinstance(value, list | tuple):
            lines.append(" ".join([option, *(_quoted(v) for v in value)]))
        else:
            lines.append(f"{option} {_quoted(value)}")
    return lines


def _quoted(value: object) -> str:
    """A value for the shell; one with a variable of the shell in it stays as it is."""
    text = str(value)
    return f'"{text}"' if "$" in text else shlex.quote(text)
