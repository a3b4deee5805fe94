"""Values that files should not hold: numbers, texts and nested containers of every odd kind."""

import math
import string
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, TypeVar

T = TypeVar("T")

NUMBERS: Final[tuple[float, ...]] = (
    *(0, -1, 1, 2, 3, 7, -0.0, 0.5, -2.5, 1e-9, 1e-320, 1e300, 1e309, math.inf, -math.inf, math.nan),
    *(2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**9, 10**12, 10**18),
)
WORDS: Final = (
    *("", " ", "0", "-1", "1e3", "1e999", "nan", "inf", "-inf", "0x10", "1_000", "1,000", "1.5.2", "٣", "½", "null"),
    *("true", "false", "none", "yes", "~", "~root/x", "../..", "/dev/null", "/proc/self/mem", ".", "a/b", "=", "@"),
    *("\x00", "\x1b[31m", "\r\n", "\ud800", "\u202e", "é" * 40, "🦙", "{}", "[]", "[1, 2", "{any: [1]}", "*a", "&a x"),
    *("80 GB", "8x", "0x a100-sxm-80gb", "-8x a100-sxm-80gb", "1e9x h100-sxm-80gb", "80 parsecs", "1 TB / s", "5 us"),
    *("4k", "1e400k", "300B", "30d", "1M", "2020-09", "2024-02-30T25:61:61", "__class__", "%s%n", "${x}", "`x`"),
    *("auto", "all", "latest", "llama-2-7b", "h100-sxm-80gb", "vllm", "bf16", "fp8", "p99", "p99.9"),
)
UNITS: Final = (
    *("B", "GB", "GiB", "TB/s", "us", "ms", "s", "min", "h", "d", "W", "kW", "USD", "k", "M", "T", "%", "x", "tokens"),
    *("GHz", "nm", "mm2", "/h"),
)


def one_of(rng: Random, makers: Sequence[Callable[[], T]]) -> T:
    """Return what one of several functions makes."""
    return rng.choice(makers)()


def number(rng: Random) -> Any:
    """Return a number at an edge of some type, of any size, or one that no text holds."""
    return one_of(
        rng,
        [
            lambda: rng.choice(NUMBERS),
            lambda: rng.randint(-10, 100),
            lambda: rng.choice([-1, 1]) * 10 ** rng.randint(1, 400),
            lambda: rng.uniform(-1.0, 1.0) * 10.0 ** rng.randint(-300, 300),
            lambda: 2 ** rng.randint(0, 70) + rng.randint(-1, 1),
        ],
    )


def text(rng: Random) -> str:
    """Return a word that looks like something, characters of any kind, or a text of any length."""
    return one_of(
        rng,
        [
            lambda: rng.choice(WORDS),
            lambda: rng.choice(WORDS) * rng.choice([2, 20, 3_000]),
            lambda: f"{number(rng)!s:.400} {rng.choice(UNITS)}",
            lambda: f"{rng.randint(0, 99)}{rng.choice(UNITS)}",
            lambda: "".join(rng.choice(string.printable) for _ in range(rng.randint(1, 30))),
            lambda: "".join(chr(rng.randrange(1, 0x3000)) for _ in range(rng.randint(1, 20))),
        ],
    )


def scalar(rng: Random) -> Any:
    """Return any value that is no container."""
    return one_of(rng, [lambda: number(rng), lambda: text(rng), lambda: rng.choice([None, True, False, number(rng)])])


def container(rng: Random) -> Any:
    """Return a list or mapping: empty, small, long or deep."""
    makers: list[Callable[[], Any]] = [
        list,
        dict,
        lambda: [scalar(rng) for _ in range(rng.randint(1, 4))],
        lambda: {rng.choice(WORDS): scalar(rng) for _ in range(rng.randint(1, 4))},
        lambda: [scalar(rng)] * rng.choice([100, 10_000]),
        lambda: {f"key{place}": place for place in range(rng.choice([100, 5_000]))},
        lambda: deep(rng, scalar(rng)),
    ]
    return one_of(rng, makers)


def deep(rng: Random, value: Any) -> Any:
    """Return a value inside of many lists or mappings."""
    word = rng.choice([None, None, "any", "same_as", "x"])
    for _ in range(rng.choice([2, 5, 60, 150, 500])):
        value = [value] if word is None else {word: value}
    return value


def anything(rng: Random) -> Any:
    """Return any value."""
    return rng.choice([scalar, scalar, container])(rng)
