# The checks on a produced batch (see `produced.py`).

cdef struct Scan:
    # The result of a walk over all records.
    int64_t max_timestamp
    int32_t count, bad
    bint is_consecutive


cdef struct Bounds:
    # How far a timestamp may be from the current time; any timestamp is allowed unless `are_set`.
    int64_t now_ms, before_max_ms, after_max_ms
    bint are_set


cdef inline bint is_within(const Bounds *bounds, int64_t timestamp) noexcept nogil:
    """Return whether a timestamp is allowed; differences overflow as Java's do."""
    cdef int64_t age
    if not bounds.are_set or timestamp == NO_TIME:
        return True
    age = wrap64(<uint64_t>bounds.now_ms - <uint64_t>timestamp)
    return age <= bounds.before_max_ms and wrap64(0 - <uint64_t>age) <= bounds.after_max_ms


cdef const uint8_t *scan_region(
    const Region *region, bint needs_keys, const Bounds *bounds, int32_t *bad, int32_t limit, Scan *found
) noexcept nogil:
    """Walk over the records; return their end, NULL if they are damaged.

    The indexes of refused records go to `bad`, at most `limit` of them.
    """
    cdef const uint8_t *p = region.start
    cdef RecordParts parts
    cdef int64_t timestamp
    cdef int32_t index
    found.max_timestamp = NO_TIME
    found.count = region.count
    found.bad = 0
    found.is_consecutive = True
    for index in range(region.count):
        p = next_record(p, region.end, &parts)
        if p == NULL:
            return NULL
        timestamp = timestamp_of(region, &parts)
        if timestamp > found.max_timestamp:
            found.max_timestamp = timestamp
        if parts.offset_delta != index:
            found.is_consecutive = False
        if (needs_keys and parts.key_size < 0) or not is_within(bounds, timestamp):
            if found.bad < limit:
                bad[found.bad] = index
                found.bad += 1
    return p


def scan_records(payload, header, bint needs_keys, times, Py_ssize_t limit):
    """Scan records as `scan_records` in `python_produced.py` does."""
    cdef Content content = export_of(payload)
    cdef Region region
    cdef Bounds bounds
    cdef Scan found
    cdef list refused
    cdef int32_t *bad
    cdef const uint8_t *p
    region.start = <const uint8_t *>content.buffer.buf
    region.end = region.start + content.buffer.len
    region.base_offset = 0
    region.base_sequence = -1
    region.base_timestamp, append_time, region.count = header
    region.is_append_time = append_time is not None
    region.append_time = append_time if region.is_append_time else 0
    bounds.are_set = times is not None
    if bounds.are_set:
        bounds.now_ms, bounds.before_max_ms, bounds.after_max_ms = times
    if not 0 < region.count <= content.buffer.len // RECORD_MIN_BYTES:
        return None
    limit = min(max(limit, 1), region.count)
    bad = <int32_t *>PyMem_Realloc(NULL, <size_t>limit * sizeof(int32_t))
    if bad == NULL:
        raise MemoryError()
    try:
        with nogil:
            p = scan_region(&region, needs_keys, &bounds, bad, <int32_t>limit, &found)
        if p != region.end:
            return None
        refused = [bad[index] for index in range(found.bad)]
    finally:
        PyMem_Free(bad)
    return found.max_timestamp, found.is_consecutive, refused


def check_produced(
    buffer, Py_ssize_t max_bytes, bint needs_keys, bint is_append_time, int64_t now_ms, int64_t before_max_ms,
    int64_t after_max_ms,
):
    """Check a produced batch of the usual form.

    Returns:
        The fields of a `ProducedBatch`; None if `python_produced.py` must decide whether anything is wrong.
    """
    cdef Content content = export_of(buffer)
    cdef const uint8_t *p = <const uint8_t *>content.buffer.buf
    cdef const uint8_t *end
    cdef Py_ssize_t size = content.buffer.len
    cdef BatchHeader header
    cdef RecordBatch batch
    cdef Region region
    cdef Bounds bounds
    cdef Scan found
    cdef int32_t bad
    if whole_batch(p, size) != size or size > max_bytes:
        return None
    read_batch_header(p, &header)
    if (
        header.base_offset != 0
        or header.records_count <= 0
        or header.last_offset_delta != header.records_count - 1
        or header.attributes & (BATCH_IS_CONTROL_MASK | BATCH_TIMESTAMP_TYPE_MASK)
        or (header.producer_id >= 0 and header.base_sequence < 0)
        or checksum_of(p + BATCH_CRC_COVERS_FROM, size - BATCH_CRC_COVERS_FROM) != header.crc
    ):
        return None
    owner = None
    if not header.attributes & BATCH_COMPRESSION_MASK:
        if not fill_region(&region, &header, p + BATCH_HEADER_BYTES, size - BATCH_HEADER_BYTES):
            return None
    else:
        batch = RecordBatch(content)
        try:
            owner = batch.find_region(&region)
        except DecodeError:
            return None
    bounds.are_set = not is_append_time
    bounds.now_ms = now_ms
    bounds.before_max_ms = before_max_ms
    bounds.after_max_ms = after_max_ms
    if region.end - region.start < UNLOCKED_BYTES:
        end = scan_region(&region, needs_keys, &bounds, &bad, 1, &found)
    else:
        with nogil:
            end = scan_region(&region, needs_keys, &bounds, &bad, 1, &found)
    if end != region.end or found.bad or not found.is_consecutive:
        return None
    return (
        size, header.base_offset, header.partition_leader_epoch, header.magic, header.crc, header.attributes,
        header.last_offset_delta, header.base_timestamp, header.max_timestamp, header.producer_id,
        header.producer_epoch, header.base_sequence, header.records_count, found.max_timestamp,
    )
