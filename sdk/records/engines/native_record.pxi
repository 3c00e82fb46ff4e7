# One record: an object, or a view that decodes attributes on access.

cdef extern from *:
    """
    #include <structmember.h>

    /* Expose a field of a class through a member descriptor, which lets the interpreter read it directly; Cython's
       properties need a call. The field is never NULL. */
    static int expose(PyObject *kind, PyMemberDef *member, const char *name, Py_ssize_t offset) {
        PyTypeObject *type = (PyTypeObject *)kind;
        member->name = name;
        member->type = T_OBJECT_EX;
        member->offset = offset;
        member->flags = READONLY;
        PyObject *descriptor = PyDescr_NewMember(type, member);
        if (descriptor == NULL) return -1;
        int failed = PyDict_SetItemString(type->tp_dict, name, descriptor);
        Py_DECREF(descriptor);
        PyType_Modified(type);
        return failed;
    }
    """
    ctypedef struct PyMemberDef:
        pass
    int expose(PyObject *kind, PyMemberDef *member, const char *name, Py_ssize_t offset) except -1


@cython.no_gc
@cython.final
@cython.freelist(16)
cdef class Content:
    """The only export of a buffer."""

    cdef Py_buffer buffer

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.buffer.buf, self.buffer.len, self.buffer.readonly, flags)

    def __dealloc__(self):
        PyBuffer_Release(&self.buffer)


cdef Content export_of(source):
    cdef Content content = Content.__new__(Content)
    try:
        PyObject_GetBuffer(source, &content.buffer, PyBUF_SIMPLE)
    except (TypeError, BufferError, ValueError) as error:  # different packages raise different errors
        raise not_bytes(source) from error
    return content


# Keeps freed records for the next batch: as many as there are small records in a batch of 256 KiB, 360 KB in all.
@cython.no_gc
@cython.final
@cython.freelist(4096)
cdef class Record:
    """A record of a topic, or of a batch; it is read-only and hashable.

    Key and value are bytes, or the results of a consumer's deserializers, as in `Record[str, Order]`.

    Attributes:
        offset: its offset in the partition, int64.
        timestamp_ms: milliseconds since the epoch, int64; -1 if it has none.
        key: None if it has none.
        value: None for a tombstone.
        headers: (name, value) in order; names can repeat, and a value can be None.
        sequence: the producer's sequence number, int32; -1 without idempotence.
        topic: the topic that it was read from; empty if unknown.
        partition: the partition that it was read from, int32; -1 if unknown.
        timestamp_type: who set the timestamp: CREATE_TIME (the producer) or LOG_APPEND_TIME (the broker); None where
            the format has no timestamps (magic 0).

    Raises:
        TypeError: an argument has the wrong type.
        OverflowError: a number does not fit its field.
        AttributeError: an attribute is set.
    """

    # A record's values can neither refer back to it nor nest deeply.
    cdef readonly int64_t offset, timestamp_ms
    cdef readonly object key, value, headers, topic
    cdef readonly int32_t sequence, partition
    cdef int8_t time_kind  # the index of its timestamp type in TIMESTAMP_TYPES

    def __init__(
        self, offset, timestamp_ms, key, value, headers=EMPTY, sequence=MINUS_ONE, topic="", partition=MINUS_ONE,
        timestamp_type=CREATE_TIME,
    ):
        cdef int64_t place, time
        cdef int32_t number, part
        cdef int8_t kind = 0
        if not (
            (key is None or PyBytes_CheckExact(key)) and (value is None or PyBytes_CheckExact(value))
            and headers is EMPTY and PyUnicode_CheckExact(topic)
        ):
            check_record(key, value, headers, topic)
        place = field("offset", offset, INT64_MIN, INT64_MAX)
        time = field("timestamp_ms", timestamp_ms, INT64_MIN, INT64_MAX)
        number = <int32_t>field("sequence", sequence, INT32_MIN, INT32_MAX)
        part = <int32_t>field("partition", partition, INT32_MIN, INT32_MAX)
        if timestamp_type is not CREATE_TIME:
            kind = place_of_timestamp_type(timestamp_type)
        if self.headers is not None:
            raise AttributeError("__init__: a record is read-only")
        self.offset = place
        self.timestamp_ms = time
        self.key = key
        self.value = value
        self.headers = headers
        self.sequence = number
        self.topic = topic
        self.partition = part
        self.time_kind = kind

    @property
    def timestamp_type(self):
        return TIMESTAMP_TYPES[self.time_kind]

    @property
    def timestamp(self):
        no_timestamp()

    __class_getitem__ = classmethod(GenericAlias)

    def __setattr__(self, name, value):
        raise AttributeError(f"{name}: a record is read-only")

    def __delattr__(self, name):
        raise AttributeError(f"{name}: a record is read-only")

    def __eq__(self, other):
        return equal(self, other)

    def __hash__(self):
        return hash(content_of(self))

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return restored(self)


cdef PyMemberDef record_members[4]


cdef int expose_fields() except -1:
    """Expose a record's object fields for quick reading; C stores them in declaration order."""
    cdef Record record = Record.__new__(Record)
    cdef const char *start = <const char *><PyObject *>record
    cdef Py_ssize_t place = <const char *>&record.timestamp_ms - start + sizeof(record.timestamp_ms)
    cdef Py_ssize_t index
    cdef const char **names = ["key", "value", "headers", "topic"]
    for index in range(4):
        expose(<PyObject *>Record, &record_members[index], names[index], place)
        place += sizeof(PyObject *)
    if <const char *>&record.sequence - start != place:
        raise SystemError("the fields of a record are not where they were declared")
    return 0


expose_fields()


cdef inline int64_t field(str name, value, int64_t low, int64_t high) except? -2:
    """Check that a number fits the record's field, and return it."""
    cdef int overflow = 0
    cdef int64_t number
    if not PyLong_CheckExact(value):
        value = checked_field(name, value, low, high)
    number = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow or number < low or number > high:
        checked_field(name, value, low, high)  # raises
    return number


cdef inline int32_t place_of(topic, partition) except? -2:
    """Check that a record can hold both topic and partition, and return the partition's number."""
    if not PyUnicode_CheckExact(topic):
        check_record(None, None, EMPTY, topic)
    return <int32_t>field("partition", partition, INT32_MIN, INT32_MAX)


cdef struct Region:
    # The encoded records of a batch, decompressed, and the base values of their deltas.
    const uint8_t *start
    const uint8_t *end
    int64_t base_offset, base_timestamp, append_time
    bint is_append_time
    int32_t base_sequence, count


cdef inline int64_t offset_of(const Region *region, const RecordParts *parts) noexcept nogil:
    return wrap64(<uint64_t>region.base_offset + <uint64_t><int64_t>parts.offset_delta)


cdef inline int64_t timestamp_of(const Region *region, const RecordParts *parts) noexcept nogil:
    if region.is_append_time:
        return region.append_time
    return wrap64(<uint64_t>region.base_timestamp + <uint64_t>parts.timestamp_delta)


cdef enum:
    #: The number of bytes up to and including the key's size, if each number, even the attributes, takes two bytes.
    SHORT_RECORD_HEAD_BYTES = 9


cdef inline const uint8_t *next_record(const uint8_t *p, const uint8_t *end, RecordParts *parts) noexcept nogil:
    """Read a record as `read_record` does, but faster if all its numbers are short and it has no headers."""
    cdef const uint8_t *q
    cdef const uint8_t *stop
    cdef int32_t timestamp_delta
    if end - p >= SHORT_RECORD_HEAD_BYTES:
        q = get_short_varint(p, &parts.length)
        if q != NULL and 0 <= parts.length <= end - q:
            stop = q + parts.length
            q = get_short_varint(q + 1, &timestamp_delta)  # skips the attributes
            if q != NULL:
                q = get_short_varint(q, &parts.offset_delta)
            if q != NULL:
                q = get_short_varint(q, &parts.key_size)
            if q != NULL and max(parts.key_size, 0) < end - q - 1:  # so at least two more bytes follow
                parts.key = q
                if parts.key_size > 0:
                    q += parts.key_size
                q = get_short_varint(q, &parts.value_size)
                if q != NULL and max(parts.value_size, 0) < end - q:  # and at least one after the value
                    parts.value = q
                    if parts.value_size > 0:
                        q += parts.value_size
                    if q[0] == 0 and q + 1 == stop:  # positions only increase, so every part ends before `stop`
                        parts.timestamp_delta = timestamp_delta
                        parts.headers = stop
                        parts.headers_count = 0
                        parts.headers_bytes = 0
                        return stop
    return read_record(p, end, parts)


cdef inline bint fill_region(
    Region *region, const BatchHeader *header, const uint8_t *start, Py_ssize_t size
) noexcept nogil:
    """Describe the encoded records of a batch; return whether that many records can fit into their size."""
    region.start = start
    region.end = start + size
    region.base_offset = header.base_offset
    region.base_timestamp = header.base_timestamp
    region.append_time = header.max_timestamp
    region.is_append_time = (header.attributes & BATCH_TIMESTAMP_TYPE_MASK) != 0
    region.base_sequence = header.base_sequence
    region.count = header.records_count
    return 0 <= region.count <= size // RECORD_MIN_BYTES


cdef list read_region(const Region *region, str topic, int32_t partition):
    """Return the records of a region, or None if they are malformed."""
    cdef const uint8_t *p = region.start
    cdef const uint8_t *end = region.end
    cdef int32_t count = region.count
    cdef Record record
    cdef RecordParts parts
    cdef int32_t index
    cdef bint is_hidden = False
    cdef list records = PyList_New(count)
    Py_SET_SIZE(records, 0)  # all places are allocated, but the empty ones are hidden
    for index in range(count):
        p = next_record(p, end, &parts)
        if p == NULL:
            return None
        record = Record.__new__(Record)
        record.offset = offset_of(region, &parts)
        record.timestamp_ms = timestamp_of(region, &parts)
        record.key = bytes_or_none(parts.key, parts.key_size)
        record.value = bytes_or_none(parts.value, parts.value_size)
        if parts.headers_count:
            # The garbage collector can run now, and code that asks it for all lists must not find and change this one.
            # Hiding every list would cost as much as reading a record.
            PyObject_GC_UnTrack(records)
            is_hidden = True
            record.headers = headers_of(&parts, end)
        else:
            record.headers = EMPTY
        record.sequence = sequence_after(region.base_sequence, parts.offset_delta)
        record.topic = topic
        record.partition = partition
        record.time_kind = region.is_append_time
        Py_INCREF(record)
        PyList_SET_ITEM(records, index, record)
        Py_SET_SIZE(records, index + 1)
    if count and p != end:
        return None
    if is_hidden:
        PyObject_GC_Track(records)
    return records


@cython.no_gc
@cython.final
@cython.freelist(16)
cdef class Payload:
    """The encoded records of a batch, and the object that keeps them in memory."""

    cdef object owner
    cdef Region region


#: The region of a view that was created without one.
cdef Payload NOWHERE = Payload.__new__(Payload)


@cython.no_gc
@cython.final
@cython.freelist(256)
cdef class RecordView:
    """A record whose attributes are decoded on access; it can stand in for a `Record`.

    Its hash depends on its content, so the buffer must not change while the view is in a set.
    """

    cdef Payload payload
    cdef RecordParts parts

    cdef inline const Region *region(self) noexcept:
        return &NOWHERE.region if self.payload is None else &self.payload.region

    @property
    def __class__(self):
        return Record

    @property
    def offset(self):
        return offset_of(self.region(), &self.parts)

    @property
    def timestamp_ms(self):
        return timestamp_of(self.region(), &self.parts)

    @property
    def timestamp_type(self):
        return TIMESTAMP_TYPES[self.region().is_append_time]

    @property
    def timestamp(self):
        no_timestamp()

    @property
    def sequence(self):
        return sequence_after(self.region().base_sequence, self.parts.offset_delta)

    @property
    def key(self):
        return bytes_or_none(self.parts.key, self.parts.key_size)

    @property
    def value(self):
        return bytes_or_none(self.parts.value, self.parts.value_size)

    @property
    def headers(self):
        return headers_of(&self.parts, self.region().end)

    @property
    def topic(self):
        return ""

    @property
    def partition(self):
        return -1

    def __setattr__(self, name, value):
        raise AttributeError(f"{name}: a record is read-only")

    def __delattr__(self, name):
        raise AttributeError(f"{name}: a record is read-only")

    def __eq__(self, other):
        return equal(self, other)

    def __hash__(self):
        return hash(content_of(self))

    def __repr__(self):
        return described(self)

    def __reduce__(self):
        return restored(self)


cdef tuple headers_of(const RecordParts *parts, const uint8_t *end):
    """Return the headers that `read_record` skipped."""
    cdef list headers = []
    cdef const uint8_t *p = parts.headers
    cdef RecordHeaderParts header
    cdef int32_t index
    for index in range(parts.headers_count):
        p = read_record_header(p, end, &header)
        if p == NULL:  # reached only if the memory has changed in the meantime
            raise DecodeError("headers", 0, "changed while they were read")
        headers.append(
            (
                PyUnicode_DecodeUTF8(<const char *>header.key, header.key_size, PyBytes_AS_STRING(MALFORMED)),
                bytes_or_none(header.value, header.value_size),
            )
        )
    return tuple(headers)


cdef inline object bytes_or_none(const uint8_t *p, int32_t size):
    return None if size < 0 else PyBytes_FromStringAndSize(<const char *>p, size)


cdef inline int32_t sequence_after(int32_t base_sequence, int32_t delta) noexcept nogil:
    """Return the sequence number `delta` records later, wrapping to 0 after the highest."""
    cdef uint32_t sequence
    if base_sequence < 0:
        return -1
    sequence = <uint32_t>base_sequence + <uint32_t>delta
    if delta < 0 or sequence > <uint32_t>INT32_MAX:
        sequence -= <uint32_t>INT32_MAX + 1
    return wrap32(sequence)


cdef tuple content_of(record):
    return (
        record.offset, record.timestamp_ms, record.key, record.value, record.headers, record.sequence, record.topic,
        record.partition, record.timestamp_type,
    )


cdef object equal(record, other):
    try:
        return content_of(record) == content_of(other)
    except AttributeError:
        return NotImplemented


cdef tuple restored(record):
    """Return the arguments that recreate a record on any engine."""
    return python_record.restored, content_of(record)
