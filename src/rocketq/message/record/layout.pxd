# The numbers of layout.py for compiled modules, which cimport them as constants.

cdef enum:
    SIZE_AT = 0
    MAGIC_AT = 4
    BODY_CRC_AT = 8
    QUEUE_ID_AT = 12
    FLAG_AT = 16
    QUEUE_OFFSET_AT = 20
    PHYSICAL_OFFSET_AT = 28
    SYS_FLAG_AT = 36
    BORN_TIME_AT = 40
    BORN_HOST_AT = 48

    RECONSUME_BEFORE_BODY = 16
    TRANSACTION_BEFORE_BODY = 12
    SIZE_BEFORE_BODY = 4

    MAGIC_V1 = -626843481
    MAGIC_V2 = -626843477
    MAGIC_BLANK = -875286124

    FIXED_SIZE = 91
    BLANK_SIZE = 8
    V4_SIZE = 8
    V6_SIZE = 20
    CRC_TAIL_SIZE = 20
    MAX_TOPIC_SIZE_V1 = 127
    MAX_TOPIC_SIZE = 32767
    MAX_PROPERTIES_SIZE = 32767
    MAX_BODY_SIZE = 0x7FFF0000

    COMPRESSED = 0x1
    BORN_V6 = 0x10
    STORE_V6 = 0x20
    INNER_BATCH = 0x80
    INNER_BATCH_BITS = 0xC0
    TRANSACTION_BITS = 0xC
    TRANSACTION_PREPARED = 0x4
    TRANSACTION_ROLLBACK = 0xC

    ITEM_FLAG_AT = 12
    ITEM_BODY_SIZE_AT = 16
    ITEM_BODY_AT = 20
    ITEM_FIXED_SIZE = 22

    ENTRY_POSITION_AT = 0
    ENTRY_SIZE_AT = 8
    ENTRY_TAGS_CODE_AT = 12
    ENTRY_SIZE = 20


cdef inline Py_ssize_t store_time_at(int sys_flag) noexcept nogil:
    return BORN_HOST_AT + (V6_SIZE if sys_flag & BORN_V6 else V4_SIZE)


cdef inline Py_ssize_t store_host_at(int sys_flag) noexcept nogil:
    return store_time_at(sys_flag) + 8


cdef inline Py_ssize_t store_host_size(int sys_flag) noexcept nogil:
    return V6_SIZE if sys_flag & STORE_V6 else V4_SIZE


cdef inline Py_ssize_t body_at(int sys_flag) noexcept nogil:
    cdef Py_ssize_t at = 88
    if sys_flag & BORN_V6:
        at += 12
    if sys_flag & STORE_V6:
        at += 12
    return at
