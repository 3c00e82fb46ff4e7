# Records as rows of plain Arrow columns, and what the batches say that they come from, see `rows.py`. What is broken
# leaves no row.

cdef struct BatchFacts:
    # What rows of one batch have in common, see `BatchColumns`; they end before row `end`.
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
    """Return a field of so many facts: `first` is where that of the first one is."""
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
    # Of the batch that is being read, and whether they are among those of `batches`.
    cdef BatchFacts facts
    cdef bint is_noted
    # The batch that is being read: its records from `next` on, of which `given` were read; or other records, one of
    # which did not fit.
    cdef RecordBatch batch
    cdef Payload payload
    cdef const uint8_t *next
    cdef int32_t given
    cdef OffsetRange wanted
    cdef object records, waiting

    def __init__(self, columns=None, *, rows_max=None, bytes_max=None):
        form = rows_form()
        names = form.checked_columns(form.COLUMNS if columns is None else columns)
        self.rows_max = form.ROWS_MAX if rows_max is None else rows_max
        self.bytes_max = form.ROWS_BYTES_MAX if bytes_max is None else bytes_max
        if self.rows_max < 1 or self.bytes_max < 1:
            raise ValueError(f"{rows_max} rows and {bytes_max} bytes, at least 1 of each is needed")
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
            rows_form().check_records(batch, self.lists is not None)
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
            # Who says what is broken makes objects of them, too.
            rows_form().check_headers(piece.most_headers, piece.names_are_ascii and not is_broken, limit)
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
            self.write(&payload.region, self.next, &piece)  # most batches: measured once
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
            if p == NULL:  # only memory that changes meanwhile comes here
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
            headers = rows_form().HeaderColumns(
                self.lists.hand_over(), self.names.hand_over(), self.header_values.hand_over()
            )
        self.count = self.size_in_bytes = 0
        self.is_noted = False
        return rows_form().RowColumns(
            count,
            self.take_batches(),
            None if self.offsets is None else self.offsets.hand_over(),
            None if self.timestamps is None else self.timestamps.hand_over(),
            None if self.keys is None else self.keys.hand_over(),
            None if self.values is None else self.values.hand_over(),
            headers,
        )

    cdef int leave(self) except -1:
        """Forget the batch that was being read."""
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
        """Take the facts of a batch of another engine, or of one before magic 2."""
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
        """Say that the batch that is being read has the rows up to here."""
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
        form = rows_form()
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
        """Write all records of a batch; return whether it could be: whether none is broken, and there is room."""
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
        """Write all records of a batch, in a single pass; return whether it could be.

        It cannot where headers are wanted, for the first null of a column, and where the batch might not fit.
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
        """Write a piece that was measured, from `p` on."""
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
        """Have room for rows, and say where they go; nothing is there before `end_rows`."""
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
        """Have rows that were written."""
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
        """Add records that are objects: of older formats and other engines, and where names need a look."""
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
