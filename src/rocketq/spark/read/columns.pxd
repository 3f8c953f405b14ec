# Types of columns.py when compiled.

cimport cython

cimport rocketq.common.memory as memory
cimport rocketq.message.properties.entries as entries
cimport rocketq.message.record.layout as layout
from rocketq.message.properties.entries cimport Span as SpanType


cdef Py_ssize_t RECORD
cdef Py_ssize_t BODY
cdef Py_ssize_t BODY_SIZE
cdef Py_ssize_t PROPERTIES
cdef Py_ssize_t PROPERTIES_SIZE
cdef Py_ssize_t BORN_HOST_END
cdef Py_ssize_t WIDTH
cdef tuple _KNOWN
cdef long long _FIRST_MS
cdef long long _LAST_MS


@cython.final
cdef class RecordTable:
    cdef readonly Py_ssize_t count
    cdef readonly bint has_inner_batches
    cdef object _view
    cdef const unsigned char* _data
    cdef bytearray _noted
    cdef long long* _rows
    cdef list _compressed
    cdef dict _found

    @cython.locals(at="Py_ssize_t", size="Py_ssize_t")
    cdef object _note_all(self, long long start, long long end, tuple tags)

    @cython.locals(
        data="const unsigned char*", size="Py_ssize_t", magic="int", sys_flag="int",
        body="Py_ssize_t", body_size="Py_ssize_t", place="Py_ssize_t", properties="Py_ssize_t",
        properties_size="Py_ssize_t", offset="long long", row="Py_ssize_t", tag=SpanType,
    )
    cdef Py_ssize_t _note(
        self, Py_ssize_t at, Py_ssize_t left, long long start, long long end, tuple tags
    ) except -1

    @cython.locals(text=bytes)
    cdef bint _is_one_of(self, tuple texts, Py_ssize_t at, Py_ssize_t size) except -1

    cdef bytearray _values_of(self, bytes name)

    @cython.locals(
        kept=bytearray, places="long long*", wanted="const unsigned char*", row="Py_ssize_t",
        at="Py_ssize_t", end="Py_ssize_t", found=SpanType,
    )
    cdef bytearray _find_values(self, bytes name)

    @cython.locals(
        data="const unsigned char*", row="Py_ssize_t", at="Py_ssize_t", end="Py_ssize_t",
        stop="Py_ssize_t", ids="long long*", keys="long long*", tags="long long*",
    )
    cdef object _find_known(self)

    @cython.locals(to="int*", row="Py_ssize_t")
    cpdef bytearray int_column(self, Py_ssize_t field)

    @cython.locals(to="int*", row="Py_ssize_t")
    cpdef bytearray reconsume_column(self)

    @cython.locals(to="long long*", row="Py_ssize_t")
    cpdef bytearray long_column(self, Py_ssize_t field)

    @cython.locals(to="long long*", row="Py_ssize_t", at="Py_ssize_t")
    cpdef bytearray born_time_column(self)

    @cython.locals(to="long long*", row="Py_ssize_t", at="Py_ssize_t")
    cpdef bytearray store_time_column(self)

    cpdef int sys_flag(self, Py_ssize_t row)
    cpdef long long queue_offset(self, Py_ssize_t row)

    @cython.locals(at="Py_ssize_t")
    cpdef object stored_body(self, Py_ssize_t row)

    @cython.locals(
        total="long long", row="Py_ssize_t", to_offsets="int*", to="unsigned char*",
        at="Py_ssize_t", has_opened="bint", size="Py_ssize_t", offsets=bytearray, out=bytearray,
    )
    cpdef tuple body_column(self, Py_ssize_t first, Py_ssize_t end, dict opened)

    @cython.locals(
        row="Py_ssize_t", places="long long*", to_offsets="int*", to="unsigned char*",
        bits="unsigned char*", total="long long", offsets=bytearray, out=bytearray,
        validity=bytearray, size="Py_ssize_t",
    )
    cpdef tuple property_column(self, bytes name)

    @cython.locals(
        row="Py_ssize_t", places="long long*", to_offsets="int*", to="unsigned char*",
        total="long long", offsets=bytearray, out=bytearray, size="Py_ssize_t",
        at="Py_ssize_t", host="Py_ssize_t",
    )
    cpdef tuple id_column(self)

    cdef Py_ssize_t _store_host_size(self, Py_ssize_t row) noexcept

    @cython.locals(
        row="Py_ssize_t", total="Py_ssize_t", kept=bytearray, spans="int*", offsets=bytearray,
        to_offsets="int*", count="Py_ssize_t", names_size="long long", values_size="long long",
        entry="Py_ssize_t", name_offsets=bytearray, value_offsets=bytearray, names=bytearray,
        values=bytearray, to_name_offsets="int*", to_value_offsets="int*",
        to_names="unsigned char*", to_values="unsigned char*", name_at="Py_ssize_t",
        value_at="Py_ssize_t",
    )
    cpdef tuple map_column(self)

    @cython.locals(
        data="const unsigned char*", at="Py_ssize_t", end="Py_ssize_t", stop="Py_ssize_t",
        middle="Py_ssize_t", seen="unsigned long long", mark="unsigned long long",
        entry="Py_ssize_t", place="Py_ssize_t",
    )
    cdef Py_ssize_t _note_entries(self, Py_ssize_t row, int* spans, Py_ssize_t first) noexcept

    @cython.locals(
        offsets=bytearray, out=bytearray, to_offsets="int*", last=bytes, text=bytes,
        row="Py_ssize_t", at="Py_ssize_t", size="Py_ssize_t",
    )
    cpdef tuple host_column(self)


cdef int _check_size(long long total) except -1
cdef long long _microseconds(long long milliseconds) noexcept
