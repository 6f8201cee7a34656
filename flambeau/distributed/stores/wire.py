"""The protocol between a store over TCP and its server: frames of byte strings.

A frame is its length, a code and fields, each behind its length. A request's code says what to do, a reply's how it went. Nothing is ever
unpickled here; what the bytes mean is their users' business.
"""

from __future__ import annotations

import enum
import struct

__all__ = ["LONGEST", "Request", "Status", "Unreadable", "pack", "unpack"]

LONGEST = 1 << 28  # bytes of a frame: more is no message of ours
_HEAD, _LENGTH = struct.Struct("!IB"), struct.Struct("!I")


class Unreadable(ValueError):
    """Bytes that are no frame."""


class Request(enum.IntEnum):
    SET = 1
    GET = 2  # and wait for the keys
    ADD = 3
    CHECK = 4
    WAIT = 5
    COMPARE_SET = 6
    DELETE = 7
    COUNT = 8
    LIST = 9
    APPEND = 10
    PUSH = 11
    POP = 12
    LENGTH = 13
    WATCH = 14  # a member of a group says that it lives; answered when one was lost, or after a while
    LEAVE = 15  # a member goes, and is not lost
    BLAME = 16  # a member tells that another one is lost


class Status(enum.IntEnum):
    GOOD = 0
    LATE = 1  # the time was over
    EMPTY = 2  # nothing in the queue
    WRONG = 3  # the request cannot be served; the field says why


def pack(code: int, fields: list[bytes]) -> bytes:
    """A frame."""
    body = b"".join([_LENGTH.pack(len(field)) + field for field in fields])
    if len(body) > LONGEST:
        raise ValueError(f"store: a message of {len(body)} bytes, expected at most {LONGEST}")
    return _HEAD.pack(len(body), code) + body


def unpack(data: bytearray) -> tuple[int, list[bytes]] | None:
    """Take the first frame out of what came: its code and fields. None while it is not whole.

    Raises:
        Unreadable: this is no frame, or a longer one than is read.
    """
    if len(data) < _HEAD.size:
        return None
    size, code = _HEAD.unpack_from(data)
    if size > LONGEST:
        raise Unreadable(f"a frame of {size} bytes")
    end = _HEAD.size + size
    if len(data) < end:
        return None
    fields, at = [], _HEAD.size
    while at < end:
        if at + _LENGTH.size > end:
            raise Unreadable("a frame that ends within a field's length")
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if at + length > end:
            raise Unreadable("a field longer than its frame")
        fields.append(bytes(data[at : at + length]))
        at += length
    del data[:end]
    return code, fields
