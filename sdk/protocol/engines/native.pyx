# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Interpret layouts in C: the engine used where the extension is built.

A `Program` holds a layout as arrays of `Op`, one per field. Reading fills the slots of message objects by their
offsets; writing appends to a single growing bytes object. Objects have no garbage collector header, arrays are tuples,
and records are views created on access.

The `Reader` records why it refused damaged bytes (kind, position, two numbers), and each level adds its step to the
path on return. Python code explains refused values (see `shared_refusals.py`). Functions are `noexcept`: they report
failures only by returning NULL or -1.
"""

from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove

from kafkawire.sdk.protocol.engines.native_network_order cimport (
    load16, load32, load64, load_double, store16, store32, store64, store_double,
)

from kafkawire.sdk.errors import DecodeError
from kafkawire.sdk.protocol.engines.shared_refusals import explain_encoding
from kafkawire.sdk.protocol.primitives import (
    as_bytes, as_index, as_part, as_sequence, as_tags, cut, invalid_tag, is_default, outside, reject_null, short,
    too_many,
)
from kafkawire.sdk.protocol.values import DEFAULT, hidden_slot

include "native_objects.pxi"
include "native_interned.pxi"
include "native_records.pxi"

#: Longest string in bytes (see `primitives.py`).
cdef enum:
    MAX_STRING_BYTES = 32767
    #: Size in bytes at which records become separate parts (see `primitives.py`).
    APART_BYTES = 4096
    #: Maximum number of steps kept of a path; structures are nested far less deeply.
    MAX_STEPS = 64
    #: Size of the largest buffer to reserve based on the previous message's size.
    MAX_FIRST_BYTES = 1048576
    FIRST_BYTES = 256

cdef enum Kind:
    BOOL, INT8, INT16, UINT16, INT32, UINT32, INT64, FLOAT64, UUID, STRING, BYTES, RECORDS, STRUCT
    # Further kinds, distinguished only when whole fields are read or written.
    ARRAY, NULLABLE_STRUCT

cdef dict KINDS = {
    "bool": BOOL, "int8": INT8, "int16": INT16, "uint16": UINT16, "int32": INT32, "uint32": UINT32, "int64": INT64,
    "float64": FLOAT64, "uuid": UUID, "string": STRING, "bytes": BYTES, "records": RECORDS, "struct": STRUCT,
}

#: Sizes of the kinds before STRING.
cdef int[9] FIXED_BYTES = [1, 1, 2, 2, 4, 4, 8, 8, 16]

cdef enum Failure:
    NONE, SHORT, LONG_VARINT, NULL_LENGTH, LONG_STRING, MANY, TAG_SIZE, INVALID_TAG, PYTHON

#: The allowed values of a bool field (see `primitives.py`).
cdef dict BOOLEANS = {False: False, True: True}
cdef tuple EMPTY = ()
cdef object BUILT_IN = type(len)

cdef struct Shape

cdef struct Op:
    Kind kind  # the kind of an array's elements
    Kind field_kind
    int run  # the number and total size of the consecutive fixed-size integers and booleans starting here
    int run_bytes
    bint array
    bint nullable
    bint compact
    bint ignorable
    int32_t tag
    Py_ssize_t slot
    Py_ssize_t element_bytes  # the smallest size of an array's element
    PyObject *name  # borrowed from the layout, like the others
    PyObject *default
    PyObject *new_default  # the class of an absent structure, or NULL
    Shape *sub

cdef struct Shape:
    PyTypeObject *cls
    bint flexible
    Py_ssize_t least_bytes  # the smallest size of its encoding
    Py_ssize_t unknown_slot
    int field_count
    int tagged_count
    int absent_count
    int invalid_count
    Op *fields
    Op *tagged
    Op *absent
    int32_t *invalid_tags
    int words  # the size of an instance, in words
    int default_count
    Default *defaults  # the defaults that a new message has before it is read

cdef struct Reader:
    const uint8_t *start
    const uint8_t *p
    const uint8_t *end
    PyObject *source  # bytes, or a view of another buffer
    PyObject *view  # a view of the whole buffer; for bytes, NULL until the first records
    int64_t large  # the last large number read, and its object: owned, or NULL
    PyObject *large_object
    Failure failure
    const uint8_t *where
    int64_t first
    int64_t second
    int steps
    PyObject *names[MAX_STEPS]  # NULL for an index
    Py_ssize_t indexes[MAX_STEPS]

cdef struct Writer:
    PyObject *data  # bytes, owned
    uint8_t *buf
    Py_ssize_t n
    Py_ssize_t size
    PyObject *apart  # list of (position, value), or NULL


cdef class Program:
    """The native engine of one layout; see `programs.Program`.

    Args:
        layout: the layout of a class that `new_class` made.
    """

    cdef Shape shape
    cdef object layout
    cdef object cls
    cdef list held  # keeps alive everything that the shape points to, since the layout could change
    cdef Py_ssize_t first_bytes

    def __cinit__(self, layout):
        cdef tuple fields = tuple(layout.fields)
        cdef tuple tagged = tuple(layout.tagged)
        cdef tuple absent = tuple(layout.absent)
        self.layout = layout
        self.cls = layout.cls
        self.held = []
        self.first_bytes = FIRST_BYTES
        if not is_sealed(<PyObject *>self.cls):
            raise TypeError(f"{self.cls!r} is no message class of this extension")
        self.shape.flexible = layout.flexible
        self.shape.unknown_slot = slot_of(self.cls, "unknown_tags")
        self.shape.fields = allocate(len(fields))
        self.compile(self.shape.fields, fields)
        self.shape.field_count = len(fields)
        find_runs(self.shape.fields, len(fields))
        self.shape.tagged = allocate(len(tagged))
        self.compile(self.shape.tagged, tagged)
        self.shape.tagged_count = len(tagged)
        self.shape.absent = allocate(len(absent))
        self.compile_absent(self.shape.absent, absent)
        self.shape.absent_count = len(absent)
        self.compile_invalid(tuple(layout.invalid_tags))
        self.shape.least_bytes = least_bytes(&self.shape)
        self.compile_defaults()
        # This comes last: a layout can run code, which must not find this program half built.
        self.shape.cls = <PyTypeObject *>self.cls

    def __dealloc__(self):
        PyMem_Free(self.shape.fields)
        PyMem_Free(self.shape.tagged)
        PyMem_Free(self.shape.absent)
        PyMem_Free(self.shape.invalid_tags)
        PyMem_Free(self.shape.defaults)

    cdef int compile(self, Op *op, tuple fields) except -1:
        cdef Program sub
        for field in fields:
            structure = field.structure
            self.compile_slot(op, field)
            op.kind = KINDS[field.kind]
            if (op.kind == STRUCT) != (structure is not None):
                raise TypeError(f"{field!r}: a structure needs its layout, and nothing else has one")
            if op.default == <PyObject *>DEFAULT and structure is None:
                raise TypeError(f"{field!r}: a new structure is its default, but it is none")
            op.array = field.array
            op.nullable = field.nullable
            op.field_kind = ARRAY if op.array else NULLABLE_STRUCT if op.kind == STRUCT and op.nullable else op.kind
            op.compact = field.compact
            op.tag = -1 if field.tag is None else field.tag
            if structure is not None:
                sub = Program(structure)
                self.held.append(sub)
                op.sub = &sub.shape
            if op.field_kind == RECORDS:
                show_views(self.cls, field.name)
            op.element_bytes = least_element_bytes(op)
            op += 1
        return 0

    cdef int compile_absent(self, Op *op, tuple fields) except -1:
        for field in fields:
            structure = field.structure
            self.compile_slot(op, field)
            op.ignorable = field.ignorable
            if structure is not None:
                self.held.append(structure)
                op.new_default = <PyObject *>structure
            elif op.default == <PyObject *>DEFAULT:
                raise TypeError(f"{field!r}: a new structure is its default, but it is none")
            op += 1
        return 0

    cdef int compile_invalid(self, tuple tags) except -1:
        self.shape.invalid_tags = <int32_t *>PyMem_Calloc(len(tags) if tags else 1, sizeof(int32_t))
        if self.shape.invalid_tags == NULL:
            raise MemoryError
        for i, tag in enumerate(tags):
            self.shape.invalid_tags[i] = tag
        self.shape.invalid_count = len(tags)
        return 0

    cdef int compile_defaults(self) except -1:
        cdef Default *place = <Default *>PyMem_Calloc(
            self.shape.absent_count + self.shape.tagged_count + 1, sizeof(Default)
        )
        cdef int i
        if place == NULL:
            raise MemoryError
        self.shape.words = words_of(<PyTypeObject *>self.cls)
        self.shape.defaults = place
        self.shape.default_count = self.shape.absent_count + self.shape.tagged_count + 1
        for i in range(self.shape.absent_count):
            place.slot, place.value = self.shape.absent[i].slot, self.shape.absent[i].default
            place += 1
        for i in range(self.shape.tagged_count):
            place.slot, place.value = self.shape.tagged[i].slot, self.shape.tagged[i].default
            place += 1
        place.slot, place.value = self.shape.unknown_slot, <PyObject *>EMPTY
        return 0

    cdef int check_made(self) except -1:
        if self.shape.cls == NULL:
            raise TypeError("this program is not made yet")
        return 0

    cdef int compile_slot(self, Op *op, field) except -1:
        cdef str name = field.name
        default = field.default
        self.held.append((name, default))
        op.slot = slot_of(self.cls, hidden_slot(name) if default is DEFAULT else name)
        op.name = <PyObject *>name
        op.default = <PyObject *>default
        return 0

    def decode(self, buffer, offset=0):
        """Read the message at `offset`."""
        cdef Py_ssize_t begin
        cdef Reader r
        cdef Py_buffer held
        cdef PyObject *message
        cdef PyObject *source = <PyObject *>buffer
        cdef bint exported = False
        self.check_made()
        if not PyLong_CheckExact(<PyObject *>offset):
            offset = as_index(offset)
        # The int may have any size: one that is too large for C is outside the buffer anyway.
        begin = PyNumber_AsSsize_t(offset, NULL)
        r.view = r.large_object = NULL
        if PyBytes_CheckExact(source):
            held.buf = PyBytes_AS_STRING(source)
            held.len = PyBytes_GET_SIZE(source)
        elif PyByteArray_CheckExact(source) or PyMemoryView_Check(source):
            # While this view is held, further exports return the same memory.
            if PyObject_GetBuffer(source, &held, PyBUF_SIMPLE) < 0:
                PyErr_Clear()
                as_bytes(buffer)  # raises the error for such a buffer
                raise BufferError("the buffer cannot be read")
            exported = True
        else:
            view = as_bytes(buffer)
            r.view = <PyObject *>view
            Py_INCREF(r.view)
            held.buf = buffer_of(r.view).buf
            held.len = buffer_of(r.view).len
        r.start = <const uint8_t *>held.buf
        r.end = r.start + held.len
        r.source = source
        r.failure = NONE
        r.steps = 0
        try:
            if begin < 0 or begin > held.len:
                raise ValueError(outside(offset, held.len))
            r.p = r.start + begin
            message = read_structure(&self.shape, &r)
            if message == NULL:
                raise_failure(&r)
            return take_object(message), r.p - r.start
        finally:
            Py_XDECREF(r.view)
            Py_XDECREF(r.large_object)
            if exported:
                PyBuffer_Release(&held)

    def encode(self, message):
        """Return the encoding of `message`."""
        cdef Writer w
        w.apart = NULL
        return self.write(message, &w, None)

    def encode_parts(self, message):
        """Return the encoding of `message`, with large records as separate parts."""
        cdef Writer w
        apart = []
        w.apart = <PyObject *>apart
        data = self.write(message, &w, APART_BYTES)
        if not apart:
            return [data]
        return cut(data, apart)

    cdef object write(self, message, Writer *w, threshold):
        self.check_made()
        w.n = 0
        w.size = self.first_bytes
        w.data = PyBytes_FromStringAndSize(NULL, w.size)
        if w.data == NULL:
            raise MemoryError
        w.buf = <uint8_t *>PyBytes_AS_STRING(w.data)
        if write_structure(&self.shape, <PyObject *>message, w) < 0:
            Py_XDECREF(w.data)
            explain_encoding(self.layout, message, threshold, taken_error())
        self.first_bytes = w.n if FIRST_BYTES < w.n <= MAX_FIRST_BYTES else FIRST_BYTES
        if w.n != w.size and _PyBytes_Resize(&w.data, w.n) < 0:
            reraise()
        return take_object(w.data)


def new_class(mcs, str name, tuple bases, dict namespace):
    """Make a class whose instances have no garbage collector header, which a class statement cannot do.

    Tracking small objects takes as long as reading them. Freeing a message still frees its values, but a reference
    cycle through a message is never detected. Making the class here ensures that no instance with a header ever exists.

    Args:
        mcs: the metaclass.
        name: the name of the class.
        bases: one class of the same metaclass, without slots.
        namespace: the namespace of the class, which must define only slots.
    """
    # With a single metaclass, `type` itself makes the class. Nothing that it calls may create an instance with a
    # header.
    if len(bases) != 1 or type(bases[0]) is not mcs or mcs.mro is not type.mro:
        raise TypeError(f"{name} needs one base of the type {mcs!r}")
    if type(bases[0].__init_subclass__) is not BUILT_IN:
        raise TypeError(f"{name}: its base has __init_subclass__, which would run before the class is complete")
    for key, value in namespace.items():
        if type(value) is not property and hasattr(type(value), "__set_name__"):
            raise TypeError(f"{name}.{key} has __set_name__, which would run before the class is complete")
    cls = type.__new__(mcs, name, bases, namespace)
    seal_type(<PyTypeObject *>cls)
    return cls


cdef object taken_error():
    """Return and clear the current Python error; None if there is none."""
    cdef PyObject *kind
    cdef PyObject *value
    cdef PyObject *traceback
    if PyErr_Occurred() == NULL:
        return None
    PyErr_Fetch(&kind, &value, &traceback)
    PyErr_NormalizeException(&kind, &value, &traceback)
    Py_XDECREF(kind)
    Py_XDECREF(traceback)
    return take_object(value)


cdef int raise_failure(Reader *r) except -1:
    """Raise the error that a reader recorded."""
    if r.failure == PYTHON:
        reraise()
    if r.failure == SHORT:
        reason = short(r.first, r.second)
    elif r.failure == LONG_VARINT:
        reason = "the unsigned varint has more than 5 bytes"
    elif r.failure == NULL_LENGTH:
        reason = reject_null(r.first)
    elif r.failure == LONG_STRING:
        reason = f"the string has {r.first} bytes, but at most {MAX_STRING_BYTES} are allowed"
    elif r.failure == MANY:
        reason = too_many(r.first, r.second)
    elif r.failure == INVALID_TAG:
        reason = invalid_tag(r.first)
    else:
        reason = f"the tagged field has {r.first} bytes"
    path = ""
    cdef int step
    for step in range(r.steps - 1, -1, -1):
        if r.names[step] == NULL:
            path += f"[{r.indexes[step]}]"
        else:
            path += ("." if path else "") + <object>r.names[step]
    raise DecodeError(path, r.where - r.start, reason)


cdef str UNKNOWN_TAGS = "unknown_tags"


# What a program computes about its ops before it runs: slot offsets, minimum field sizes, and runs of fields that can
# be read together.

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
    """Return the offset of a class's slot, in bytes from the start of its instances."""
    descriptor = cls.__dict__.get(name)
    if type(descriptor) is RecordsSlot:
        descriptor = (<RecordsSlot>descriptor).member
    if not is_slot(<PyObject *>descriptor, <PyTypeObject *>cls):
        raise TypeError(f"{cls.__qualname__}.{name} is not a slot")
    return member_offset(<PyObject *>descriptor)


cdef Py_ssize_t least_bytes(Shape *shape) noexcept:
    """Return the smallest size of a structure's encoding."""
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


include "native_read.pxi"
include "native_write.pxi"
