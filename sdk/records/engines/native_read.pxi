# The batches of a buffer.

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
        cdef const uint8_t* p = <const uint8_t*>self.buffer.buf + self.position
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
            if size <= 0 or size > left:
                raise DecodeError("batch", position, f"batch of {size} bytes, {left} are left")
        else:
            batch = RecordBatch(self.source, position, self.limit)
        if self.check_crc:
            batch.check_crc()
        self.position += size
        return batch
