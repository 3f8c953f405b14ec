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

cpdef Py_ssize_t record_size(
    Py_ssize_t body_size,
    Py_ssize_t topic_size,
    Py_ssize_t properties_size,
    bint born_v6=*,
    bint store_v6=*,
)

cpdef Py_ssize_t encode_record(
    object out,
    Py_ssize_t at,
    bytes topic,
    int queue_id,
    int flag,
    long long queue_offset,
    long long physical_offset,
    int sys_flag,
    long long born_timestamp,
    bytes born_host,
    long long store_timestamp,
    bytes store_host,
    int reconsume_times,
    long long prepared_transaction_offset,
    object body,
    object properties,
    bint property_crc=*,
    bint in_batch=*,
)

cdef int write_record(
    unsigned char* start,
    Py_ssize_t size,
    bytes topic,
    int queue_id,
    int flag,
    long long queue_offset,
    long long physical_offset,
    int sys_flag,
    long long born_timestamp,
    bytes born_host,
    long long store_timestamp,
    bytes store_host,
    int reconsume_times,
    long long prepared_transaction_offset,
    const unsigned char* body,
    Py_ssize_t body_size,
    const unsigned char* properties,
    Py_ssize_t properties_size,
    Py_ssize_t tail_size,
) except -1
