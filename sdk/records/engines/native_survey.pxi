# What a broker stores: batches by their headers, and indexes. See `survey.py`, `last_batches.py`, `index_columns.py`.

@cython.final
cdef class Survey:
    cdef readonly int64_t base_offset, next_offset, size_bytes, bytes_since_entry, max_timestamp, max_timestamp_offset
    cdef readonly bint has_producers
    cdef readonly object first_timestamp
    cdef readonly list epochs
    cdef int64_t interval_bytes
    cdef int32_t last_epoch

    def __cinit__(self, int64_t base_offset, int64_t interval_bytes):
        self.base_offset = self.next_offset = self.max_timestamp_offset = base_offset
        self.max_timestamp = NO_TIME
        self.interval_bytes = interval_bytes
        self.epochs = []

    def add(self, buffer, list entries not None):
        cdef Content content = export_of(buffer)
        cdef const uint8_t *begin = <const uint8_t *>content.buffer.buf
        cdef const uint8_t *end = begin + content.buffer.len
        cdef const uint8_t *p = begin
        cdef BatchHeader header
        cdef Py_ssize_t size
        cdef int64_t last_offset
        while (size := whole_batch(p, end - p)) != 0:
            read_batch_header(p, &header)
            if header.base_offset < self.next_offset or header.last_offset_delta < 0:
                break
            # Without a sign: the first offset is not below the base, and the distance of two offsets always fits.
            if (
                <uint64_t>header.base_offset - <uint64_t>self.base_offset + <uint64_t>header.last_offset_delta
                > <uint64_t>INT32_MAX
            ):
                break
            if header.base_offset > INT64_MAX - 1 - header.last_offset_delta:
                break
            if checksum_of(p + BATCH_CRC_COVERS_FROM, size - BATCH_CRC_COVERS_FROM) != header.crc:
                break
            last_offset = header.base_offset + header.last_offset_delta
            if self.first_timestamp is None:
                self.first_timestamp = header.max_timestamp
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp = header.max_timestamp
                self.max_timestamp_offset = last_offset
            if self.bytes_since_entry > self.interval_bytes:
                entries.append((last_offset, self.size_bytes, self.max_timestamp, self.max_timestamp_offset))
                self.bytes_since_entry = 0
            if header.producer_id != NO_PRODUCER or header.attributes & BATCH_IS_CONTROL_MASK:
                self.has_producers = True
            if header.partition_leader_epoch > self.last_epoch or not self.epochs:
                self.last_epoch = header.partition_leader_epoch
                self.epochs.append((self.last_epoch, header.base_offset))
            self.bytes_since_entry += size
            self.size_bytes += size
            self.next_offset = last_offset + 1
            p += size
        return p - begin


cdef struct Recent:
    # The last batches of a producer since a control batch: how many there were, and where the first transactional one
    # is, -1 if there is none.
    Py_ssize_t count, first_transactional


def last_batches(buffer, int64_t from_offset, int64_t end_offset, Py_ssize_t kept):
    """Do what `last_batches` in `last_batches.py` does."""
    cdef Content content = export_of(buffer)
    cdef const uint8_t *begin = <const uint8_t *>content.buffer.buf
    cdef const uint8_t *end = begin + content.buffer.len
    cdef const uint8_t *p = begin
    cdef const uint8_t *before = NULL
    cdef BatchHeader header
    # Without a sign: it may be one higher than an offset can be.
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
        raise ValueError(f"{kept} batches to keep, at least 1 is needed")
    # There are no more: memory for any number cannot be had.
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
            if header.producer_id != producer_id:  # the one before, as a rule
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
    """Add the places of the batches of all producers, in their order."""
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


def index_columns(bytes content not None, Py_ssize_t key_bytes):
    """Return what `index_columns` in `index_columns.py` does, as bytes in the order of the machine."""
    cdef const uint8_t *p = <const uint8_t *>PyBytes_AS_STRING(content)
    cdef Py_ssize_t entry_bytes, count, index
    cdef int64_t key, key_before = 0
    cdef int32_t short_key, value, value_before = 0
    cdef bytes keys, values
    cdef char *next_key
    cdef char *next_value
    if key_bytes != sizeof(int64_t) and key_bytes != sizeof(int32_t):
        raise ValueError(f"keys of {key_bytes} bytes, 4 or 8 are possible")
    entry_bytes = key_bytes + <Py_ssize_t>sizeof(int32_t)
    count = PyBytes_GET_SIZE(content) // entry_bytes
    keys = PyBytes_FromStringAndSize(NULL, count * key_bytes)
    values = PyBytes_FromStringAndSize(NULL, count * <Py_ssize_t>sizeof(int32_t))
    next_key, next_value = PyBytes_AS_STRING(keys), PyBytes_AS_STRING(values)
    for index in range(count):
        if key_bytes == sizeof(int64_t):
            key = wrap64(load64(p))
            memcpy(next_key, &key, sizeof(int64_t))
        else:
            short_key = wrap32(load32(p))
            memcpy(next_key, &short_key, sizeof(int32_t))
            key = short_key
        value = wrap32(load32(p + key_bytes))
        if index and (key <= key_before or value < value_before):
            return None
        memcpy(next_value, &value, sizeof(int32_t))
        key_before, value_before = key, value
        next_key += key_bytes
        next_value += sizeof(int32_t)
        p += entry_bytes
    return keys, values
