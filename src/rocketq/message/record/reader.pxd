# What compiled code outside this module may use without going through Python objects.

cimport cython


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


cpdef RecordCheck check_record(
    object buffer, Py_ssize_t at=*, bint check_crc=*, bint require_property_crc=*
)

cpdef RecordFields read_record(object buffer, Py_ssize_t at=*)
