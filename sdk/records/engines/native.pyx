# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: auto_pickle=False, binding=False
"""Read and build record batches (magic 2) in C: the engine used where the extension is built.

Each part has the name and the interface of its counterpart in the Python engine, which documents it:
`native_builder.pxi` does what `python_builder.py` does. The code that reads and writes one record is generated from the
schemas into `record_codec.pxi`; the code here turns its results into records, views and columns. If bytes are refused,
the Python engine reads them again to find the reason. Records have no garbage collector header, because they cannot be
part of a cycle.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.long cimport PyLong_Check, PyLong_CheckExact
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.memoryview cimport PyMemoryView_FromObject
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.unicode cimport PyUnicode_AsUTF8String, PyUnicode_CheckExact, PyUnicode_DecodeUTF8
from libc.stdint cimport (
    INT16_MAX, INT16_MIN, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN,
    int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
)
from libc.string cimport memcmp, memcpy, memset

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object value, int *overflow) except? -1
    void PyObject_GC_Track(object value)
    void PyObject_GC_UnTrack(object value)
    void Py_SET_SIZE(object value, Py_ssize_t size)
    Py_ssize_t PY_SSIZE_T_MAX

from kafkawire.sdk.protocol.engines.native_network_order cimport load16, load32, load64, store16, store32, store64
from kafkawire.sdk.protocol.tables.record_formats cimport *
include "native_numbers.pxi"
include "native_crc.pxi"
include "../../protocol/tables/record_codec.pxi"

from types import GenericAlias

from kafkawire.sdk.errors import DecodeError, EncodeError
from kafkawire.sdk.protocol import reusable_memory
from kafkawire.sdk.protocol.primitives import MALFORMED_UTF8
from kafkawire.sdk.protocol.values import digits
from kafkawire.sdk.protocol.tables.enums import NO_PRODUCER_ID, NO_TIMESTAMP
from kafkawire.sdk.protocol.tables.record_formats import Compression, TimestampType
from kafkawire.sdk.records import java_integers
from kafkawire.sdk.records.buffers import not_bytes
from kafkawire.sdk.records.compression import compress, decompress
from kafkawire.sdk.records.engines.shared_arguments import (
    checked_compression,
    checked_name,
    checked_timestamp_type,
    pairs,
    whole_number,
)
from kafkawire.sdk.records.engines import python_record
from kafkawire.sdk.records.engines.python_record import (
    TIMESTAMP_TYPES,
    check_record,
    checked_field,
    described,
    no_timestamp,
    place_of_timestamp_type,
)
from kafkawire.sdk.records.engines import shared_lines
from kafkawire.sdk.records.limits import DEFAULT_BATCH_BYTES, MAX_DECOMPRESSED_BYTES

__all__ = [
    "BatchBuilder",
    "LatestRecords",
    "Record",
    "RecordBatch",
    "RecordLines",
    "RowsBuilder",
    "Survey",
    "Walk",
    "check_produced",
    "crc32c",
    "crc32c_by_table",
    "index_columns",
    "last_batches",
    "read_columns",
    "read_records",
    "scan_records",
]

cdef object NONE = Compression.NONE
cdef object CREATE_TIME = TimestampType.CREATE_TIME
cdef object LOG_APPEND_TIME = TimestampType.LOG_APPEND_TIME
cdef object MINUS_ONE = -1, ZERO = 0
cdef tuple EMPTY = ()
cdef int64_t NO_TIME = NO_TIMESTAMP, NO_PRODUCER = NO_PRODUCER_ID
cdef int32_t HEADERS_SHOWN = shared_lines.HEADERS_SHOWN
cdef int64_t DECODED_BYTES_MAX = shared_lines.DECODED_BYTES_MAX
cdef bytes MALFORMED = MALFORMED_UTF8.encode()

include "native_record.pxi"
include "native_batch.pxi"
include "native_walk.pxi"
include "native_extent.pxi"
include "native_columns.pxi"
include "native_rows.pxi"
include "native_produced.pxi"
include "native_latest.pxi"
include "native_survey.pxi"
include "native_last_batches.pxi"
include "native_index_columns.pxi"
include "native_lines.pxi"
include "native_builder.pxi"
