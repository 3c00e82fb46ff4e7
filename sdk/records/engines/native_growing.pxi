# Memory that grows, and plain Arrow columns in it: what rows are written into.

cdef enum:
    #: Of memory that grows, to begin with: less is not worth a call.
    LEAST_ROWS_BYTES = 4096


cdef object take_memory = reusable_memory.take_memory


cdef object rows_form():
    """Return the module that says what rows look like; clients, which make none, do not load it."""
    from kafkawire.sdk.records.engines import rows_form

    return rows_form


@cython.final
cdef class Growing:
    """Memory that grows, and is handed over."""

    cdef object view
    cdef Content content
    cdef uint8_t *start
    cdef Py_ssize_t used, room, needed, expected

    cdef int reserve(self, Py_ssize_t more) except -1:
        """Have room for more bytes; what was there stays."""
        cdef Content content
        cdef Py_ssize_t room
        self.needed = max(self.needed, self.used + more)
        if self.needed <= self.room:
            return 0
        room = max(max(self.needed, 2 * self.room), max(self.expected, <Py_ssize_t>LEAST_ROWS_BYTES))
        view = take_memory(room)
        content = export_of(view)
        if self.used:
            memcpy(content.buffer.buf, self.start, <size_t>self.used)
        self.view = view
        self.content = content
        self.start = <uint8_t *>content.buffer.buf
        self.room = room
        return 0

    cdef object hand_over(self):
        """Return what was written, and begin anew: with as much room as was needed now, and an eighth more.

        With as much as there was, room would double each time that slightly more is needed, and stay so.
        """
        cdef object view = memoryview(b"") if self.view is None else self.view[:self.used].toreadonly()
        self.expected = self.needed + (self.needed >> 3)
        self.view = self.content = None
        self.start = NULL
        self.used = self.room = self.needed = 0
        return view


@cython.final
cdef class BinaryRows:
    """A column of byte strings that grows: `ends` are int32, `bits` are there from the first null on.

    Or one of lists, whose ends count elements of another column: it has no data.
    """

    cdef Growing ends, data, bits
    cdef Py_ssize_t rows, nulls
    cdef int32_t end

    def __cinit__(self):
        self.ends = Growing.__new__(Growing)
        self.data = Growing.__new__(Growing)
        self.bits = Growing.__new__(Growing)

    cdef int reserve(self, Py_ssize_t rows, Py_ssize_t size, Py_ssize_t nulls) except -1:
        """Have room for more rows, `nulls` of them null, with so many bytes in all."""
        cdef Py_ssize_t all_rows = self.rows + rows
        if self.end + size > INT32_MAX:
            raise DecodeError("records", 0, f"{self.end + size} bytes, a column holds {INT32_MAX}")
        self.ends.reserve((rows + 1) * 4)
        if not self.ends.used:
            memset(self.ends.start, 0, 4)
            self.ends.used = 4
        self.data.reserve(size)
        if nulls or self.nulls:
            self.bits.reserve((all_rows + 7) // 8 - self.bits.used)
            if not self.nulls:
                memset(self.bits.start, 0, <size_t>((self.rows + 7) // 8))
                set_bits(self.bits.start, self.rows)
            self.bits.used = (all_rows + 7) // 8
        self.nulls += nulls
        return 0

    cdef object hand_over(self):
        cdef Py_ssize_t nulls = self.nulls
        if not self.ends.used:
            self.reserve(0, 0, 0)
        validity = self.bits.hand_over() if nulls else None
        self.rows = self.nulls = self.end = 0
        return rows_form().PlainColumn(self.ends.hand_over(), self.data.hand_over(), validity, nulls)

    cdef int add(self, bytes value) except -1:
        """Add one value, None for a null."""
        cdef BinaryPlace place
        cdef int32_t size = -1
        if value is not None:
            if PyBytes_GET_SIZE(value) > INT32_MAX:
                raise DecodeError("records", 0, f"{len(value)} bytes, a column holds {INT32_MAX}")
            size = <int32_t>PyBytes_GET_SIZE(value)
        self.reserve(1, max(size, 0), size < 0)
        begin_binary(&place, self)
        put_binary(&place, NULL if value is None else <const uint8_t *>PyBytes_AS_STRING(value), size)
        end_binary(&place, self)
        return 0


cdef struct BinaryPlace:
    # Where the next value of a column goes: its bytes to `data + end`. `bits` is NULL while nothing is null.
    uint8_t *ends
    uint8_t *data
    uint8_t *bits
    Py_ssize_t row
    int32_t end


cdef inline void begin_binary(BinaryPlace *place, BinaryRows column) noexcept:
    place.ends = column.ends.start
    place.data = column.data.start
    place.bits = column.bits.start if column.nulls else NULL
    place.row = column.rows
    place.end = column.end


cdef inline void end_binary(const BinaryPlace *place, BinaryRows column) noexcept:
    column.rows = place.row
    column.end = place.end
    column.ends.used = (place.row + 1) * 4
    if column.data.room:
        column.data.used = place.end


cdef inline void put_binary(BinaryPlace *place, const uint8_t *content, int32_t size) noexcept nogil:
    """Write a value, a null if its size is below 0."""
    if size > 0:
        memcpy(place.data + place.end, content, <size_t>size)
    put_end(place, size)


cdef inline void put_end(BinaryPlace *place, int32_t size) noexcept nogil:
    """Write how far a value or a list goes, a null if its size is below 0."""
    cdef uint8_t bit = <uint8_t>(1 << (place.row & 7))
    if place.bits != NULL:
        place.bits[place.row >> 3] &= <uint8_t>(bit - 1)  # what is behind may have been written before, and be void
        if size >= 0:
            place.bits[place.row >> 3] |= bit
    place.end += max(size, 0)
    place.row += 1
    memcpy(place.ends + place.row * 4, &place.end, 4)
