# Values that brokers send repeatedly: small numbers, topic and host names, replica lists. They are immutable, so
# messages share one object, which is cheaper to find than to create and free again.
#
# The tables are small and have a fixed size whatever a peer sends: each value can be in only one place, where it
# replaces the previous occupant.

cdef extern from *:
    """
    /* The range of most numbers in messages: partitions, brokers, versions, error codes, leader epochs. */
    #define SMALL_FIRST (-1)
    #define SMALL_END 1024
    /* Most names are short; longer ones are created each time. 1,024 names of 64 bytes take 120 kB. */
    #define SHARED_STRINGS 1024
    #define SHARED_STRING_BYTES 64
    /* Most partitions have few replicas, all of them in sync, which makes two equal consecutive arrays. */
    #define SHARED_ARRAYS 256
    #define SHARED_ARRAY_BYTES 32

    static PyObject *small_numbers[SMALL_END - SMALL_FIRST];
    static PyObject *shared_strings[SHARED_STRINGS];
    static struct {
        Py_ssize_t count;
        uint8_t content[SHARED_ARRAY_BYTES];
        PyObject *numbers;
    } shared_arrays[SHARED_ARRAYS];

    static int make_small_numbers(void) {
        for (int i = 0; i < SMALL_END - SMALL_FIRST; i++)
            if ((small_numbers[i] = PyLong_FromLong(i + SMALL_FIRST)) == NULL) return -1;
        return 0;
    }
    static inline int is_small(int64_t value) { return value >= SMALL_FIRST && value < SMALL_END; }
    static inline PyObject *small_number(int64_t value) {
        if (!is_small(value)) return PyLong_FromLongLong(value);
        PyObject *number = small_numbers[value - SMALL_FIRST];
        Py_INCREF(number);
        return number;
    }

    /* Names differ at their ends, so all bytes are hashed. A collision costs only the saving, never correctness. */
    static inline uint32_t place_of(const uint8_t *content, Py_ssize_t size, uint32_t places) {
        const uint64_t factor = UINT64_C(0x9E3779B97F4A7C15);
        const uint8_t *end = content + size;
        uint64_t mixed = (uint64_t)size * factor, word = 0;
        if (size >= 8) {
            for (; end - content > 8; content += 8) {
                memcpy(&word, content, 8);
                mixed = (mixed ^ word) * factor;
                mixed ^= mixed >> 29;
            }
            memcpy(&word, end - 8, 8);
        } else {
            for (; content < end; content++) word = word << 8 | *content;
        }
        mixed = (mixed ^ word) * factor;
        return (uint32_t)(mixed >> 40) % places;
    }

    static PyObject *shared_string(const uint8_t *content, Py_ssize_t size) {
        if (size == 0 || size > SHARED_STRING_BYTES)
            return PyUnicode_DecodeUTF8((const char *)content, size, "kafkawire.java");
        PyObject **place = &shared_strings[place_of(content, size, SHARED_STRINGS)], *string = *place;
        if (string != NULL && PyUnicode_GET_LENGTH(string) == size
            && memcmp(PyUnicode_1BYTE_DATA(string), content, (size_t)size) == 0) {
            Py_INCREF(string);
            return string;
        }
        string = PyUnicode_DecodeUTF8((const char *)content, size, "kafkawire.java");
        if (string != NULL && PyUnicode_IS_COMPACT_ASCII(string)) {  /* other strings store different bytes */
            PyObject *previous = *place;
            Py_INCREF(string);
            *place = string;
            Py_XDECREF(previous);
        }
        return string;
    }

    static PyObject *new_int32s(const uint8_t *content, Py_ssize_t count) {
        PyObject *numbers = PyTuple_New(count);
        if (numbers == NULL) return NULL;
        PyObject_GC_UnTrack(numbers);  /* no code may find it half filled, and it holds no tracked objects */
        for (Py_ssize_t i = 0; i < count; i++) {
            PyObject *number = small_number((int32_t)load32(content + 4 * i));
            if (number == NULL) {
                Py_DECREF(numbers);
                return NULL;
            }
            PyTuple_SET_ITEM(numbers, i, number);
        }
        return numbers;
    }
    /* An array of int32 as a tuple. */
    static PyObject *shared_int32s(const uint8_t *content, Py_ssize_t count) {
        if (count > SHARED_ARRAY_BYTES / 4) return new_int32s(content, count);
        uint32_t place = place_of(content, count * 4, SHARED_ARRAYS);
        PyObject *numbers = shared_arrays[place].numbers;
        if (numbers == NULL || shared_arrays[place].count != count
            || memcmp(shared_arrays[place].content, content, (size_t)count * 4) != 0) {
            PyObject *previous = numbers;
            numbers = new_int32s(content, count);
            if (numbers == NULL) return NULL;
            shared_arrays[place].count = count;
            memcpy(shared_arrays[place].content, content, (size_t)count * 4);
            shared_arrays[place].numbers = numbers;
            Py_XDECREF(previous);
        }
        Py_INCREF(numbers);
        return numbers;
    }
    """
    int make_small_numbers() except -1
    bint is_small(int64_t) noexcept
    PyObject *small_number(int64_t) noexcept
    PyObject *shared_string(const uint8_t *, Py_ssize_t) noexcept
    PyObject *shared_int32s(const uint8_t *, Py_ssize_t) noexcept

make_small_numbers()
