# Records as columns (see `columns.py` and `python_columns.py`).

# A value in Arrow's view layout: its size, followed by either the whole value or its first four bytes, a buffer number
# and a position.
cdef enum:
    VIEW_BYTES = 16
    VIEW_INLINE_BYTES = 12


cdef struct ViewTarget:
    # A column of views being filled: `views` is written only from the first value on, and `validity` only from the
    # first null on.
    uint8_t *views
    uint8_t *validity
    Py_ssize_t nulls, others


cdef struct Target:
    # Columns being filled; `total` is the number of rows for which there is room.
    uint8_t *offsets
    uint8_t *timestamps
    ViewTarget keys, values
    Py_ssize_t rows, total


cdef struct Source:
    # The bytes that all views with the same buffer number point into.
    const uint8_t *start
    const uint8_t *end


cdef struct OffsetRange:
    # The wanted offsets, unless all are wanted: from `start` up to but excluding `end`.
    bint are_set
    int64_t start, end


def read_columns(batches, ranges, take):
    """Return the records of native batches as columns (see `columns.py`).

    Args:
        batches: in order.
        ranges: for each batch, None or a pair: the offset of the first wanted record, and that of the first unwanted
            record after it.
        take: given a number of rows, returns writable memory and the positions in it of the offsets, the timestamps,
            the keys' views and validity, and the values' views and validity.

    Returns:
        The number of rows of each batch; the numbers of null keys and null values; the buffers that views point into.
    """
    cdef list sources = list(batches), limits = list(ranges), payloads = [], counts = [], data = []
    cdef RecordBatch batch
    cdef Payload payload
    cdef Content content
    cdef Target target
    cdef Source source
    cdef OffsetRange wanted
    cdef Py_ssize_t index, before
    cdef int32_t number
    cdef const uint8_t *p
    if len(sources) != len(limits):
        raise ValueError(f"{len(limits)} ranges for {len(sources)} batches")
    target.total = 0
    for batch in sources:
        if batch is None:
            raise TypeError("expected a RecordBatch, got None")
        payload = batch.checked()
        if payload.region.end - payload.region.start > INT32_MAX:
            size = payload.region.end - payload.region.start
            reason = f"there are {size} bytes, but a column holds {INT32_MAX} of a batch"
            raise DecodeError("records", batch.position, reason)
        payloads.append(payload)
        target.total += payload.region.count
    memory, places = take(target.total)
    content = export_of(memory)
    set_target(&target, content, places)
    owner = None
    source.start = source.end = NULL
    for index in range(len(sources)):
        batch = sources[index]
        payload = payloads[index]
        holder = batch.owner if payload.owner is batch else payload.owner
        if owner is not holder or not reaches(&source, &payload.region):
            put_data(data, owner, &source)
            owner = holder
            source.start = payload.region.start
        source.end = payload.region.end
        limit = limits[index]
        wanted.are_set = limit is not None
        if wanted.are_set:
            wanted.start, wanted.end = limit
        before = target.rows
        number = <int32_t>len(data)
        with nogil:
            p = fill(&payload.region, &wanted, number, source.start, &target)
        if payload.region.count and p != payload.region.end:
            batch.refuse()
        counts.append(target.rows - before)
    put_data(data, owner, &source)
    finish(&target.keys, target.rows)
    finish(&target.values, target.rows)
    return counts, target.keys.nulls, target.values.nulls, data


cdef int set_target(Target *target, Content content, places) except -1:
    """Check the size of the memory taken for the columns, and lay them out in it."""
    cdef Py_ssize_t offsets, timestamps, keys, key_validity, values, value_validity
    cdef Py_ssize_t bits = (target.total + 7) // 8
    cdef uint8_t *start = <uint8_t *>content.buffer.buf
    offsets, timestamps, keys, key_validity, values, value_validity = places
    if content.buffer.readonly or not (
        0 <= offsets <= timestamps - target.total * 8
        and timestamps <= keys - target.total * 8
        and keys <= key_validity - target.total * VIEW_BYTES
        and key_validity <= values - bits
        and values <= value_validity - target.total * VIEW_BYTES
        and value_validity <= content.buffer.len - bits
    ):
        raise ValueError(f"{target.total} rows at {places} in {content.buffer.len} bytes")
    target.offsets = start + offsets
    target.timestamps = start + timestamps
    target.keys.views = start + keys
    target.keys.validity = start + key_validity
    target.values.views = start + values
    target.values.validity = start + value_validity
    target.keys.nulls = target.keys.others = target.values.nulls = target.values.others = target.rows = 0
    return 0


cdef inline bint reaches(const Source *source, const Region *region) noexcept:
    """Return whether a view can reach a region after a source with a position counted from the source's start."""
    return source.end <= region.start and region.end - source.start <= INT32_MAX


cdef int put_data(list data, owner, const Source *source) except -1:
    """Append the bytes of a source; do nothing if there is no source yet."""
    cdef const uint8_t *start
    if owner is None:
        return 0
    if PyBytes_CheckExact(owner):
        start = <const uint8_t *>PyBytes_AS_STRING(owner)
    else:
        start = <const uint8_t *>(<Content>owner).buffer.buf
    data.append(PyMemoryView_FromObject(owner)[source.start - start : source.end - start])
    return 0


cdef const uint8_t *fill(
    const Region *region, const OffsetRange *wanted, int32_t number, const uint8_t *origin, Target *target
) noexcept nogil:
    """Write the records of a batch; return their end, NULL if they are damaged."""
    cdef const uint8_t *p = region.start
    cdef RecordParts parts
    cdef int64_t offset, timestamp
    cdef int32_t index
    cdef Py_ssize_t row = target.rows
    # The compiler can keep these in registers, because no other code has their addresses.
    cdef uint8_t *offsets = target.offsets
    cdef uint8_t *timestamps = target.timestamps
    cdef ViewTarget keys = target.keys, values = target.values
    for index in range(region.count):
        p = next_record(p, region.end, &parts)
        if p == NULL:
            return NULL
        offset = offset_of(region, &parts)
        if wanted.are_set and not wanted.start <= offset < wanted.end:
            continue
        timestamp = timestamp_of(region, &parts)
        memcpy(offsets + row * 8, &offset, 8)
        memcpy(timestamps + row * 8, &timestamp, 8)
        put_view(&keys, row, target.total, parts.key, parts.key_size, number, parts.key - origin)
        put_view(&values, row, target.total, parts.value, parts.value_size, number, parts.value - origin)
        row += 1
    target.keys = keys
    target.values = values
    target.rows = row
    return p


cdef inline void put_view(
    ViewTarget *column, Py_ssize_t row, Py_ssize_t total, const uint8_t *content, int32_t size, int32_t number,
    Py_ssize_t place,
) noexcept nogil:
    """Write the value of a row; `place` is its position in the buffer of that number."""
    cdef uint8_t *view = column.views + row * VIEW_BYTES
    cdef int32_t place32
    if size < 0:
        if column.nulls == 0:
            memset(column.validity, 0, <size_t>((total + 7) // 8))
            set_bits(column.validity, row)
        column.nulls += 1
        if column.others:
            memset(view, 0, VIEW_BYTES)
        return
    if column.others == 0:
        memset(column.views, 0, <size_t>(row * VIEW_BYTES))
    column.others += 1
    if column.nulls:
        column.validity[row >> 3] |= <uint8_t>(1 << (row & 7))
    memcpy(view, &size, 4)
    if size <= VIEW_INLINE_BYTES:
        memset(view + 4, 0, VIEW_INLINE_BYTES)
        memcpy(view + 4, content, <size_t>size)
        return
    place32 = <int32_t>place
    memcpy(view + 4, content, 4)
    memcpy(view + 8, &number, 4)
    memcpy(view + 12, &place32, 4)


cdef void finish(ViewTarget *column, Py_ssize_t rows) noexcept nogil:
    """Write the views of a column that contains only nulls."""
    if column.others == 0:
        memset(column.views, 0, <size_t>(rows * VIEW_BYTES))


cdef void set_bits(uint8_t *bits, Py_ssize_t count) noexcept nogil:
    """Set the first bits in zeroed memory."""
    memset(bits, 255, <size_t>(count >> 3))
    if count & 7:
        bits[count >> 3] = <uint8_t>((1 << (count & 7)) - 1)
