# Walk over the batches of a buffer, and read their records.

cdef inline Py_ssize_t whole_batch(const uint8_t *p, Py_ssize_t left) noexcept nogil:
    """Return the size of the batch at `p`, or 0 unless it is a whole batch of magic 2."""
    cdef Py_ssize_t size
    if left < BATCH_HEADER_BYTES or p[BATCH_MAGIC_AT] != BATCH_MAGIC:
        return 0
    size = <Py_ssize_t>wrap32(load32(p + BATCH_BATCH_LENGTH_AT)) + BATCH_BATCH_LENGTH_COUNTS_FROM
    return size if BATCH_HEADER_BYTES <= size <= left else 0


cdef inline bint plain_region(const uint8_t *p, Py_ssize_t size, bint check_crc, Region *region) noexcept:
    """Describe a batch's records; return whether they are data records, uncompressed and undamaged."""
    cdef BatchHeader header
    read_batch_header(p, &header)
    if header.attributes & (BATCH_COMPRESSION_MASK | BATCH_IS_CONTROL_MASK):
        return False
    if check_crc and checksum_of(p + BATCH_CRC_COVERS_FROM, size - BATCH_CRC_COVERS_FROM) != header.crc:
        return False
    return fill_region(region, &header, p + BATCH_HEADER_BYTES, size - BATCH_HEADER_BYTES)


def read_records(
    buffer, topic="", partition=-1, *, bint check_crc=True, Py_ssize_t limit=MAX_DECOMPRESSED_BYTES
):
    """Read records as `walked_records` in `walk.py` does, leaving unusual batches and errors to it."""
    cdef Content content
    cdef const uint8_t *p
    cdef const uint8_t *end
    cdef Py_ssize_t size
    cdef Region region
    cdef list records = None, found
    cdef int32_t number = place_of(topic, partition)
    if PyBytes_CheckExact(buffer):
        p = <const uint8_t *>PyBytes_AS_STRING(buffer)
        end = p + PyBytes_GET_SIZE(buffer)
    else:
        content = export_of(buffer)
        p = <const uint8_t *>content.buffer.buf
        end = p + content.buffer.len
    while p != end:
        size = whole_batch(p, end - p)
        found = read_region(&region, topic, number) if size and plain_region(p, size, check_crc, &region) else None
        if found is None:
            from kafkawire.sdk.records.walk import walked_records

            return walked_records(buffer, topic, partition, check_crc=check_crc, limit=limit, engine="native")
        if records is None:
            records = found
        else:
            records.extend(found)
        p += size
    return [] if records is None else records


@cython.final
cdef class Walk:
    """Iterate over the batches of a buffer (see `python_walk.py`).

    Anything but a whole batch of magic 2 is left to `other`, which returns an older message or raises an error.
    """

    cdef Content content  # the only export, shared by all batches
    cdef object source, other
    cdef Py_ssize_t position, limit
    cdef bint check_crc

    def __init__(self, source, bint check_crc, Py_ssize_t limit, other):
        cdef Content content = export_of(source)
        if self.content is not None:
            raise TypeError("a buffer can be walked over only once")
        self.source = source
        self.check_crc = check_crc
        self.limit = limit
        self.other = other
        self.content = content

    def __iter__(self):
        return self

    def __next__(self):
        cdef const uint8_t *p
        cdef Py_ssize_t position = self.position, left, size
        cdef RecordBatch opened
        if self.content is None or position == self.content.buffer.len:
            raise StopIteration
        self.position = self.content.buffer.len  # an error ends the walk
        p = <const uint8_t *>self.content.buffer.buf + position
        left = self.content.buffer.len - position
        size = whole_batch(p, left)
        if size:
            opened = RecordBatch.__new__(RecordBatch, UNOPENED)
            opened.is_readonly = self.content.buffer.readonly
            opened.owner = self.content
            opened.open(p - position, self.content.buffer.len, position, self.limit)
            size = opened.size_in_bytes
            if self.check_crc:
                opened.verify()
            self.position = position + size
            return opened
        # Rare: a message in an older format, a partial batch, or damaged bytes.
        batch = self.other(self.source, position, self.limit)
        size = batch.size_in_bytes
        if size <= 0 or size > left:
            raise DecodeError("batch", position, f"the batch has {size} bytes, but {left} are left")
        if self.check_crc:
            batch.check_crc()
        self.position = position + size
        return batch
