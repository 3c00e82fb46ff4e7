# Records as rows of plain Arrow columns, and facts about their batches (see `rows.py`). A damaged batch leaves no rows.

# Growing memory, and the plain Arrow columns in it that rows are written into.

cdef enum:
    #: Initial size of growing memory: less is not worth a call.
    LEAST_ROWS_BYTES = 4096


cdef object take_memory = reusable_memory.take_memory


cdef object shared_rows():
    """Return the module that defines the row classes; clients make no rows and therefore never load it."""
    from kafkawire.sdk.records.engines import shared_rows

    return shared_rows


@cython.final
cdef class Growing:
    """Growing memory whose content is handed over to the caller."""

    cdef object view
    cdef Content content
    cdef uint8_t *start
    cdef Py_ssize_t used, room, needed, expected

    cdef int reserve(self, Py_ssize_t more) except -1:
        """Reserve room for more bytes, keeping the content."""
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
        """Return the written bytes, and start over with as much room as they needed plus one eighth.

        If it started with the full capacity, it would double whenever slightly more is needed, and would never shrink.
        """
        cdef object view = memoryview(b"") if self.view is None else self.view[:self.used].toreadonly()
        self.expected = self.needed + (self.needed >> 3)
        self.view = self.content = None
        self.start = NULL
        self.used = self.room = self.needed = 0
        return view


@cython.final
cdef class BinaryRows:
    """A growing column of byte strings: `ends` are int32, and `bits` exist once there is a null.

    It can also be a column of lists, whose ends count the elements of another column; such a column has no data.
    """

    cdef Growing ends, data, bits
    cdef Py_ssize_t rows, nulls
    cdef int32_t end

    def __cinit__(self):
        self.ends = Growing.__new__(Growing)
        self.data = Growing.__new__(Growing)
        self.bits = Growing.__new__(Growing)

    cdef int reserve(self, Py_ssize_t rows, Py_ssize_t size, Py_ssize_t nulls) except -1:
        """Reserve room for more rows, `nulls` of them null, and for their `size` bytes."""
        cdef Py_ssize_t all_rows = self.rows + rows
        if self.end + size > INT32_MAX:
            raise DecodeError("records", 0, f"there are {self.end + size} bytes, but a column holds {INT32_MAX}")
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
        return shared_rows().PlainColumn(self.ends.hand_over(), self.data.hand_over(), validity, nulls)

    cdef int add(self, bytes value) except -1:
        """Add one value, or None for a null."""
        cdef BinaryPlace place
        cdef int32_t size = -1
        if value is not None:
            if PyBytes_GET_SIZE(value) > INT32_MAX:
                raise DecodeError("records", 0, f"there are {len(value)} bytes, but a column holds {INT32_MAX}")
            size = <int32_t>PyBytes_GET_SIZE(value)
        self.reserve(1, max(size, 0), size < 0)
        begin_binary(&place, self)
        put_binary(&place, NULL if value is None else <const uint8_t *>PyBytes_AS_STRING(value), size)
        end_binary(&place, self)
        return 0


cdef struct BinaryPlace:
    # The place of a column's next value: its bytes go to `data + end`. `bits` is NULL until there is a null.
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
    """Write a value; a size below 0 is a null."""
    if size > 0:
        memcpy(place.data + place.end, content, <size_t>size)
    put_end(place, size)


cdef inline void put_end(BinaryPlace *place, int32_t size) noexcept nogil:
    """Write the end of a value or list; a size below 0 is a null."""
    cdef uint8_t bit = <uint8_t>(1 << (place.row & 7))
    if place.bits != NULL:
        place.bits[place.row >> 3] &= <uint8_t>(bit - 1)  # later bits may be left over from a discarded write
        if size >= 0:
            place.bits[place.row >> 3] |= bit
    place.end += max(size, 0)
    place.row += 1
    memcpy(place.ends + place.row * 4, &place.end, 4)


# Some records of a batch become rows. They are measured before they are written, unless all of them certainly fit.

cdef extern from *:
    """
    #ifdef __GNUC__
    #define FETCH_EARLY(p) __builtin_prefetch(p)
    #else
    #define FETCH_EARLY(p) ((void)0)
    #endif

    /* The size of a cache line. */
    #define LINE_BYTES 64
    /* Prefetch bytes that will be read soon. */
    static inline void fetch_early(const uint8_t *p, const uint8_t *end) {
        for (; p < end; p += LINE_BYTES) FETCH_EARLY(p);
    }
    """
    void fetch_early(const uint8_t *p, const uint8_t *end) noexcept nogil

cdef enum:
    # The parts of a row that take bytes of their own.
    WITH_KEY = 1
    WITH_VALUE = 2
    WITH_HEADERS = 4
    #: As in `shared_rows.py`.
    HEADER_BYTES = 8
    HEADER_OBJECT_BYTES = 400


cdef struct Piece:
    # Measurements of some records of a batch: how many were read, how many of them become rows, and the sizes of those
    # rows. `most_headers` is the highest number of headers in one record, and `names_are_ascii` says whether all header
    # names are ASCII.
    int32_t read, most_headers
    Py_ssize_t rows, key_bytes, key_nulls, value_bytes, value_nulls
    Py_ssize_t bare, headers, name_bytes, header_bytes, header_nulls
    bint names_are_ascii


cdef const uint8_t *measure(
    const Region *region, const uint8_t *p, int32_t given, const OffsetRange *wanted, Py_ssize_t rows_left,
    Py_ssize_t bytes_left, int parts_wanted, bint is_empty, Piece *piece,
) noexcept nogil:
    """Measure the records from `p` on that fit; return the first that does not fit, or NULL if a record is damaged.

    At least one record fits into empty columns.
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
    # The places of the next rows; pointers of unwanted columns are NULL.
    int64_t *offsets
    int64_t *timestamps
    BinaryPlace *keys
    BinaryPlace *values
    BinaryPlace key, value


cdef struct HeaderPlaces:
    # The places of the next headers; the lists have no bytes of their own.
    BinaryPlace lists, names, values


cdef void write_rows(
    const Region *region, const uint8_t *p, int32_t read, const OffsetRange *wanted, Places *places,
    HeaderPlaces *headers,
) noexcept nogil:
    """Write measured records, skipping columns that are NULL."""
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
        put_end(&headers.lists, parts.headers_count if parts.headers_count else -1)  # null, as in Spark's connector


cdef bint write_unmeasured(
    const Region *region, const uint8_t *content_end, Places *places, Py_ssize_t *nulls
) noexcept nogil:
    """Write all records into columns with room for the whole region, skipping columns that are NULL.

    Meanwhile, the next batch, which usually has the same length, is prefetched from memory; otherwise, the checksum
    computation would wait for every byte.

    Returns False, discarding the written rows, if a record is damaged or a column without bits gets a null.
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


# The rows themselves.

cdef struct BatchFacts:
    # The fields shared by the rows of one batch (see `BatchColumns`); its rows end before row `end`.
    int64_t position, base_offset, producer_id
    int32_t end, leader_epoch, base_sequence
    int16_t producer_epoch, attributes
    int8_t magic


cdef void facts_of(const BatchHeader *header, Py_ssize_t position, BatchFacts *facts) noexcept:
    facts.position = position
    facts.base_offset = header.base_offset
    facts.producer_id = header.producer_id
    facts.end = 0
    facts.leader_epoch = header.partition_leader_epoch
    facts.base_sequence = header.base_sequence
    facts.producer_epoch = header.producer_epoch
    facts.attributes = header.attributes
    facts.magic = header.magic


cdef bytes fact_column(const uint8_t *first, Py_ssize_t count, Py_ssize_t size):
    """Return one field of `count` facts as a column; `first` points to that field in the first of them."""
    cdef bytes column = PyBytes_FromStringAndSize(NULL, count * size)
    cdef char *next = PyBytes_AS_STRING(column)
    cdef Py_ssize_t index
    for index in range(count):
        memcpy(next + index * size, first + index * <Py_ssize_t>sizeof(BatchFacts), <size_t>size)
    return column


@cython.final
cdef class RowsBuilder:
    cdef readonly Py_ssize_t count, size_in_bytes
    cdef Py_ssize_t rows_max, bytes_max
    cdef int parts_wanted
    cdef Growing offsets, timestamps, batches
    cdef BinaryRows keys, values, lists, names, header_values
    # Facts about the current batch, and whether they have been added to `batches`.
    cdef BatchFacts facts
    cdef bint is_noted
    # The current batch: its records from `next` on, of which `given` have been read; or a list of record objects, the
    # first of which did not fit.
    cdef RecordBatch batch
    cdef Payload payload
    cdef const uint8_t *next
    cdef int32_t given
    cdef OffsetRange wanted
    cdef object records, waiting

    def __init__(self, columns=None, *, rows_max=None, bytes_max=None):
        form = shared_rows()
        names = form.checked_columns(form.COLUMNS if columns is None else columns)
        self.rows_max = form.ROWS_MAX if rows_max is None else rows_max
        self.bytes_max = form.ROWS_BYTES_MAX if bytes_max is None else bytes_max
        if self.rows_max < 1 or self.bytes_max < 1:
            raise ValueError(f"{rows_max} rows and {bytes_max} bytes are allowed, but at least 1 of each is needed")
        self.count = self.size_in_bytes = 0
        self.offsets = Growing.__new__(Growing) if "offset" in names else None
        self.timestamps = Growing.__new__(Growing) if "timestamp" in names else None
        self.batches = Growing.__new__(Growing)
        self.keys = BinaryRows.__new__(BinaryRows) if "key" in names else None
        self.values = BinaryRows.__new__(BinaryRows) if "value" in names else None
        self.parts_wanted = (
            WITH_KEY * ("key" in names) | WITH_VALUE * ("value" in names) | WITH_HEADERS * ("headers" in names)
        )
        if "headers" in names:
            self.lists = BinaryRows.__new__(BinaryRows)
            self.names = BinaryRows.__new__(BinaryRows)
            self.header_values = BinaryRows.__new__(BinaryRows)

    def begin(self, batch, wanted=None, Py_ssize_t position=-1):
        cdef Payload payload
        cdef Piece piece
        cdef const uint8_t *p
        cdef Py_ssize_t limit
        cdef bint is_broken
        self.leave()
        self.wanted.are_set = wanted is not None
        if wanted is not None:
            self.wanted.start, self.wanted.end = wanted
        if not isinstance(batch, RecordBatch):
            shared_rows().check_records(batch, self.lists is not None)
            self.records = iter(batch.views())
            self.take_facts(batch, position)
            return
        payload = (<RecordBatch>batch).checked()
        with nogil:
            p = measure(
                &payload.region, payload.region.start, 0, &self.wanted, PY_SSIZE_T_MAX, PY_SSIZE_T_MAX,
                self.parts_wanted, True, &piece,
            )
        is_broken = p == NULL or (payload.region.count and p != payload.region.end)
        limit = (<RecordBatch>batch).limit
        if piece.most_headers > limit // HEADER_OBJECT_BYTES and (is_broken or self.lists is not None):
            # Describing the damage creates objects for the headers too.
            shared_rows().check_headers(piece.most_headers, piece.names_are_ascii and not is_broken, limit)
        if is_broken:
            (<RecordBatch>batch).refuse()
        facts_of(&(<RecordBatch>batch).header, position, &self.facts)
        if not piece.names_are_ascii:
            self.records = iter(batch.views())
            return
        self.batch = batch
        self.payload = payload
        self.next = payload.region.start
        if piece.rows <= self.rows_max - self.count and self.bytes_of(&piece) <= self.bytes_max - self.size_in_bytes:
            self.write(&payload.region, self.next, &piece)  # the usual case: measured once
            self.given += piece.read

    def add_plain(self, content, plain):
        cdef Content export = export_of(content)
        cdef const uint8_t *start = <const uint8_t *>export.buffer.buf
        cdef const uint8_t *end = start + export.buffer.len
        cdef const uint8_t *p = start
        cdef BatchHeader header
        cdef Region region
        cdef Py_ssize_t batch_bytes
        cdef int refused = BATCH_COMPRESSION_MASK | BATCH_IS_CONTROL_MASK
        cdef Py_ssize_t position = plain.position, size = plain.size_bytes
        cdef int64_t end_offset = plain.end_offset
        cdef bint is_ordered = plain.next_offset is not None
        cdef int64_t following = plain.next_offset if is_ordered else 0
        if not plain.are_transactional:
            refused |= BATCH_IS_TRANSACTIONAL_MASK
        self.leave()
        self.wanted.are_set = False
        while p - start < size:
            batch_bytes = whole_batch(p, end - p)
            if not batch_bytes:
                break
            read_batch_header(p, &header)
            if header.attributes & refused or header.last_offset_delta < 0 or header.base_offset < 0:
                break
            if is_ordered and header.base_offset != following:
                break
            if header.base_offset >= end_offset - header.last_offset_delta:
                break
            if not fill_region(&region, &header, p + BATCH_HEADER_BYTES, batch_bytes - BATCH_HEADER_BYTES):
                break
            if checksum_of(p + BATCH_CRC_COVERS_FROM, batch_bytes - BATCH_CRC_COVERS_FROM) != header.crc:
                break
            if region.count:
                facts_of(&header, position + (p - start), &self.facts)
                self.is_noted = False
                if not (self.write_at_once(&region, end) or self.write_measured(&region)):
                    break
            following = header.base_offset + header.last_offset_delta + 1
            p += batch_bytes
        return p - start, following

    def fill(self):
        cdef Piece piece
        cdef const uint8_t *p
        if self.records is not None:
            return self.fill_from_records()
        if self.batch is None:
            return True
        while self.given < self.payload.region.count:
            with nogil:
                p = measure(
                    &self.payload.region, self.next, self.given, &self.wanted, self.rows_max - self.count,
                    self.bytes_max - self.size_in_bytes, self.parts_wanted, self.count == 0, &piece,
                )
            if p == NULL:  # reached only if the memory has changed in the meantime
                self.batch.refuse()
            if piece.read == 0:
                return False
            self.write(&self.payload.region, self.next, &piece)
            self.given += piece.read
            self.next = p
        self.leave()
        return True

    def take(self):
        count = self.count
        headers = None
        if self.lists is not None:
            headers = shared_rows().HeaderColumns(
                self.lists.hand_over(), self.names.hand_over(), self.header_values.hand_over()
            )
        self.count = self.size_in_bytes = 0
        self.is_noted = False
        return shared_rows().RowColumns(
            count,
            self.take_batches(),
            None if self.offsets is None else self.offsets.hand_over(),
            None if self.timestamps is None else self.timestamps.hand_over(),
            None if self.keys is None else self.keys.hand_over(),
            None if self.values is None else self.values.hand_over(),
            headers,
        )

    cdef int leave(self) except -1:
        """Forget the current batch."""
        self.batch = None
        self.payload = None
        self.records = self.waiting = None
        self.given = 0
        self.is_noted = False
        return 0

    cdef inline Py_ssize_t bytes_of(self, const Piece *piece) noexcept:
        cdef Py_ssize_t size = piece.name_bytes + piece.header_bytes + HEADER_BYTES * piece.headers
        if self.parts_wanted & WITH_KEY:
            size += piece.key_bytes
        if self.parts_wanted & WITH_VALUE:
            size += piece.value_bytes
        return size

    cdef int take_facts(self, batch, Py_ssize_t position) except -1:
        """Take the facts from a batch that belongs to another engine or has a magic below 2."""
        self.facts.position = position
        self.facts.base_offset = batch.base_offset if batch.magic == BATCH_MAGIC else -1
        self.facts.producer_id = batch.producer_id
        self.facts.producer_epoch = batch.producer_epoch
        self.facts.leader_epoch = batch.partition_leader_epoch
        self.facts.base_sequence = batch.base_sequence
        self.facts.end = 0
        self.facts.attributes = batch.attributes
        self.facts.magic = batch.magic
        return 0

    cdef int note(self) except -1:
        """Assign all rows up to here to the current batch."""
        cdef Py_ssize_t size = <Py_ssize_t>sizeof(BatchFacts)
        if not self.is_noted:
            self.batches.reserve(size)
            memcpy(self.batches.start + self.batches.used, &self.facts, <size_t>size)
            self.batches.used += size
            self.is_noted = True
        (<BatchFacts *>(self.batches.start + self.batches.used - size)).end = <int32_t>self.count
        return 0

    cdef object take_batches(self):
        cdef Py_ssize_t count = self.batches.used // <Py_ssize_t>sizeof(BatchFacts)
        cdef BatchFacts *first = <BatchFacts *>self.batches.start if count else &self.facts
        form = shared_rows()
        columns = [
            fact_column(<uint8_t *>&first.end, count, sizeof(first.end)),
            fact_column(<uint8_t *>&first.position, count, sizeof(first.position)),
            fact_column(<uint8_t *>&first.magic, count, sizeof(first.magic)),
            fact_column(<uint8_t *>&first.attributes, count, sizeof(first.attributes)),
            fact_column(<uint8_t *>&first.base_offset, count, sizeof(first.base_offset)),
            fact_column(<uint8_t *>&first.leader_epoch, count, sizeof(first.leader_epoch)),
            fact_column(<uint8_t *>&first.producer_id, count, sizeof(first.producer_id)),
            fact_column(<uint8_t *>&first.producer_epoch, count, sizeof(first.producer_epoch)),
            fact_column(<uint8_t *>&first.base_sequence, count, sizeof(first.base_sequence)),
        ]
        codes = form.BATCH_COLUMN_CODES
        found = form.BatchColumns(*[memoryview(column).cast(code) for column, code in zip(columns, codes)])
        self.batches.hand_over()
        return found

    cdef bint write_measured(self, const Region *region) except -1:
        """Write all records of a batch; return False if one is damaged or they do not all fit."""
        cdef Piece piece
        cdef const uint8_t *p = measure(
            region, region.start, 0, &self.wanted, self.rows_max - self.count, self.bytes_max - self.size_in_bytes,
            self.parts_wanted, False, &piece,
        )
        if p != region.end or not piece.names_are_ascii:
            return False
        self.write(region, region.start, &piece)
        return True

    cdef bint write_at_once(self, const Region *region, const uint8_t *content_end) except -1:
        """Write all records of a batch in a single pass; return whether that was possible.

        It is impossible if headers are wanted, if the batch might not fit, or once a column gets its first null.
        """
        cdef Places places
        cdef Py_ssize_t[2] nulls = [0, 0]
        cdef Py_ssize_t size = region.end - region.start
        if self.lists is not None or region.count > self.rows_max - self.count:
            return False
        if size > self.bytes_max - self.size_in_bytes:
            return False
        self.begin_rows(region.count, size, 0, size, 0, &places)
        if not write_unmeasured(region, content_end, &places, nulls):
            return False
        if places.keys != NULL:
            self.size_in_bytes += places.keys.end - self.keys.end
            self.keys.nulls += nulls[0]
        if places.values != NULL:
            self.size_in_bytes += places.values.end - self.values.end
            self.values.nulls += nulls[1]
        self.end_rows(region.count, &places)
        return True

    cdef int write(self, const Region *region, const uint8_t *p, const Piece *piece) except -1:
        """Write a measured piece, starting at `p`."""
        cdef Places places
        cdef HeaderPlaces headers
        cdef HeaderPlaces *header_places = NULL
        self.begin_rows(
            piece.rows, piece.key_bytes, piece.key_nulls, piece.value_bytes, piece.value_nulls, &places
        )
        if self.lists is not None:
            self.lists.reserve(piece.rows, 0, piece.bare)
            self.names.reserve(piece.headers, piece.name_bytes, 0)
            self.header_values.reserve(piece.headers, piece.header_bytes, piece.header_nulls)
            begin_binary(&headers.lists, self.lists)
            begin_binary(&headers.names, self.names)
            begin_binary(&headers.values, self.header_values)
            header_places = &headers
        with nogil:
            write_rows(region, p, piece.read, &self.wanted, &places, header_places)
        if self.lists is not None:
            end_binary(&headers.lists, self.lists)
            end_binary(&headers.names, self.names)
            end_binary(&headers.values, self.header_values)
        self.size_in_bytes += self.bytes_of(piece)
        self.end_rows(piece.rows, &places)
        return 0

    cdef int begin_rows(
        self, Py_ssize_t rows, Py_ssize_t key_bytes, Py_ssize_t key_nulls, Py_ssize_t value_bytes,
        Py_ssize_t value_nulls, Places *places,
    ) except -1:
        """Reserve room for rows and return their places; the rows are not counted until `end_rows`."""
        places.offsets = places.timestamps = NULL
        places.keys = places.values = NULL
        if self.offsets is not None:
            self.offsets.reserve(rows * 8)
            places.offsets = <int64_t *>(self.offsets.start + self.offsets.used)
        if self.timestamps is not None:
            self.timestamps.reserve(rows * 8)
            places.timestamps = <int64_t *>(self.timestamps.start + self.timestamps.used)
        if self.keys is not None:
            self.keys.reserve(rows, key_bytes, key_nulls)
            begin_binary(&places.key, self.keys)
            places.keys = &places.key
        if self.values is not None:
            self.values.reserve(rows, value_bytes, value_nulls)
            begin_binary(&places.value, self.values)
            places.values = &places.value
        return 0

    cdef int end_rows(self, Py_ssize_t rows, const Places *places) except -1:
        """Count the written rows."""
        if self.offsets is not None:
            self.offsets.used += rows * 8
        if self.timestamps is not None:
            self.timestamps.used += rows * 8
        if self.keys is not None:
            end_binary(&places.key, self.keys)
        if self.values is not None:
            end_binary(&places.value, self.values)
        if rows:
            self.count += rows
            self.note()
        return 0

    cdef object fill_from_records(self):
        """Add record objects: those from older formats or other engines, and those whose names need checking."""
        cdef Py_ssize_t size
        while True:
            record = next(self.records, None) if self.waiting is None else self.waiting
            self.waiting = None
            if record is None:
                self.leave()
                return True
            if self.wanted.are_set and not self.wanted.start <= record.offset < self.wanted.end:
                continue
            headers = [(name.encode(), value) for name, value in record.headers]
            size = len(record.key or b"") if self.keys is not None else 0
            if self.values is not None:
                size += len(record.value or b"")
            if self.lists is not None:
                size += sum([len(name) + len(value or b"") + HEADER_BYTES for name, value in headers])
            if self.count and (self.count == self.rows_max or self.size_in_bytes + size > self.bytes_max):
                self.waiting = record
                return False
            self.add(record, headers)
            self.size_in_bytes += size
            self.count += 1
            self.note()

    cdef int add(self, record, list headers) except -1:
        """Add the row of one record."""
        cdef int64_t number
        cdef BinaryPlace place
        if self.offsets is not None:
            self.offsets.reserve(8)
            number = record.offset
            memcpy(self.offsets.start + self.offsets.used, &number, 8)
            self.offsets.used += 8
        if self.timestamps is not None:
            self.timestamps.reserve(8)
            number = record.timestamp_ms
            memcpy(self.timestamps.start + self.timestamps.used, &number, 8)
            self.timestamps.used += 8
        if self.keys is not None:
            self.keys.add(record.key)
        if self.values is not None:
            self.values.add(record.value)
        if self.lists is not None:
            for name, value in headers:
                self.names.add(name)
                self.header_values.add(value)
            self.lists.reserve(1, 0, not headers)
            begin_binary(&place, self.lists)
            put_end(&place, <int32_t>len(headers) if headers else -1)
            end_binary(&place, self.lists)
        return 0
