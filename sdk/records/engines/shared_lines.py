"""What every engine's `RecordLines` shares: limits, and the conversion of bytes to text or JSON.

Text shows bytes as UTF-8. Characters that could move a terminal's cursor, end a line, reverse text or hide in it are
escaped (`\\n`, `\\r`, `\\t`, `\\x1b`), as are bytes that are not valid UTF-8. Backslashes are not escaped, so only the
JSON form is exact.
"""

from __future__ import annotations

import base64
import codecs
import json
import re
from collections.abc import Iterator

__all__ = ["DECODED_BYTES_MAX", "HEADERS_SHOWN", "json_member", "text_pieces"]

#: Maximum number of headers shown for one record. A batch of 9 KB can decompress to one record with 49 million headers.
HEADERS_SHOWN = 1000

#: Maximum total size of a key and value that are decoded, in bytes. Messages take up to 64 times as much memory as
#: their encoding (docs/limits.md), and their JSON takes more: in total, structures of four bytes take 140 times as
#: much. Together with the 32 MiB of a decompressed batch, that must stay within 200 MB. A broker's own records are
#: usually a few kilobytes in size, and at most 1 MiB unless the broker is configured otherwise (`message.max.bytes`).
DECODED_BYTES_MAX = 768 * 1024

#: Size of the pieces in which long values are converted, to avoid holding more than one copy of a large value.
PIECE_BYTES = 64 * 1024

#: Characters that JSON allows but that a terminal does not show: control characters, line separators, and marks that
#: have no width or change the direction of text.
_UNSHOWN_CHARACTERS = r"\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
_UNSHOWN = re.compile(f"[{_UNSHOWN_CHARACTERS}]")
_CONTROL = re.compile(rf"[\x00-\x1f{_UNSHOWN_CHARACTERS}]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def text_pieces(data: memoryview) -> Iterator[bytes]:
    """Yield bytes as printable text."""
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    for at in range(0, len(data), PIECE_BYTES):
        piece = data[at : at + PIECE_BYTES]
        text = decoder.decode(piece, at + len(piece) == len(data))
        yield (_CONTROL.sub(_escaped, text) if not text.isprintable() else text).encode()


def _escaped(found: re.Match[str]) -> str:
    return _SHORT.get(found[0]) or "".join(f"\\x{byte:02x}" for byte in found[0].encode())


def json_member(name: bytes, data: memoryview | None) -> Iterator[bytes]:
    """Yield a member of a JSON object: text if the bytes are UTF-8, otherwise base64 under the name plus `Base64`."""
    if data is None:
        yield b'"%s":null' % name
    elif _is_utf8(data):
        yield b'"%s":"' % name
        decoder = codecs.getincrementaldecoder("utf-8")()
        for at in range(0, len(data), PIECE_BYTES):
            piece = data[at : at + PIECE_BYTES]
            text = json.dumps(decoder.decode(piece, at + len(piece) == len(data)), ensure_ascii=False)
            yield _UNSHOWN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)[1:-1].encode()
        yield b'"'
    else:
        yield b'"%sBase64":"' % name
        piece_bytes = PIECE_BYTES // 3 * 3  # a multiple of 3, so only the end has padding
        for at in range(0, len(data), piece_bytes):
            yield base64.b64encode(data[at : at + piece_bytes])
        yield b'"'


def _is_utf8(data: memoryview) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for at in range(0, len(data), PIECE_BYTES):
            decoder.decode(data[at : at + PIECE_BYTES], at + PIECE_BYTES >= len(data))
    except UnicodeDecodeError:
        return False
    return True
