# The batches of a buffer.

@cython.final
cdef class Walk:
    """The batches of a buffer one after the other, see `walk` in `batch.py`.

    What is not plainly a whole batch of magic 2 is left to `other`: it returns an older message, or raises.
    """

    cdef Content content  # the one export of all its batches
    cdef object source, other
    cdef Py_ssize_t position, limit
    cdef bint check_crc

    def __init__(self, source, bint check_crc, Py_ssize_t limit, other):
        cdef Content content = export_of(source)
        if self.content is not None:
            raise TypeError("a buffer is walked over once")
        self.source = source
        self.check_crc = check_crc
        self.limit = limit
        self.other = other
        self.content = content

    def __iter__(self):
        return self

    def __next__(self):
        cdef const uint8_t *p
        cdef Py_ssize_t position = self.position, left, size = 0
        if self.content is None or position == self.content.buffer.len:
            raise StopIteration
        p = <const uint8_t *>self.content.buffer.buf + position
        left = self.content.buffer.len - position
        if left >= BATCH_HEADER_BYTES:
            size = <Py_ssize_t>wrap32(load32(p + BATCH_BATCH_LENGTH_AT)) + BATCH_BATCH_LENGTH_COUNTS_FROM
        if size > left or size < BATCH_HEADER_BYTES or p[BATCH_MAGIC_AT] != BATCH_MAGIC:
            # Rare: a message of an older format, a partial batch, or something broken.
            batch = self.other(self.source, position, self.limit)
            size = batch.size_in_bytes
            if size <= 0 or size > left:
                raise DecodeError("batch", position, f"batch of {size} bytes, {left} are left")
        else:
            batch = RecordBatch(self.content, position, self.limit)
        if self.check_crc:
            batch.check_crc()
        self.position = position + size
        return batch
