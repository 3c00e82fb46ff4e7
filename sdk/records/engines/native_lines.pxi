# Records as lines of text or JSON; `python_lines.py` describes both forms.

cdef enum:
    #: Size of the buffer, and of one call of `write`.
    LINES_BYTES = 131072
    #: Maximum number of bytes to add to the buffer at a time.
    PIECE_BYTES = 4096
    #: An int64 with its sign.
    DIGITS_MAX = 20
    #: The padding of base64 for sizes that are not multiples of three.
    PADDING = 0x3D


@cython.final
cdef class RecordLines:
    cdef object write
    cdef bytes buffer
    cdef uint8_t *start
    cdef Py_ssize_t used
    cdef bint as_json, with_content, with_gaps
    cdef public bint with_records
    cdef int64_t from_offset
    cdef int32_t headers_shown
    cdef public int64_t next_offset
    cdef readonly int64_t gaps
    cdef readonly object backward

    def __cinit__(
        self,
        write,
        *,
        bint as_json=False,
        bint with_records=True,
        bint with_content=True,
        bint with_gaps=False,
        int64_t next_offset=0,
        int64_t from_offset=0,
        int32_t headers_shown=HEADERS_SHOWN,
    ):
        self.write = write
        self.as_json = as_json
        self.with_records = with_records
        self.with_content = with_content
        self.with_gaps = with_gaps
        self.next_offset = next_offset
        self.from_offset = from_offset
        self.headers_shown = headers_shown
        self.buffer = PyBytes_FromStringAndSize(NULL, LINES_BYTES)
        self.start = <uint8_t *>PyBytes_AS_STRING(self.buffer)

    def put(self, bytes text not None):
        self.put_long(<const uint8_t *>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))

    def flush(self):
        cdef Py_ssize_t used = self.used
        if used:
            self.used = 0
            self.write(PyBytes_FromStringAndSize(<const char *>self.start, used))

    def add(self, RecordBatch batch not None, bytes kind not None, bytes time not None, decode=None):
        cdef Region region
        cdef object owner = batch.find_region(&region)
        cdef const uint8_t *p = region.start
        cdef RecordParts parts
        cdef int32_t index
        cdef int64_t offset
        self.backward = None
        for index in range(region.count):
            p = next_record(p, region.end, &parts)
            if p == NULL:  # `refuse` would create objects for all headers
                raise DecodeError(f"records[{index}]", batch.position, "it is cut or inconsistent")
            offset = offset_of(&region, &parts)
            self.follow(offset)
            if self.with_records and offset >= self.from_offset:
                self.begin(kind, time, offset, timestamp_of(&region, &parts), parts.key_size, parts.value_size)
                self.sequence_and_headers(&region, &parts)
                self.content(decode, offset, parts.key, parts.key_size, parts.value, parts.value_size)
                self.put_c(b"}\n" if self.as_json else b"\n", 2 if self.as_json else 1)
        if p != region.end:
            reason = f"{<object>(region.end - p)} bytes follow the last of {region.count} records"
            raise DecodeError("records", batch.position, reason)
        return region.count

    def add_record(self, record, bytes kind not None, bytes time not None, bytes more not None, decode=None):
        cdef int64_t offset = record.offset
        cdef bytes key = record.key, value = record.value
        cdef Py_ssize_t key_size = -1 if key is None else PyBytes_GET_SIZE(key)
        cdef Py_ssize_t value_size = -1 if value is None else PyBytes_GET_SIZE(value)
        self.backward = None
        self.follow(offset)
        if self.with_records and offset >= self.from_offset:
            self.begin(kind, time, offset, record.timestamp_ms, <int32_t>key_size, <int32_t>value_size)
            self.put(more)
            self.content(
                decode,
                offset,
                NULL if key is None else <const uint8_t *>PyBytes_AS_STRING(key), <int32_t>key_size,
                NULL if value is None else <const uint8_t *>PyBytes_AS_STRING(value), <int32_t>value_size,
            )
            self.put_c(b"}\n" if self.as_json else b"\n", 2 if self.as_json else 1)

    cdef int follow(self, int64_t offset) except -1:
        """Record whether an offset leaves a gap or goes back."""
        if offset != self.next_offset:
            if offset < self.next_offset:
                if self.backward is None:
                    self.backward = offset
            else:
                self.gaps += 1
                if self.with_gaps and offset >= self.from_offset:
                    if self.as_json:
                        self.put(b'{"kind":"gap","after":%d,"next":%d}\n' % (self.next_offset - 1, offset))
                    else:
                        self.put(b"gap: offset %d is followed by %d\n" % (self.next_offset - 1, offset))
        if offset < INT64_MAX:
            self.next_offset = offset + 1
        return 0

    cdef int begin(
        self, bytes kind, bytes time, int64_t offset, int64_t timestamp, int32_t key_size, int32_t value_size
    ) except -1:
        if self.as_json:
            self.put_c(b'{"kind":"', 9)
            self.put(kind)
            self.put_c(b'","offset":', 11)
            self.put_number(offset)
            self.put_c(b',"timestamp":', 13)
            self.put_number(timestamp)
            self.put_c(b',"keySize":', 11)
            self.put_number(max(key_size, -1))
            self.put_c(b',"valueSize":', 13)
        else:
            self.put_c(b"| offset: ", 10)
            self.put_number(offset)
            self.put_c(b" ", 1)
            self.put(time)
            self.put_c(b": ", 2)
            self.put_number(timestamp)
            self.put_c(b" keySize: ", 10)
            self.put_number(max(key_size, -1))
            self.put_c(b" valueSize: ", 12)
        self.put_number(max(value_size, -1))  # other negative numbers also mean null
        return 0

    cdef int sequence_and_headers(self, const Region *region, const RecordParts *parts) except -1:
        cdef const uint8_t *p = parts.headers
        cdef RecordHeaderParts header
        cdef int32_t shown = min(parts.headers_count, self.headers_shown), index
        if self.as_json:
            self.put_c(b',"sequence":', 12)
        else:
            self.put_c(b" sequence: ", 11)
        self.put_number(sequence_after(region.base_sequence, parts.offset_delta))
        if not self.as_json:
            self.put_c(b" headerKeys: [", 14)
            for index in range(shown):
                p = read_record_header(p, region.end, &header)
                if p == NULL:  # reached only if the memory has changed in the meantime
                    raise DecodeError("headers", 0, "changed while they were read")
                if index:
                    self.put_c(b",", 1)
                self.put_text(header.key, header.key_size)
            if shown < parts.headers_count:
                self.put(b",... %d more" % (parts.headers_count - shown))
            self.put_c(b"]", 1)
            if not self.with_content or not shown:
                return 0
            p = parts.headers
            self.put_c(b" headerValues: [", 16)
            for index in range(shown):
                p = read_record_header(p, region.end, &header)
                if p == NULL:
                    raise DecodeError("headers", 0, "changed while they were read")
                if index:
                    self.put_c(b",", 1)
                if header.value_size < 0:
                    self.put_c(b"null", 4)
                else:
                    self.put_text(header.value, header.value_size)
            self.put_c(b"]", 1)
            return 0
        self.put_c(b',"headers":[', 12)
        for index in range(shown):
            p = read_record_header(p, region.end, &header)
            if p == NULL:
                raise DecodeError("headers", 0, "changed while they were read")
            self.put_c(b",{" if index else b"{", 2 if index else 1)
            self.put_field(b'"key', 4, header.key, header.key_size)
            if self.with_content:
                self.put_field(b',"value', 7, header.value, header.value_size)
            self.put_c(b"}", 1)
        self.put_c(b"]", 1)
        if shown < parts.headers_count:
            self.put(b',"headersLeftOut":%d' % (parts.headers_count - shown))
        return 0

    cdef int content(
        self,
        decode,
        int64_t offset,
        const uint8_t *key,
        int32_t key_size,
        const uint8_t *value,
        int32_t value_size,
    ) except -1:
        cdef bint is_whole
        if decode is not None and <int64_t>max(key_size, 0) + max(value_size, 0) <= DECODED_BYTES_MAX:
            text, is_whole = decode(offset, bytes_or_none(key, key_size), bytes_or_none(value, value_size))
            self.put(text)
            if is_whole:
                return 0
        if not self.with_content:
            return 0
        if self.as_json:
            self.put_field(b',"key', 5, key, key_size)
            self.put_field(b',"value', 7, value, value_size)
            return 0
        if key_size >= 0:
            self.put_c(b" key: ", 6)
            self.put_text(key, key_size)
        if value_size >= 0:
            self.put_c(b" payload: ", 10)
            self.put_text(value, value_size)
        return 0

    # Pieces of lines.

    cdef inline int room(self, Py_ssize_t size) except -1:
        """Make room for a piece."""
        if self.used + size > LINES_BYTES:
            self.flush()
        return 0

    cdef inline int put_c(self, const char *text, Py_ssize_t size) except -1:
        self.room(size)
        memcpy(self.start + self.used, text, size)
        self.used += size
        return 0

    cdef int put_long(self, const uint8_t *p, Py_ssize_t size) except -1:
        cdef Py_ssize_t piece
        while size:
            piece = min(size, PIECE_BYTES)
            self.put_c(<const char *>p, piece)
            p += piece
            size -= piece
        return 0

    cdef int put_number(self, int64_t number) except -1:
        cdef uint8_t digits[DIGITS_MAX]
        cdef int at = DIGITS_MAX
        cdef uint64_t rest = <uint64_t>number
        if number < 0:
            rest = 0 - rest
        while True:
            at -= 1
            digits[at] = <uint8_t>(48 + rest % 10)
            rest //= 10
            if not rest:
                break
        if number < 0:
            at -= 1
            digits[at] = 45
        return self.put_c(<const char *>&digits[at], DIGITS_MAX - at)

    cdef int put_text(self, const uint8_t *p, Py_ssize_t size) except -1:
        """Write bytes as text, escaping everything but printable UTF-8."""
        cdef const uint8_t *end = p + size
        cdef const uint8_t *q
        cdef Py_ssize_t length
        while p < end:
            q = p
            while q < end and 32 <= q[0] < 127 and q - p < PIECE_BYTES:
                q += 1
            if q > p:
                self.put_c(<const char *>p, q - p)
                p = q
                continue
            length = utf8_bytes(p, end)
            if length > 1 and not is_unshown(p, length):
                self.put_c(<const char *>p, length)
                p += length
                continue
            length = max(length, 1)
            while length:  # escape each byte of a character that is not shown
                self.put_escaped(p[0])
                p += 1
                length -= 1
        return 0

    cdef int put_escaped(self, uint8_t byte) except -1:
        cdef const char *hexadecimal = b"0123456789abcdef"
        self.room(4)
        self.start[self.used] = 92
        if byte == 10 or byte == 13 or byte == 9:
            self.start[self.used + 1] = 110 if byte == 10 else 114 if byte == 13 else 116
            self.used += 2
            return 0
        self.start[self.used + 1] = 120
        self.start[self.used + 2] = hexadecimal[byte >> 4]
        self.start[self.used + 3] = hexadecimal[byte & 15]
        self.used += 4
        return 0

    cdef int put_field(self, const char *name, Py_ssize_t name_size, const uint8_t *p, int32_t size) except -1:
        """Write a member of a JSON object: text if the bytes are UTF-8, otherwise base64 under another name."""
        cdef bint is_text = size < 0 or is_utf8(p, p + size)
        self.put_c(name, name_size)
        if not is_text:
            self.put_c(b'Base64":"', 9)
            self.put_base64(p, size)
            self.put_c(b'"', 1)
        elif size < 0:
            self.put_c(b'":null', 6)
        else:
            self.put_c(b'":"', 3)
            self.put_json(p, size)
            self.put_c(b'"', 1)
        return 0

    cdef int put_json(self, const uint8_t *p, Py_ssize_t size) except -1:
        """Write UTF-8 as the content of a JSON string."""
        cdef const uint8_t *end = p + size
        cdef const uint8_t *q
        cdef Py_ssize_t length
        while p < end:
            q = p
            while q < end and 32 <= q[0] < 127 and q[0] != 34 and q[0] != 92 and q - p < PIECE_BYTES:
                q += 1
            if q > p:
                self.put_c(<const char *>p, q - p)
                p = q
                continue
            length = utf8_bytes(p, end)
            if length > 1 and not is_unshown(p, length):
                self.put_c(<const char *>p, length)
            elif length == 1:
                self.put_json_escape(p[0])
            elif length == 2:
                self.put_json_escape((p[0] & 0x1F) << 6 | p[1] & 0x3F)
            else:
                self.put_json_escape((p[0] & 0x0F) << 12 | (p[1] & 0x3F) << 6 | p[2] & 0x3F)
            p += length
        return 0

    cdef int put_json_escape(self, uint16_t code) except -1:
        cdef const char *hexadecimal = b"0123456789abcdef"
        cdef uint8_t letter = 0
        if code == 34 or code == 92:
            letter = <uint8_t>code
        elif code == 8:
            letter = 98
        elif code == 9:
            letter = 116
        elif code == 10:
            letter = 110
        elif code == 12:
            letter = 102
        elif code == 13:
            letter = 114
        self.room(6)
        self.start[self.used] = 92
        if letter:
            self.start[self.used + 1] = letter
            self.used += 2
            return 0
        self.start[self.used + 1] = 117
        self.start[self.used + 2] = hexadecimal[code >> 12]
        self.start[self.used + 3] = hexadecimal[code >> 8 & 15]
        self.start[self.used + 4] = hexadecimal[code >> 4 & 15]
        self.start[self.used + 5] = hexadecimal[code & 15]
        self.used += 6
        return 0

    cdef int put_base64(self, const uint8_t *p, Py_ssize_t size) except -1:
        cdef const char *letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
        cdef uint32_t bits
        cdef uint8_t *q
        while size > 0:
            bits = <uint32_t>p[0] << 16
            if size > 1:
                bits |= <uint32_t>p[1] << 8
            if size > 2:
                bits |= p[2]
            self.room(4)
            q = self.start + self.used
            q[0] = letters[bits >> 18]
            q[1] = letters[bits >> 12 & 63]
            q[2] = letters[bits >> 6 & 63] if size > 1 else PADDING
            q[3] = letters[bits & 63] if size > 2 else PADDING
            self.used += 4
            p += 3
            size -= 3
        return 0


cdef inline bint is_unshown(const uint8_t *p, Py_ssize_t length) noexcept nogil:
    """Return whether `shared_lines.py` escapes this character of two bytes or more."""
    if p[0] == 0xE2:
        if p[1] == 0x80:  # U+200B to U+200F, U+2028 to U+202E
            return 0x8B <= p[2] <= 0x8F or 0xA8 <= p[2] <= 0xAE
        return p[1] == 0x81 and 0xA0 <= p[2] <= 0xAF  # U+2060 to U+206F
    if length == 2:  # U+0080 to U+009F, U+061C
        return (p[0] == 0xC2 and p[1] < 0xA0) or (p[0] == 0xD8 and p[1] == 0x9C)
    return p[0] == 0xEF and p[1] == 0xBB and p[2] == 0xBF  # U+FEFF


cdef inline Py_ssize_t utf8_bytes(const uint8_t *p, const uint8_t *end) noexcept nogil:
    """Return the size of the character at `p`, 0 if it is not valid UTF-8: Unicode, table 3-7."""
    cdef uint8_t first = p[0]
    cdef uint8_t low = 0x80, high = 0xBF
    cdef Py_ssize_t length, index
    if first < 0x80:
        return 1
    if 0xC2 <= first <= 0xDF:
        length = 2
    elif 0xE0 <= first <= 0xEF:
        length = 3
        if first == 0xE0:
            low = 0xA0
        elif first == 0xED:
            high = 0x9F
    elif 0xF0 <= first <= 0xF4:
        length = 4
        if first == 0xF0:
            low = 0x90
        elif first == 0xF4:
            high = 0x8F
    else:
        return 0
    if end - p < length or p[1] < low or p[1] > high:
        return 0
    for index in range(2, length):
        if p[index] < 0x80 or p[index] > 0xBF:
            return 0
    return length


cdef bint is_utf8(const uint8_t *p, const uint8_t *end) noexcept nogil:
    cdef Py_ssize_t length
    while p < end:
        length = utf8_bytes(p, end)
        if not length:
            return False
        p += length
    return True
