# What a program finds out about its ops before it runs: where slots lie, what bytes fields take at least, which fields
# can be read in one go.

cdef void find_runs(Op *ops, int count) noexcept:
    cdef int i
    cdef bint more
    for i in range(count - 1, -1, -1):
        if ops[i].field_kind <= INT64:
            more = i + 1 < count
            ops[i].run = 1 + (ops[i + 1].run if more else 0)
            ops[i].run_bytes = FIXED_BYTES[<int>ops[i].kind] + (ops[i + 1].run_bytes if more else 0)


cdef Op *allocate(Py_ssize_t count) except NULL:
    cdef Op *ops = <Op *>PyMem_Calloc(count if count else 1, sizeof(Op))
    if ops == NULL:
        raise MemoryError
    return ops


cdef Py_ssize_t slot_of(cls, str name) except -1:
    """Return where a slot of a class lies, in bytes from the start of its instances."""
    descriptor = cls.__dict__.get(name)
    if type(descriptor) is RecordsSlot:
        descriptor = (<RecordsSlot>descriptor).member
    if not is_slot(<PyObject *>descriptor, <PyTypeObject *>cls):
        raise TypeError(f"{cls.__qualname__}.{name} is not a slot")
    return member_offset(<PyObject *>descriptor)


cdef Py_ssize_t least_bytes(Shape *shape) noexcept:
    """Return how many bytes a structure takes at least."""
    cdef Py_ssize_t total = 1 if shape.flexible else 0
    cdef int i
    for i in range(shape.field_count):
        total += least_field_bytes(&shape.fields[i])
    return total


cdef Py_ssize_t least_field_bytes(Op *op) noexcept:
    if op.array:
        return 1 if op.compact else 4
    return 1 if op.kind == STRUCT and op.nullable else least_element_bytes(op)


cdef Py_ssize_t least_element_bytes(Op *op) noexcept:
    if op.kind == STRUCT:
        return op.sub.least_bytes
    if op.kind >= STRING:
        return 1 if op.compact else 2 if op.kind == STRING else 4
    return FIXED_BYTES[<int>op.kind]
