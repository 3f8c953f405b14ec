# The entries for compiled modules; entries.py says what each of these does.

cimport rocketq.common.memory as memory


cdef struct Span:
    Py_ssize_t at
    Py_ssize_t size


cdef inline Py_ssize_t entry_end(
    const unsigned char* data, Py_ssize_t at, Py_ssize_t end
) noexcept nogil:
    return memory.find(data, at, end, 2)


cdef inline Py_ssize_t name_end(
    const unsigned char* data, Py_ssize_t at, Py_ssize_t stop
) noexcept nogil:
    cdef Py_ssize_t found = memory.find(data, at, stop, 1)
    return found if at < found and found + 1 < stop else -1


cdef inline bint is_named(
    const unsigned char* data,
    Py_ssize_t at,
    Py_ssize_t stop,
    const unsigned char* name,
    Py_ssize_t size,
) noexcept nogil:
    return stop - at > size + 1 and data[at + size] == 1 and memory.same(data, at, name, size)


cdef inline Span find_value(
    const unsigned char* data,
    Py_ssize_t at,
    Py_ssize_t end,
    const unsigned char* name,
    Py_ssize_t size,
) noexcept nogil:
    cdef Span found
    cdef Py_ssize_t stop
    found.at = -1
    found.size = 0
    while at < end:
        stop = entry_end(data, at, end)
        if is_named(data, at, stop, name, size):
            found.at = at + size + 1
            found.size = stop - found.at
        at = stop + 1
    return found
