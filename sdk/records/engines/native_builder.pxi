# A batch that grows, and the checks of its arguments.

cdef enum:
    FIRST_BYTES = 16384  # reserved for a batch whose size is not yet known

    SPARE_BYTES_MAX = 1048576  # by default, no client has a larger batch
    SPARES_MAX = 8  # batches in flight on one connection, plus those being filled meanwhile

#: Memory of freed batches, kept for later ones: allocating and freeing a small block costs as much as appending a
#: record, and mapping the pages of a large block costs more than filling them.
cdef uint8_t *spares[SPARES_MAX]
cdef Py_ssize_t spare_bytes[SPARES_MAX]
cdef int spares_count = 0


@cython.no_gc
@cython.final
@cython.freelist(16)
cdef class BatchBuilder:
    """A batch that grows (see `python_builder.py`)."""

    cdef uint8_t *memory
    cdef Py_ssize_t used, reserved, limit_bytes
    cdef BatchHeader header
    cdef int64_t highest_timestamp
    cdef bytes compressed
    cdef bint is_sealed, is_plain
    cdef readonly int64_t log_append_time
    cdef readonly object compression, level

    def __cinit__(
        self,
        limit_bytes=DEFAULT_BATCH_BYTES,
        compression=NONE,
        *,
        level=None,
        timestamp_type=CREATE_TIME,
        log_append_time=-1,
        base_offset=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        bint is_transactional=False,
        bint is_control=False,
        partition_leader_epoch=-1,
        delete_horizon_ms=None,
    ):
        cdef int attributes = 0
        cdef int64_t horizon
        self.limit_bytes = number("limit_bytes", limit_bytes, 0, INT64_MAX)
        if compression is not NONE or level is not None:
            compression = checked_compression(compression, level)
            attributes = <int>compression * (BATCH_COMPRESSION_MASK & -BATCH_COMPRESSION_MASK)
        if timestamp_type is not CREATE_TIME:
            timestamp_type = checked_timestamp_type(timestamp_type)
            if timestamp_type is LOG_APPEND_TIME:
                attributes |= BATCH_TIMESTAMP_TYPE_MASK
        if is_transactional:
            attributes |= BATCH_IS_TRANSACTIONAL_MASK
        if is_control:
            attributes |= BATCH_IS_CONTROL_MASK
        self.header.base_timestamp = -1
        if delete_horizon_ms is not None:
            horizon = number("delete_horizon_ms", delete_horizon_ms, INT64_MIN, INT64_MAX)
            if horizon >= 0:
                attributes |= BATCH_HAS_DELETE_HORIZON_MASK
                self.header.base_timestamp = horizon
        self.used = BATCH_HEADER_BYTES
        self.highest_timestamp = -1
        self.is_plain = compression is NONE
        self.compression = compression
        self.level = level
        self.header.magic = BATCH_MAGIC
        self.header.attributes = <int16_t>attributes
        self.header.last_offset_delta = -1
        self.log_append_time = self.header.producer_id = -1
        self.header.producer_epoch = -1
        self.header.base_sequence = self.header.partition_leader_epoch = -1
        # Most builders use only defaults; checking each argument would take much of the time needed for a batch of one
        # record.
        if log_append_time is not MINUS_ONE:
            self.log_append_time = number("log_append_time", log_append_time, INT64_MIN, INT64_MAX)
        if base_offset is not ZERO:
            self.header.base_offset = number("base_offset", base_offset, INT64_MIN, INT64_MAX)
        if producer_id is not MINUS_ONE:
            self.header.producer_id = number("producer_id", producer_id, INT64_MIN, INT64_MAX)
        if producer_epoch is not MINUS_ONE:
            self.header.producer_epoch = <int16_t>number("producer_epoch", producer_epoch, INT16_MIN, INT16_MAX)
        if base_sequence is not MINUS_ONE:
            self.header.base_sequence = <int32_t>number("base_sequence", base_sequence, INT32_MIN, INT32_MAX)
        if partition_leader_epoch is not MINUS_ONE:
            self.header.partition_leader_epoch = <int32_t>number(
                "partition_leader_epoch", partition_leader_epoch, INT32_MIN, INT32_MAX
            )

    def __dealloc__(self):
        global spares_count
        if spares_count < SPARES_MAX and self.memory != NULL and self.reserved <= SPARE_BYTES_MAX:
            spares[spares_count] = self.memory
            spare_bytes[spares_count] = self.reserved
            spares_count += 1
        else:
            PyMem_Free(self.memory)

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        if not self.is_sealed or self.memory == NULL:
            raise BufferError("a batch is available once it is sealed and has records")
        PyBuffer_FillInfo(buffer, self, self.memory, self.used, 1, flags)

    @property
    def size_bytes(self):
        return self.used

    @property
    def count(self):
        return self.header.records_count

    @property
    def is_closed(self):
        return self.is_sealed

    @property
    def base_offset(self):
        return self.header.base_offset

    @base_offset.setter
    def base_offset(self, value):
        self.header.base_offset = number("base_offset", value, INT64_MIN, INT64_MAX)

    @property
    def partition_leader_epoch(self):
        return self.header.partition_leader_epoch

    @partition_leader_epoch.setter
    def partition_leader_epoch(self, value):
        self.header.partition_leader_epoch = <int32_t>number("partition_leader_epoch", value, INT32_MIN, INT32_MAX)

    @property
    def last_offset_delta(self):
        return self.header.last_offset_delta

    @last_offset_delta.setter
    def last_offset_delta(self, value):
        value = integer("last_offset_delta", value)  # may run code that appends, so it comes first
        self.header.last_offset_delta = <int32_t>number(
            "last_offset_delta", value, self.header.last_offset_delta, INT32_MAX
        )

    @property
    def producer_id(self):
        return self.header.producer_id

    @producer_id.setter
    def producer_id(self, value):
        self.header.producer_id = number("producer_id", value, INT64_MIN, INT64_MAX)

    @property
    def producer_epoch(self):
        return self.header.producer_epoch

    @producer_epoch.setter
    def producer_epoch(self, value):
        self.header.producer_epoch = <int16_t>number("producer_epoch", value, INT16_MIN, INT16_MAX)

    @property
    def base_sequence(self):
        return self.header.base_sequence

    @base_sequence.setter
    def base_sequence(self, value):
        self.header.base_sequence = <int32_t>number("base_sequence", value, INT32_MIN, INT32_MAX)

    @property
    def is_control(self):
        return (self.header.attributes & BATCH_IS_CONTROL_MASK) != 0

    @property
    def timestamp_type(self):
        return LOG_APPEND_TIME if self.header.attributes & BATCH_TIMESTAMP_TYPE_MASK else CREATE_TIME

    @property
    def delete_horizon_ms(self):
        return self.header.base_timestamp if self.header.attributes & BATCH_HAS_DELETE_HORIZON_MASK else None

    @property
    def is_transactional(self):
        return (self.header.attributes & BATCH_IS_TRANSACTIONAL_MASK) != 0

    @is_transactional.setter
    def is_transactional(self, bint value):
        cdef int others = self.header.attributes & ~BATCH_IS_TRANSACTIONAL_MASK
        self.header.attributes = <int16_t>(others | (BATCH_IS_TRANSACTIONAL_MASK if value else 0))

    def append(self, timestamp_ms, key, value, headers=EMPTY):
        return self.header.last_offset_delta if self.add(time_of(timestamp_ms), key, value, headers, NULL) else None

    def append_at(self, offset, timestamp_ms, key, value, headers=EMPTY):
        cdef int64_t place = number("offset", offset, INT64_MIN, INT64_MAX)
        return self.header.last_offset_delta if self.add(time_of(timestamp_ms), key, value, headers, &place) else None

    def append_many(self, values, timestamp_ms):
        cdef int64_t time = time_of(timestamp_ms)
        cdef Py_ssize_t added = 0
        cdef RecordParts parts
        cdef int fits
        parts.key = NULL
        parts.key_size = -1
        no_headers(&parts)
        for value in values:
            if PyBytes_CheckExact(value) and PyBytes_GET_SIZE(value) <= INT32_MAX:
                parts.value = <const uint8_t *>PyBytes_AS_STRING(value)
                parts.value_size = <int32_t>PyBytes_GET_SIZE(value)
                fits = self.put(time, &parts, NULL)
            else:
                fits = self.add(time, None, value, EMPTY, NULL)
            if not fits:
                break
            added += 1
        return added

    def append_columns(self, values, timestamp_ms, keys=None, start=0):
        cdef int64_t time = time_of(timestamp_ms)
        cdef Py_ssize_t first = number("start", start, 0, PY_SSIZE_T_MAX)
        cdef Column value_column = column_of("values", values)
        cdef Column key_column = None if keys is None else column_of("keys", keys)
        cdef RecordParts parts
        cdef Py_ssize_t row
        if key_column is not None and key_column.rows != value_column.rows:
            raise EncodeError("keys", f"there are {key_column.rows} keys for {value_column.rows} values")
        parts.key_size = -1
        no_headers(&parts)
        for row in range(first, value_column.rows):
            value_column.at(row, &parts.value, &parts.value_size)
            if key_column is not None:
                key_column.at(row, &parts.key, &parts.key_size)
            if not self.put(time, &parts, NULL):
                return row - first
        return max(value_column.rows - first, 0)

    def close(self):
        cdef bint took_records = not self.is_sealed
        self.is_sealed = True
        return took_records

    def seal(self):
        self.check_producer()
        self.is_sealed = True
        if not self.header.records_count:
            return memoryview(b"")
        if self.is_plain:
            self.write_header(self.memory, self.used)
            return PyMemoryView_FromObject(self)
        return PyMemoryView_FromObject(self.sealed_compressed())

    def build(self):
        self.check_producer()
        self.is_sealed = True
        if not self.header.records_count:
            return b""
        if self.is_plain:
            self.write_header(self.memory, self.used)
            return PyBytes_FromStringAndSize(<const char *>self.memory, self.used)
        return self.sealed_compressed()

    cdef bytes sealed_compressed(self):
        cdef bytes batch
        cdef uint8_t *p
        if self.compressed is None:
            self.compressed = compress(
                self.compression, PyMemoryView_FromObject(self)[BATCH_HEADER_BYTES:], self.level
            )
        batch = PyBytes_FromStringAndSize(NULL, BATCH_HEADER_BYTES + PyBytes_GET_SIZE(self.compressed))
        p = <uint8_t *>PyBytes_AS_STRING(batch)
        memcpy(p + BATCH_HEADER_BYTES, PyBytes_AS_STRING(self.compressed), <size_t>PyBytes_GET_SIZE(self.compressed))
        self.write_header(p, PyBytes_GET_SIZE(batch))
        return batch

    cdef int add(self, int64_t timestamp, key, value, headers, const int64_t *place) except -1:
        """Append a record, at a given offset if there is a `place`; return 0 if the record does not fit."""
        cdef Content key_content, value_content
        cdef bytes header_content
        cdef RecordParts parts
        cdef Py_ssize_t key_size = -1, value_size = -1
        parts.key = parts.value = NULL
        if PyBytes_CheckExact(key):
            parts.key = <const uint8_t *>PyBytes_AS_STRING(key)
            key_size = PyBytes_GET_SIZE(key)
        elif key is not None:
            key_content = content("key", key)
            parts.key = <const uint8_t *>key_content.buffer.buf
            key_size = key_content.buffer.len
        if PyBytes_CheckExact(value):
            parts.value = <const uint8_t *>PyBytes_AS_STRING(value)
            value_size = PyBytes_GET_SIZE(value)
        elif value is not None:
            value_content = content("value", value)
            parts.value = <const uint8_t *>value_content.buffer.buf
            value_size = value_content.buffer.len
        if headers is EMPTY:
            no_headers(&parts)
        else:
            header_content = encoded_headers(headers, &parts.headers_count)
            parts.headers = <const uint8_t *>PyBytes_AS_STRING(header_content)
            parts.headers_bytes = PyBytes_GET_SIZE(header_content)
        if key_size > INT32_MAX or value_size > INT32_MAX:
            return 0
        parts.key_size = <int32_t>key_size
        parts.value_size = <int32_t>value_size
        return self.put(timestamp, &parts, place)

    cdef int put(self, int64_t timestamp, RecordParts *parts, const int64_t *place) except -1:
        """Write a record whose parts are all converted; no Python code runs from here on."""
        cdef BatchHeader *header = &self.header
        cdef bint is_first = header.records_count == 0
        cdef int64_t base_timestamp = header.base_timestamp
        cdef int64_t length, total
        if self.is_sealed:
            raise EncodeError("", "the batch is sealed")
        if place == NULL and header.last_offset_delta < INT32_MAX:
            parts.offset_delta = header.last_offset_delta + 1
        else:
            parts.offset_delta = self.next_delta(place)
        if is_first and not header.attributes & BATCH_HAS_DELETE_HORIZON_MASK:
            base_timestamp = timestamp
        parts.timestamp_delta = wrap64(<uint64_t>timestamp - <uint64_t>base_timestamp)
        length = record_bytes(parts)
        total = length + varint_size(length)
        if self.used + total > INT32_MAX or (self.used + total > self.limit_bytes and not is_first):
            return 0
        parts.length = <int32_t>length
        if self.used + total > self.reserved:
            self.reserve(self.used + total)
        write_record(self.memory + self.used, parts[0])
        self.used += total
        header.base_timestamp = base_timestamp
        header.last_offset_delta = parts.offset_delta
        header.records_count += 1
        if timestamp > self.highest_timestamp:
            self.highest_timestamp = timestamp
        return 1

    cdef int32_t next_delta(self, const int64_t *place) except -1:
        """Return the offset of the next record relative to the batch."""
        cdef int64_t last = self.header.last_offset_delta, base_offset = self.header.base_offset
        cdef uint64_t delta = <uint64_t>(last + 1)
        if place != NULL:
            delta = <uint64_t>place[0] - <uint64_t>base_offset
            if place[0] < base_offset or (last >= 0 and delta <= <uint64_t>last):
                raise EncodeError(
                    "offset", f"{place[0]} does not follow {<object>base_offset + last}, but offsets must increase"
                )
        if delta > <uint64_t>INT32_MAX:
            raise EncodeError(
                "offset", f"the record is {delta} after the first of the batch, but at most {INT32_MAX} is allowed"
            )
        return <int32_t>delta

    cdef int reserve(self, Py_ssize_t needed) except -1:
        global spares_count
        cdef Py_ssize_t wanted = max(self.reserved * 2, max(needed, FIRST_BYTES))
        cdef uint8_t *memory
        if self.memory == NULL and spares_count and spare_bytes[spares_count - 1] >= wanted:
            spares_count -= 1
            memory = spares[spares_count]
            wanted = spare_bytes[spares_count]
        else:
            memory = <uint8_t *>PyMem_Realloc(self.memory, <size_t>wanted)
        if memory == NULL:
            raise MemoryError
        if self.memory == NULL:
            # The header of a compressed batch is elsewhere, and callers get that memory as well.
            memset(memory, 0, BATCH_HEADER_BYTES)
        self.memory = memory
        self.reserved = wanted
        return 0

    cdef int check_producer(self) except -1:
        """Refuse producer fields that no broker accepts."""
        cdef const BatchHeader *header = &self.header
        if header.producer_id == -1:
            if header.attributes & BATCH_IS_TRANSACTIONAL_MASK:
                raise EncodeError("producer_id", "a transactional batch needs one")
        elif header.producer_epoch < 0:
            raise EncodeError(
                "producer_epoch", f"{header.producer_epoch} is too low: with a producer id it is at least 0"
            )
        elif header.base_sequence < 0 and not header.attributes & BATCH_IS_CONTROL_MASK:
            raise EncodeError(
                "base_sequence", f"{header.base_sequence} is too low: with a producer id it is at least 0"
            )
        return 0

    cdef int write_header(self, uint8_t *p, Py_ssize_t size) except -1:
        cdef BatchHeader *header = &self.header
        cdef bint is_append_time = (header.attributes & BATCH_TIMESTAMP_TYPE_MASK) != 0
        if size - BATCH_BATCH_LENGTH_COUNTS_FROM > INT32_MAX:
            raise EncodeError("batch", f"there are {size} bytes, but no batch has more than {INT32_MAX}")
        header.batch_length = <int32_t>(size - BATCH_BATCH_LENGTH_COUNTS_FROM)
        header.max_timestamp = self.log_append_time if is_append_time else self.highest_timestamp
        write_batch_header(p, header)
        store32(p + BATCH_CRC_AT, checksum_of(p + BATCH_CRC_COVERS_FROM, size - BATCH_CRC_COVERS_FROM))
        return 0


cdef inline void no_headers(RecordParts *parts) noexcept nogil:
    parts.headers = NULL
    parts.headers_count = 0
    parts.headers_bytes = 0


cdef Py_ssize_t append_plain(
    object builder,
    int64_t timestamp,
    const uint8_t *key,
    int32_t key_size,
    const uint8_t *value,
    int32_t value_size,
    int32_t *index,
) except -1:
    cdef RecordParts parts
    cdef BatchBuilder batch = <BatchBuilder?>builder
    parts.key = key
    parts.key_size = key_size
    parts.value = value
    parts.value_size = value_size
    no_headers(&parts)
    if batch.is_sealed or not batch.put(timestamp, &parts, NULL):
        return 0
    index[0] = batch.header.last_offset_delta
    return batch.used


# Before any memory is reserved, arguments are converted into a form that Python code can no longer change: C numbers,
# held exports of bytes, and encoded headers.

cdef Content content(str path, value):
    try:
        return export_of(value)
    except TypeError as error:
        raise EncodeError(path, str(error)) from error


cdef bytes encoded_headers(headers, int32_t *count):
    """Return the encoded headers, preceded by their count."""
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
    # From here on, everything is an exact tuple or bytes object that no other code can reach.
    for name, value in exact:
        if not fill_header(&header, name, value):
            raise EncodeError("headers", f"a name or value is longer than {INT32_MAX} bytes")
        size += record_header_bytes(&header)
    if len(exact) > INT32_MAX or size > INT32_MAX:
        raise EncodeError(
            "headers", f"there are {len(exact)} headers of {size} bytes, but at most {INT32_MAX} of each are allowed"
        )
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
    """Check that a timestamp is at least -1, and return it."""
    cdef int overflow = 0
    cdef int64_t time
    value = integer("timestamp_ms", value)
    time = PyLong_AsLongLongAndOverflow(value, &overflow)
    if time < -1 or overflow:
        raise EncodeError("timestamp_ms", f"{digits(value)} is not a time in ms, nor -1 for none")
    return time


cdef inline int64_t number(str path, value, int64_t low, int64_t high) except? -2:
    """Check that a number fits its field, and return it."""
    cdef int overflow = 0
    cdef int64_t found
    value = integer(path, value)
    found = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow or found < low or found > high:
        raise EncodeError(path, f"{digits(value)} is not within {low} and {high}")
    return found


cdef inline object integer(str path, value):
    """Return a plain int, whose methods are never overridden."""
    return value if PyLong_Check(value) else whole_number(path, value)


@cython.final
cdef class Column:
    """A `BinaryColumn` (see `record.py`): a single export of each buffer; only the export's size is trusted."""

    cdef Content offsets, data, validity
    cdef Py_ssize_t rows

    cdef int at(self, Py_ssize_t row, const uint8_t **start, int32_t *size) except -1:
        """Point `start` at a value and store its size in `size`, -1 for a null."""
        cdef const uint8_t *ends = <const uint8_t *>self.offsets.buffer.buf + row * sizeof(int32_t)
        cdef int32_t first, end
        memcpy(&first, ends, sizeof(int32_t))
        memcpy(&end, ends + sizeof(int32_t), sizeof(int32_t))
        if first < 0 or first > end or end > self.data.buffer.len:
            raise EncodeError(f"offsets[{row}]", f"{first} to {end} is not within {self.data.buffer.len} bytes")
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
        raise EncodeError("offsets", f"{column.offsets.buffer.len} bytes are not a sequence of int32 with an end")
    column.rows = column.offsets.buffer.len // sizeof(int32_t) - 1
    if column.validity is not None and column.validity.buffer.len * 8 < column.rows:
        raise EncodeError("validity", f"{column.validity.buffer.len} bytes are too few for {column.rows} values")
    return column
