# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False, binding=False
"""Take records in C while the open batch has room; the accumulator does everything else, as in `python.py`.

Names and behaviour match the Python engine, which documents them. No Python code runs between the check of the open
batch and the write, so no other thread can run in between.
"""

from contextvars import copy_context

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.long cimport PyLong_CheckExact
from libc.stdint cimport INT32_MIN, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t

from kafkawire.sdk.records.engines.native cimport append_plain

from kafkawire.sdk.client.method_hints import DELIVERY, absent, refusal
from kafkawire.sdk.errors import EncodeError
from kafkawire.sdk.producer.arguments import (
    FILL_ONE_AFTER_THE_OTHER,
    MAX_HEADER_OVERHEAD_BYTES,
    MAX_RECORD_OVERHEAD_BYTES,
    TO_BE_CHOSEN,
    Held,
    check_callback,
    checked_partition,
    content,
    header_pairs,
    is_absent,
    timestamp,
)

__all__ = ["Appender", "Batch", "Delivery", "Topic", "are_plain", "murmur2_partition"]

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #include <time.h>

    /* The kernel's tick clock, where it exists: reading it takes a third of the time. */
    #ifdef CLOCK_REALTIME_COARSE
    #define TICKING_CLOCK CLOCK_REALTIME_COARSE
    #else
    #define TICKING_CLOCK CLOCK_REALTIME
    #endif
    static inline int64_t wall_ms(void) {
        struct timespec now;
        clock_gettime(TICKING_CLOCK, &now);
        return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    }

    /* Kafka's murmur2: words are little-endian on every machine. */
    static inline uint32_t hash_of(const uint8_t *p, uint32_t size) {
        const uint32_t multiplier = 0x5bd1e995u;
        uint32_t state = 0x9747b28cu ^ size, word;
        for (; size >= 4; p += 4, size -= 4) {
            word = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
            word *= multiplier;
            word ^= word >> 24;
            word *= multiplier;
            state = (state * multiplier) ^ word;
        }
        switch (size) {
            case 3: state ^= (uint32_t)p[2] << 16; /* fall through */
            case 2: state ^= (uint32_t)p[1] << 8; /* fall through */
            case 1: state ^= p[0]; state *= multiplier;
        }
        state ^= state >> 13;
        state *= multiplier;
        return state ^ state >> 15;
    }

    /* Explains the error of a `send` call whose arguments do not fit, such as an unknown one. It calls the function
       that Cython generated for the method: a call that succeeds costs one more jump. */
    typedef PyObject *(*SendCall)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
    static SendCall plain_send;
    static PyObject *explain_send;

    static PyObject *explained_send(PyObject *self, PyObject *const *given, Py_ssize_t count, PyObject *names) {
        PyObject *type, *error, *trace, *explained, *result = plain_send(self, given, count, names);
        if (result != NULL || !PyErr_ExceptionMatches(PyExc_TypeError))
            return result;
        PyErr_Fetch(&type, &error, &trace);
        PyErr_NormalizeException(&type, &error, &trace);
        explained = PyObject_CallFunctionObjArgs(explain_send, error, NULL);
        if (explained == error) {
            Py_DECREF(explained);
            PyErr_Restore(type, error, trace);
            return NULL;
        }
        if (explained != NULL)
            PyErr_SetObject((PyObject *)Py_TYPE(explained), explained);
        Py_XDECREF(explained);
        Py_XDECREF(type);
        Py_XDECREF(error);
        Py_XDECREF(trace);
        return NULL;
    }

    static void explain_sends(PyObject *method, PyObject *explain) {
        PyMethodDef *definition = ((PyMethodDescrObject *)method)->d_method;
        if (definition->ml_flags != (METH_FASTCALL | METH_KEYWORDS))
            return; /* this interpreter calls methods in another way: Python's own error will do */
        Py_INCREF(explain);
        explain_send = explain;
        plain_send = (SendCall)(void (*)(void))definition->ml_meth;
        definition->ml_meth = (PyCFunction)(void (*)(void))explained_send;
    }
    """
    int64_t wall_ms() noexcept nogil
    void explain_sends(object method, object explain)
    uint32_t hash_of(const uint8_t *p, uint32_t size) noexcept nogil

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object value, int *overflow) except? -1

cdef enum:
    FILL = -1
    CHOOSE = -2

cdef Py_ssize_t OVERHEAD = MAX_RECORD_OVERHEAD_BYTES
cdef Py_ssize_t HEADER_OVERHEAD = MAX_HEADER_OVERHEAD_BYTES
cdef tuple NO_HEADERS = ()

if FILL_ONE_AFTER_THE_OTHER != FILL or TO_BE_CHOSEN != CHOOSE:
    raise ImportError("the extension was built from different sources: rebuild it")


def are_plain(list values not None):
    """Return whether all values are bytes or None; in Python, this check takes longer than writing the records."""
    for value in values:
        if value is not None and not PyBytes_CheckExact(value):
            return False
    return True


def murmur2_partition(bytes key not None, uint32_t partitions):
    """Return the partition that Kafka's clients choose for a key."""
    return partition_of(key, partitions)


cdef inline int32_t partition_of(bytes key, uint32_t partitions) noexcept:
    cdef uint32_t hashed = hash_of(<const uint8_t *>PyBytes_AS_STRING(key), <uint32_t>PyBytes_GET_SIZE(key))
    return <int32_t>((hashed & 0x7fffffffu) % partitions)


cdef class Batch:
    """A batch that is being filled with records."""

    cdef readonly object builder, outcome
    cdef readonly Py_ssize_t used_bytes
    cdef public Py_ssize_t admitted_bytes

    def __init__(self, builder, outcome):
        self.builder = builder
        self.outcome = outcome
        self.used_bytes = builder.size_bytes

    @property
    def is_closed(self):
        return self.builder.is_closed

    def close(self):
        return self.builder.close()

    def append(self, timestamp_ms, key, value, headers):
        try:
            place = self.builder.append(timestamp_ms, key, value, headers)
        except EncodeError:
            if self.builder.is_closed:
                return None
            raise
        self.used_bytes = self.builder.size_bytes
        return place

    def append_many(self, values, timestamp_ms):
        if self.builder.is_closed:
            return 0
        added = self.builder.append_many(values, timestamp_ms)
        self.used_bytes = self.builder.size_bytes
        return added


cdef class Topic:
    """A topic that records are sent to."""

    cdef readonly str name
    cdef public int32_t partitions, sticky_partition
    cdef public int64_t sticky_bytes
    cdef readonly list open
    cdef Batch sticky_batch

    def __init__(self, str name not None):
        self.name = name
        self.open = []
        self.sticky_partition = -1

    @property
    def sticky(self):
        return self.sticky_batch

    @sticky.setter
    def sticky(self, Batch batch):
        self.sticky_batch = batch


@cython.no_gc
@cython.final
@cython.freelist(256)
cdef class Delivery:
    """Await the outcome of one record (see `python.py`)."""

    cdef object outcome
    cdef int32_t index
    cdef int64_t timestamp_ms

    def __init__(self, outcome, int32_t index, int64_t timestamp_ms):
        self.outcome = outcome
        self.index = index
        self.timestamp_ms = timestamp_ms

    def __repr__(self):
        return f"<Delivery {self.outcome.described(self.index)}>"

    @property
    def done(self):
        return self.outcome.is_done(self.index)

    def __await__(self):
        return self.outcome.wait(self.index, self.timestamp_ms)

    def result(self, timeout_ms=None):
        return self.outcome.result(self.index, self.timestamp_ms, timeout_ms)

    def exception(self):
        return self.outcome.exception(self.index)

    def add_done_callback(self, callback):
        check_callback("callback", callback)
        context = copy_context()
        self.outcome.watch(self.index, lambda: context.run(callback, self))

    def __getattr__(self, name):
        raise absent("Delivery", name, DELIVERY, self)

    def _observe(self, callback):
        self.outcome.observe(self.index, self.timestamp_ms, callback)


cdef inline Delivery delivery_of(object outcome, int32_t index, int64_t timestamp_ms):
    cdef Delivery delivery = Delivery.__new__(Delivery)
    delivery.outcome = outcome
    delivery.index = index
    delivery.timestamp_ms = timestamp_ms
    return delivery


@cython.final
cdef class Appender:
    """Take records from any thread (see `python.py`)."""

    cdef readonly dict topics
    cdef public object refusal
    cdef object owner
    cdef bint custom_partitioner, spreads
    cdef Topic last
    cdef object last_name

    def __init__(self, owner, bint custom_partitioner, bint spreads=False):
        self.owner = owner
        self.spreads = spreads
        self.custom_partitioner = custom_partitioner
        self.topics = {}

    def send(
        self,
        topic,
        value=None,
        *,
        key=None,
        headers=NO_HEADERS,
        partition=None,
        timestamp_ms=None,
        on_delivery=None,
    ):
        """Take a record; see `Producer.send`."""
        cdef Py_ssize_t bound_bytes = OVERHEAD, headers_bytes, used_bytes
        cdef const uint8_t *key_bytes = NULL
        cdef const uint8_t *value_bytes = NULL
        cdef int32_t key_size = -1, value_size = -1, number, index = 0
        cdef int64_t time = -1
        cdef int overflow
        cdef Topic known
        cdef Batch batch = None
        cdef Delivery delivery
        if self.refusal is not None:
            raise self.refusal.again()
        if on_delivery is not None:
            check_callback("on_delivery", on_delivery)
        # Steps that can run other code come first.
        if value is not None:
            if not PyBytes_CheckExact(value):
                value = content("value", value)
            bound_bytes += PyBytes_GET_SIZE(value)
        if key is not None:
            if not PyBytes_CheckExact(key):
                key = content("key", key)
            bound_bytes += PyBytes_GET_SIZE(key)
        pairs = NO_HEADERS
        if headers is not NO_HEADERS and headers:
            headers_bytes = plain_headers_bytes(headers)
            if headers_bytes < 0:
                pairs, headers_bytes = header_pairs(headers)
            else:
                pairs = tuple(headers)
            bound_bytes += headers_bytes
        if timestamp_ms is None:
            time = wall_ms()
        else:
            overflow = 1
            if PyLong_CheckExact(timestamp_ms):
                time = PyLong_AsLongLongAndOverflow(timestamp_ms, &overflow)
            if overflow or time < 0:
                time = timestamp(timestamp_ms)
        known = self.last
        if topic is not self.last_name or known is None or not known.partitions:
            known = self.topics.get(topic)
            self.last = known
            self.last_name = topic
        if known is None or not known.partitions:
            number = CHOOSE
        elif partition is not None:
            number = -1
            if PyLong_CheckExact(partition) and 0 <= partition < known.partitions:
                number = partition
            elif is_absent(partition, known.partitions):
                number = CHOOSE
            else:
                number = checked_partition(topic, partition, known.partitions)
            if number >= 0:
                batch = open_batch(known, number)
        elif key is None and not self.spreads:
            number = FILL
            batch = known.sticky_batch
        elif self.custom_partitioner:
            number = CHOOSE
        else:
            number = partition_of(key, <uint32_t>known.partitions)
            batch = open_batch(known, number)
        if batch is None or batch.used_bytes + bound_bytes > batch.admitted_bytes:
            pass
        elif pairs is not NO_HEADERS:
            used_bytes = batch.used_bytes
            place = batch.append(time, key, value, pairs)
            if place is not None:
                if number == FILL:
                    known.sticky_bytes += batch.used_bytes - used_bytes
                delivery = delivery_of(batch.outcome, place, time)
                if on_delivery is not None:
                    delivery.add_done_callback(on_delivery)
                return delivery
        else:
            if key is not None:
                key_bytes = <const uint8_t *>PyBytes_AS_STRING(key)
                key_size = <int32_t>PyBytes_GET_SIZE(key)
            if value is not None:
                value_bytes = <const uint8_t *>PyBytes_AS_STRING(value)
                value_size = <int32_t>PyBytes_GET_SIZE(value)
            used_bytes = append_plain(batch.builder, time, key_bytes, key_size, value_bytes, value_size, &index)
            if used_bytes:
                if number == FILL:
                    known.sticky_bytes += used_bytes - batch.used_bytes
                batch.used_bytes = used_bytes
                delivery = delivery_of(batch.outcome, index, time)
                if on_delivery is not None:
                    delivery.add_done_callback(on_delivery)
                return delivery
        outcome, place = self.owner.take(Held(topic, key, value, pairs, partition, time, bound_bytes), number)
        delivery = delivery_of(outcome, place, time)
        if on_delivery is not None:
            delivery.add_done_callback(on_delivery)
        return delivery

    def send_columns(self, topic, rows, Py_ssize_t start, Py_ssize_t end):
        """Take rows while they fit into open batches, and return how many; `send` takes the next one."""
        cdef Topic known = self.topics.get(topic)
        cdef Cells values = Cells(rows.values, rows.value_shift)
        cdef Cells keys = Cells(rows.keys, rows.key_shift)
        cdef const int32_t[:] partitions = rows.partitions
        cdef const int64_t[:] timestamps = rows.timestamps
        cdef const uint8_t *key_bytes = NULL
        cdef const uint8_t *value_bytes = NULL
        cdef int32_t key_size = -1, value_size = -1, number, index = 0
        cdef int32_t partition = CHOOSE
        cdef int64_t now = wall_ms(), time
        cdef Py_ssize_t row, used_bytes
        cdef Batch batch
        if self.refusal is not None or known is None or not known.partitions or rows.headers is not None:
            return 0
        if rows.partition is not None:
            if not 0 <= rows.partition < known.partitions:
                return 0
            partition = rows.partition
        for row in range(start, end):
            if not values.at(row, &value_bytes, &value_size) or not keys.at(row, &key_bytes, &key_size):
                return row - start
            time = now if timestamps is None or timestamps[row] == INT64_MIN else timestamps[row]
            number = partition
            if partitions is not None and partitions[row] != INT32_MIN:
                number = partitions[row]
            elif number == CHOOSE:
                if key_size < 0:
                    number = FILL
                elif self.custom_partitioner:
                    return row - start
                else:
                    number = <int32_t>((hash_of(key_bytes, key_size) & 0x7fffffffu) % <uint32_t>known.partitions)
            if time < 0 or number >= known.partitions or (number < 0 and number != FILL):
                return row - start
            batch = known.sticky_batch if number == FILL else open_batch(known, number)
            used_bytes = OVERHEAD + (value_size if value_size > 0 else 0) + (key_size if key_size > 0 else 0)
            if batch is None or batch.used_bytes + used_bytes > batch.admitted_bytes:
                return row - start
            used_bytes = append_plain(batch.builder, time, key_bytes, key_size, value_bytes, value_size, &index)
            if not used_bytes:
                return row - start
            if number == FILL:
                known.sticky_bytes += used_bytes - batch.used_bytes
            batch.used_bytes = used_bytes
        return max(end - start, 0)


@cython.final
cdef class Cells:
    """The byte strings of a column (see `BinaryColumn`); without a column, all values are null."""

    cdef const int32_t[:] offsets
    cdef const uint8_t[:] data, validity
    cdef Py_ssize_t shift
    cdef bint is_missing

    def __init__(self, column, Py_ssize_t shift):
        self.shift = shift
        self.is_missing = column is None
        if column is not None:
            self.offsets = column.offsets
            self.data = column.data
            self.validity = column.validity

    cdef inline bint at(self, Py_ssize_t row, const uint8_t **start, int32_t *size) noexcept:
        """Find a cell, and return whether the column has it."""
        cdef int32_t begin, end
        start[0] = NULL
        size[0] = -1
        if self.is_missing:
            return True
        row += self.shift
        if row + 1 >= self.offsets.shape[0]:
            return False
        if self.validity is not None and not self.validity[row // 8] >> (row % 8) & 1:
            return True
        begin, end = self.offsets[row], self.offsets[row + 1]
        if not 0 <= begin <= end <= self.data.shape[0]:
            return False
        size[0] = end - begin
        start[0] = &self.data[0] + begin if self.data.shape[0] else <const uint8_t *>b""
        return True


cdef Py_ssize_t plain_headers_bytes(headers) except? -1:
    """Return an upper bound on the size of headers; -1 unless they are a list or tuple with only text and bytes."""
    cdef Py_ssize_t size = 0
    if type(headers) is not list and type(headers) is not tuple:
        return -1
    for pair in headers:
        if type(pair) is not tuple or len(<tuple>pair) != 2:
            return -1
        name, value = <tuple>pair
        if type(name) is not str or not (<str>name).isascii() or type(value) is not bytes:
            return -1
        size += len(<str>name) + len(<bytes>value) + HEADER_OVERHEAD
    return size


cdef inline Batch open_batch(Topic topic, int32_t number):
    if number >= PyList_GET_SIZE(topic.open):
        return None
    return <Batch>PyList_GET_ITEM(topic.open, number)


def _explained(error):
    from kafkawire.sdk.producer.engines.python import Appender as AppenderInPython  # only needed for an error

    return refusal(error, "Producer", AppenderInPython.send)


explain_sends(Appender.send, _explained)
