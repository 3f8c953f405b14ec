# Types of writer.py when compiled.

cimport cython

cimport rocketq.common.memory as memory
cimport rocketq.message.record.checksum as checksum
cimport rocketq.message.record.layout as layout


@cython.locals(size="Py_ssize_t")
cpdef Py_ssize_t record_size(
    Py_ssize_t body_size,
    Py_ssize_t topic_size,
    Py_ssize_t properties_size,
    bint born_v6=*,
    bint store_v6=*,
)

@cython.locals(size="Py_ssize_t")
cpdef Py_ssize_t crc_tail_size(object properties, bint in_batch=*) except -1

@cython.locals(
    target="Py_buffer", body_held="Py_buffer", properties_held="Py_buffer", tail_size="Py_ssize_t",
    size="Py_ssize_t",
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
) except -1

cdef Py_ssize_t _checked_size(
    Py_ssize_t body_size,
    Py_ssize_t topic_size,
    Py_ssize_t properties_size,
    Py_ssize_t born_size,
    Py_ssize_t store_size,
) except -1

@cython.locals(
    start="Py_ssize_t", topic_size="Py_ssize_t", born_size="Py_ssize_t", store_size="Py_ssize_t",
)
cdef int write_record(
    unsigned char* out,
    Py_ssize_t at,
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
    Py_ssize_t body_at,
    Py_ssize_t body_size,
    const unsigned char* properties,
    Py_ssize_t properties_size,
    Py_ssize_t tail_size,
) except -1

@cython.locals(place="Py_ssize_t")
cdef void _put_crc_tail(unsigned char* out, Py_ssize_t at, unsigned int crc) noexcept

cdef int _with_host_bits(int sys_flag, Py_ssize_t born_size, Py_ssize_t store_size) noexcept

@cython.locals(held="Py_buffer")
cpdef write_blank(object out, Py_ssize_t at, Py_ssize_t remaining)
