# What the interpreter needs of CPython's objects: types whose instances have no garbage collector header, slots by
# offset, views of a part of a buffer.

cdef extern from *:
    """
    #include <structmember.h>
    #include <string.h>

    /* Slots lie behind the object header, one after the other. */
    static inline PyObject **slots_of(PyObject *message) { return (PyObject **)(message + 1); }
    static inline PyObject **slot_at(PyObject *message, Py_ssize_t offset) {
        return (PyObject **)((char *)message + offset);
    }

    static void message_dealloc(PyObject *self) {
        PyTypeObject *type = Py_TYPE(self), *sealed = type;
        /* A class derived from a message class by somebody else has more than our slots, and clears that itself. */
        while (sealed->tp_dealloc != message_dealloc) sealed = sealed->tp_base;
        Py_ssize_t count = (sealed->tp_basicsize - (Py_ssize_t)sizeof(PyObject)) / (Py_ssize_t)sizeof(PyObject *);
        PyObject **slots = slots_of(self);
        for (Py_ssize_t i = 0; i < count; i++) Py_XDECREF(slots[i]);
        type->tp_free(self);
        Py_DECREF(type);
    }

    /* Take the garbage collector header from instances to come. A class statement cannot leave it out. */
    static int seal_type(PyTypeObject *type) {
        if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || type->tp_itemsize
            || type->tp_dictoffset || type->tp_weaklistoffset
            || type->tp_base->tp_basicsize != (Py_ssize_t)sizeof(PyObject)) {
            PyErr_Format(PyExc_TypeError, "%s has more than slots", type->tp_name);
            return -1;
        }
        type->tp_flags &= ~Py_TPFLAGS_HAVE_GC;
        type->tp_traverse = NULL;
        type->tp_clear = NULL;
        type->tp_free = PyObject_Free;
        type->tp_dealloc = message_dealloc;
        PyType_Modified(type);
        return 0;
    }

    static inline PyObject *new_message(PyTypeObject *type) {
        PyObject *message = PyObject_New(PyObject, type);
        if (message != NULL) memset(slots_of(message), 0, (size_t)type->tp_basicsize - sizeof(PyObject));
        return message;
    }

    static inline int is_member(PyObject *descriptor) { return Py_TYPE(descriptor) == &PyMemberDescr_Type; }
    static inline Py_ssize_t member_offset(PyObject *descriptor) {
        return ((PyMemberDescrObject *)descriptor)->d_member->offset;
    }

    /* A view of all of `source` as bytes. */
    static PyObject *whole_view(PyObject *source) {
        PyObject *view = PyMemoryView_FromObject(source);
        if (view == NULL) return NULL;
        Py_buffer *buffer = PyMemoryView_GET_BUFFER(view);
        if (buffer->ndim == 1 && buffer->itemsize == 1 && (buffer->format == NULL || strcmp(buffer->format, "B") == 0))
            return view;
        PyObject *cast = PyObject_CallMethod(view, "cast", "s", "B");
        Py_DECREF(view);
        return cast;
    }

    /* A view of `size` bytes at `start`, which lie in `whole`. Slicing through the object protocol would make a slice
       and two integers for each. */
    static inline PyObject *part_view(PyObject *whole, const uint8_t *start, Py_ssize_t size) {
        PyObject *view = PyMemoryView_FromObject(whole);
        if (view != NULL) {
            Py_buffer *buffer = PyMemoryView_GET_BUFFER(view);
            buffer->buf = (void *)start;
            buffer->len = size;
            buffer->shape[0] = size;
        }
        return view;
    }

    static inline void tuple_set(PyObject *tuple, Py_ssize_t index, PyObject *value) {
        PyTuple_SET_ITEM(tuple, index, value);
    }
    """
    PyObject** slot_at(PyObject*, Py_ssize_t) noexcept
    int seal_type(PyTypeObject*) except -1
    PyObject* new_message(PyTypeObject*) noexcept
    bint is_member(PyObject*) noexcept
    Py_ssize_t member_offset(PyObject*) noexcept
    PyObject* whole_view(PyObject*) noexcept
    PyObject* part_view(PyObject*, const uint8_t*, Py_ssize_t) noexcept
    void tuple_set(PyObject*, Py_ssize_t, PyObject*) noexcept

cdef extern from "Python.h":
    """
    /* For Cython: an owned reference becomes an object; the error that is set becomes an exception. */
    #define take_object(reference) (reference)
    #define reraise() (-1)
    """
    unsigned long Py_TPFLAGS_HAVE_GC
    object take_object(PyObject*)
    int reraise() except -1
    void* PyMem_Calloc(size_t, size_t) noexcept
    void PyMem_Free(void*) noexcept
    void Py_INCREF(PyObject*) noexcept
    void Py_DECREF(PyObject*) noexcept
    void Py_XDECREF(PyObject*) noexcept
    PyTypeObject* Py_TYPE(PyObject*) noexcept
    PyObject* Py_None
    PyObject* Py_True
    PyObject* Py_False
    PyObject* PyErr_Occurred() noexcept
    void PyErr_Clear() noexcept
    void PyErr_SetObject(PyObject*, PyObject*) noexcept
    bint PyErr_ExceptionMatches(PyObject*) noexcept
    PyObject* PyExc_Exception
    PyObject* PyExc_MemoryError
    int PyBUF_SIMPLE
    int PyObject_GetBuffer(object, Py_buffer*, int) except -1
    int get_buffer "PyObject_GetBuffer"(PyObject*, Py_buffer*, int) noexcept
    void PyBuffer_Release(Py_buffer*) noexcept
    PyObject* PyBytes_FromStringAndSize(const char*, Py_ssize_t) noexcept
    char* PyBytes_AS_STRING(PyObject*) noexcept
    Py_ssize_t PyBytes_GET_SIZE(PyObject*) noexcept
    bint PyBytes_Check(PyObject*) noexcept
    bint PyBytes_CheckExact(PyObject*) noexcept
    int _PyBytes_Resize(PyObject**, Py_ssize_t) noexcept
    PyObject* PyLong_FromLong(long) noexcept
    PyObject* PyLong_FromLongLong(long long) noexcept
    long long PyLong_AsLongLong(PyObject*) noexcept
    bint PyLong_CheckExact(PyObject*) noexcept
    PyObject* PyFloat_FromDouble(double) noexcept
    double PyFloat_AsDouble(PyObject*) noexcept
    PyObject* PyUnicode_DecodeUTF8(const char*, Py_ssize_t, const char*) noexcept
    const char* PyUnicode_AsUTF8AndSize(PyObject*, Py_ssize_t*) noexcept
    bint PyUnicode_Check(PyObject*) noexcept
    bint PyUnicode_CheckExact(PyObject*) noexcept
    PyObject* PyTuple_New(Py_ssize_t) noexcept
    bint PyTuple_Check(PyObject*) noexcept
    bint PyTuple_CheckExact(PyObject*) noexcept
    bint PyList_Check(PyObject*) noexcept
    Py_ssize_t PyList_GET_SIZE(PyObject*) noexcept
    bint PyList_CheckExact(PyObject*) noexcept
    Py_ssize_t PyTuple_GET_SIZE(PyObject*) noexcept
    PyObject* PyTuple_GET_ITEM(PyObject*, Py_ssize_t) noexcept
    PyObject* PyList_AsTuple(PyObject*) noexcept
    PyObject* PyList_New(Py_ssize_t) noexcept
    int PyList_Append(PyObject*, PyObject*) noexcept
    PyObject* PyDict_GetItemWithError(PyObject*, PyObject*) noexcept
    int PyObject_RichCompareBool(PyObject*, PyObject*, int) noexcept
    int Py_EQ
