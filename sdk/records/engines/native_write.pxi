# A batch that grows.

cdef enum:
    FIRST_BYTES = 16384  # reserved for a batch before its size is known


@cython.final
cdef class Content:
    """Bytes that are about to be copied; a size of -1 stands for None."""

    cdef Py_buffer buffer
    cdef bint is_held
    cdef const uint8_t *start
    cdef Py_ssize_t size

    def __dealloc__(self):
        if self.is_held:
            PyBuffer_Release(&self.buffer)


@cython.no_gc
@cython.final
@cython.freelist(16)
cdef class BatchBuilder:
    """A batch that grows, see `python_builder.py`."""

    cdef uint8_t *memory
    cdef Py_ssize_t used, reserved, limit_bytes
    cdef int64_t base_timestamp, highest_timestamp
    cdef bytes compressed
    cdef bint is_sealed
    cdef readonly int32_t count
    cdef public int64_t last_offset_delta
    cdef public object compression, level, timestamp_type, log_append_time, base_offset
    cdef public object producer_id, producer_epoch, base_sequence, is_transactional, is_control
    cdef public object partition_leader_epoch, delete_horizon_ms

    def __cinit__(self):
        self.used = BATCH_HEADER_BYTES
        self.last_offset_delta = -1
        self.base_timestamp = self.highest_timestamp = -1

    def __init__(
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
        is_transactional=False,
        is_control=False,
        partition_leader_epoch=-1,
        delete_horizon_ms=None,
    ):
        self.limit_bytes = limit_bytes
        self.compression = compression
        self.level = level
        self.timestamp_type = timestamp_type
        self.log_append_time = log_append_time
        self.base_offset = base_offset
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.is_transactional = is_transactional
        self.is_control = is_control
        self.partition_leader_epoch = partition_leader_epoch
        self.delete_horizon_ms = delete_horizon_ms
        if delete_horizon_ms is not None:
            self.base_timestamp = number("delete_horizon_ms", delete_horizon_ms, -INT64_MAX - 1, INT64_MAX)

    def __dealloc__(self):
        PyMem_Free(self.memory)

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        if not self.is_sealed:
            raise BufferError("a batch is given out when it is sealed")
        PyBuffer_FillInfo(buffer, self, self.memory, self.used, 1, flags)

    @property
    def size_bytes(self):
        return self.used

    def append(self, timestamp, key, value, headers=EMPTY):
        cdef int64_t delta = self.last_offset_delta + 1
        return delta if self.add(delta, time_of(timestamp), key, value, headers) else None

    def append_at(self, offset, timestamp, key, value, headers=EMPTY):
        delta = offset - self.base_offset
        if delta <= self.last_offset_delta:
            last = self.base_offset + self.last_offset_delta
            raise EncodeError("offset", f"{offset} does not follow {last}, offsets increase")
        delta = min(delta, INT64_MAX)
        return delta if self.add(delta, time_of(timestamp), key, value, headers) else None

    def append_many(self, values, timestamp):
        cdef int64_t time = time_of(timestamp)
        cdef Py_ssize_t added = 0
        for value in values:
            if not self.add(self.last_offset_delta + 1, time, None, value, EMPTY):
                break
            added += 1
        return added

    def append_columns(self, values, timestamp, keys=None, Py_ssize_t start=0):
        cdef int64_t time = time_of(timestamp)
        cdef Column value_column = column_of(values)
        cdef Column key_column = None if keys is None else column_of(keys)
        cdef const uint8_t *key = NULL
        cdef const uint8_t *value = NULL
        cdef Py_ssize_t key_size = -1, value_size, row
        if key_column is not None and key_column.rows != value_column.rows:
            raise EncodeError("keys", f"{key_column.rows} keys for {value_column.rows} values")
        if start < 0:
            raise EncodeError("start", f"{start}, rows count from 0")
        for row in range(start, value_column.rows):
            value_size = value_column.at(row, &value)
            if key_column is not None:
                key_size = key_column.at(row, &key)
            if not self.put(self.last_offset_delta + 1, time, key, key_size, value, value_size, EMPTY, 1):
                return row - start
        return max(value_column.rows - start, 0)

    def seal(self):
        cdef uint8_t *batch
        self.check_producer()
        self.is_sealed = True
        if not self.count:
            return memoryview(b"")
        if self.is_plain():
            self.write_header(self.memory, self.used)
            return memoryview(self)
        if self.compressed is None:
            records = memoryview(self)[BATCH_HEADER_BYTES:]
            self.compressed = compress(self.compression, records, self.level)
        result = PyBytes_FromStringAndSize(NULL, BATCH_HEADER_BYTES + PyBytes_GET_SIZE(self.compressed))
        batch = <uint8_t *>PyBytes_AS_STRING(result)
        memcpy(batch + BATCH_HEADER_BYTES, PyBytes_AS_STRING(self.compressed), PyBytes_GET_SIZE(self.compressed))
        self.write_header(batch, PyBytes_GET_SIZE(result))
        return memoryview(result)

    def build(self):
        if self.count and self.is_plain():
            self.check_producer()
            self.is_sealed = True
            self.write_header(self.memory, self.used)
            return PyBytes_FromStringAndSize(<const char *>self.memory, self.used)
        return bytes(self.seal())

    cdef int add(self, int64_t delta, int64_t timestamp, key, value, headers) except -1:
        """Append a record; return 0 if it does not fit."""
        cdef Content key_content, value_content
        cdef const uint8_t *key_start = NULL
        cdef const uint8_t *value_start = NULL
        cdef Py_ssize_t key_size = -1, value_size = -1
        if PyBytes_CheckExact(key):
            key_start = <const uint8_t *>PyBytes_AS_STRING(key)
            key_size = PyBytes_GET_SIZE(key)
        elif key is not None:
            key_content = content("key", key)
            key_start = key_content.start
            key_size = key_content.size
        if PyBytes_CheckExact(value):
            value_start = <const uint8_t *>PyBytes_AS_STRING(value)
            value_size = PyBytes_GET_SIZE(value)
        elif value is not None:
            value_content = content("value", value)
            value_start = value_content.start
            value_size = value_content.size
        if headers is EMPTY or not headers:
            return self.put(delta, timestamp, key_start, key_size, value_start, value_size, EMPTY, 1)
        encoded = []
        return self.put(
            delta, timestamp, key_start, key_size, value_start, value_size, encoded, headers_size(headers, encoded)
        )

    cdef int put(
        self, int64_t delta, int64_t timestamp, const uint8_t *key, Py_ssize_t key_size, const uint8_t *value,
        Py_ssize_t value_size, headers, Py_ssize_t header_bytes
    ) except -1:
        cdef int64_t timestamp_delta, length
        cdef Py_ssize_t total
        cdef bint is_first = self.count == 0
        cdef int64_t base_timestamp = self.base_timestamp
        cdef uint8_t *p
        if self.is_sealed:
            raise EncodeError("", "the batch is sealed")
        if delta > INT32_MAX:
            raise EncodeError("offset", f"{delta} behind the first of the batch, {INT32_MAX} at most")
        if is_first and self.delete_horizon_ms is None:
            base_timestamp = timestamp
        timestamp_delta = wrap64(<uint64_t>timestamp - <uint64_t>base_timestamp)
        if key_size > INT32_MAX or value_size > INT32_MAX or header_bytes > INT32_MAX:
            return 0
        length = 1 + varint_size(timestamp_delta) + varint_size(delta) + varint_size(key_size) + varint_size(value_size)
        length += max(key_size, 0) + max(value_size, 0) + header_bytes
        total = <Py_ssize_t>length + varint_size(length)
        if self.used + total > INT32_MAX or (self.used + total > self.limit_bytes and not is_first):
            return 0
        if self.used + total > self.reserved:
            self.reserve(self.used + total)
        p = put_varint(self.memory + self.used, length)
        p[0] = 0
        p = put_varint(p + 1, timestamp_delta)
        p = put_varint(p, delta)
        p = put_content(p, key, key_size)
        p = put_content(p, value, value_size)
        if headers is EMPTY:
            p[0] = 0
        else:
            put_headers(p, headers)
        self.used += total
        self.base_timestamp = base_timestamp
        if timestamp > self.highest_timestamp:
            self.highest_timestamp = timestamp
        self.last_offset_delta = delta
        self.count += 1
        return 1

    cdef int reserve(self, Py_ssize_t needed) except -1:
        cdef Py_ssize_t wanted = max(self.reserved * 2, max(needed, FIRST_BYTES))
        cdef uint8_t *memory = <uint8_t *>PyMem_Realloc(self.memory, <size_t>wanted)
        if memory == NULL:
            raise MemoryError
        self.memory = memory
        self.reserved = wanted
        return 0

    cdef bint is_plain(self) except -1:
        return self.compression is NONE or self.compression == NONE

    cdef int check_producer(self) except -1:
        """Refuse what no broker would take."""
        if self.producer_id == -1:
            if self.is_transactional:
                raise EncodeError("producer_id", "a transactional batch has one")
        elif self.producer_epoch < 0:
            raise EncodeError("producer_epoch", f"{self.producer_epoch}, with a producer id it is at least 0")
        elif self.base_sequence < 0 and not self.is_control:
            raise EncodeError("base_sequence", f"{self.base_sequence}, with a producer id it is at least 0")
        return 0

    cdef int write_header(self, uint8_t *p, Py_ssize_t size) except -1:
        cdef int attributes = <int>number("compression", self.compression, 0, BATCH_COMPRESSION_MASK)
        cdef int64_t max_timestamp = self.highest_timestamp
        if self.timestamp_type is not CREATE_TIME and self.timestamp_type == LOG_APPEND_TIME:
            attributes |= BATCH_TIMESTAMP_TYPE_MASK
            max_timestamp = number("log_append_time", self.log_append_time, -INT64_MAX - 1, INT64_MAX)
        if self.is_transactional:
            attributes |= BATCH_IS_TRANSACTIONAL_MASK
        if self.is_control:
            attributes |= BATCH_IS_CONTROL_MASK
        if self.delete_horizon_ms is not None:
            attributes |= BATCH_HAS_DELETE_HORIZON_MASK
        if size - BATCH_BATCH_LENGTH_COUNTS_FROM > INT32_MAX:
            raise EncodeError("batch", f"{size} bytes, no batch has more than {INT32_MAX}")
        store64(p + BATCH_BASE_OFFSET_AT, <uint64_t>number("base_offset", self.base_offset, -INT64_MAX - 1, INT64_MAX))
        store32(p + BATCH_BATCH_LENGTH_AT, <uint32_t>(size - BATCH_BATCH_LENGTH_COUNTS_FROM))
        store32(p + BATCH_PARTITION_LEADER_EPOCH_AT, int32("partition_leader_epoch", self.partition_leader_epoch))
        p[BATCH_MAGIC_AT] = BATCH_MAGIC
        store16(p + BATCH_ATTRIBUTES_AT, <uint16_t>attributes)
        store32(p + BATCH_LAST_OFFSET_DELTA_AT, int32("last_offset_delta", self.last_offset_delta))
        store64(p + BATCH_BASE_TIMESTAMP_AT, <uint64_t>self.base_timestamp)
        store64(p + BATCH_MAX_TIMESTAMP_AT, <uint64_t>max_timestamp)
        store64(p + BATCH_PRODUCER_ID_AT, <uint64_t>number("producer_id", self.producer_id, -INT64_MAX - 1, INT64_MAX))
        store16(p + BATCH_PRODUCER_EPOCH_AT, <uint16_t>number("producer_epoch", self.producer_epoch, -32768, 32767))
        store32(p + BATCH_BASE_SEQUENCE_AT, int32("base_sequence", self.base_sequence))
        store32(p + BATCH_RECORDS_COUNT_AT, <uint32_t>self.count)
        store32(p + BATCH_CRC_AT, checksum_of(p + BATCH_CRC_COVERS_FROM, size - BATCH_CRC_COVERS_FROM))
        return 0


@cython.final
cdef class Column:
    """A `BinaryColumn`, see `record.py`."""

    cdef const int32_t[::1] offsets
    cdef const uint8_t[::1] data
    cdef const uint8_t[::1] validity
    cdef bint has_nulls
    cdef Py_ssize_t rows

    cdef Py_ssize_t at(self, Py_ssize_t row, const uint8_t **start) except -2:
        """Point `start` to a value and return its size, -1 for a null."""
        cdef int32_t first = self.offsets[row], end = self.offsets[row + 1]
        if first < 0 or first > end or end > self.data.shape[0]:
            raise EncodeError(f"offsets[{row}]", f"{first} to {end} is no part of {self.data.shape[0]} bytes")
        if self.has_nulls and not self.validity[row >> 3] >> (row & 7) & 1:
            return -1
        start[0] = &self.data[0] + first if self.data.shape[0] else NULL
        return end - first


cdef Column column_of(source):
    cdef Column column = Column()
    column.offsets = source.offsets
    column.data = source.data
    column.rows = len(source)
    column.has_nulls = source.validity is not None
    if column.has_nulls:
        column.validity = source.validity
    return column


cdef Content content(str path, value):
    cdef Content found = Content()
    try:
        PyObject_GetBuffer(value, &found.buffer, PyBUF_SIMPLE)
    except (TypeError, BufferError) as error:
        raise EncodeError(path, f"expected bytes or None, got {type(value).__name__}") from error
    found.is_held = True
    found.start = <const uint8_t *>found.buffer.buf
    found.size = found.buffer.len
    return found


cdef Py_ssize_t headers_size(headers, list encoded) except -1:
    """Encode the names of headers and return what all of them take."""
    cdef Content found
    cdef Py_ssize_t size = varint_size(len(headers))
    for name, value in headers:
        if not isinstance(name, str):
            raise EncodeError("headers", f"expected a string as the name, got {type(name).__name__}")
        text = (<str>name).encode("utf-8", "replace")
        if value is not None and not PyBytes_CheckExact(value):
            found = content("headers", value)
            value = PyBytes_FromStringAndSize(<const char *>found.start, found.size)
        encoded.append((text, value))
        size += varint_size(len(text)) + len(text)
        size += varint_size(-1) if value is None else varint_size(len(value)) + len(value)
    return size


cdef int put_headers(uint8_t *p, list headers) except -1:
    p = put_varint(p, len(headers))
    for name, value in headers:
        p = put_content(p, <const uint8_t *>PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name))
        if value is None:
            p = put_varint(p, -1)
        else:
            p = put_content(p, <const uint8_t *>PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))
    return 0


cdef inline uint8_t *put_content(uint8_t *p, const uint8_t *content, Py_ssize_t size) noexcept nogil:
    p = put_varint(p, size)
    if size > 0:
        memcpy(p, content, <size_t>size)
        p += size
    return p


cdef inline int64_t time_of(value) except -2:
    """Return a timestamp, which is -1 or later."""
    cdef int overflow = 0
    cdef int64_t time = PyLong_AsLongLongAndOverflow(value, &overflow)
    if time < -1 or overflow:
        raise EncodeError("timestamp", f"{value} is not a time in ms, nor -1 for none")
    return time


cdef int64_t number(str path, value, int64_t low, int64_t high) except? -2:
    """Return a number that fits into a field."""
    cdef int overflow = 0
    cdef int64_t found = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow or found < low or found > high:
        raise EncodeError(path, f"{value}, not within {low} and {high}")
    return found


cdef uint32_t int32(str path, value) except? 0xFFFFFFFE:
    return <uint32_t>number(path, value, -2147483648, 2147483647)
