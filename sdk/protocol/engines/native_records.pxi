# Records that were read stay in the buffer: the message holds a `Span` (40 bytes, no garbage collector header), and
# reading the field returns a memoryview. A memoryview takes four times as much memory, and creating one accounts for
# half the cost of decoding a partition. Brokers and consumers read most records once; records that are forwarded or
# skipped never become views.

cdef extern from *:
    """
    typedef struct {
        PyObject_HEAD
        PyObject *whole;  /* the view of the decoded buffer: it keeps the memory in place */
        const uint8_t *start;
        Py_ssize_t size;
    } Span;

    static void span_dealloc(PyObject *self) {
        Py_DECREF(((Span *)self)->whole);
        free_block(self, sizeof(Span));
    }
    static PyTypeObject span_type = {
        PyVarObject_HEAD_INIT(NULL, 0)
        .tp_name = "kafkawire.sdk.protocol.engines.native.Span",
        .tp_basicsize = sizeof(Span),
        .tp_dealloc = span_dealloc,
        .tp_flags = Py_TPFLAGS_DEFAULT,
    };
    static int make_span_type(void) { return PyType_Ready(&span_type); }

    static inline PyObject *new_span(PyObject *whole, const uint8_t *start, Py_ssize_t size) {
        Span *span = (Span *)new_block(&span_type, sizeof(Span) / sizeof(PyObject *));
        if (span == NULL) return NULL;
        Py_INCREF(whole);
        span->whole = whole;
        span->start = start;
        span->size = size;
        return (PyObject *)span;
    }
    static inline int is_span(PyObject *value) { return Py_IS_TYPE(value, &span_type); }
    static inline Span *as_span(PyObject *value) { return (Span *)value; }
    static inline PyObject *view_of_span(PyObject *value) {
        Span *span = (Span *)value;
        Py_INCREF(value);  /* creating a view can run the garbage collector, and with it code that sets the field */
        PyObject *view = part_view(span->whole, span->start, span->size);
        Py_DECREF(value);
        return view;
    }
    /* Whether a message is an instance of the class that a slot belongs to. */
    static inline int is_member_of(PyObject *member, PyObject *message) {
        return Py_IS_TYPE(message, PyDescr_TYPE(member));
    }
    static inline int is_member(PyObject *member) {
        return Py_IS_TYPE(member, &PyMemberDescr_Type) && is_slot(member, PyDescr_TYPE(member))
            && is_sealed((PyObject *)PyDescr_TYPE(member));
    }
    """
    ctypedef struct Span:
        PyObject *whole
        const uint8_t *start
        Py_ssize_t size
    int make_span_type() except -1
    PyObject *new_span(PyObject *, const uint8_t *, Py_ssize_t) noexcept
    bint is_span(PyObject *) noexcept
    Span *as_span(PyObject *) noexcept
    PyObject *view_of_span(PyObject *) noexcept
    bint is_member_of(PyObject *, PyObject *) noexcept
    bint is_member(PyObject *) noexcept

make_span_type()


cdef class RecordsSlot:
    """A descriptor that wraps a slot for records: reading it returns a view.

    Args:
        member: the slot's own descriptor, of a message class.
    """

    cdef readonly object member
    cdef Py_ssize_t offset

    def __cinit__(self, member):
        if not is_member(<PyObject *>member):
            raise TypeError(f"{member!r} is not a slot of a message class")
        self.member = member
        self.offset = member_offset(<PyObject *>member)

    def __get__(self, message, owner):
        cdef PyObject **place
        cdef PyObject *span
        if message is None:
            return self
        if not is_member_of(<PyObject *>self.member, <PyObject *>message):
            return self.member.__get__(message, owner)  # raises the error
        place = slot_at(<PyObject *>message, self.offset)
        if place[0] != NULL and is_span(place[0]):
            view = take_object(view_of_span(place[0]))
            span = place[0]
            if span == NULL or not is_span(span):  # set by other code meanwhile
                return self.__get__(message, owner)
            Py_INCREF(<PyObject *>view)
            place[0] = <PyObject *>view
            Py_DECREF(span)
            return view
        if place[0] == NULL:
            return self.member.__get__(message, owner)
        return <object>place[0]

    def __set__(self, message, value):
        self.member.__set__(message, value)

    def __delete__(self, message):
        self.member.__delete__(message)


cdef int show_views(cls, str name) except -1:
    """Wrap a slot that a program fills with spans."""
    member = cls.__dict__[name]
    if type(member) is not RecordsSlot:
        setattr(cls, name, RecordsSlot(member))
    return 0
