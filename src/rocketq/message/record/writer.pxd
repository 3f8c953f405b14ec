# What compiled code outside this module may use without going through Python objects.

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
