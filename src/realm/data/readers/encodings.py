"""Bytes of a text file as UTF-8: those with a byte order mark are recognised, others are decoded as the user says.

Nothing is guessed from the text itself: bytes that are not UTF-8 are an error which says how to name the encoding.
"""

from __future__ import annotations

import codecs

import pyarrow as pa

from realm.data.readers.unpacking import in_arrow
from realm.errors import RealmError

BOM = codecs.BOM_UTF8
UTF_32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
HEAD_BYTES = 4096
"""Bytes that an encoding is recognised by: one page of a disk."""
MANY_NULS = 0.2
"""The share of zero bytes from which on a text must be UTF-16: of English text it is a half, of other text less."""
USUAL = 'often "cp1252" for files that Excel saved on Windows, or "utf-16"'


def as_utf8(data: pa.Buffer, source: str, encoding: str | None = None) -> pa.Buffer:
    """The text in UTF-8, without a byte order mark. What is not UTF-8 and has no mark is left for `check_utf8`."""
    head = bytes(data[:HEAD_BYTES])
    if encoding is not None:
        return _decoded(data, head, source, encoding)
    if head.startswith(BOM):
        return data[len(BOM) :]
    if head.startswith(UTF_32):
        return _recoded(bytes(data), source, "utf-32")
    if head.startswith(UTF_16):
        return _recoded(bytes(data), source, "utf-16")
    if head.count(0) > MANY_NULS * len(head):
        raise RealmError(
            f"{source}: every other byte is zero: this looks like UTF-16 without a byte order mark. Give "
            '`encoding="utf-16-le"` (or "utf-16-be"), or save the file as UTF-8.'
        )
    return data


def check_encoding(encoding: str | None) -> None:
    """Refuse a name that is no encoding of text."""
    if encoding is None:
        return
    try:
        codec = codecs.lookup(encoding)
        if not codec._is_text_encoding:
            raise LookupError
    except (LookupError, ValueError):
        raise RealmError(f'`encoding="{encoding}"`: there is no such encoding. It is {USUAL}.') from None


def _decoded(data: pa.Buffer, head: bytes, source: str, encoding: str) -> pa.Buffer:
    name = codecs.lookup(encoding).name
    if name in ("utf-8", "utf-8-sig", "ascii"):  # every byte of ASCII is the same in UTF-8; others are an error below
        return data[len(BOM) :] if head.startswith(BOM) else data
    if head.startswith(BOM) or (_is_single_byte(name) and _is_utf8_beyond_ascii(bytes(data))):
        raise RealmError(
            f"{source}: the text is UTF-8, and would be garbled if it were read as {encoding}. Leave `encoding` out, "
            "or save all files that are read together in one encoding."
        )
    return _recoded(bytes(data), source, encoding)


def _recoded(data: bytes, source: str, encoding: str) -> pa.Buffer:
    try:
        text = data.decode(encoding).removeprefix("\ufeff")
        return in_arrow(text.encode("utf-8"))
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        where = f"{source}, line {line}: byte {error.start:,} (0x{data[error.start]:02x})"
        raise RealmError(f"{where} is not {encoding} text. Name another encoding with `encoding`: {USUAL}.") from None
    except (UnicodeError, ValueError) as error:
        raise RealmError(f"{source}: cannot be read as {encoding} text ({error}).") from None


def _is_single_byte(encoding: str) -> bool:
    """Whether every byte is a character: such an encoding takes any bytes, right or wrong."""
    try:
        return len(bytes(range(128, 256)).decode(encoding, "replace")) == 128 and "a".encode(encoding) == b"a"
    except (UnicodeError, LookupError):
        return False


def _is_utf8_beyond_ascii(data: bytes) -> bool:
    if data.isascii():
        return False
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
