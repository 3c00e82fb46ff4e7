# A batch in a buffer.

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
            if self.batch is None:
                raise StopIteration
            self.payload = self.batch.checked()
            self.next = self.payload.region.start
        if self.given == self.payload.region.count:
            if self.given and self.next != self.payload.region.end:
                self.batch.refuse()
            raise StopIteration
        view = RecordView.__new__(RecordView)
        view.payload = self.payload
        self.next = read_record(self.next, self.payload.region.end, &view.parts)
        if self.next == NULL:
            self.given = self.payload.region.count = 0
            self.batch.refuse()
        self.given += 1
        return view


@cython.no_gc
@cython.final
@cython.freelist(16)
cdef class RecordBatch:
    """One batch in a buffer, see `python_batch.py`.

    It holds the bytes, or one export of the buffer, from when it is made to its end: all pointers and views lead there.
    """

    cdef object owner
    cdef bint is_readonly
    cdef BatchHeader header
    cdef const uint8_t *start
    cdef readonly Py_ssize_t position, size_in_bytes, limit

    def __cinit__(self, buffer, Py_ssize_t position=0, Py_ssize_t limit=MAX_DECOMPRESSED_BYTES):
        cdef Content content
        cdef Py_ssize_t left
        if PyBytes_CheckExact(buffer):  # they neither move nor change, and need no export
            self.start = <const uint8_t *>PyBytes_AS_STRING(buffer)
            left = PyBytes_GET_SIZE(buffer)
            self.is_readonly = True
            self.owner = buffer
        else:
            content = buffer if type(buffer) is Content else export_of(buffer)
            self.start = <const uint8_t *>content.buffer.buf
            left = content.buffer.len
            self.is_readonly = content.buffer.readonly
            self.owner = content
        if position < 0 or position > left - BATCH_HEADER_BYTES:
            reason = f"a batch has a header of {BATCH_HEADER_BYTES} bytes, {<object>left - position} are left"
            raise DecodeError("batch", position, reason)
        left -= position
        self.start += position
        read_batch_header(self.start, &self.header)
        self.position = position
        self.limit = limit
        self.size_in_bytes = <Py_ssize_t>self.header.batch_length + BATCH_BATCH_LENGTH_COUNTS_FROM
        if self.size_in_bytes < BATCH_HEADER_BYTES or self.size_in_bytes > left:
            raise DecodeError(
                "batch_length",
                position + BATCH_BATCH_LENGTH_AT,
                f"batch of {self.size_in_bytes} bytes, at least {BATCH_HEADER_BYTES} are needed and {left} are left",
            )

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, <void *>self.start, self.size_in_bytes, self.is_readonly, flags)

    def __repr__(self):
        return f"<RecordBatch of {self.records_count} records, offsets {self.base_offset} to {self.last_offset}>"

    @property
    def base_offset(self):
        return self.header.base_offset

    @property
    def batch_length(self):
        return self.header.batch_length

    @property
    def partition_leader_epoch(self):
        return self.header.partition_leader_epoch

    @property
    def magic(self):
        return self.header.magic

    @property
    def crc(self):
        return self.header.crc

    @property
    def attributes(self):
        return self.header.attributes

    @property
    def last_offset_delta(self):
        return self.header.last_offset_delta

    @property
    def base_timestamp(self):
        return self.header.base_timestamp

    @property
    def max_timestamp(self):
        return self.header.max_timestamp

    @property
    def producer_id(self):
        return self.header.producer_id

    @property
    def producer_epoch(self):
        return self.header.producer_epoch

    @property
    def base_sequence(self):
        return self.header.base_sequence

    @property
    def records_count(self):
        return self.header.records_count

    @property
    def data(self):
        return PyMemoryView_FromObject(self)

    @property
    def last_offset(self):
        return wrap64(<uint64_t>self.header.base_offset + <uint64_t><int64_t>self.header.last_offset_delta)

    @property
    def next_offset(self):
        return wrap64(<uint64_t>self.header.base_offset + <uint64_t><int64_t>self.header.last_offset_delta + 1)

    @property
    def last_sequence(self):
        return sequence_after(self.header.base_sequence, self.header.last_offset_delta)

    @property
    def is_transactional(self):
        return (self.header.attributes & BATCH_IS_TRANSACTIONAL_MASK) != 0

    @property
    def is_control(self):
        return (self.header.attributes & BATCH_IS_CONTROL_MASK) != 0

    @property
    def delete_horizon_ms(self):
        return self.header.base_timestamp if self.header.attributes & BATCH_HAS_DELETE_HORIZON_MASK else None

    @property
    def timestamp_type(self):
        return LOG_APPEND_TIME if self.header.attributes & BATCH_TIMESTAMP_TYPE_MASK else CREATE_TIME

    @property
    def compression(self):
        number = (self.header.attributes & BATCH_COMPRESSION_MASK) // (BATCH_COMPRESSION_MASK & -BATCH_COMPRESSION_MASK)
        try:
            return Compression(number)
        except ValueError:
            raise DecodeError("attributes", self.position, f"compression {number} is not known") from None

    def check_crc(self):
        cdef uint32_t computed = checksum_of(
            self.start + BATCH_CRC_COVERS_FROM, self.size_in_bytes - BATCH_CRC_COVERS_FROM
        )
        if computed != self.header.crc:
            raise DecodeError("crc", self.position, f"checksum {self.crc:#010x}, the content has {computed:#010x}")

    def payload(self):
        content = self.data[BATCH_HEADER_BYTES:]
        compression = self.compression
        if compression == NONE:
            return content
        try:
            return decompress(compression, content, self.limit, self.magic)
        except DecodeError as error:
            offset = self.position + BATCH_HEADER_BYTES + error.offset
            raise DecodeError(error.path, offset, error.reason) from None

    def records(self, str topic not None="", int32_t partition=-1):
        cdef Region region
        cdef object owner = self.find_region(&region)  # alive until the last record is made
        cdef const uint8_t *p = region.start
        cdef int32_t count = region.count
        cdef Record record
        cdef RecordParts parts
        cdef int32_t index
        # As long as it will be, and out of the garbage collector's sight until nothing in it is NULL.
        cdef list records = PyList_New(count)
        PyObject_GC_UnTrack(records)
        for index in range(count):
            p = read_record(p, region.end, &parts)
            if p == NULL:
                break
            record = Record.__new__(Record)
            record.offset = offset_of(&region, &parts)
            record.timestamp = timestamp_of(&region, &parts)
            record.key = bytes_or_none(parts.key, parts.key_size)
            record.value = bytes_or_none(parts.value, parts.value_size)
            record.headers = headers_of(&parts, region.end) if parts.headers_count else EMPTY
            record.sequence = sequence_after(region.base_sequence, parts.offset_delta)
            record.topic = topic
            record.partition = partition
            Py_INCREF(record)
            PyList_SET_ITEM(records, index, record)
        if count and p != region.end:
            self.refuse()
        PyObject_GC_Track(records)
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

    cdef Payload checked(self):
        """Return the records, after a look at their count."""
        cdef Payload payload = Payload.__new__(Payload)
        payload.owner = self.find_region(&payload.region)
        return payload

    cdef object find_region(self, Region *region):
        """Find the encoded records, look at their count, and return what keeps them in memory."""
        cdef Py_ssize_t size = 0
        cdef bytes content
        owner = self
        region.start = NULL
        region.count = self.header.records_count
        if region.count >= 0:
            if self.header.attributes & BATCH_COMPRESSION_MASK:
                owner = content = self.payload()
                region.start = <const uint8_t *>PyBytes_AS_STRING(content)
                size = PyBytes_GET_SIZE(content)
            else:
                region.start = self.start + BATCH_HEADER_BYTES
                size = self.size_in_bytes - BATCH_HEADER_BYTES
        if region.count < 0 or region.count > size // RECORD_MIN_BYTES:
            raise DecodeError(
                "records_count",
                self.position,
                f"{region.count} records in {size} bytes, a record has at least {RECORD_MIN_BYTES}",
            )
        region.end = region.start + size
        region.base_offset = self.header.base_offset
        region.base_timestamp = self.header.base_timestamp
        region.append_time = self.header.max_timestamp
        region.is_append_time = (self.header.attributes & BATCH_TIMESTAMP_TYPE_MASK) != 0
        region.base_sequence = self.header.base_sequence
        return owner

    cdef int refuse(self) except -1:
        """Raise what the Python engine says about records that were refused here."""
        from kafkawire.sdk.records.engines.python_batch import parts

        for _ in parts(bytes(self.payload()), self.records_count, self.position):
            pass
        raise DecodeError("records", self.position, "changed while they were read")
