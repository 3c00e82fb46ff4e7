# Some records of a batch as rows: measured and then written, or written at once where there is room for any of them.

cdef enum:
    # What a row has, of what takes bytes of its own.
    WITH_KEY = 1
    WITH_VALUE = 2
    WITH_HEADERS = 4
    #: As in `rows_form.py`.
    HEADER_BYTES = 8
    HEADER_OBJECT_BYTES = 400


cdef struct Piece:
    # Some records of a batch, as they were measured: how many were looked at, how many of them are rows, and what those
    # take. `most_headers` are those of one record, `names_are_ascii` says whether no name of a header has other
    # characters.
    int32_t read, most_headers
    Py_ssize_t rows, key_bytes, key_nulls, value_bytes, value_nulls
    Py_ssize_t bare, headers, name_bytes, header_bytes, header_nulls
    bint names_are_ascii


cdef const uint8_t *measure(
    const Region *region, const uint8_t *p, int32_t given, const OffsetRange *wanted, Py_ssize_t rows_left,
    Py_ssize_t bytes_left, int parts_wanted, bint is_empty, Piece *piece,
) noexcept nogil:
    """Measure the records from `p` on that fit; return where the first is that does not, NULL if one is broken.

    At least one fits where nothing is yet.
    """
    cdef RecordParts parts
    cdef RecordHeaderParts header
    cdef const uint8_t *q
    cdef const uint8_t *end
    cdef Py_ssize_t size, names
    cdef int64_t offset
    cdef int32_t index, number
    memset(piece, 0, sizeof(Piece))
    piece.names_are_ascii = True
    parts.headers_count = 0
    for index in range(given, region.count):
        q = next_record(p, region.end, &parts)
        if q == NULL:
            if parts.headers_count <= (region.end - p) // RECORD_HEADER_MIN_BYTES:
                piece.most_headers = max(piece.most_headers, parts.headers_count)
            return NULL
        piece.most_headers = max(piece.most_headers, parts.headers_count)
        if wanted.are_set:
            offset = offset_of(region, &parts)
            if not wanted.start <= offset < wanted.end:
                piece.read += 1
                p = q
                continue
        size = max(parts.key_size, 0) if parts_wanted & WITH_KEY else 0
        if parts_wanted & WITH_VALUE:
            size += max(parts.value_size, 0)
        if parts_wanted & WITH_HEADERS:
            size += parts.headers_bytes + HEADER_BYTES * parts.headers_count
        if (rows_left < 1 or size > bytes_left) and not (is_empty and piece.rows == 0):
            return p
        rows_left -= 1
        bytes_left -= size
        piece.read += 1
        piece.rows += 1
        piece.key_bytes += max(parts.key_size, 0)
        piece.key_nulls += parts.key_size < 0
        piece.value_bytes += max(parts.value_size, 0)
        piece.value_nulls += parts.value_size < 0
        p = q
        if not parts_wanted & WITH_HEADERS:
            continue
        piece.bare += parts.headers_count == 0
        piece.headers += parts.headers_count
        q = parts.headers
        for number in range(parts.headers_count):
            q = read_record_header(q, region.end, &header)
            if q == NULL:
                return NULL
            piece.name_bytes += header.key_size
            piece.header_bytes += max(header.value_size, 0)
            piece.header_nulls += header.value_size < 0
            end = header.key + header.key_size
            while header.key < end:
                if header.key[0] & 128:
                    piece.names_are_ascii = False
                header.key += 1
    return p


cdef struct Places:
    # Where the next rows go; of what nobody wants, the pointer is NULL.
    int64_t *offsets
    int64_t *timestamps
    BinaryPlace *keys
    BinaryPlace *values
    BinaryPlace key, value


cdef struct HeaderPlaces:
    # Where the next headers go; the lists have no bytes of their own.
    BinaryPlace lists, names, values


cdef void write_rows(
    const Region *region, const uint8_t *p, int32_t read, const OffsetRange *wanted, Places *places,
    HeaderPlaces *headers,
) noexcept nogil:
    """Write records that were measured; what is NULL is left out."""
    cdef int64_t *offsets = places.offsets
    cdef int64_t *timestamps = places.timestamps
    cdef BinaryPlace *keys = places.keys
    cdef BinaryPlace *values = places.values
    cdef RecordParts parts
    cdef RecordHeaderParts header
    cdef const uint8_t *q
    cdef int64_t offset, timestamp
    cdef int32_t index, number, end
    for index in range(read):
        p = next_record(p, region.end, &parts)
        offset = offset_of(region, &parts)
        if wanted.are_set and not wanted.start <= offset < wanted.end:
            continue
        if offsets != NULL:
            memcpy(offsets, &offset, 8)
            offsets += 1
        if timestamps != NULL:
            timestamp = timestamp_of(region, &parts)
            memcpy(timestamps, &timestamp, 8)
            timestamps += 1
        if keys != NULL:
            put_binary(keys, parts.key, parts.key_size)
        if values != NULL:
            put_binary(values, parts.value, parts.value_size)
        if headers == NULL:
            continue
        q = parts.headers
        for number in range(parts.headers_count):
            q = read_record_header(q, region.end, &header)
            put_binary(&headers.names, header.key, header.key_size)
            put_binary(&headers.values, header.value, header.value_size)
        put_end(&headers.lists, parts.headers_count if parts.headers_count else -1)  # the connector has a null, too


cdef bint write_unmeasured(
    const Region *region, const uint8_t *content_end, Places *places, Py_ssize_t *nulls
) noexcept nogil:
    """Write all records into columns that have room for whatever is in the region; what is NULL is left out.

    While a batch is taken apart, the next one is fetched from memory: it is as long, as a rule. Its checksum would wait
    for every byte otherwise, with nothing else to do.

    Returns whether nothing is broken, and no null is in a column without bits; otherwise what was written is void.
    """
    cdef int64_t *offsets = places.offsets
    cdef int64_t *timestamps = places.timestamps
    cdef BinaryPlace *keys = places.keys
    cdef BinaryPlace *values = places.values
    cdef RecordParts parts
    cdef const uint8_t *p = region.start
    cdef const uint8_t *q
    cdef Py_ssize_t size = region.end - region.start
    cdef int64_t offset, timestamp
    cdef int32_t index
    for index in range(region.count):
        q = next_record(p, region.end, &parts)
        if q == NULL:
            return False
        if content_end - q > size:
            fetch_early(p + size, q + size)
        p = q
        if offsets != NULL:
            offset = offset_of(region, &parts)
            memcpy(offsets + index, &offset, 8)
        if timestamps != NULL:
            timestamp = timestamp_of(region, &parts)
            memcpy(timestamps + index, &timestamp, 8)
        if keys != NULL:
            if parts.key_size < 0:
                if keys.bits == NULL:
                    return False
                nulls[0] += 1
            put_binary(keys, parts.key, parts.key_size)
        if values != NULL:
            if parts.value_size < 0:
                if values.bits == NULL:
                    return False
                nulls[1] += 1
            put_binary(values, parts.value, parts.value_size)
    return p == region.end
