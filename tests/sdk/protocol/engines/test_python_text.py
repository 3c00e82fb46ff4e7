"""The generated code is straight-line Python, and refuses bytes that it cannot read.

Method: compare it with handwritten code for small layouts.
"""

from __future__ import annotations

from kafkawire.sdk.protocol.engines.python_text import python_text
from kafkawire.sdk.protocol.layout import layout
from kafkawire.sdk.protocol.messages.fetch import FetchResponse
from kafkawire.sdk.protocol.messages.headers import RequestHeader


def test_text() -> None:
    assert python_text(layout(RequestHeader, 1)) == (
        '# s0 = Struct(">hhi"); read_… is its unpack_from, write_… its pack\n'
        '# s1 = Struct(">h"); read_… is its unpack_from, write_… its pack\n'
        "# RequestHeader_0 = RequestHeader\n"
        "\n"
        "def decode(b, o, end, view):\n"
        "    m = new(RequestHeader_0)\n"
        "    m.request_api_key, m.request_api_version, m.correlation_id = read_s0(b, o); o += 8\n"
        "    n1, = read_s1(b, o); o += 2\n"
        "    if n1 < 0: m.client_id = None\n"
        "    else:\n"
        "        e = o + n1\n"
        "        if e > end or n1 > 32767: raise Refused\n"
        '        m.client_id = b[o:e].decode("utf-8", "kafkawire.java"); o = e\n'
        "    m.unknown_tags = ()\n"
        "    return m, o\n"
        "\n"
        "\n"
        "def encode(m, pieces, records):\n"
        "    a = pieces.append\n"
        "    if type(m) is not RequestHeader_0: raise Refused\n"
        "    a(write_s0(m.request_api_key, m.request_api_version, m.correlation_id))\n"
        "    v2 = m.client_id\n"
        "    if v2 is None: a(b'\\xff\\xff')\n"
        "    else:\n"
        "        v2 = encode_text(v2); n3 = len(v2)\n"
        "        if n3 > 32767: raise Refused\n"
        "        a(write_s1(n3))\n"
        "        a(v2)\n"
        "    if m.unknown_tags is not NO_TAGS and not is_default(m.unknown_tags, ()): raise Refused\n"
    )


def test_fields_of_fixed_size_are_read_together() -> None:
    assert 'Struct(">ihqq")' in python_text(layout(FetchResponse, 4))


def test_a_structure_that_nobody_set_is_not_made() -> None:
    text = python_text(layout(FetchResponse, 12))
    assert "._current_leader = DEFAULT" in text
    assert "LeaderIdAndEpoch_3()" not in text.partition("def encode")[0]
