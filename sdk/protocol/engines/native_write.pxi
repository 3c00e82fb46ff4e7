# Writing: from messages to bytes. Each function returns 0, or -1 if a value does not fit, possibly with a Python error
# set. Values can run their own code (`__index__`, `__len__`, `__eq__`, buffers), which can change the message, so
# objects in use are held.

cdef int set_again(BaseException error) noexcept:
    """Set an error that Python code raised, for `Program.write` to handle; return -1."""
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
    """Write a length or count, either compact or of `width` bytes; -1 for null."""
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
    """Write bytes or records; large records become separate parts if parts are wanted."""
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
    """Write records that have not been accessed since they were read."""
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
    """Write records if parts are wanted: large ones stay separate, as do objects with a length that are not buffers."""
    cdef Py_ssize_t size
    try:
        if PyBytes_CheckExact(value):
            part = <object>value
            size = PyBytes_GET_SIZE(value)
        else:
            part, size = as_part(<object>value)  # the only export of the buffer: its view is sent
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
    cdef PyObject *elements  # a held tuple cannot change
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
    if op.kind == STRUCT:  # None also has another class
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
    """Write int32 values up to the first that is not a one-digit int, usually all; return the count, -1 on failure."""
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
    """Return any other sequence as a tuple, or NULL if the value is not a sequence."""
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


# Structures: their fields, the checks for defaults, and the tagged fields.

cdef inline PyObject *held_slot(PyObject *message, Op *op) noexcept:
    """Return an owned reference to a field's value: `DEFAULT` for a structure not yet created, NULL if deleted."""
    cdef PyObject *value = slot_at(message, op.slot)[0]
    if value == NULL or is_span(value):
        return NULL if value == NULL else view_of_span(value)
    Py_INCREF(value)
    return value


cdef int write_structure(Shape *shape, PyObject *message, Writer *w) noexcept:
    cdef Op *op
    cdef Op *end
    cdef PyObject *value
    cdef int i, failed
    if Py_TYPE(message) != shape.cls:
        return -1
    for i in range(shape.absent_count):
        op = &shape.absent[i]
        if not op.ignorable and slot_at(message, op.slot)[0] != op.default and has_default(op, message) != 1:
            return -1
    op = shape.fields
    end = op + shape.field_count
    while op < end:
        if op.run:
            i = write_run(op, message, w)
            if i:
                if i < 0:
                    return -1
                op += i
                continue
        value = slot_at(message, op.slot)[0]
        if value == NULL:
            return -1
        Py_INCREF(value)
        if value == op.default and op.kind == STRUCT and not op.array and value != Py_None:
            failed = write_new_structure(op, w)
        else:
            failed = write_value(op, value, w)
        Py_DECREF(value)
        if failed < 0:
            return -1
        op += 1
    value = slot_at(message, shape.unknown_slot)[0]
    if shape.flexible:
        if shape.tagged_count == 0 and value == <PyObject *>EMPTY:
            if room(w, 1) < 0:
                return -1
            w.buf[w.n] = 0
            w.n += 1
            return 0
        return write_tagged(shape, message, w)
    return 0 if no_tags(value) == 1 else -1


cdef inline int write_run(Op *op, PyObject *message, Writer *w) noexcept:
    """Write consecutive fields of fixed size as long as they hold plain numbers and booleans.

    Writing them runs no other code, so they need not be held. Returns the number of written fields.
    """
    cdef Op *end = op + op.run
    cdef PyObject *value
    cdef uint8_t *p
    cdef int64_t number
    cdef Kind kind
    cdef int count = 0
    if room(w, op.run_bytes) < 0:
        return -1
    p = w.buf + w.n
    while op < end:
        value = slot_at(message, op.slot)[0]
        kind = op.field_kind
        if kind == BOOL:
            if value != Py_True and value != Py_False:
                break
            p[0] = value == Py_True
            p += 1
        elif value == NULL or not is_digit(value, &number):
            break
        elif kind == INT32:
            store32(p, <uint32_t>number)  # a digit has 30 bits
            p += 4
        elif kind == INT16:
            if number != <int16_t>number:
                return -1
            store16(p, <uint16_t>number)
            p += 2
        elif kind == INT64:
            store64(p, <uint64_t>number)
            p += 8
        elif kind == INT8:
            if number != <int8_t>number:
                return -1
            p[0] = <uint8_t>number
            p += 1
        elif kind == UINT16:
            if number != <uint16_t>number:
                return -1
            store16(p, <uint16_t>number)
            p += 2
        else:
            if number < 0:
                return -1
            store32(p, <uint32_t>number)
            p += 4
        op += 1
        count += 1
    w.n = p - w.buf
    return count


cdef int no_tags(PyObject *unknown) noexcept:
    """Return 1 if there are no unknown tagged fields, 0 if there are some, -1 if the check fails."""
    if unknown == NULL:
        return -1
    if unknown == <PyObject *>EMPTY:
        return 1
    try:
        return 1 if is_default(<object>unknown, ()) else 0
    except BaseException as error:
        return set_again(error)


cdef int write_new_structure(Op *op, Writer *w) noexcept:
    """Write a new instance of a structure whose field has been neither set nor read."""
    cdef PyObject *value
    cdef int failed
    try:
        instance = (<object>op.sub.cls)()
        value = <PyObject *>instance
        failed = write_value(op, value, w)
    except BaseException as error:
        return set_again(error)
    return failed


cdef int has_default(Op *op, PyObject *message) noexcept:
    """Return 1 if a field has its default, 0 if not, -1 if the check fails."""
    cdef PyObject *value = held_slot(message, op)
    cdef int result = -1
    if value == NULL:
        return -1
    if value == op.default:
        result = 1
    elif op.array and op.default != Py_None and PyTuple_CheckExact(value):
        result = PyTuple_GET_SIZE(value) == 0
    elif op.sub != NULL and not op.array and op.default != Py_None and Py_TYPE(value) == op.sub.cls:
        result = is_new(op.sub, value)
    elif (
        PyLong_CheckExact(value) and PyLong_CheckExact(op.default)
        or PyUnicode_CheckExact(value) and PyUnicode_CheckExact(op.default)
        or PyBytes_CheckExact(value) and PyBytes_CheckExact(op.default)
    ):
        result = PyObject_RichCompareBool(value, op.default, Py_EQ)
    else:
        result = has_default_by_value(op, value)
    Py_DECREF(value)
    return result


cdef int has_default_by_value(Op *op, PyObject *value) noexcept:
    try:
        default = <object>op.default
        if default is DEFAULT:
            default = (<object>op.sub.cls)() if op.sub != NULL else (<object>op.new_default)()
        return 1 if is_default(<object>value, default) else 0
    except BaseException as error:
        return set_again(error)


cdef int is_new(Shape *shape, PyObject *message) noexcept:
    """Return 1 if all fields of a structure have their defaults, 0 if not, -1 if the check fails."""
    cdef Op *groups[3]
    cdef int counts[3]
    cdef int group, i, result
    groups[0], groups[1], groups[2] = shape.fields, shape.tagged, shape.absent
    counts[0], counts[1], counts[2] = shape.field_count, shape.tagged_count, shape.absent_count
    for group in range(3):
        for i in range(counts[group]):
            result = has_default(&groups[group][i], message)
            if result != 1:
                return result
    return no_tags(slot_at(message, shape.unknown_slot)[0])


cdef int write_tagged(Shape *shape, PyObject *message, Writer *w) noexcept:
    """Write the tagged fields that differ from their defaults, merged with the unknown ones by tag."""
    cdef Py_ssize_t start = w.n
    cdef PyObject *unknown = unknown_tags(shape, message)  # a list of (tag, bytes), or NULL
    cdef Py_ssize_t unknown_count = 0, unknown_index = 0
    cdef uint32_t count = 0
    cdef PyObject *value
    cdef Op *op
    cdef int i, failed = 0
    if unknown == NULL:
        return -1
    unknown_count = PyTuple_GET_SIZE(unknown)
    if room(w, 1) < 0:
        Py_DECREF(unknown)
        return -1
    w.n += 1
    for i in range(shape.tagged_count):
        op = &shape.tagged[i]
        failed = has_default(op, message)
        if failed == 1:
            failed = 0
            continue
        if failed < 0:
            break
        while failed == 0 and unknown_index < unknown_count and tag_at(unknown, unknown_index) < op.tag:
            failed = write_unknown(unknown, unknown_index, w)
            unknown_index += 1
            count += 1
        if failed < 0:
            break
        value = held_slot(message, op)
        failed = -1 if value == NULL else write_known(op, value, w)
        Py_XDECREF(value)
        count += 1
        if failed < 0:
            break
    while failed == 0 and unknown_index < unknown_count:
        failed = write_unknown(unknown, unknown_index, w)
        unknown_index += 1
        count += 1
    Py_DECREF(unknown)
    return failed if failed < 0 else fill_in_varint(w, start, count)


cdef int fill_in_varint(Writer *w, Py_ssize_t place, uint32_t value) noexcept:
    """Write a varint at `place`, where one byte was reserved; if it needs more, move the bytes after it."""
    cdef Py_ssize_t end = w.n
    cdef int more = 0
    cdef uint32_t rest = value >> 7
    while rest:
        more += 1
        rest >>= 7
    if more:
        if room(w, more) < 0:
            return -1
        memmove(w.buf + place + 1 + more, w.buf + place + 1, end - place - 1)
    w.n = place
    while value > 0x7F:
        w.buf[w.n] = <uint8_t>(value & 0x7F | 0x80)
        w.n += 1
        value >>= 7
    w.buf[w.n] = <uint8_t>value
    w.n = end + more
    return 0


cdef int write_known(Op *op, PyObject *value, Writer *w) noexcept:
    cdef Py_ssize_t place
    if write_varint(w, <uint32_t>op.tag) < 0:
        return -1
    place = w.n
    if room(w, 1) < 0:
        return -1
    w.n += 1
    if write_value(op, value, w) < 0 or w.n - place - 1 > 0x7FFFFFFF:
        return -1
    return fill_in_varint(w, place, <uint32_t>(w.n - place - 1))


cdef inline int64_t tag_at(PyObject *unknown, Py_ssize_t index) noexcept:
    return PyLong_AsLongLong(PyTuple_GET_ITEM(PyTuple_GET_ITEM(unknown, index), 0))


cdef int write_unknown(PyObject *unknown, Py_ssize_t index, Writer *w) noexcept:
    cdef PyObject *pair = PyTuple_GET_ITEM(unknown, index)
    cdef PyObject *content = PyTuple_GET_ITEM(pair, 1)
    if write_varint(w, <uint32_t>tag_at(unknown, index)) < 0:
        return -1
    if write_varint(w, <uint32_t>PyBytes_GET_SIZE(content)) < 0:
        return -1
    return write_bytes(w, PyBytes_AS_STRING(content), PyBytes_GET_SIZE(content))


cdef PyObject *unknown_tags(Shape *shape, PyObject *message) noexcept:
    """Return the checked unknown tagged fields as a tuple of (tag, bytes); NULL if they are wrong."""
    cdef PyObject *value = slot_at(message, shape.unknown_slot)[0]
    cdef int i
    if value == <PyObject *>EMPTY:
        return shared(value)
    if value == NULL:
        return NULL
    try:
        held = <object>value  # from here on, the garbage collector can run, and with it code that changes the message
        known = [shape.tagged[i].tag for i in range(shape.tagged_count)]
        invalid = [shape.invalid_tags[i] for i in range(shape.invalid_count)]
        tags = tuple([(int(tag), bytes(content)) for tag, content in as_tags(held, known, invalid)])
    except BaseException as error:
        set_again(error)
        return NULL
    Py_INCREF(<PyObject *>tags)
    return <PyObject *>tags
