# Records and batches, read.

@cython.no_gc
@cython.final
@cython.freelist(1024)
cdef class Record:
    """A record of a batch, see `record.py`."""

    cdef readonly int64_t offset, timestamp
    cdef readonly object key, value, headers, topic
    cdef readonly int32_t sequence, partition

    def __init__(
        self, int64_t offset, int64_t timestamp, key, value, headers=EMPTY, int32_t sequence=-1, str topic="",
        int32_t partition=-1
    ):
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = headers
        self.sequence = sequence
        self.topic = topic
        self.partition = partition

    def __eq__(self, other):
        try:
            return content_of(self) == content_of(other)
        except AttributeError:
            return NotImplemented

    __hash__ = None

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return Record, content_of(self)


cdef struct Span:
    # Where the parts of a record are; a size below 0 is a null.
    int64_t timestamp
    const uint8_t *key
    const uint8_t *value
    const uint8_t *headers
    int32_t offset, key_size, value_size, header_count


@cython.no_gc
@cython.final
@cython.freelist(16)
cdef class Payload:
    """The encoded records of a batch, decompressed, and what keeps them in memory."""

    cdef object owner
    cdef const uint8_t *start
    cdef const uint8_t *end
    cdef int64_t base_offset, base_timestamp, append_time
    cdef bint is_append_time
    cdef int32_t base_sequence, count

    cdef inline int64_t offset_of(self, const Span *span) noexcept nogil:
        return wrap64(<uint64_t>self.base_offset + <uint64_t><int64_t>span.offset)

    cdef inline int64_t timestamp_of(self, const Span *span) noexcept nogil:
        if self.is_append_time:
            return self.append_time
        return wrap64(<uint64_t>self.base_timestamp + <uint64_t>span.timestamp)


@cython.no_gc
@cython.final
@cython.freelist(256)
cdef class RecordView:
    """A record that is decoded attribute by attribute, when each is asked for."""

    cdef Payload payload
    cdef Span span

    @property
    def offset(self):
        return self.payload.offset_of(&self.span)

    @property
    def timestamp(self):
        return self.payload.timestamp_of(&self.span)

    @property
    def sequence(self):
        return sequence_after(self.payload.base_sequence, self.span.offset)

    @property
    def key(self):
        return bytes_or_none(self.span.key, self.span.key_size)

    @property
    def value(self):
        return bytes_or_none(self.span.value, self.span.value_size)

    @property
    def headers(self):
        return headers_of(&self.span, self.payload.end)

    @property
    def topic(self):
        return ""

    @property
    def partition(self):
        return -1

    def __eq__(self, other):
        try:
            return content_of(self) == content_of(other)
        except AttributeError:
            return NotImplemented

    __hash__ = None

    def __repr__(self):
        return described(self)


@cython.final
cdef class Views:
    """The records of a batch one after the other."""

    cdef RecordBatch batch
    cdef Payload payload
    cdef const uint8_t *next
    cdef int32_t given

    def __iter__(self):
        return self

    def __next__(self):
        cdef RecordView view
        if self.payload is None:
            self.payload = self.batch.checked()
            self.next = self.payload.start
        if self.given == self.payload.count:
            if self.given and self.next != self.payload.end:
                self.batch.refuse(self.payload)
            raise StopIteration
        view = RecordView.__new__(RecordView)
        view.payload = self.payload
        self.next = next_span(self.next, self.payload.end, &view.span)
        if self.next == NULL:
            self.given = self.payload.count = 0
            self.batch.refuse(self.payload)
        self.given += 1
        return view


@cython.no_gc
@cython.final
@cython.freelist(16)
cdef class RecordBatch:
    """One batch in a buffer, see `python_batch.py`."""

    cdef Py_buffer buffer
    cdef object source
    cdef const uint8_t *start
    cdef readonly Py_ssize_t position, size_in_bytes, limit
    cdef readonly int64_t base_offset, base_timestamp, max_timestamp, producer_id
    cdef readonly int32_t batch_length, partition_leader_epoch, last_offset_delta, base_sequence, records_count
    cdef readonly uint32_t crc
    cdef readonly int16_t attributes, producer_epoch
    cdef readonly int magic

    def __init__(self, buffer, Py_ssize_t position=0, Py_ssize_t limit=MAX_DECOMPRESSED_BYTES):
        cdef Py_ssize_t left
        cdef const uint8_t *p
        if self.source is not None:
            raise TypeError("a batch is read once")
        PyObject_GetBuffer(buffer, &self.buffer, PyBUF_SIMPLE)
        self.source = buffer
        left = self.buffer.len - position
        if position < 0 or left < BATCH_HEADER_BYTES:
            raise DecodeError("batch", position, f"a batch has a header of {BATCH_HEADER_BYTES} bytes, {left} are left")
        p = self.start = <const uint8_t *>self.buffer.buf + position
        self.base_offset = wrap64(load64(p + BATCH_BASE_OFFSET_AT))
        self.batch_length = wrap32(load32(p + BATCH_BATCH_LENGTH_AT))
        self.partition_leader_epoch = wrap32(load32(p + BATCH_PARTITION_LEADER_EPOCH_AT))
        self.magic = <signed char>p[BATCH_MAGIC_AT]
        self.crc = load32(p + BATCH_CRC_AT)
        self.attributes = <int16_t>load16(p + BATCH_ATTRIBUTES_AT)
        self.last_offset_delta = wrap32(load32(p + BATCH_LAST_OFFSET_DELTA_AT))
        self.base_timestamp = wrap64(load64(p + BATCH_BASE_TIMESTAMP_AT))
        self.max_timestamp = wrap64(load64(p + BATCH_MAX_TIMESTAMP_AT))
        self.producer_id = wrap64(load64(p + BATCH_PRODUCER_ID_AT))
        self.producer_epoch = <int16_t>load16(p + BATCH_PRODUCER_EPOCH_AT)
        self.base_sequence = wrap32(load32(p + BATCH_BASE_SEQUENCE_AT))
        self.records_count = wrap32(load32(p + BATCH_RECORDS_COUNT_AT))
        self.position = position
        self.limit = limit
        self.size_in_bytes = <Py_ssize_t>self.batch_length + BATCH_BATCH_LENGTH_COUNTS_FROM
        if self.size_in_bytes < BATCH_HEADER_BYTES or self.size_in_bytes > left:
            raise DecodeError(
                "batch_length",
                position + BATCH_BATCH_LENGTH_AT,
                f"batch of {self.size_in_bytes} bytes, at least {BATCH_HEADER_BYTES} are needed and {left} are left",
            )

    def __dealloc__(self):
        if self.source is not None:
            PyBuffer_Release(&self.buffer)

    def __repr__(self):
        return f"<RecordBatch of {self.records_count} records, offsets {self.base_offset} to {self.last_offset}>"

    @property
    def data(self):
        return memoryview(self.source).cast("B")[self.position : self.position + self.size_in_bytes]

    @property
    def last_offset(self):
        return wrap64(<uint64_t>self.base_offset + <uint64_t><int64_t>self.last_offset_delta)

    @property
    def next_offset(self):
        return wrap64(<uint64_t>self.base_offset + <uint64_t><int64_t>self.last_offset_delta + 1)

    @property
    def last_sequence(self):
        return sequence_after(self.base_sequence, self.last_offset_delta)

    @property
    def is_transactional(self):
        return (self.attributes & BATCH_IS_TRANSACTIONAL_MASK) != 0

    @property
    def is_control(self):
        return (self.attributes & BATCH_IS_CONTROL_MASK) != 0

    @property
    def delete_horizon_ms(self):
        return self.base_timestamp if self.attributes & BATCH_HAS_DELETE_HORIZON_MASK else None

    @property
    def timestamp_type(self):
        return LOG_APPEND_TIME if self.attributes & BATCH_TIMESTAMP_TYPE_MASK else CREATE_TIME

    @property
    def compression(self):
        number = self.attributes & BATCH_COMPRESSION_MASK
        try:
            return Compression(number)
        except ValueError:
            raise DecodeError("attributes", self.position, f"compression {number} is not known") from None

    def check_crc(self):
        cdef uint32_t computed
        self.check_made()
        computed = checksum_of(self.start + BATCH_CRC_COVERS_FROM, self.size_in_bytes - BATCH_CRC_COVERS_FROM)
        if computed != self.crc:
            raise DecodeError("crc", self.position, f"checksum {self.crc:#010x}, the content has {computed:#010x}")

    def payload(self):
        self.check_made()
        content = self.data[BATCH_HEADER_BYTES:]
        compression = self.compression
        if compression == NONE:
            return content
        try:
            return decompress(compression, content, self.limit, self.magic)
        except DecodeError as error:
            offset = self.position + BATCH_HEADER_BYTES + error.offset
            raise DecodeError(error.path, offset, error.reason) from None

    def records(self, str topic="", int32_t partition=-1):
        cdef Payload payload = self.checked()
        cdef const uint8_t *p = payload.start
        cdef Record record
        cdef Span span
        cdef int32_t index
        # As long as it will be: what is missing after a failure is NULL, and nobody sees the list then.
        cdef list records = PyList_New(payload.count)
        for index in range(payload.count):
            p = next_span(p, payload.end, &span)
            if p == NULL:
                break
            record = Record.__new__(Record)
            record.offset = payload.offset_of(&span)
            record.timestamp = payload.timestamp_of(&span)
            record.key = bytes_or_none(span.key, span.key_size)
            record.value = bytes_or_none(span.value, span.value_size)
            record.headers = headers_of(&span, payload.end) if span.header_count else EMPTY
            record.sequence = sequence_after(payload.base_sequence, span.offset)
            record.topic = topic
            record.partition = partition
            Py_INCREF(record)
            PyList_SET_ITEM(records, index, record)
        if payload.count and p != payload.end:
            self.refuse(payload)
        return records

    def views(self):
        cdef Views views = Views.__new__(Views)
        views.batch = self
        return views

    def columns(self):
        from kafkawire.sdk.records.columns import columns

        return columns([self])

    def to_arrow(self):
        return self.columns().to_arrow()

    cdef int check_made(self) except -1:
        if self.start == NULL:
            raise TypeError("the batch was not read")
        return 0

    cdef Payload checked(self):
        """Return the records, after a look at their count."""
        cdef Payload payload = Payload.__new__(Payload)
        cdef Py_ssize_t size = 0
        self.check_made()
        payload.count = self.records_count
        if payload.count >= 0:
            if self.attributes & BATCH_COMPRESSION_MASK:
                content = self.payload()
                payload.owner = content
                payload.start = <const uint8_t *>PyBytes_AS_STRING(content)
                size = PyBytes_GET_SIZE(content)
            else:
                payload.owner = self
                payload.start = self.start + BATCH_HEADER_BYTES
                size = self.size_in_bytes - BATCH_HEADER_BYTES
        if payload.count < 0 or payload.count > size // RECORD_MIN_BYTES:
            raise DecodeError(
                "records_count",
                self.position,
                f"{payload.count} records in {size} bytes, a record has at least {RECORD_MIN_BYTES}",
            )
        payload.end = payload.start + size
        payload.base_offset = self.base_offset
        payload.base_timestamp = self.base_timestamp
        payload.append_time = self.max_timestamp
        payload.is_append_time = (self.attributes & BATCH_TIMESTAMP_TYPE_MASK) != 0
        payload.base_sequence = self.base_sequence
        return payload

    cdef int refuse(self, Payload payload) except -1:
        """Raise what the twin says about records that the walker refused."""
        from kafkawire.sdk.records.engines.python_batch import spans

        for _ in spans(bytes(self.payload()), self.records_count, self.position):
            pass
        raise DecodeError("records", self.position, "changed while they were read")


@cython.final
cdef class Walk:
    """The batches of a buffer one after the other, see `walk` in `batch.py`.

    What is not plainly a whole batch of magic 2 is left to `other`: it returns an older message, or raises.
    """

    cdef Py_buffer buffer
    cdef object source, other
    cdef Py_ssize_t position, limit
    cdef bint check_crc

    def __init__(self, source, bint check_crc, Py_ssize_t limit, other):
        if self.source is not None:
            raise TypeError("a buffer is walked over once")
        PyObject_GetBuffer(source, &self.buffer, PyBUF_SIMPLE)
        self.source = source
        self.check_crc = check_crc
        self.limit = limit
        self.other = other

    def __dealloc__(self):
        if self.source is not None:
            PyBuffer_Release(&self.buffer)

    def __iter__(self):
        return self

    def __next__(self):
        cdef const uint8_t *p = <const uint8_t *>self.buffer.buf + self.position
        cdef Py_ssize_t left = self.buffer.len - self.position
        cdef Py_ssize_t position = self.position, size = 0
        if left == 0:
            raise StopIteration
        if left >= BATCH_HEADER_BYTES:
            size = <Py_ssize_t>wrap32(load32(p + BATCH_BATCH_LENGTH_AT)) + BATCH_BATCH_LENGTH_COUNTS_FROM
        if size > left or size < BATCH_HEADER_BYTES or p[BATCH_MAGIC_AT] != BATCH_MAGIC:
            # Rare: a message of an older format, a partial batch, or something broken.
            batch = self.other(self.source, position, self.limit)
            size = batch.size_in_bytes
        else:
            batch = RecordBatch(self.source, position, self.limit)
        if self.check_crc:
            batch.check_crc()
        self.position += size
        return batch


cdef const uint8_t *next_span(const uint8_t *p, const uint8_t *end, Span *span) noexcept nogil:
    """Find the parts of the record at `p`; return where it ends, NULL if it is broken."""
    cdef int32_t length, index, size
    p = get_varint(p, end, &length)
    if p == NULL or length <= 0 or length > end - p:
        return NULL
    end = p + length
    p = get_varlong(p + 1, end, &span.timestamp)  # over the attributes, of which no bit means anything
    if p == NULL:
        return NULL
    p = get_varint(p, end, &span.offset)
    if p == NULL:
        return NULL
    p = get_varint(p, end, &span.key_size)
    if p == NULL or span.key_size > end - p:
        return NULL
    span.key = p
    if span.key_size > 0:
        p += span.key_size
    p = get_varint(p, end, &span.value_size)
    if p == NULL or span.value_size > end - p:
        return NULL
    span.value = p
    if span.value_size > 0:
        p += span.value_size
    p = get_varint(p, end, &span.header_count)
    if p == NULL or span.header_count < 0 or span.header_count > (end - p) // RECORD_HEADER_MIN_BYTES:
        return NULL
    span.headers = p
    for index in range(span.header_count):
        p = get_varint(p, end, &size)
        if p == NULL or size < 0 or size > end - p:
            return NULL
        p = get_varint(p + size, end, &size)
        if p == NULL or size > end - p:
            return NULL
        if size > 0:
            p += size
    return p if p == end else NULL


cdef tuple headers_of(const Span *span, const uint8_t *end):
    """Return the headers that `next_span` went over."""
    cdef list headers = []
    cdef const uint8_t *p = span.headers
    cdef const uint8_t *name
    cdef int32_t index, name_size, size
    for index in range(span.header_count):
        name = get_varint(p, end, &name_size)
        if name == NULL or name_size < 0 or name_size > end - name:  # only memory that changes meanwhile comes here
            raise DecodeError("headers", 0, "changed while they were read")
        p = get_varint(name + name_size, end, &size)
        if p == NULL or size > end - p:
            raise DecodeError("headers", 0, "changed while they were read")
        headers.append(
            (PyUnicode_DecodeUTF8(<const char *>name, name_size, PyBytes_AS_STRING(MALFORMED)), bytes_or_none(p, size))
        )
        if size > 0:
            p += size
    return tuple(headers)


cdef inline object bytes_or_none(const uint8_t *p, int32_t size):
    return None if size < 0 else PyBytes_FromStringAndSize(<const char *>p, size)


cdef inline int32_t sequence_after(int32_t base_sequence, int32_t delta) noexcept nogil:
    """Return the sequence number `delta` records later; sums beyond the highest begin again at 0, see the twin."""
    cdef uint32_t sequence
    if base_sequence < 0:
        return -1
    sequence = <uint32_t>base_sequence + <uint32_t>delta
    if delta < 0 or sequence > <uint32_t>INT32_MAX:
        sequence -= <uint32_t>INT32_MAX + 1
    return wrap32(sequence)


cdef tuple content_of(record):
    return (
        record.offset, record.timestamp, record.key, record.value, record.headers, record.sequence, record.topic,
        record.partition,
    )


cdef str described(record):
    place = f"topic={record.topic!r}, partition={record.partition}, " if record.topic else ""
    return (
        f"Record({place}offset={record.offset}, timestamp={record.timestamp}, key={record.key!r}, "
        f"value={record.value!r}, headers={record.headers!r}, sequence={record.sequence})"
    )
