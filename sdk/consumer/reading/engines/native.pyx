# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: auto_pickle=False, binding=False
"""Hand out the records of one batch to the application, in C; `python.py` documents the classes.

`async for` needs neither a coroutine nor an exception for each record: the stream is its own awaitable and answers
`am_send` while it has records. Only a wait for more records creates a coroutine.
"""

cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF

cdef extern from *:
    """
    /* Cython has no special method for this slot, which `await` and `yield from` use. */
    static void answer_send(PyObject *kind, sendfunc send) { ((PyTypeObject *)kind)->tp_as_async->am_send = send; }

    /* The machine's cheapest clock, accurate to a few milliseconds: it is read for each record. */
    #if defined(_WIN32)
    #include <windows.h>
    static inline long long coarse_ms(void) { return (long long)GetTickCount64(); }
    #else
    #include <time.h>
    #if defined(CLOCK_MONOTONIC_COARSE)
    #define COARSE_CLOCK CLOCK_MONOTONIC_COARSE
    #elif defined(CLOCK_MONOTONIC_RAW_APPROX)
    #define COARSE_CLOCK CLOCK_MONOTONIC_RAW_APPROX
    #else
    #define COARSE_CLOCK CLOCK_MONOTONIC
    #endif
    static inline long long coarse_ms(void) {
        struct timespec now;
        clock_gettime(COARSE_CLOCK, &now);
        return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    }
    #endif
    """
    ctypedef enum PySendResult:
        PYGEN_RETURN
        PYGEN_ERROR
    ctypedef PySendResult (*sendfunc)(PyObject *, PyObject *, PyObject **) except PYGEN_ERROR
    void answer_send(PyObject *kind, sendfunc send)
    long long coarse_ms() noexcept nogil

from kafkawire.sdk.consumer.position import Position
from kafkawire.sdk.transport.waiting import FAIR_MS

__all__ = ["Handout", "RecordIterator", "RecordStream"]


@cython.final
@cython.freelist(8)
cdef class Handout:
    """The records being handed out (see `python.py`)."""

    cdef list records
    cdef object end, leader_epoch
    cdef Py_ssize_t count, done
    cdef readonly Py_ssize_t index

    def __init__(self, list records not None, end, leader_epoch):
        self.records = records
        self.count = len(records)
        self.end = end
        self.leader_epoch = leader_epoch

    @property
    def left(self):
        return self.count - self.index

    def take(self):
        if self.index >= self.count:
            raise IndexError("every record was handed out")
        return self.next()

    cdef inline object next(self):
        self.done = self.index
        self.index += 1
        return self.records[self.done]

    def take_many(self, Py_ssize_t limit):
        cdef Py_ssize_t start = self.index
        self.index = min(self.count, start + max(limit, 0))
        return self.records[start : self.index]

    def settle(self):
        self.done = self.index

    def cut(self):
        if self.index < self.count:
            self.end = self.after(self.index)
            self.count = self.index

    def position(self, start):
        if self.index == 0:
            return start
        return self.end if self.index == self.count else self.after(self.index)

    def finished(self, start):
        if self.done == 0:
            return start
        return self.end if self.done == self.count else self.after(self.done)

    cdef object after(self, Py_ssize_t count):
        return Position(self.records[count - 1].offset + 1, self.leader_epoch) if count else self.end


cdef long long fair_ms = FAIR_MS

# Even that clock takes a tenth of a record's time to read. While its value stays the same, it is read after 1, 2, 4,
# and then every 8 records: if records suddenly take longer, at most 8 are handed out before the event loop gets a turn.
cdef int most_unseen = 8


@cython.final
cdef class RecordStream:
    """The asynchronous iterator of records (see `python.py`)."""

    cdef object wait
    cdef public Handout handout
    cdef long long seen_ms, due_ms
    cdef int unseen, stride

    def __init__(self, wait):
        self.wait = wait

    def __aiter__(self):
        return self

    def __anext__(self):
        return self

    def __await__(self):
        if self.handout is not None and self.handout.index < self.handout.count:
            if self.unseen > 0:
                self.unseen -= 1
                return self
            if not self.is_due():
                return self
        return self.wait().__await__()

    cdef bint is_due(self) noexcept:
        """Read the clock, and return whether records have been handed out without a wait for long enough."""
        cdef long long now_ms = coarse_ms()
        self.stride = min(2 * self.stride, most_unseen) if now_ms == self.seen_ms else 1
        self.unseen = self.stride - 1
        self.seen_ms = now_ms
        if now_ms < self.due_ms:
            return False
        self.due_ms = now_ms + fair_ms
        return True

    def __iter__(self):
        return self

    def __next__(self):
        raise StopIteration(self.ready())

    cdef object ready(self):
        if self.handout is None or self.handout.index >= self.handout.count:
            raise RuntimeError("an iterator from __await__ must be used immediately: another reader took the record")
        return self.handout.next()


@cython.final
cdef class RecordIterator:
    """The blocking iterator of records (see `python.py`)."""

    cdef object wait
    cdef public Handout handout

    def __init__(self, wait):
        self.wait = wait

    def __iter__(self):
        return self

    def __next__(self):
        while self.handout is None or self.handout.index >= self.handout.count:
            if not self.wait():
                raise StopIteration
        return self.handout.next()


cdef PySendResult send_next(PyObject *stream, PyObject *value, PyObject **result) except PYGEN_ERROR:
    record = (<RecordStream>stream).ready()
    Py_INCREF(record)
    result[0] = <PyObject *>record
    return PYGEN_RETURN


answer_send(<PyObject *>RecordStream, send_next)
