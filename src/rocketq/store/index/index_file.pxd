cimport cython


cpdef int positive_hash(int java_hash)


@cython.final
cdef class IndexFile:
    cdef unsigned char[::1] view
    cdef readonly int slots
    cdef readonly int max_entries
    cdef long long _entries_at
    cdef public long long begin_timestamp
    cdef public long long end_timestamp
    cdef public long long begin_position
    cdef public long long end_position
    cdef public int used_slots
    cdef public int count
    cdef public int limit

    cpdef bint put(self, int key_hash, long long position, long long timestamp)
    cpdef bint has(self, int key_hash, long long position)
    cdef inline long long _slot_at(self, long long slot) noexcept
    cdef inline long long _entry_at(self, long long number) noexcept
    cdef int _number(self, long long at)
    cdef long long _position(self, long long at)
    cdef _put_number(self, long long at, int number)
    cdef _write_header(self)
