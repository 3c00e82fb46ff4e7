"""The names in a certificate: its subject in the text form in which Java, and therefore Kafka, names its principal, and
the alternative names.

The certificate is DER; only the paths to the names are read, since OpenSSL has already checked the rest.

    Certificate ─▶ TBSCertificate ─▶ [version] serial signature issuer validity SUBJECT ─▶ RDN ─▶ type, value
                                 └─▶ key … EXTENSIONS ─▶ subjectAltName ─▶ names

Source: RFC 5280 (certificates), RFC 2253 (names); `X500Principal.getName` in OpenJDK.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

__all__ = ["alternative_names_of", "subject_of"]

#: The attribute types that RFC 2253 names; others are written as their numbers.
_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}

_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_OBJECT_IDENTIFIER: Final = 0x06
_EXPLICIT_VERSION: Final = 0xA0

#: The types of strings that Java writes as text: UTF8, Printable, T61, IA5, General and BMP.
_STRINGS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})

#: The characters that are written with a backslash; "=" and "#" need none, but Java adds it.
_ESCAPED: Final = frozenset(',=+<>#;"\\')

#: The characters that Java takes for spaces at the ends of a value.
_SPACES: Final = frozenset(" \r")

#: The tag of the extensions, and the encoded type of the one with the alternative names (2.5.29.17).
_EXTENSIONS: Final = 0xA3
_ALTERNATIVE_NAMES: Final = bytes.fromhex("551d11")

#: The fields of a certificate between the optional version and the subject: serial number, signature, issuer, validity.
_FIELDS_BEFORE_SUBJECT: Final = 4


class _Element(NamedTuple):
    """An element of DER.

    Attributes:
        tag: its type.
        content: its content.
        encoding: the whole element.
    """

    tag: int
    content: bytes
    encoding: bytes


def subject_of(certificate: bytes) -> str:
    """Return the name of a certificate's owner, for example `CN=alice,OU=billing,O=Example`.

    Args:
        certificate: the certificate in DER.

    Raises:
        ValueError: the certificate is malformed.
    """
    to_be_signed = _only(_only(certificate).content)
    fields = _elements(to_be_signed.content)
    first = next(fields, None)
    skipped = _FIELDS_BEFORE_SUBJECT if first is not None and first.tag == _EXPLICIT_VERSION else 0
    for _ in range(skipped or _FIELDS_BEFORE_SUBJECT - 1):
        next(fields, None)
    subject = next(fields, None)
    if subject is None or subject.tag != _SEQUENCE:
        raise ValueError("the certificate has no subject")
    # RFC 2253 begins with the last name.
    return ",".join(reversed([_relative_name(each) for each in _elements(subject.content)]))


def alternative_names_of(certificate: bytes) -> frozenset[bytes]:
    """Return the alternative names of a certificate's owner, each as it is encoded.

    Args:
        certificate: the certificate in DER.

    Raises:
        ValueError: the certificate is malformed.
    """
    fields = _elements(_only(_only(certificate).content).content)
    extensions = next((each for each in fields if each.tag == _EXTENSIONS), None)
    if extensions is None:
        return frozenset()
    for extension in _elements(_only(extensions.content).content):
        parts = list(_elements(extension.content))  # a type, perhaps whether it is critical, and the value
        if parts and parts[0].content == _ALTERNATIVE_NAMES:
            return frozenset(name.encoding for name in _elements(_only(parts[-1].content).content))
    return frozenset()


def _relative_name(element: _Element) -> str:
    if element.tag != _SET:
        raise ValueError("a part of the subject is not a set")
    return "+".join(map(_attribute, _elements(element.content)))


def _attribute(element: _Element) -> str:
    parts = list(_elements(element.content))
    if len(parts) != 2 or parts[0].tag != _OBJECT_IDENTIFIER:
        raise ValueError("a part of the subject is not a type with a value")
    number, value = _number(parts[0].content), parts[1]
    keyword = _KEYWORDS.get(number)
    if keyword is None or value.tag not in _STRINGS:
        return f"{keyword or number}=#{value.encoding.hex()}"
    return f"{keyword}={_text(value.content)}"


def _text(content: bytes) -> str:
    """Return a value with escapes; Java reads every type of string as UTF-8."""
    text = content.decode(errors="replace")
    escaped = [_escape(each) for each in text]
    first = next((place for place, each in enumerate(text) if each not in _SPACES), len(text))
    last = next((place for place in reversed(range(len(text))) if text[place] not in _SPACES), -1)
    for place, each in enumerate(text):
        if (place < first or place > last) and each in _SPACES:
            escaped[place] = f"\\{each}"
    return "".join(escaped)


def _escape(character: str) -> str:
    if character == "\0":
        return "\\00"
    return f"\\{character}" if character in _ESCAPED else character


def _number(content: bytes) -> str:
    """Return an object identifier in dotted form."""
    values = [0]
    for byte in content:
        values[-1] = values[-1] << 7 | byte & 0x7F
        if not byte & 0x80:
            values.append(0)
    if len(values) < 2 or values.pop() != 0:
        raise ValueError("an object identifier is malformed")
    first = min(values[0] // 40, 2)
    return ".".join(map(str, (first, values[0] - first * 40, *values[1:])))


def _only(data: bytes) -> _Element:
    """Return the first element, which must be a sequence."""
    element = next(_elements(data), None)
    if element is None or element.tag != _SEQUENCE:
        raise ValueError("the certificate is not a sequence")
    return element


def _elements(data: bytes) -> Iterator[_Element]:
    """Yield the elements of DER.

    Raises:
        ValueError: an element is incomplete.
    """
    place = 0
    while place < len(data):
        begin = place
        try:
            tag, length = data[place], data[place + 1]
        except IndexError:
            raise ValueError("an element of the certificate is incomplete") from None
        place += 2
        if length & 0x80:
            size = length & 0x7F
            length = int.from_bytes(data[place : place + size], "big")
            place += size
        if place + length > len(data):
            raise ValueError("an element of the certificate is incomplete")
        yield _Element(tag, data[place : place + length], data[begin : place + length])
        place += length
