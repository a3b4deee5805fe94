"""Mutations of bytes: files that are cut, damaged, joined, packed, or claim to be larger than they are."""

import gzip
import re
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Final

from fuzzing.values import one_of

_ODD = (b"\0", b"\xef\xbb\xbf", b"\xff\xfe", b"\xed\xa0\x80", b"\r", b"\n\n", b"\x1b[0m", b'"', b"[", b"{", b"}", b",")
_DIGITS = re.compile(rb"\d+")
BOMB_BYTES: Final = 2**27
"""Unpacked bytes of the largest packed file."""


def mutated(rng: Random, content: bytes, others: Sequence[bytes] = ()) -> bytes:
    """Return content with a few damages."""
    for _ in range(rng.choice([1, 1, 2, 4])):
        content = rng.choice(_DAMAGES)(rng, content, others)
    return content


def _span(rng: Random, content: bytes, most: int = 64) -> tuple[int, int]:
    begin = rng.randint(0, len(content))
    return begin, min(len(content), begin + rng.randint(0, most))


def _cut(rng: Random, content: bytes, _: Sequence[bytes]) -> bytes:
    return content[: rng.randint(0, len(content))]


def _flipped(rng: Random, content: bytes, __: Sequence[bytes]) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 4, 16])):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _of_end(rng: Random, content: bytes, __: Sequence[bytes]) -> bytes:
    """Damage of the last bytes, where Parquet and ZIP say what they hold."""
    changed = bytearray(content)
    for _ in range(rng.choice([1, 2, 8])):
        if changed:
            changed[-rng.randint(1, min(len(changed), 400))] = rng.choice([0, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    return bytes(changed)


def _without(rng: Random, content: bytes, _: Sequence[bytes]) -> bytes:
    begin, end = _span(rng, content)
    return content[:begin] + content[end:]


def _inserted(rng: Random, content: bytes, _: Sequence[bytes]) -> bytes:
    at = rng.randint(0, len(content))
    piece = rng.choice(
        [rng.choice(_ODD), rng.randbytes(rng.randint(1, 20)), rng.choice(_ODD) * rng.choice([50, 5_000])]
    )
    return content[:at] + piece + content[at:]


def _repeated(rng: Random, content: bytes, _: Sequence[bytes]) -> bytes:
    begin, end = _span(rng, content, 200)
    return content[:begin] + content[begin:end] * rng.choice([2, 10, 1_000]) + content[end:]


def _joined(rng: Random, content: bytes, others: Sequence[bytes]) -> bytes:
    other = rng.choice(others) if others else content
    return content[: rng.randint(0, len(content))] + other[rng.randint(0, len(other)) :]


def _counted(rng: Random, content: bytes, _: Sequence[bytes]) -> bytes:
    """Another number in place of a written one."""
    found = list(_DIGITS.finditer(content[:100_000]))
    if not found:
        return content
    one = rng.choice(found)
    written = rng.choice([b"-1", b"0", b"9" * rng.choice([2, 20, 400, 5_000]), b"1e400", b"nan", b"1.5", b""])
    return content[: one.start()] + written + content[one.end() :]


def _recoded(rng: Random, content: bytes, _: Sequence[bytes]) -> bytes:
    text = content.decode("utf-8", "replace")
    return text.encode(rng.choice(["utf-16", "utf-8-sig", "utf-32", "utf-7"]), "replace")


_DAMAGES: Sequence[Callable[[Random, bytes, Sequence[bytes]], bytes]] = (
    *(_cut, _flipped, _flipped, _of_end, _without, _inserted, _inserted, _repeated, _joined, _counted, _counted),
    _recoded,
)


def claimed(rng: Random, parquet: bytes) -> bytes:
    """Return Parquet that says another number somewhere in its footer: of rows, bytes or places."""
    length = int.from_bytes(parquet[-8:-4], "little")
    body, footer = parquet[: -8 - length], parquet[-8 - length : -8]
    at = rng.randrange(len(footer))
    number = _varint(rng.choice([10**9, 10**12, 2**40, 2**62]) * 2)
    return _with_footer(body, footer[:at] + number + footer[at + 1 :])


def nested(levels: int) -> bytes:
    """Return Parquet without rows whose column is a struct in a struct in a struct, in Thrift's compact protocol."""
    root, struct, leaf = b"\x48\x01r\x15\x02\0", b"\x35\x02\x18\x01a\x15\x02\0", b"\x15\x04\x25\x02\x18\x01v\0"
    schema = b"\xfc" + _varint(levels + 2) + root + struct * levels + leaf
    return _with_footer(b"PAR1", b"\x15\x02\x19" + schema + b"\x16\0\x19\x0c\0")


def _varint(number: int) -> bytes:
    return bytes([number & 0x7F | 0x80]) + _varint(number >> 7) if number > 0x7F else bytes([number])


def _with_footer(body: bytes, footer: bytes) -> bytes:
    return body + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def packed(rng: Random, content: bytes) -> bytes:
    """Return content packed by gzip: whole, damaged, in two members, or of a wrong size."""
    whole = gzip.compress(content, mtime=0)
    return one_of(
        rng,
        [
            lambda: whole,
            lambda: mutated(rng, whole),
            lambda: whole[: rng.randint(0, len(whole))],
            lambda: whole + gzip.compress(content, mtime=0),
            lambda: whole + b"behind the end",
            lambda: whole[:-4] + rng.randbytes(4),
        ],
    )


@cache
def bomb(begin: bytes, filling: bytes, end: bytes, size: int = BOMB_BYTES) -> bytes:
    """Return a small packed file that unpacks into ``size`` bytes of filling between a begin and an end."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    piece = filling * (2**20 // len(filling))
    packed_pieces = [packer.compress(begin)] + [packer.compress(piece) for _ in range(size // len(piece))]
    return b"".join([*packed_pieces, packer.compress(end), packer.flush()])


def noise(rng: Random) -> bytes:
    """Return bytes without any sense."""
    return rng.randbytes(rng.choice([0, 1, 10, 300, 5_000]))
