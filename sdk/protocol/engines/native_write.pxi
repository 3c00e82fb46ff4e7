# Writing: from messages to bytes. Each function returns 0, or -1 when a value does not fit; a Python error may be set
# then. Values may run code of theirs (`__index__`, `__len__`, `__eq__`, buffers) that changes the message: what is in
# use is held.

cdef int set_again(BaseException error) noexcept:
    """Set an error that Python code raised, for `Program.write` to look at; return -1."""
    PyErr_SetObject(<PyObject *>Py_TYPE(<PyObject *>error), <PyObject *>error)
    return -1


cdef int grow(Writer *w, Py_ssize_t more) noexcept:
    cdef Py_ssize_t size = w.size * 2
    if size < w.n + more:
        size = w.n + more
    if _PyBytes_Resize(&w.data, size) < 0:
        return -1  # data is NULL now
    w.buf = <uint8_t *>PyBytes_AS_STRING(w.data)
    w.size = size
    return 0


cdef inline int room(Writer *w, Py_ssize_t more) noexcept:
    return grow(w, more) if w.size - w.n < more else 0


cdef inline int write_varint(Writer *w, uint32_t value) noexcept:
    if room(w, 5) < 0:
        return -1
    while value > 0x7F:
        w.buf[w.n] = <uint8_t>(value & 0x7F | 0x80)
        w.n += 1
        value >>= 7
    w.buf[w.n] = <uint8_t>value
    w.n += 1
    return 0


cdef inline int write_length(Writer *w, Op *op, int width, Py_ssize_t length) noexcept:
    """Write a length or count of `width` bytes or compact; -1 for null."""
    if length > 0x7FFFFFFF:
        return -1
    if op.compact:
        return write_varint(w, <uint32_t>(length + 1))
    if room(w, 4) < 0:
        return -1
    if width == 2:
        store16(w.buf + w.n, <uint16_t>length)
    else:
        store32(w.buf + w.n, <uint32_t>length)
    w.n += width
    return 0


cdef inline int write_bytes(Writer *w, const void *content, Py_ssize_t size) noexcept:
    if room(w, size) < 0:
        return -1
    if size:
        memcpy(w.buf + w.n, content, size)
    w.n += size
    return 0


cdef inline int write_integer(Writer *w, Kind kind, PyObject *value) noexcept:
    cdef int64_t number
    if not is_digit(value, &number):
        number = PyLong_AsLongLong(value)
        if number == -1 and PyErr_Occurred() != NULL:
            return -1
    if room(w, 8) < 0:
        return -1
    cdef uint8_t *p = w.buf + w.n
    if kind == INT32:
        if number != <int32_t>number:
            return -1
        store32(p, <uint32_t>number)
        w.n += 4
    elif kind == INT16:
        if number != <int16_t>number:
            return -1
        store16(p, <uint16_t>number)
        w.n += 2
    elif kind == INT64:
        store64(p, <uint64_t>number)
        w.n += 8
    elif kind == INT8:
        if number != <int8_t>number:
            return -1
        p[0] = <uint8_t>number
        w.n += 1
    elif kind == UINT16:
        if number != <uint16_t>number:
            return -1
        store16(p, <uint16_t>number)
        w.n += 2
    else:
        if number != <uint32_t>number:
            return -1
        store32(p, <uint32_t>number)
        w.n += 4
    return 0


cdef int write_other(Writer *w, Kind kind, PyObject *value) noexcept:
    """Write a bool, float64 or UUID."""
    cdef double number
    if kind == UUID:
        if not PyBytes_Check(value) or PyBytes_GET_SIZE(value) != 16:
            return -1
        return write_bytes(w, PyBytes_AS_STRING(value), 16)
    if room(w, 8) < 0:
        return -1
    if kind == FLOAT64:
        number = PyFloat_AsDouble(value)
        if number == -1.0 and PyErr_Occurred() != NULL:
            return -1
        store_double(w.buf + w.n, number)
        w.n += 8
        return 0
    if value != Py_True and value != Py_False:
        value = PyDict_GetItemWithError(<PyObject *>BOOLEANS, value)
        if value == NULL:
            return -1
    w.buf[w.n] = value == Py_True
    w.n += 1
    return 0


cdef int write_string(Writer *w, Op *op, PyObject *value) noexcept:
    cdef Py_ssize_t size
    cdef const char *text
    if not PyUnicode_Check(value):
        return -1
    text = ascii_of(value, &size)
    if text == NULL:
        text = PyUnicode_AsUTF8AndSize(value, &size)
    if text == NULL or size > MAX_STRING_BYTES or write_length(w, op, 2, size) < 0:
        return -1
    return write_bytes(w, text, size)


cdef int write_buffer(Writer *w, Op *op, PyObject *value) noexcept:
    """Write bytes or records; large records are left out when parts are wanted."""
    cdef Py_buffer view
    cdef int failed
    if PyBytes_CheckExact(value) and (op.kind == BYTES or w.apart == NULL or PyBytes_GET_SIZE(value) < APART_BYTES):
        if write_length(w, op, 4, PyBytes_GET_SIZE(value)) < 0:
            return -1
        return write_bytes(w, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))
    if is_span(value):
        return write_span(w, op, value)
    if op.kind == RECORDS and w.apart != NULL:
        return write_part(w, op, value)
    if PyObject_GetBuffer(value, &view, PyBUF_SIMPLE) < 0:
        return -1
    failed = write_length(w, op, 4, view.len)
    if failed == 0:
        failed = write_bytes(w, view.buf, view.len)
    PyBuffer_Release(&view)
    return failed


cdef int write_span(Writer *w, Op *op, PyObject *value) noexcept:
    """Write records that nobody has looked at since they were read."""
    cdef Span *span = as_span(value)
    cdef PyObject *view
    cdef int failed
    if w.apart != NULL and span.size >= APART_BYTES:
        view = view_of_span(value)
        if view == NULL:
            return -1
        failed = write_part(w, op, view)
        Py_DECREF(view)
        return failed
    if write_length(w, op, 4, span.size) < 0:
        return -1
    return write_bytes(w, span.start, span.size)


cdef int write_part(Writer *w, Op *op, PyObject *value) noexcept:
    """Write records where parts are wanted: leave large ones out, and what is no buffer but has a length."""
    cdef Py_ssize_t size
    try:
        if PyBytes_CheckExact(value):
            part = <object>value
            size = PyBytes_GET_SIZE(value)
        else:
            part, size = as_part(<object>value)  # the one look at the buffer: its view is what is sent
        if write_length(w, op, 4, size) < 0:
            return -1
        if size >= APART_BYTES or not isinstance(part, (bytes, memoryview)):
            (<list><object>w.apart).append((w.n, part))
            return 0
        part = bytes(part)
        return write_bytes(w, PyBytes_AS_STRING(<PyObject *>part), PyBytes_GET_SIZE(<PyObject *>part))
    except BaseException as error:
        return set_again(error)


cdef inline int write_element(Op *op, PyObject *value, Writer *w) noexcept:
    """Write a value that is neither an array nor null."""
    if op.kind == STRUCT:
        return write_structure(op.sub, value, w)
    if op.kind == STRING:
        return write_string(w, op, value)
    if op.kind == BYTES or op.kind == RECORDS:
        return write_buffer(w, op, value)
    if op.kind == BOOL or op.kind == FLOAT64 or op.kind == UUID:
        return write_other(w, op.kind, value)
    return write_integer(w, op.kind, value)


cdef int write_array(Op *op, PyObject *value, Writer *w) noexcept:
    cdef PyObject *elements  # a tuple, held: nobody can change it
    cdef Py_ssize_t index, count
    cdef int failed
    if PyTuple_CheckExact(value):
        elements = value
        Py_INCREF(elements)
    else:
        elements = PyList_AsTuple(value) if PyList_CheckExact(value) else tuple_of(value)
        if elements == NULL:
            return -1
    count = PyTuple_GET_SIZE(elements)
    failed = write_length(w, op, 4, count)
    index = 0
    if op.kind == INT32 and failed == 0:
        index = write_int32s(w, elements, count)
        failed = -1 if index < 0 else 0
    if op.kind == STRUCT:  # None is of another class, too
        while failed == 0 and index < count:
            failed = write_structure(op.sub, PyTuple_GET_ITEM(elements, index), w)
            index += 1
    while failed == 0 and index < count:
        failed = -1 if PyTuple_GET_ITEM(elements, index) == Py_None else write_element(
            op, PyTuple_GET_ITEM(elements, index), w
        )
        index += 1
    Py_DECREF(elements)
    return failed


cdef inline Py_ssize_t write_int32s(Writer *w, PyObject *elements, Py_ssize_t count) noexcept:
    """Write int32 up to one that is no int of one digit, most often all; return how many, -1 without memory."""
    cdef Py_ssize_t index
    cdef int64_t number
    cdef uint8_t *p
    if room(w, count * 4) < 0:
        return -1
    p = w.buf + w.n
    for index in range(count):
        if not is_digit(PyTuple_GET_ITEM(elements, index), &number):
            count = index
            break
        store32(p + 4 * index, <uint32_t>number)  # a digit has 30 bits
    w.n += count * 4
    return count


cdef PyObject *tuple_of(PyObject *value) noexcept:
    """Return any other sequence as a tuple, NULL if it is none."""
    try:
        elements = tuple(as_sequence(<object>value))
    except BaseException as error:
        set_again(error)
        return NULL
    Py_INCREF(<PyObject *>elements)
    return <PyObject *>elements


cdef int write_null(Op *op, Writer *w) noexcept:
    if not op.nullable:
        return -1
    if op.array or op.kind != STRUCT:
        return write_length(w, op, 2 if op.kind == STRING and not op.array else 4, -1)
    if room(w, 1) < 0:
        return -1
    w.buf[w.n] = 0 if op.tag >= 0 else 0xFF
    w.n += 1
    return 0


cdef inline int write_value(Op *op, PyObject *value, Writer *w) noexcept:
    if value == Py_None:
        return write_null(op, w)
    if op.array:
        return write_array(op, value, w)
    if op.kind == STRUCT and op.nullable:
        if room(w, 1) < 0:
            return -1
        w.buf[w.n] = 1
        w.n += 1
    return write_element(op, value, w)
