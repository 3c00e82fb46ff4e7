# The last record of each key (see `python_latest.py`). When a record supersedes another in this hash table, it is
# copied into the old record's memory, and no object is created. Adding a committed offset takes 45 ns instead of 350
# ns.

cdef extern from "Python.h":
    # Python's hash for bytes objects. Its key is known only to the process, so clients cannot choose colliding names.
    ctypedef struct PyHash_FuncDef:
        Py_hash_t (*hash)(const void *data, Py_ssize_t size)
    PyHash_FuncDef *PyHash_GetFuncDef()


cdef enum:
    #: No entry.
    NOWHERE_ELSE = -1
    #: The table has at least twice as many places as it can hold entries.
    SMALLEST_ROOM = 64
    #: Memory that an entry keeps when its record shrinks, because later records of the key may need it.
    KEPT_ROOM = 256


cdef struct Latest:
    # The last record of a key: `memory` holds the key, then the value. A size below 0 means null.
    uint8_t *memory
    Py_ssize_t room
    Py_hash_t hash
    int64_t offset
    int32_t key_size, value_size
    # Its neighbours in write order.
    int32_t before, after


@cython.final
cdef class LatestRecords:
    cdef Latest *entries
    cdef int32_t *table
    cdef int32_t count, room, first, last
    cdef uint64_t changes
    cdef readonly int64_t end_offset

    def __cinit__(self):
        self.first = self.last = NOWHERE_ELSE

    def __dealloc__(self):
        cdef int32_t index
        for index in range(self.count):
            PyMem_Free(self.entries[index].memory)
        PyMem_Free(self.entries)
        PyMem_Free(self.table)

    def __len__(self):
        return self.count

    def __iter__(self):
        cdef int32_t index = self.first
        cdef uint64_t changes = self.changes
        while index != NOWHERE_ELSE:
            yield self.key_at(index), self.stored_at(index)
            if changes != self.changes:
                raise RuntimeError("a record was noted while the records were read")
            index = self.entries[index].after

    def get(self, bytes key not None):
        cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(key)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(key)
        cdef int32_t index
        if size > INT32_MAX or not self.room:
            return None
        index = self.table[self.place_of(start, <int32_t>size, PyHash_GetFuncDef().hash(start, size))]
        return None if index == NOWHERE_ELSE else self.stored_at(index)

    def put(self, bytes key not None, int64_t offset, bytes value):
        cdef RecordParts parts
        cdef Py_ssize_t value_size = -1 if value is None else PyBytes_GET_SIZE(value)
        if PyBytes_GET_SIZE(key) > INT32_MAX or value_size > INT32_MAX:
            raise OverflowError("keys and values of records have less than 2 GiB")
        parts.key = <const uint8_t *>PyBytes_AS_STRING(key)
        parts.key_size = <int32_t>PyBytes_GET_SIZE(key)
        parts.value = NULL if value is None else <const uint8_t *>PyBytes_AS_STRING(value)
        parts.value_size = <int32_t>value_size
        self.take(&parts, offset)

    def add(self, buffer, Py_ssize_t start=0, list deleted=None):
        cdef Content content = export_of(buffer)
        cdef const uint8_t *begin = <const uint8_t *>content.buffer.buf
        cdef const uint8_t *end = begin + content.buffer.len
        cdef const uint8_t *p
        cdef const uint8_t *record
        cdef BatchHeader header
        cdef Region region
        cdef RecordParts parts
        cdef Py_ssize_t size
        cdef int64_t next_offset
        cdef int32_t index
        if not 0 <= start <= content.buffer.len:
            raise ValueError(f"position {start} is outside the {content.buffer.len} bytes")
        p = begin + start
        while (size := whole_batch(p, end - p)) != 0:
            read_batch_header(p, &header)
            if header.attributes & BATCH_IS_TRANSACTIONAL_MASK or not plain_region(p, size, True, &region):
                break
            if not is_sound(&region):
                break
            next_offset = offset_after(p)
            record = region.start
            for index in range(region.count):
                record = next_record(record, region.end, &parts)
                if record == NULL:  # reached only if the memory has changed meanwhile
                    raise DecodeError("records", p - begin, "changed while they were read")
                if parts.key_size < 0:
                    continue
                self.take(&parts, next_offset - 1)
                if deleted is not None and parts.value_size < 0:
                    deleted.append(bytes_or_none(parts.key, parts.key_size))
            self.end_offset = next_offset
            p += size
        return p - begin

    cdef int take(self, const RecordParts *parts, int64_t offset) except -1:
        """Store a record as the last one for its key so far."""
        cdef Latest *entry
        cdef Py_hash_t hashed
        cdef Py_ssize_t place
        cdef int32_t index
        cdef Py_ssize_t value_size = max(parts.value_size, 0)
        self.changes += 1
        if self.count == self.room:
            self.grow()
        hashed = PyHash_GetFuncDef().hash(parts.key, parts.key_size)
        place = self.place_of(parts.key, parts.key_size, hashed)
        index = self.table[place]
        if index == NOWHERE_ELSE:
            index = self.count
            entry = &self.entries[index]
            entry.room = parts.key_size + value_size
            entry.memory = <uint8_t *>PyMem_Realloc(NULL, <size_t>max(entry.room, 1))
            if entry.memory == NULL:
                raise MemoryError()
            memcpy(entry.memory, parts.key, <size_t>parts.key_size)
            entry.key_size = parts.key_size
            entry.hash = hashed
            self.table[place] = index
            self.count += 1
        else:
            entry = &self.entries[index]
            self.reserve(entry, entry.key_size + value_size)
            self.unlink(entry)
        if value_size:
            memcpy(entry.memory + entry.key_size, parts.value, <size_t>value_size)
        entry.value_size = parts.value_size
        entry.offset = offset
        entry.before = self.last
        entry.after = NOWHERE_ELSE
        if self.last == NOWHERE_ELSE:
            self.first = index
        else:
            self.entries[self.last].after = index
        self.last = index
        return 0

    cdef inline int reserve(self, Latest *entry, Py_ssize_t size) except -1:
        cdef void *memory
        if size > entry.room or (entry.room > KEPT_ROOM and size < entry.room // 4):
            memory = PyMem_Realloc(entry.memory, <size_t>max(size, 1))
            if memory == NULL:
                raise MemoryError()
            entry.memory = <uint8_t *>memory
            entry.room = size
        return 0

    cdef inline void unlink(self, const Latest *entry) noexcept:
        if entry.before == NOWHERE_ELSE:
            self.first = entry.after
        else:
            self.entries[entry.before].after = entry.after
        if entry.after == NOWHERE_ELSE:
            self.last = entry.before
        else:
            self.entries[entry.after].before = entry.before

    cdef inline Py_ssize_t place_of(self, const uint8_t *key, int32_t size, Py_hash_t hashed) noexcept:
        """Return the key's place in the table or, if it has none, a free place; there always is one."""
        cdef Py_ssize_t mask = 2 * <Py_ssize_t>self.room - 1
        cdef Py_ssize_t place = hashed & mask
        cdef int32_t index
        cdef const Latest *entry
        while (index := self.table[place]) != NOWHERE_ELSE:
            entry = &self.entries[index]
            if entry.hash == hashed and entry.key_size == size and memcmp(entry.memory, key, <size_t>size) == 0:
                break
            place = (place + 1) & mask
        return place

    cdef int grow(self) except -1:
        """Double the capacity and move all entries into a larger table."""
        cdef int32_t room = 2 * self.room if self.room else SMALLEST_ROOM
        cdef Py_ssize_t places = 2 * <Py_ssize_t>room, place
        cdef int32_t index
        cdef void *entries
        cdef void *table
        if self.room > INT32_MAX // 2:
            raise MemoryError()
        entries = PyMem_Realloc(self.entries, <size_t>room * sizeof(Latest))
        if entries == NULL:
            raise MemoryError()
        self.entries = <Latest *>entries
        table = PyMem_Realloc(self.table, <size_t>places * sizeof(int32_t))
        if table == NULL:
            raise MemoryError()
        self.table = <int32_t *>table
        self.room = room
        memset(self.table, 255, <size_t>places * sizeof(int32_t))
        for index in range(self.count):
            place = self.entries[index].hash & (places - 1)
            while self.table[place] != NOWHERE_ELSE:
                place = (place + 1) & (places - 1)
            self.table[place] = index
        return 0

    cdef bytes key_at(self, int32_t index):
        cdef const Latest *entry = &self.entries[index]
        return PyBytes_FromStringAndSize(<const char *>entry.memory, entry.key_size)

    cdef tuple stored_at(self, int32_t index):
        cdef const Latest *entry = &self.entries[index]
        return entry.offset, bytes_or_none(entry.memory + entry.key_size, entry.value_size)


cdef bint is_sound(const Region *region) noexcept:
    """Return whether a region holds exactly the declared number of records."""
    cdef const uint8_t *p = region.start
    cdef RecordParts parts
    cdef int32_t index
    for index in range(region.count):
        p = next_record(p, region.end, &parts)
        if p == NULL:
            return False
    return not region.count or p == region.end
