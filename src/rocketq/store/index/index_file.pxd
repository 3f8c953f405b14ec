# Types of index_file.py when compiled.

cimport cython

cimport rocketq.common.memory as memory


cdef object _NOTHING

cdef int _BEGIN_TIME_AT
cdef int _END_TIME_AT
cdef int _BEGIN_POSITION_AT
cdef int _END_POSITION_AT
cdef int _USED_SLOTS_AT
cdef int _COUNT_AT
cdef int _SLOTS_AT
cdef int _HASH_AT
cdef int _POSITION_AT
cdef int _SECONDS_AT
cdef int _BEFORE_AT
cdef int _STEP


cpdef int positive_hash(int java_hash) noexcept


@cython.final
cdef class IndexFile:
    cdef readonly int slots
    cdef readonly int max_entries
    cdef public long long begin_timestamp
    cdef public long long end_timestamp
    cdef public long long begin_position
    cdef public long long end_position
    cdef public int used_slots
    cdef public int count
    cdef public int limit
    cdef long long _entries_at
    cdef object _view
    cdef unsigned char* _memory

    @cython.locals(slot_at="Py_ssize_t", before="int", seconds="long long", at="Py_ssize_t")
    cpdef bint put(self, int key_hash, long long position, long long timestamp) except -1

    @cython.locals(number="int", at="Py_ssize_t")
    cpdef bint has(self, int key_hash, long long position) except -1

    @cython.locals(
        looked_at="int", number="int", last="int", at="Py_ssize_t", seconds="long long",
        timestamp="long long", before="int",
    )
    cpdef int find(
        self,
        int key_hash,
        long long begin_ms,
        long long end_ms,
        int max_count,
        list found,
        int most,
    ) except -1

    cpdef int slot(self, int slot) except? -1

    @cython.locals(at="Py_ssize_t")
    cpdef tuple entry(self, int number)

    cpdef bint overlaps(self, long long begin_ms, long long end_ms) noexcept

    @cython.locals(
        at="Py_ssize_t", number="int", first="long long", last="long long", seconds="long long",
        key_hash="int", position="long long", since="int", slot_at="Py_ssize_t", before="int",
    )
    cpdef int rebuild(self, long long log_end) except -1

    cdef inline long long _slot_at(self, long long slot) noexcept
    cdef inline long long _entry_at(self, long long number) noexcept
    cdef void _write_header(self) noexcept
