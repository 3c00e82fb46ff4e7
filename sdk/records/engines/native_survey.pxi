# A summary of the batches of a segment (see `python_survey.py`).

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
            # Unsigned: no offset is below the base, so the distance between two offsets always fits.
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
