# A batch in a buffer.

@cython.final
cdef class Views:
    """Iterate over the records of a batch."""

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
        self.next = next_record(self.next, self.payload.region.end, &view.parts)
        if self.next == NULL:
            self.given = self.payload.region.count = 0
            self.batch.refuse()
        self.given += 1
        return view


#: A private marker that `Walk` passes to create a batch: passing position and limit as objects would cost more than the
#: batch itself.
cdef object UNOPENED = object()


@cython.no_gc
@cython.final
cdef class RecordBatch:
    """One batch in a buffer (see `python_batch.py`).

    It holds the bytes, or a single export of the buffer, as long as it exists, since all its pointers and views point
    into them.
    """

    cdef object owner
    cdef bint is_readonly
    cdef BatchHeader header
    cdef const uint8_t *start
    cdef readonly Py_ssize_t position, size_in_bytes, limit

    def __cinit__(self, buffer, Py_ssize_t position=0, Py_ssize_t limit=MAX_DECOMPRESSED_BYTES):
        cdef Content content
        if PyBytes_CheckExact(buffer):  # bytes neither move nor change, and need no export
            self.is_readonly = True
            self.owner = buffer
            self.open(<const uint8_t *>PyBytes_AS_STRING(buffer), PyBytes_GET_SIZE(buffer), position, limit)
        elif buffer is not UNOPENED:
            content = export_of(buffer)
            self.is_readonly = content.buffer.readonly
            self.owner = content
            self.open(<const uint8_t *>content.buffer.buf, content.buffer.len, position, limit)

    cdef int open(self, const uint8_t *start, Py_ssize_t size, Py_ssize_t position, Py_ssize_t limit) except -1:
        """Read the header of the batch that begins `position` bytes after the start of the buffer."""
        cdef Py_ssize_t left
        if position < 0 or position > size - BATCH_HEADER_BYTES:
            reason = f"a batch has a header of {BATCH_HEADER_BYTES} bytes, but {<object>size - position} are left"
            raise DecodeError("batch", position, reason)
        left = size - position
        self.start = start + position
        read_batch_header(self.start, &self.header)
        self.position = position
        self.limit = limit
        self.size_in_bytes = <Py_ssize_t>self.header.batch_length + BATCH_BATCH_LENGTH_COUNTS_FROM
        if self.size_in_bytes < BATCH_HEADER_BYTES or self.size_in_bytes > left:
            raise DecodeError(
                "batch_length",
                position + BATCH_BATCH_LENGTH_AT,
                f"the batch has {self.size_in_bytes} bytes, but at least {BATCH_HEADER_BYTES} are needed and "
                f"{left} are left",
            )
        return 0

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, <void *>self.start, self.size_in_bytes, self.is_readonly, flags)

    def __reduce__(self):
        from kafkawire.sdk.records.engines.python_batch import restored_batch

        return restored_batch, (bytes(self), self.limit)

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
        if self.header.base_sequence < -1:  # only in damaged batches, whose records have no sequence
            return java_integers.sequence_after(self.header.base_sequence, self.header.last_offset_delta)
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
        self.verify()

    cdef int verify(self) except -1:
        cdef uint32_t computed = checksum_of(
            self.start + BATCH_CRC_COVERS_FROM, self.size_in_bytes - BATCH_CRC_COVERS_FROM
        )
        if computed != self.header.crc:
            reason = f"the checksum is {self.crc:#010x}, but the content has {computed:#010x}"
            raise DecodeError("crc", self.position, reason)
        return 0

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

    def records(self, topic="", partition=MINUS_ONE):
        partition = place_of(topic, partition)
        cdef Region region
        cdef object owner = self.find_region(&region)  # keeps the memory alive until the last record is created
        cdef list records = read_region(&region, topic, partition)
        if records is None:
            self.refuse()
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
        """Check the record count and return the records."""
        cdef Payload payload = Payload.__new__(Payload)
        payload.owner = self.find_region(&payload.region)
        return payload

    cdef object find_region(self, Region *region):
        """Find the encoded records, check their count, and return the object that keeps them in memory."""
        cdef const uint8_t *start = self.start + BATCH_HEADER_BYTES
        cdef Py_ssize_t size = self.size_in_bytes - BATCH_HEADER_BYTES
        cdef bytes content
        owner = self
        if self.header.records_count < 0:
            size = 0
        elif self.header.attributes & BATCH_COMPRESSION_MASK:
            owner = content = self.payload()
            start = <const uint8_t *>PyBytes_AS_STRING(content)
            size = PyBytes_GET_SIZE(content)
        if not fill_region(region, &self.header, start, size):
            raise DecodeError(
                "records_count",
                self.position,
                f"{region.count} records are counted in {size} bytes, but a record has at least {RECORD_MIN_BYTES}",
            )
        return owner

    cdef int refuse(self) except -1:
        """Raise the Python engine's error for records that were refused here."""
        from kafkawire.sdk.records.engines.python_batch import parts

        for _ in parts(bytes(self.payload()), self.records_count, self.position):
            pass
        raise DecodeError("records", self.position, "changed while they were read")
