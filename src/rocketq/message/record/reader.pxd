# Types of reader.py when compiled.

cimport cython

cimport rocketq.common.memory as memory
cimport rocketq.message.record.checksum as checksum
cimport rocketq.message.record.layout as layout


cdef int _VALID
cdef int _BLANK
cdef int _TORN
cdef int _BAD_MAGIC
cdef int _BAD_BODY_CRC
cdef int _BAD_PROPERTY_CRC
cdef int _BAD_SIZE


@cython.final
cdef class RecordCheck:
    cdef readonly int status
    cdef readonly int size


@cython.final
cdef class RecordFields:
    cdef readonly int size
    cdef readonly int queue_id
    cdef readonly int flag
    cdef readonly long long queue_offset
    cdef readonly long long physical_offset
    cdef readonly int sys_flag
    cdef readonly long long born_timestamp
    cdef readonly long long store_timestamp
    cdef readonly int reconsume_times
    cdef readonly long long prepared_transaction_offset
    cdef readonly Py_ssize_t body_at
    cdef readonly int body_size
    cdef readonly bytes topic
    cdef readonly bytes properties


@cython.locals(held="Py_buffer")
cpdef RecordCheck check_record(
    object buffer, Py_ssize_t at=*, bint check_crc=*, bint require_property_crc=*
)

@cython.locals(held="Py_buffer")
cpdef bint are_records(object buffer, Py_ssize_t count, bint check_crc=*) except -1

@cython.locals(at="Py_ssize_t", check=RecordCheck)
cdef bint _are_records(
    const unsigned char* data, Py_ssize_t end, Py_ssize_t count, bint check_crc
) except -1

@cython.locals(
    size="int", magic="int", body_at="Py_ssize_t", body_size="Py_ssize_t",
    stated="long long", properties_at="Py_ssize_t",
)
cdef RecordCheck check_at(
    const unsigned char* data,
    Py_ssize_t at,
    Py_ssize_t end,
    bint check_crc,
    bint require_property_crc,
)

@cython.locals(check=RecordCheck)
cdef RecordCheck _found(int status, int size)

@cython.locals(held="Py_buffer")
cpdef RecordFields read_record(object buffer, Py_ssize_t at=*)

@cython.locals(
    size="Py_ssize_t", body_at="Py_ssize_t", properties_at="Py_ssize_t", topic_at="Py_ssize_t",
    fields=RecordFields,
)
cdef RecordFields read_at(const unsigned char* data, Py_ssize_t at, Py_ssize_t end)

@cython.locals(held="Py_buffer", size="Py_ssize_t")
cpdef object decode_record(object buffer, Py_ssize_t at=*, object broker_name=*)

@cython.locals(held="Py_buffer")
cpdef list decode_records(object buffer, object broker_name=*, object added=*)

@cython.locals(at="Py_ssize_t", size="Py_ssize_t", messages=list)
cdef list _decode(const unsigned char* data, Py_ssize_t end, object broker_name, object added)

@cython.locals(
    size="Py_ssize_t", magic="int", body_at="Py_ssize_t", properties_at="Py_ssize_t"
)
cdef Py_ssize_t _record_size_at(
    const unsigned char* data, Py_ssize_t at, Py_ssize_t end
) except -1

@cython.locals(body_at="Py_ssize_t", body_size="Py_ssize_t")
cdef Py_ssize_t _body_at(const unsigned char* data, Py_ssize_t at, Py_ssize_t size) noexcept

@cython.locals(topic_at="Py_ssize_t", topic_size="Py_ssize_t")
cdef Py_ssize_t _properties_at(
    const unsigned char* data, Py_ssize_t at, Py_ssize_t size, Py_ssize_t body_at
) noexcept

@cython.locals(tail="Py_ssize_t", crc="long long", place="Py_ssize_t", digit="int")
cdef long long _property_crc(
    const unsigned char* data, Py_ssize_t at, Py_ssize_t size, Py_ssize_t properties_at
) noexcept
