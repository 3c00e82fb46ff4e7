# The functions that other extensions call directly, without going through a Python object.

from libc.stdint cimport int32_t, int64_t, uint8_t

# Append a record without headers. Returns the size of the batch, 0 if the record does not fit or the batch is closed;
# `index` gets the record's offset relative to the batch.
cdef Py_ssize_t append_plain(
    object builder,
    int64_t timestamp,
    const uint8_t *key,
    int32_t key_size,
    const uint8_t *value,
    int32_t value_size,
    int32_t *index,
) except -1
