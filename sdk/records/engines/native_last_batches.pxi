# The batches of a segment from which a log rebuilds its producer states (see `python_last_batches.py`).

cdef struct Recent:
    # A producer's last batches since a control batch: how many there are, and the position of the first transactional
    # one, -1 if there is none.
    Py_ssize_t count, first_transactional


def last_batches(buffer, int64_t from_offset, int64_t end_offset, Py_ssize_t kept):
    """Choose batches as `last_batches` in `python_last_batches.py` does."""
    cdef Content content = export_of(buffer)
    cdef const uint8_t *begin = <const uint8_t *>content.buffer.buf
    cdef const uint8_t *end = begin + content.buffer.len
    cdef const uint8_t *p = begin
    cdef const uint8_t *before = NULL
    cdef BatchHeader header
    # Unsigned, because it can be one higher than any offset.
    cdef uint64_t next_offset = 0
    cdef Py_ssize_t size, room = 0, used = 0, index = 0
    cdef int64_t producer_id = NO_PRODUCER
    cdef Recent *recent = NULL
    cdef Recent *one
    cdef Py_ssize_t *places = NULL
    cdef void *grown
    cdef dict known = {}
    cdef list found = []
    if kept < 1:
        raise ValueError(f"{kept} batches are to be kept, but at least 1 is needed")
    # The buffer holds no more batches than this, so memory stays bounded.
    kept = min(kept, 1 + (end - p) // BATCH_HEADER_BYTES)
    try:
        while (size := whole_batch(p, end - p)) != 0:
            read_batch_header(p, &header)
            if header.base_offset >= end_offset or header.base_offset < 0 or header.last_offset_delta < 0:
                break
            if <uint64_t>header.base_offset < next_offset:
                break
            if before != NULL and <uint64_t>header.base_offset != next_offset and not is_undamaged(before, p - before):
                break
            next_offset = <uint64_t>header.base_offset + <uint64_t>header.last_offset_delta + 1
            before = p
            p += size
            if header.base_offset < from_offset:
                continue
            if header.attributes & BATCH_IS_CONTROL_MASK:
                take_places(found, recent, places, used, kept)
                known.clear()
                used = 0
                producer_id = NO_PRODUCER
                found.append(before - begin)
                continue
            if header.producer_id < 0:
                continue
            if header.producer_id != producer_id:  # usually the same producer as in the previous batch
                producer_id = header.producer_id
                index = known.setdefault(producer_id, used)
                if index == used:
                    if used == room:
                        room = 2 * room + 8
                        grown = PyMem_Realloc(recent, <size_t>room * sizeof(Recent))
                        if grown == NULL:
                            raise MemoryError()
                        recent = <Recent *>grown
                        grown = PyMem_Realloc(places, <size_t>room * <size_t>kept * sizeof(Py_ssize_t))
                        if grown == NULL:
                            raise MemoryError()
                        places = <Py_ssize_t *>grown
                    recent[used].count = 0
                    recent[used].first_transactional = -1
                    used += 1
            one = &recent[index]
            places[index * kept + one.count % kept] = before - begin
            one.count += 1
            if one.first_transactional < 0 and header.attributes & BATCH_IS_TRANSACTIONAL_MASK:
                one.first_transactional = before - begin
        take_places(found, recent, places, used, kept)
    finally:
        PyMem_Free(recent)
        PyMem_Free(places)
    return found, p - begin, None if before == NULL else before - begin


cdef int take_places(
    list found, const Recent *recent, const Py_ssize_t *places, Py_ssize_t used, Py_ssize_t kept
) except -1:
    """Add the positions of all producers' batches, in order."""
    cdef list group = []
    cdef Py_ssize_t index, number, first
    for index in range(used):
        for number in range(min(recent[index].count, kept)):
            group.append(places[index * kept + number])
        first = recent[index].first_transactional
        if first >= 0 and recent[index].count > kept and first < places[index * kept + recent[index].count % kept]:
            group.append(first)
    group.sort()
    found += group
    return 0


cdef inline bint is_undamaged(const uint8_t *p, Py_ssize_t size) noexcept:
    return checksum_of(p + BATCH_CRC_COVERS_FROM, size - BATCH_CRC_COVERS_FROM) == load32(p + BATCH_CRC_AT)
