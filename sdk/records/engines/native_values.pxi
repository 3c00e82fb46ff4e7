# What a builder is given, brought into a form that no call into Python can change any more: numbers as C numbers, bytes
# by one held export, headers encoded. All of it happens before memory is reserved.

cdef Content content(str path, value):
    try:
        return export_of(value)
    except TypeError as error:
        raise EncodeError(path, str(error)) from error


cdef bytes encoded_headers(headers, int32_t *count):
    """Return headers as they are written, behind their count."""
    cdef RecordHeaderParts header
    cdef list exact = []
    cdef Py_ssize_t size = 0
    cdef bytes encoded
    cdef uint8_t *p
    for name, value in pairs(headers):
        try:
            encoded = PyUnicode_AsUTF8String(name)
        except (TypeError, UnicodeEncodeError):
            encoded = checked_name(name)  # raises
        if value is not None and not PyBytes_CheckExact(value):
            found = content("headers", value)
            value = PyBytes_FromStringAndSize(<const char *>(<Content>found).buffer.buf, (<Content>found).buffer.len)
        exact.append((encoded, value))
    # From here on nothing but exact tuples and bytes, which nobody else has.
    for name, value in exact:
        if not fill_header(&header, name, value):
            raise EncodeError("headers", f"a name or value is longer than {INT32_MAX} bytes")
        size += record_header_bytes(&header)
    if len(exact) > INT32_MAX or size > INT32_MAX:
        raise EncodeError("headers", f"{len(exact)} headers of {size} bytes, {INT32_MAX} of each at most")
    count[0] = <int32_t>len(exact)
    encoded = PyBytes_FromStringAndSize(NULL, size)
    p = <uint8_t *>PyBytes_AS_STRING(encoded)
    for name, value in exact:
        fill_header(&header, name, value)
        p = write_record_header(p, header)
    return encoded


cdef inline bint fill_header(RecordHeaderParts *header, bytes name, bytes value):
    header.key = <const uint8_t *>PyBytes_AS_STRING(name)
    header.key_size = 0
    header.value = NULL
    header.value_size = -1
    if PyBytes_GET_SIZE(name) > INT32_MAX or (value is not None and PyBytes_GET_SIZE(value) > INT32_MAX):
        return False
    header.key_size = <int32_t>PyBytes_GET_SIZE(name)
    if value is not None:
        header.value = <const uint8_t *>PyBytes_AS_STRING(value)
        header.value_size = <int32_t>PyBytes_GET_SIZE(value)
    return True


cdef inline int64_t time_of(value) except -2:
    """Return a timestamp, which is -1 or later."""
    cdef int overflow = 0
    cdef int64_t time
    value = integer("timestamp_ms", value)
    time = PyLong_AsLongLongAndOverflow(value, &overflow)
    if time < -1 or overflow:
        raise EncodeError("timestamp_ms", f"{digits(value)} is not a time in ms, nor -1 for none")
    return time


cdef inline int64_t number(str path, value, int64_t low, int64_t high) except? -2:
    """Return a number that fits into a field."""
    cdef int overflow = 0
    cdef int64_t found
    value = integer(path, value)
    found = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow or found < low or found > high:
        raise EncodeError(path, f"{digits(value)}, not within {low} and {high}")
    return found


cdef inline object integer(str path, value):
    """Return an int, and call no method of it later."""
    return value if PyLong_Check(value) else whole_number(path, value)


@cython.final
cdef class Column:
    """A `BinaryColumn`, see `record.py`: each of its buffers by one export, whose size alone is believed."""

    cdef Content offsets, data, validity
    cdef Py_ssize_t rows

    cdef int at(self, Py_ssize_t row, const uint8_t **start, int32_t *size) except -1:
        """Point `start` to a value and put its size into `size`, -1 for a null."""
        cdef const uint8_t *ends = <const uint8_t *>self.offsets.buffer.buf + row * sizeof(int32_t)
        cdef int32_t first, end
        memcpy(&first, ends, sizeof(int32_t))
        memcpy(&end, ends + sizeof(int32_t), sizeof(int32_t))
        if first < 0 or first > end or end > self.data.buffer.len:
            raise EncodeError(f"offsets[{row}]", f"{first} to {end} is no part of {self.data.buffer.len} bytes")
        start[0] = NULL
        size[0] = -1
        if self.validity is None or (<const uint8_t *>self.validity.buffer.buf)[row >> 3] >> (row & 7) & 1:
            start[0] = <const uint8_t *>self.data.buffer.buf + first
            size[0] = end - first
        return 0


cdef Column column_of(str path, source):
    cdef Column column = Column.__new__(Column)
    try:
        offsets, data, validity = source.offsets, source.data, source.validity
    except AttributeError:
        raise EncodeError(path, f"expected a BinaryColumn, got {type(source).__name__}") from None
    column.offsets = content("offsets", offsets)
    column.data = content("data", data)
    column.validity = None if validity is None else content("validity", validity)
    if column.offsets.buffer.len % sizeof(int32_t) or not column.offsets.buffer.len:
        raise EncodeError("offsets", f"{column.offsets.buffer.len} bytes are no sequence of int32 with an end")
    column.rows = column.offsets.buffer.len // sizeof(int32_t) - 1
    if column.validity is not None and column.validity.buffer.len * 8 < column.rows:
        raise EncodeError("validity", f"{column.validity.buffer.len} bytes for {column.rows} values")
    return column
