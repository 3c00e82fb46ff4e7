# The interpreter's access to CPython's objects: types whose instances have no garbage collector header, access to slots
# by offset, and views of part of a buffer.

cdef extern from *:
    """
    #include <stddef.h>
    #include <structmember.h>
    #include <string.h>

    /* Slots follow the object header consecutively. */
    static inline PyObject **slots_of(PyObject *message) { return (PyObject **)(message + 1); }
    static inline PyObject **slot_at(PyObject *message, Py_ssize_t offset) {
        return (PyObject **)((char *)message + offset);
    }

    /* The first word of a dead object holds the address of the next one. */
    static inline PyObject *next_dead(PyObject *dead) {
        PyObject *next;
        memcpy(&next, (char *)dead + offsetof(PyObject, ob_refcnt), sizeof next);
        return next;
    }
    static inline void set_next_dead(PyObject *dead, PyObject *next) {
        memcpy((char *)dead + offsetof(PyObject, ob_refcnt), &next, sizeof next);
    }

    /* Memory of dead messages, keyed by size in words: the next message of that size reuses it, which saves two calls
       to the allocator. The limit, at most 200 kB for each size, suffices for a Metadata response with a thousand
       partitions. */
    #define KEPT_WORDS_MAX 24
    #define KEPT_BLOCKS_MAX 1024
    #if defined(__SANITIZE_ADDRESS__) || defined(Py_DEBUG) || defined(Py_TRACE_REFS) || defined(Py_GIL_DISABLED)
    #define KEEPS_BLOCKS 0  /* tools that monitor memory or objects must see each allocation */
    #else
    #define KEEPS_BLOCKS 1
    #endif
    static PyObject *kept_blocks[KEPT_WORDS_MAX + 1];
    static int kept_counts[KEPT_WORDS_MAX + 1];

    static inline void free_block(PyObject *dead, Py_ssize_t size) {
        Py_ssize_t words = size / (Py_ssize_t)sizeof(PyObject *);
        if (KEEPS_BLOCKS && words <= KEPT_WORDS_MAX && kept_counts[words] < KEPT_BLOCKS_MAX) {
            kept_counts[words]++;
            set_next_dead(dead, kept_blocks[words]);
            kept_blocks[words] = dead;
        } else {
            PyObject_Free(dead);
        }
    }
    /* A new object without its fields; NULL with an error. */
    static inline PyObject *new_block(PyTypeObject *type, int words) {
        PyObject *block;
        if (!KEEPS_BLOCKS || words > KEPT_WORDS_MAX || (block = kept_blocks[words]) == NULL)
            return PyObject_New(PyObject, type);
        kept_counts[words]--;
        kept_blocks[words] = next_dead(block);
        /* From Python 3.12 on, this word may look like the count of an immortal object, which is never freed. */
        set_next_dead(block, NULL);
        Py_SET_REFCNT(block, 1);
        Py_SET_TYPE(block, type);
        if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) Py_INCREF(type);
        return block;
    }

    /* Free a message. Messages to which it holds the only reference are freed in the same loop, not by recursion: a
       chain of millions must not overflow the stack. Lists, tuples and other containers break such chains (through
       CPython's trashcan, which takes only objects with a garbage collector header). */
    static void message_dealloc(PyObject *self) {
        PyObject *dead = self;
        set_next_dead(dead, NULL);
        while (dead != NULL) {
            PyTypeObject *type = Py_TYPE(dead);
            PyObject **slot = slots_of(dead), **end = slot_at(dead, type->tp_basicsize), *rest = next_dead(dead);
            for (; slot < end; slot++) {
                PyObject *value = *slot;
                if (value == NULL) continue;
                if (Py_REFCNT(value) == 1 && Py_TYPE(value)->tp_dealloc == message_dealloc) {
                    set_next_dead(value, rest);
                    rest = value;
                } else {
                    Py_DECREF(value);
                }
            }
            free_block(dead, type->tp_basicsize);
            Py_DECREF(type);
            dead = rest;
        }
    }

    /* Remove the garbage collector header from the instances of a new class that has no instances yet. */
    static int seal_type(PyTypeObject *type) {
        if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || type->tp_itemsize || type->tp_dictoffset
            || type->tp_weaklistoffset || type->tp_base->tp_basicsize != (Py_ssize_t)sizeof(PyObject)
            || type->tp_base->tp_itemsize) {
            PyErr_Format(PyExc_TypeError, "%s has more than slots", type->tp_name);
            return -1;
        }
        type->tp_flags &= ~(Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE);
        type->tp_traverse = NULL;
        type->tp_clear = NULL;
        type->tp_free = PyObject_Free;
        type->tp_dealloc = message_dealloc;
        PyType_Modified(type);
        return 0;
    }
    static inline int is_sealed(PyObject *cls) {
        return PyType_Check(cls) && ((PyTypeObject *)cls)->tp_dealloc == message_dealloc;
    }

    /* A message in which only the slots with a default are filled. */
    typedef struct {
        Py_ssize_t slot;
        PyObject *value;
    } Default;
    static inline PyObject *new_message(PyTypeObject *type, int words, Default *defaults, int count) {
        PyObject *message = new_block(type, words);
        if (message != NULL) {
            for (Default *end = defaults + count; defaults < end; defaults++) {
                Py_INCREF(defaults->value);
                *slot_at(message, defaults->slot) = defaults->value;
            }
        }
        return message;
    }
    static inline int words_of(PyTypeObject *type) {
        return (int)(type->tp_basicsize / (Py_ssize_t)sizeof(PyObject *));
    }

    static inline int is_slot(PyObject *descriptor, PyTypeObject *type) {
        return Py_TYPE(descriptor) == &PyMemberDescr_Type && PyDescr_TYPE(descriptor) == type
            && ((PyMemberDescrObject *)descriptor)->d_member->type == T_OBJECT_EX;
    }
    static inline Py_ssize_t member_offset(PyObject *descriptor) {
        return ((PyMemberDescrObject *)descriptor)->d_member->offset;
    }

    /* A view of all of `source` as bytes; if it is a buffer other than bytes, this is its only export. A second export
       could return another buffer, or one of another length (PEP 688). */
    static PyObject *whole_view(PyObject *source) {
        PyObject *view = PyMemoryView_FromObject(source);
        if (view == NULL) return NULL;
        Py_buffer *buffer = PyMemoryView_GET_BUFFER(view);
        if (!PyBuffer_IsContiguous(buffer, 'C')) {
            Py_DECREF(view);
            PyErr_SetString(PyExc_BufferError, "the buffer is not contiguous");
            return NULL;
        }
        if (buffer->ndim == 1 && buffer->itemsize == 1 && (buffer->format == NULL || strcmp(buffer->format, "B") == 0))
            return view;
        /* An empty view of several dimensions cannot be cast. */
        PyObject *bytes = buffer->len ? PyObject_CallMethod(view, "cast", "s", "B")
                                      : PyMemoryView_FromMemory("", 0, PyBUF_READ);
        Py_DECREF(view);
        return bytes;
    }
    static inline Py_buffer *buffer_of(PyObject *view) { return PyMemoryView_GET_BUFFER(view); }

    /* A view of `size` bytes at `start`, within `whole`. Slicing through the object protocol would create a slice and
       two integers for each view. */
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

    /* The value of a one-digit int, the usual case, without the checks of PyLong_AsLongLong. */
    static inline int is_digit(PyObject *value, int64_t *number) {
        if (!PyLong_CheckExact(value)) return 0;
    #if PY_VERSION_HEX >= 0x030C0000
        if (!PyUnstable_Long_IsCompact((PyLongObject *)value)) return 0;
        *number = PyUnstable_Long_CompactValue((PyLongObject *)value);
    #else
        Py_ssize_t size = Py_SIZE(value);
        if (size < -1 || size > 1) return 0;
        *number = (int64_t)size * ((PyLongObject *)value)->ob_digit[0];
    #endif
        return 1;
    }
    /* The bytes of an ASCII str, without a call; NULL for any other str. */
    static inline const char *ascii_of(PyObject *value, Py_ssize_t *size) {
        if (!PyUnicode_IS_COMPACT_ASCII(value)) return NULL;
        *size = PyUnicode_GET_LENGTH(value);
        return (const char *)PyUnicode_1BYTE_DATA(value);
    }

    static inline void tuple_set(PyObject *tuple, Py_ssize_t index, PyObject *value) {
        PyTuple_SET_ITEM(tuple, index, value);
    }
    """
    PyObject **slot_at(PyObject *, Py_ssize_t) noexcept
    int seal_type(PyTypeObject *) except -1
    bint is_sealed(PyObject *) noexcept
    ctypedef struct Default:
        Py_ssize_t slot
        PyObject *value
    PyObject *new_message(PyTypeObject *, int, Default *, int) noexcept
    int words_of(PyTypeObject *) noexcept
    bint is_slot(PyObject *, PyTypeObject *) noexcept
    Py_ssize_t member_offset(PyObject *) noexcept
    PyObject *whole_view(PyObject *) noexcept
    Py_buffer *buffer_of(PyObject *) noexcept
    PyObject *part_view(PyObject *, const uint8_t *, Py_ssize_t) noexcept
    bint is_digit(PyObject *, int64_t *) noexcept
    const char *ascii_of(PyObject *, Py_ssize_t *) noexcept
    void tuple_set(PyObject *, Py_ssize_t, PyObject *) noexcept

cdef extern from "Python.h":
    """
    /* For Cython: an owned reference becomes an object; the current error becomes an exception. */
    #define take_object(reference) (reference)
    #define reraise() (-1)
    """
    object take_object(PyObject *)
    int reraise() except -1
    void *PyMem_Calloc(size_t, size_t) noexcept
    void PyMem_Free(void *) noexcept
    void Py_INCREF(PyObject *) noexcept
    void Py_DECREF(PyObject *) noexcept
    void Py_XDECREF(PyObject *) noexcept
    PyTypeObject *Py_TYPE(PyObject *) noexcept
    PyObject *Py_None
    PyObject *Py_True
    PyObject *Py_False
    PyObject *PyErr_Occurred() noexcept
    void PyErr_Clear() noexcept
    void PyErr_Fetch(PyObject **, PyObject **, PyObject **) noexcept
    void PyErr_NormalizeException(PyObject **, PyObject **, PyObject **) noexcept
    void PyErr_SetObject(PyObject *, PyObject *) noexcept
    bint PyErr_ExceptionMatches(PyObject *) noexcept
    PyObject *PyExc_Exception
    PyObject *PyExc_MemoryError
    int PyBUF_SIMPLE
    int PyObject_GetBuffer(PyObject *, Py_buffer *, int) noexcept
    void PyBuffer_Release(Py_buffer *) noexcept
    PyObject *PyBytes_FromStringAndSize(const char *, Py_ssize_t) noexcept
    char *PyBytes_AS_STRING(PyObject *) noexcept
    Py_ssize_t PyBytes_GET_SIZE(PyObject *) noexcept
    bint PyBytes_Check(PyObject *) noexcept
    bint PyBytes_CheckExact(PyObject *) noexcept
    bint PyByteArray_CheckExact(PyObject *) noexcept
    bint PyMemoryView_Check(PyObject *) noexcept
    int _PyBytes_Resize(PyObject **, Py_ssize_t) noexcept
    Py_ssize_t PyNumber_AsSsize_t(object, PyObject *) except? -1
    PyObject *PyLong_FromLong(long) noexcept
    PyObject *PyLong_FromLongLong(long long) noexcept
    long long PyLong_AsLongLong(PyObject *) noexcept
    bint PyLong_CheckExact(PyObject *) noexcept
    PyObject *PyFloat_FromDouble(double) noexcept
    double PyFloat_AsDouble(PyObject *) noexcept
    PyObject *PyUnicode_DecodeUTF8(const char *, Py_ssize_t, const char *) noexcept
    const char *PyUnicode_AsUTF8AndSize(PyObject *, Py_ssize_t *) noexcept
    bint PyUnicode_Check(PyObject *) noexcept
    bint PyUnicode_CheckExact(PyObject *) noexcept
    PyObject *PyTuple_New(Py_ssize_t) noexcept
    void PyObject_GC_Track(PyObject *) noexcept
    void PyObject_GC_UnTrack(PyObject *) noexcept
    bint PyTuple_CheckExact(PyObject *) noexcept
    bint PyList_CheckExact(PyObject *) noexcept
    Py_ssize_t PyTuple_GET_SIZE(PyObject *) noexcept
    PyObject *PyTuple_GET_ITEM(PyObject *, Py_ssize_t) noexcept
    PyObject *PyList_AsTuple(PyObject *) noexcept
    PyObject *PyList_New(Py_ssize_t) noexcept
    int PyList_Append(PyObject *, PyObject *) noexcept
    PyObject *PyDict_GetItemWithError(PyObject *, PyObject *) noexcept
    int PyObject_RichCompareBool(PyObject *, PyObject *, int) noexcept
    int Py_EQ
