# Reading: from bytes to messages. Each function returns an owned reference, or NULL with the failure recorded in the
# reader.

cdef inline PyObject *refuse(Reader *r, Failure failure, const uint8_t *where, int64_t first, int64_t second) noexcept:
    r.failure = failure
    r.where = where
    r.first = first
    r.second = second
    return NULL


cdef inline PyObject *made(Reader *r, PyObject *value) noexcept:
    """Return a value that CPython created, or record the failure."""
    if value == NULL:
        r.failure = PYTHON
    return value


cdef inline PyObject *shared(PyObject *value) noexcept:
    Py_INCREF(value)
    return value


cdef void step_out(Reader *r, PyObject *name, Py_ssize_t index) noexcept:
    """Add a step to the path of a failure: a field or, if there is no name, the index of an element."""
    if r.steps < MAX_STEPS:
        r.names[r.steps] = name
        r.indexes[r.steps] = index
        r.steps += 1


cdef int read_long_varint(Reader *r, const uint8_t *where, int32_t *value) noexcept:
    cdef uint32_t result = 0
    cdef uint8_t byte
    cdef int shift
    for shift in range(0, 35, 7):
        if r.p >= r.end:
            refuse(r, SHORT, where, 1, 0)
            return -1
        byte = r.p[0]
        r.p += 1
        result |= <uint32_t>(byte & 0x7F) << shift
        if byte < 0x80:
            value[0] = <int32_t>result
            return 0
    refuse(r, LONG_VARINT, where, 0, 0)
    return -1


cdef inline int read_varint(Reader *r, const uint8_t *where, int32_t *value) noexcept:
    """Read an unsigned varint, wrapped to int32; return -1 on failure."""
    if r.p < r.end and r.p[0] < 0x80:
        value[0] = r.p[0]
        r.p += 1
        return 0
    return read_long_varint(r, where, value)


cdef inline int read_length(Reader *r, Op *op, int width, int64_t *length) noexcept:
    """Read a length or count, compact or of `width` bytes; return 1 for a value, 0 for null, -1 for a failure."""
    cdef const uint8_t *where = r.p
    cdef int32_t value
    if op.compact:
        if read_varint(r, where, &value) < 0:
            return -1
        # int32 arithmetic wraps.
        length[0] = <int64_t>value - 1 if value != -2147483647 - 1 else 2147483647
    else:
        if r.end - r.p < width:
            refuse(r, SHORT, where, width, r.end - r.p)
            return -1
        length[0] = <int16_t>load16(r.p) if width == 2 else <int32_t>load32(r.p)
        r.p += width
    if length[0] >= 0:
        return 1
    if op.nullable and (op.array or op.kind != STRUCT):
        return 0
    refuse(r, NULL_LENGTH, where, length[0], 0)
    return -1


cdef PyObject *read_sized(Op *op, Reader *r) noexcept:
    """Read a string, bytes or records."""
    cdef const uint8_t *where = r.p
    cdef int64_t length
    cdef int found = read_length(r, op, 2 if op.kind == STRING else 4, &length)
    if found <= 0:
        return NULL if found < 0 else shared(Py_None)
    if op.kind == STRING and length > MAX_STRING_BYTES:
        return refuse(r, LONG_STRING, where, length, 0)
    if length > r.end - r.p:
        return refuse(r, SHORT, where, length, r.end - r.p)
    cdef const uint8_t *content = r.p
    r.p += length
    if op.kind == STRING:
        return made(r, shared_string(content, length))
    if op.kind == BYTES:
        return made(r, PyBytes_FromStringAndSize(<const char *>content, length))
    if r.view == NULL:
        r.view = made(r, whole_view(r.source))
        if r.view == NULL:
            return NULL
    if op.array:
        return made(r, part_view(r.view, content, length))
    return made(r, new_span(r.view, content, length))


cdef PyObject *read_nullable_structure(Op *op, Reader *r) noexcept:
    cdef const uint8_t *where = r.p
    cdef int32_t marker
    if op.tag >= 0:
        if read_varint(r, where, &marker) < 0:
            return NULL
        if marker <= 0:
            return shared(Py_None)
    else:
        if r.p >= r.end:
            return refuse(r, SHORT, where, 1, 0)
        r.p += 1
        if where[0] > 127:
            return shared(Py_None)
    return read_structure(op.sub, r)


cdef inline PyObject *read_value(Op *op, Kind kind, Reader *r) noexcept:
    """Read a value of any kind: a whole field, or an element of an array."""
    cdef const uint8_t *p = r.p
    cdef Py_ssize_t left = r.end - p
    if kind == INT32:
        if left < 4:
            return refuse(r, SHORT, p, 4, left)
        r.p = p + 4
        return made(r, small_number(<int32_t>load32(p)))
    elif kind == INT16:
        if left < 2:
            return refuse(r, SHORT, p, 2, left)
        r.p = p + 2
        return made(r, small_number(<int16_t>load16(p)))
    elif kind == INT64:
        if left < 8:
            return refuse(r, SHORT, p, 8, left)
        r.p = p + 8
        return read_large(r, <int64_t>load64(p))
    elif kind == ARRAY:
        return read_array(op, r)
    elif kind == STRUCT:
        return read_structure(op.sub, r)
    elif kind == NULLABLE_STRUCT:
        return read_nullable_structure(op, r)
    elif kind == STRING or kind == BYTES or kind == RECORDS:
        return read_sized(op, r)
    else:
        return read_other(op, r)


cdef inline PyObject *read_large(Reader *r, int64_t value) noexcept:
    """Return an int64, sharing an equal predecessor's object: high watermark and last stable offset are often equal."""
    cdef PyObject *number
    if is_small(value):
        return small_number(value)
    if value == r.large and r.large_object != NULL:
        return shared(r.large_object)
    number = made(r, PyLong_FromLongLong(value))
    if number == NULL:
        return NULL
    Py_XDECREF(r.large_object)
    r.large = value
    r.large_object = shared(number)
    return number


cdef PyObject *read_other(Op *op, Reader *r) noexcept:
    """Read a value of a rarer type of fixed size."""
    cdef const uint8_t *p = r.p
    cdef Py_ssize_t left = r.end - p
    cdef int size
    if op.kind == BOOL or op.kind == INT8:
        size = 1
    elif op.kind == UINT16:
        size = 2
    elif op.kind == UINT32:
        size = 4
    elif op.kind == FLOAT64:
        size = 8
    else:
        size = 16
    if left < size:
        return refuse(r, SHORT, p, size, left)
    r.p = p + size
    if op.kind == BOOL:
        return shared(Py_True if p[0] else Py_False)
    if op.kind == INT8:
        return made(r, small_number(<int8_t>p[0]))
    if op.kind == UINT16:
        return made(r, small_number(load16(p)))
    if op.kind == UINT32:
        return made(r, small_number(load32(p)))
    if op.kind == FLOAT64:
        return made(r, PyFloat_FromDouble(load_double(p)))
    return made(r, PyBytes_FromStringAndSize(<const char *>p, size))


cdef PyObject *read_array(Op *op, Reader *r) noexcept:
    cdef const uint8_t *where = r.p
    cdef int64_t count, index, size, left
    cdef PyObject *elements
    cdef PyObject *element
    cdef Op single
    cdef int found = read_length(r, op, 4, &count)
    if found <= 0:
        return NULL if found < 0 else shared(Py_None)
    left = r.end - r.p
    if count > left:
        return refuse(r, MANY, where, count, left)
    if count == 0:
        return shared(<PyObject *>EMPTY)
    if op.kind == INT32 and count * 4 <= left:
        elements = made(r, shared_int32s(r.p, count))
        if elements != NULL:
            r.p += count * 4
        return elements
    # A count that exceeds the remaining bytes fails at the element at which they end; no memory is reserved beyond it.
    size = count if count * op.element_bytes <= left else left // op.element_bytes
    elements = made(r, PyTuple_New(size))
    if elements == NULL:
        return NULL
    single = op[0]
    single.nullable = False
    # Code that asks the garbage collector for all tuples must not get this half-filled one. Among its elements, only
    # records are tracked.
    PyObject_GC_UnTrack(elements)
    for index in range(count):
        element = read_structure(op.sub, r) if op.kind == STRUCT else read_value(&single, op.kind, r)
        if element == NULL:
            step_out(r, NULL, index)
            Py_DECREF(elements)
            return NULL
        tuple_set(elements, index, element)
    if op.kind == RECORDS:
        PyObject_GC_Track(elements)
    return elements


cdef inline PyObject *read_field(Op *op, Reader *r) noexcept:
    cdef PyObject *value = read_value(op, op.field_kind, r)
    if value == NULL:
        step_out(r, op.name, 0)
    return value


cdef void drop_unfinished(Shape *shape, PyObject *message, Op *op) noexcept:
    """Free a message whose fields from `op` on were not read: their slots do not hold objects."""
    cdef Op *end = shape.fields + shape.field_count
    while op < end:
        slot_at(message, op.slot)[0] = NULL
        op += 1
    Py_DECREF(message)


cdef inline PyObject *read_run(Op *op, PyObject *message, Reader *r) noexcept:
    """Read consecutive fixed-size fields, checking only once that enough bytes are left for all of them.

    Returns the last value, which the message owns, or NULL.
    """
    cdef const uint8_t *p = r.p
    cdef Op *end = op + op.run
    cdef PyObject *value = NULL
    cdef Kind kind
    while op < end:
        kind = op.field_kind
        if kind == INT32:
            value = small_number(<int32_t>load32(p))
            p += 4
        elif kind == INT16:
            value = small_number(<int16_t>load16(p))
            p += 2
        elif kind == INT64:
            value = read_large(r, <int64_t>load64(p))
            p += 8
        elif kind == INT8:
            value = small_number(<int8_t>p[0])
            p += 1
        elif kind == UINT16:
            value = small_number(load16(p))
            p += 2
        elif kind == UINT32:
            value = small_number(load32(p))
            p += 4
        else:
            value = shared(Py_True if p[0] else Py_False)
            p += 1
        if value == NULL:
            r.failure = PYTHON
            step_out(r, op.name, 0)
            while op < end:
                slot_at(message, op.slot)[0] = NULL
                op += 1
            return NULL
        slot_at(message, op.slot)[0] = value
        op += 1
    r.p = p
    return value


cdef PyObject *read_structure(Shape *shape, Reader *r) noexcept:
    cdef PyObject *message = made(r, new_message(shape.cls, shape.words, shape.defaults, shape.default_count))
    cdef Op *op = shape.fields
    cdef Op *end = op + shape.field_count
    cdef PyObject *value
    if message == NULL:
        return NULL
    while op < end:
        if op.run and r.end - r.p >= op.run_bytes:
            value = read_run(op, message, r)
            op += op.run
        else:
            value = slot_at(message, op.slot)[0] = read_field(op, r)
            op += 1
        if value == NULL:
            drop_unfinished(shape, message, op)
            return NULL
    if shape.flexible:
        if r.p < r.end and r.p[0] == 0:  # most structures have no tagged fields
            r.p += 1
        elif read_tagged(shape, message, r) < 0:
            Py_DECREF(message)
            return NULL
    return message


cdef int read_tagged(Shape *shape, PyObject *message, Reader *r) noexcept:
    cdef const uint8_t *where = r.p
    cdef PyObject *unknown = NULL
    cdef PyObject *value
    cdef Op *op
    cdef int32_t count, tag, size
    cdef int i
    if read_varint(r, where, &count) < 0:
        step_out(r, <PyObject *>UNKNOWN_TAGS, 0)
        return -1
    while count > 0:
        count -= 1
        where = r.p
        if read_varint(r, where, &tag) < 0 or read_varint(r, where, &size) < 0:
            step_out(r, <PyObject *>UNKNOWN_TAGS, 0)
            Py_XDECREF(unknown)
            return -1
        op = NULL
        for i in range(shape.tagged_count):
            if shape.tagged[i].tag == tag:
                op = &shape.tagged[i]
                break
        if op != NULL:
            value = read_field(op, r)
            if value == NULL:
                Py_XDECREF(unknown)
                return -1
            replace_slot(message, op.slot, value)
        elif read_unknown(shape, r, where, tag, size, &unknown) < 0:
            step_out(r, <PyObject *>UNKNOWN_TAGS, 0)
            Py_XDECREF(unknown)
            return -1
    if unknown != NULL:
        value = made(r, PyList_AsTuple(unknown))
        Py_DECREF(unknown)
        if value == NULL:
            return -1
        replace_slot(message, shape.unknown_slot, value)
    return 0


cdef int read_unknown(
    Shape *shape, Reader *r, const uint8_t *where, int32_t tag, int32_t size, PyObject **unknown
) noexcept:
    """Add a tagged field that the version does not know to the list `unknown`."""
    cdef PyObject *pair
    cdef PyObject *number
    cdef PyObject *content
    cdef int failed, i
    for i in range(shape.invalid_count):
        if shape.invalid_tags[i] == tag:
            refuse(r, INVALID_TAG, where, tag, 0)
            return -1
    if size < 0:
        refuse(r, TAG_SIZE, where, size, 0)
        return -1
    if size > r.end - r.p:
        refuse(r, SHORT, where, size, r.end - r.p)
        return -1
    if unknown[0] == NULL:
        unknown[0] = made(r, PyList_New(0))
        if unknown[0] == NULL:
            return -1
    pair = made(r, PyTuple_New(2))
    number = made(r, PyLong_FromLong(tag))
    content = made(r, PyBytes_FromStringAndSize(<const char *>r.p, size))
    if pair == NULL or number == NULL or content == NULL:
        Py_XDECREF(pair)
        Py_XDECREF(number)
        Py_XDECREF(content)
        return -1
    tuple_set(pair, 0, number)
    tuple_set(pair, 1, content)
    r.p += size
    failed = PyList_Append(unknown[0], pair)
    Py_DECREF(pair)
    if failed < 0:
        r.failure = PYTHON
    return failed


cdef inline void replace_slot(PyObject *message, Py_ssize_t slot, PyObject *value) noexcept:
    cdef PyObject **place = slot_at(message, slot)
    cdef PyObject *previous = place[0]
    place[0] = value
    Py_XDECREF(previous)
