# Records as columns, see `columns.py`.

# A value in Arrow's view layout: its size, then all of it, or four bytes of it and where it is (buffer number, place).
cdef enum:
    VIEW_BYTES = 16
    VIEW_INLINE_BYTES = 12


cdef struct Target:
    # Columns that are being filled.
    uint8_t *offsets
    uint8_t *timestamps
    uint8_t *keys
    uint8_t *values
    uint8_t *key_validity
    uint8_t *value_validity
    Py_ssize_t null_keys, null_values


def read_columns(batches):
    """Return the records of native batches as columns, see `columns.py`.

    Returns:
        How many there are; offsets and timestamps; for keys and for values their Arrow views and validity, None if
        there is no null; and the buffers that the views point into, one for each batch.
    """
    cdef list payloads = []
    cdef list sources = list(batches)
    cdef list data = []
    cdef RecordBatch batch
    cdef Payload payload
    cdef Py_ssize_t total = 0, row = 0
    cdef int32_t number = 0
    cdef const uint8_t *p
    for batch in sources:
        if batch is None:
            raise TypeError("expected a RecordBatch, got None")
        payload = batch.checked()
        if payload.region.end - payload.region.start > INT32_MAX:
            size = payload.region.end - payload.region.start
            raise DecodeError("records", batch.position, f"{size} bytes, a column holds {INT32_MAX} of a batch")
        payloads.append(payload)
        total += payload.region.count
        data.append(payload.owner if payload.owner is not batch else batch.data[BATCH_HEADER_BYTES:])
    offsets = PyBytes_FromStringAndSize(NULL, total * sizeof(int64_t))
    timestamps = PyBytes_FromStringAndSize(NULL, total * sizeof(int64_t))
    keys = PyBytes_FromStringAndSize(NULL, total * VIEW_BYTES)
    values = PyBytes_FromStringAndSize(NULL, total * VIEW_BYTES)
    key_validity = PyBytes_FromStringAndSize(NULL, (total + 7) // 8)
    value_validity = PyBytes_FromStringAndSize(NULL, (total + 7) // 8)
    memset(PyBytes_AS_STRING(key_validity), 0, <size_t>((total + 7) // 8))
    memset(PyBytes_AS_STRING(value_validity), 0, <size_t>((total + 7) // 8))
    cdef Target target
    target.offsets = <uint8_t *>PyBytes_AS_STRING(offsets)
    target.timestamps = <uint8_t *>PyBytes_AS_STRING(timestamps)
    target.keys = <uint8_t *>PyBytes_AS_STRING(keys)
    target.values = <uint8_t *>PyBytes_AS_STRING(values)
    target.key_validity = <uint8_t *>PyBytes_AS_STRING(key_validity)
    target.value_validity = <uint8_t *>PyBytes_AS_STRING(value_validity)
    target.null_keys = target.null_values = 0
    for payload, batch in zip(payloads, sources):
        with nogil:
            p = fill(&payload.region, row, number, &target)
        if payload.region.count and p != payload.region.end:
            batch.refuse()
        row += payload.region.count
        number += 1
    return (
        total,
        offsets,
        timestamps,
        keys,
        key_validity if target.null_keys else None,
        values,
        value_validity if target.null_values else None,
        data,
    )


cdef const uint8_t *fill(const Region *region, Py_ssize_t row, int32_t number, Target *target) noexcept nogil:
    """Write the records of a batch from `row` on; return where they end, NULL if they are broken."""
    cdef const uint8_t *p = region.start
    cdef RecordParts parts
    cdef int64_t offset, timestamp
    cdef int32_t index
    for index in range(region.count):
        p = read_record(p, region.end, &parts)
        if p == NULL:
            return NULL
        offset = offset_of(region, &parts)
        timestamp = timestamp_of(region, &parts)
        memcpy(target.offsets + row * 8, &offset, 8)
        memcpy(target.timestamps + row * 8, &timestamp, 8)
        put_view(target.keys + row * VIEW_BYTES, parts.key, parts.key_size, number, <int32_t>(parts.key - region.start))
        put_view(
            target.values + row * VIEW_BYTES, parts.value, parts.value_size, number,
            <int32_t>(parts.value - region.start),
        )
        if parts.key_size >= 0:
            target.key_validity[row >> 3] |= <uint8_t>(1 << (row & 7))
        else:
            target.null_keys += 1
        if parts.value_size >= 0:
            target.value_validity[row >> 3] |= <uint8_t>(1 << (row & 7))
        else:
            target.null_values += 1
        row += 1
    return p


cdef inline void put_view(
    uint8_t *view, const uint8_t *content, int32_t size, int32_t number, int32_t place
) noexcept nogil:
    memset(view, 0, VIEW_BYTES)
    if size <= 0:
        return
    memcpy(view, &size, 4)
    if size <= VIEW_INLINE_BYTES:
        memcpy(view + 4, content, <size_t>size)
        return
    memcpy(view + 4, content, 4)
    memcpy(view + 8, &number, 4)
    memcpy(view + 12, &place, 4)
