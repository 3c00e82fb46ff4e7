# The extent of the batches in a buffer (see `python_extent.py`).

def read_extent(buffer):
    """Measure batches as `python_extent.py` does, up to the first one that is not plain.

    Returns:
        The size of the measured batches; the offset after them, the leader epoch of the last one, and the offset after
        the last data batch, each None if there is no such batch; the number of records that data batches declare; and
        whether a partial batch follows.
    """
    cdef Content content = export_of(buffer)
    cdef const uint8_t *p = <const uint8_t *>content.buffer.buf
    cdef const uint8_t *end = p + content.buffer.len
    cdef const uint8_t *last = NULL
    cdef const uint8_t *last_data = NULL
    cdef int64_t count = 0
    cdef BatchHeader header
    cdef Py_ssize_t size = whole_batch(p, end - p)
    while size:
        last = p
        read_batch_header(p, &header)
        if not header.attributes & BATCH_IS_CONTROL_MASK:
            last_data = p
            count += max(header.records_count, 0)
        p += size
        size = whole_batch(p, end - p)
    return (
        p - <const uint8_t *>content.buffer.buf,
        None if last == NULL else offset_after(last),
        None if last == NULL else wrap32(load32(last + BATCH_PARTITION_LEADER_EPOCH_AT)),
        None if last_data == NULL else offset_after(last_data),
        count,
        begins_batch(p, end - p),
    )


cdef inline int64_t offset_after(const uint8_t *p) noexcept nogil:
    """Return the offset after the batch whose header is at `p`."""
    cdef int32_t delta = wrap32(load32(p + BATCH_LAST_OFFSET_DELTA_AT))
    return wrap64(load64(p + BATCH_BASE_OFFSET_AT) + <uint64_t><int64_t>delta + 1)


cdef inline bint begins_batch(const uint8_t *p, Py_ssize_t left) noexcept nogil:
    """Return whether a batch of magic 2 that continues beyond the buffer certainly begins at `p`."""
    cdef Py_ssize_t size
    if left <= BATCH_MAGIC_AT or p[BATCH_MAGIC_AT] != BATCH_MAGIC:
        return False
    size = <Py_ssize_t>wrap32(load32(p + BATCH_BATCH_LENGTH_AT)) + BATCH_BATCH_LENGTH_COUNTS_FROM
    return size >= BATCH_HEADER_BYTES and size > left
