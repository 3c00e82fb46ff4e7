# The columns of an index file (see `python_index_columns.py`).

def index_columns(bytes content not None, Py_ssize_t key_bytes):
    """Return the columns of an index file as `index_columns.py` does, as bytes in the machine's byte order."""
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
