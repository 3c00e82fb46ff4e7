# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Interpret layouts in C: the engine that runs where the extension is built.

A `Program` is a layout as arrays of `Op`, one per field; reading fills the slots of message objects by their offsets,
writing goes into one growing bytes object. Objects come without a garbage collector header, arrays are tuples,
records are views.

A refused encoding is noted in the `Reader` (what, where, two numbers), and each level adds its step to the path on
the way out. A refused value is explained by the construct form, which writes the same message again. Functions are
`noexcept`: they return NULL or -1 and nothing else happens behind their back.
"""

from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove

from kafkawire.sdk.protocol.engines.network_order cimport (
    load16, load32, load64, load_double, store16, store32, store64, store_double,
)

include "native_objects.pxi"

#: Longest string in bytes, see `primitives.py`.
cdef enum:
    MAX_STRING_BYTES = 32767
    #: Records of at least so many bytes stay apart, see `primitives.py`.
    APART_BYTES = 4096
    #: Steps of a path that are kept; structures are nested far less deep.
    MAX_STEPS = 64
    #: Largest buffer that is reserved because the previous message needed it.
    MAX_FIRST_BYTES = 1048576
    FIRST_BYTES = 256

cdef enum Kind:
    BOOL, INT8, INT16, UINT16, INT32, UINT32, INT64, FLOAT64, UUID, STRING, BYTES, RECORDS, STRUCT

cdef dict KINDS = {
    "bool": BOOL, "int8": INT8, "int16": INT16, "uint16": UINT16, "int32": INT32, "uint32": UINT32, "int64": INT64,
    "float64": FLOAT64, "uuid": UUID, "string": STRING, "bytes": BYTES, "records": RECORDS, "struct": STRUCT,
}

cdef enum Failure:
    NONE, SHORT, LONG_VARINT, NULL_LENGTH, LONG_STRING, MANY, TAG_SIZE, PYTHON

#: What a bool field may hold, see `primitives.py`.
cdef dict BOOLEANS = {False: False, True: True}
cdef tuple EMPTY = ()

cdef struct Shape

cdef struct Op:
    Kind kind
    bint array
    bint nullable
    bint compact
    bint ignorable
    int32_t tag
    Py_ssize_t slot
    PyObject* name  # borrowed from the layout, as the others
    PyObject* default
    PyObject* new_default  # the class of a structure that is absent, or NULL
    Shape* sub

cdef struct Shape:
    PyTypeObject* cls
    bint flexible
    Py_ssize_t unknown_slot
    int field_count
    int tagged_count
    int absent_count
    Op* fields
    Op* tagged
    Op* absent

cdef struct Reader:
    const uint8_t* start
    const uint8_t* p
    const uint8_t* end
    PyObject* source
    PyObject* view  # of the whole source, made when records are met
    Failure failure
    const uint8_t* where
    int64_t first
    int64_t second
    int steps
    PyObject* names[MAX_STEPS]  # NULL for an index
    Py_ssize_t indexes[MAX_STEPS]

cdef struct Writer:
    PyObject* data  # bytes, owned
    uint8_t* buf
    Py_ssize_t n
    Py_ssize_t size
    PyObject* apart  # list of (position, value), or NULL


cdef class Program:
    """The native engine of one layout: `decode`, `encode` and `encode_parts` as `Codec` wants them.

    Args:
        layout: the layout.
    """

    cdef Shape shape
    cdef object layout
    cdef list parts
    cdef Py_ssize_t first_bytes

    def __cinit__(self, layout):
        self.layout = layout
        self.parts = []
        self.first_bytes = FIRST_BYTES
        self.shape.cls = <PyTypeObject*>layout.cls
        if self.shape.cls.tp_flags & Py_TPFLAGS_HAVE_GC:
            raise TypeError(f"{layout.cls!r} is not sealed")
        self.shape.flexible = layout.flexible
        self.shape.unknown_slot = slot_of(layout.cls, "unknown_tags")
        self.shape.fields = self.compile(layout.fields)
        self.shape.field_count = len(layout.fields)
        self.shape.tagged = self.compile(layout.tagged)
        self.shape.tagged_count = len(layout.tagged)
        self.shape.absent = self.compile_absent(layout.absent)
        self.shape.absent_count = len(layout.absent)

    def __dealloc__(self):
        PyMem_Free(self.shape.fields)
        PyMem_Free(self.shape.tagged)
        PyMem_Free(self.shape.absent)

    cdef Op* compile(self, fields) except? NULL:
        cdef Op* ops = self.allocate(len(fields))
        cdef Op* op = ops
        cdef Program sub
        for field in fields:
            self.compile_slot(op, field)
            op.kind = KINDS[field.kind]
            op.array = field.array
            op.nullable = field.nullable
            op.compact = field.compact
            op.tag = -1 if field.tag is None else field.tag
            if field.structure is not None:
                sub = Program(field.structure)
                self.parts.append(sub)
                op.sub = &sub.shape
            op += 1
        return ops

    cdef Op* compile_absent(self, fields) except? NULL:
        cdef Op* ops = self.allocate(len(fields))
        cdef Op* op = ops
        for field in fields:
            self.compile_slot(op, field)
            op.ignorable = field.ignorable
            if field.structure is not None:
                op.new_default = <PyObject*>field.structure
            op += 1
        return ops

    cdef Op* allocate(self, Py_ssize_t count) except? NULL:
        cdef Op* ops = <Op*>PyMem_Calloc(count if count else 1, sizeof(Op))
        if ops == NULL:
            raise MemoryError
        return ops

    cdef int compile_slot(self, Op* op, field) except -1:
        from kafkawire.sdk.protocol.schema import DEFAULT, hidden_slot

        op.slot = slot_of(self.layout.cls, hidden_slot(field.name) if field.default is DEFAULT else field.name)
        op.name = <PyObject*>field.name
        op.default = <PyObject*>field.default
        return 0

    def decode(self, buffer, Py_ssize_t offset=0):
        """Read the message at `offset`."""
        cdef Py_buffer view
        cdef Reader r
        cdef PyObject* message
        PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
        try:
            if offset < 0 or offset > view.len:
                raise ValueError(f"offset {offset} is outside the buffer of {view.len} bytes")
            r.start = <const uint8_t*>view.buf
            r.p = r.start + offset
            r.end = r.start + view.len
            r.source = <PyObject*>buffer
            r.view = NULL
            r.failure = NONE
            r.steps = 0
            message = read_structure(&self.shape, &r)
            Py_XDECREF(r.view)
            if message == NULL:
                raise_failure(&r)
            return take_object(message), r.p - r.start
        finally:
            PyBuffer_Release(&view)

    def encode(self, message):
        """Return the encoding of `message`."""
        cdef Writer w
        w.apart = NULL
        return self.write(message, &w, None)

    def encode_parts(self, message):
        """Return the encoding of `message`, large records apart."""
        cdef Writer w
        apart = []
        w.apart = <PyObject*>apart
        data = self.write(message, &w, APART_BYTES)
        if not apart:
            return [data]
        from kafkawire.sdk.protocol.primitives import cut

        return cut(data, apart)

    cdef object write(self, message, Writer* w, threshold):
        w.n = 0
        w.size = self.first_bytes
        w.data = PyBytes_FromStringAndSize(NULL, w.size)
        if w.data == NULL:
            raise MemoryError
        w.buf = <uint8_t*>PyBytes_AS_STRING(w.data)
        if write_structure(&self.shape, <PyObject*>message, w) < 0:
            Py_XDECREF(w.data)
            if PyErr_Occurred() != NULL:
                if not PyErr_ExceptionMatches(PyExc_Exception) or PyErr_ExceptionMatches(PyExc_MemoryError):
                    reraise()
                PyErr_Clear()
            explain_encoding(self.layout, message, threshold)
        self.first_bytes = w.n if FIRST_BYTES < w.n <= MAX_FIRST_BYTES else FIRST_BYTES
        if w.n != w.size and _PyBytes_Resize(&w.data, w.n) < 0:
            reraise()
        return take_object(w.data)


def seal(cls):
    """Let instances of a class be made without a garbage collector header.

    It takes as long to look after small objects as to read them. What a message holds is freed with it all the same;
    only a cycle of references through a message is not found any more.

    Args:
        cls: a class that has nothing but slots, and no instances yet.
    """
    seal_type(<PyTypeObject*>cls)


cdef Py_ssize_t slot_of(cls, str name) except -1:
    descriptor = getattr(cls, name)
    if not is_member(<PyObject*>descriptor):
        raise TypeError(f"{cls.__qualname__}.{name} is not a slot")
    return member_offset(<PyObject*>descriptor)


cdef int raise_failure(Reader* r) except -1:
    """Raise the error that a reader noted."""
    from kafkawire.sdk.errors import DecodeError
    from kafkawire.sdk.protocol.primitives import reject_null, short, too_many

    if r.failure == PYTHON:
        reraise()
    if r.failure == SHORT:
        reason = short(r.first, r.second)
    elif r.failure == LONG_VARINT:
        reason = "unsigned varint of more than 5 bytes"
    elif r.failure == NULL_LENGTH:
        reason = reject_null(r.first)
    elif r.failure == LONG_STRING:
        reason = f"string of {r.first} bytes, at most {MAX_STRING_BYTES} allowed"
    elif r.failure == MANY:
        reason = too_many(r.first, r.second)
    else:
        reason = f"tagged field of {r.first} bytes"
    path = ""
    cdef int step
    for step in range(r.steps - 1, -1, -1):
        if r.names[step] == NULL:
            path += f"[{r.indexes[step]}]"
        else:
            path += ("." if path else "") + <object>r.names[step]
    raise DecodeError(path, r.where - r.start, reason)


cdef int explain_encoding(layout, message, threshold) except -1:
    """Raise what the construct form says of a message that could not be written."""
    from kafkawire.sdk.protocol.engines.construct import encode_parts

    encode_parts(layout, message, threshold)
    raise RuntimeError(f"{layout!r}: the native engine cannot write what the construct form writes")


cdef str UNKNOWN_TAGS = "unknown_tags"

include "native_read.pxi"
include "native_write.pxi"
