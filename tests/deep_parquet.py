"""Parquet files whose column is nested deep."""

FAR_TOO_DEEP = 100_000
"""Levels of which no library makes a file."""


def varint(value: int) -> bytes:
    return bytes([value & 0x7F | 0x80]) + varint(value >> 7) if value > 0x7F else bytes([value])


def of_structs(levels: int) -> bytes:
    """A file without rows, whose column is a struct in a struct in a struct, in Thrift's compact protocol."""
    root, struct, leaf = b"\x48\x01r\x15\x02\x00", b"\x35\x02\x18\x01a\x15\x02\x00", b"\x15\x04\x25\x02\x18\x01v\x00"
    schema = b"\xfc" + varint(levels + 2) + root + struct * levels + leaf
    footer = b"\x15\x02\x19" + schema + b"\x16\x00\x19\x0c\x00"
    return b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"
