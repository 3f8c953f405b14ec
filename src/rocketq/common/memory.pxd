# Bytes in memory, as compiled modules see them; memory.py says what each of these does.

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.string cimport memchr, memcmp, memcpy


# Where bytes lie

cdef inline const unsigned char* address(bytes data) noexcept:
    return <const unsigned char*> PyBytes_AS_STRING(data)


cdef inline unsigned char* room(bytearray out) noexcept:
    return <unsigned char*> PyByteArray_AS_STRING(out)


cdef inline int* int32s(bytearray out) noexcept:
    return <int*> PyByteArray_AS_STRING(out)


cdef inline long long* int64s(bytearray out) noexcept:
    return <long long*> PyByteArray_AS_STRING(out)


cdef inline Py_buffer hold(object buffer) except *:
    cdef Py_buffer held
    PyObject_GetBuffer(buffer, &held, PyBUF_SIMPLE)
    return held


cdef inline Py_buffer hold_writable(object buffer) except *:
    cdef Py_buffer held
    PyObject_GetBuffer(buffer, &held, PyBUF_WRITABLE)
    return held


cdef inline unsigned char* start(Py_buffer held) noexcept nogil:
    return <unsigned char*> held.buf


cdef inline void release(Py_buffer held) noexcept:
    PyBuffer_Release(&held)


# New objects

cdef inline bytearray unfilled(Py_ssize_t size):
    return PyByteArray_FromStringAndSize(NULL, size)


cdef inline bytes bytes_at(const unsigned char* data, Py_ssize_t at, Py_ssize_t size):
    return PyBytes_FromStringAndSize(<const char*> data + at, size)


cdef inline str text_at(const unsigned char* data, Py_ssize_t at, Py_ssize_t size):
    return PyUnicode_DecodeUTF8(<const char*> data + at, size, b"replace")


# Numbers, big-endian

cdef inline short get16(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    return <short> ((<unsigned int> data[at] << 8) | data[at + 1])


cdef inline unsigned int get32u(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    return (
        (<unsigned int> data[at] << 24)
        | (<unsigned int> data[at + 1] << 16)
        | (<unsigned int> data[at + 2] << 8)
        | data[at + 3]
    )


cdef inline int get32(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    return <int> get32u(data, at)


cdef inline long long get64(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    return (<long long> get32(data, at) << 32) | get32u(data, at + 4)


cdef inline void put16(unsigned char* out, Py_ssize_t at, int value) noexcept nogil:
    out[at] = <unsigned char> (value >> 8)
    out[at + 1] = <unsigned char> value


cdef inline void put32(unsigned char* out, Py_ssize_t at, long long value) noexcept nogil:
    cdef unsigned int v = <unsigned int> value
    out[at] = <unsigned char> (v >> 24)
    out[at + 1] = <unsigned char> (v >> 16)
    out[at + 2] = <unsigned char> (v >> 8)
    out[at + 3] = <unsigned char> v


cdef inline void put64(unsigned char* out, Py_ssize_t at, long long value) noexcept nogil:
    put32(out, at, value >> 32)
    put32(out, at + 4, value)


cdef inline int signed32(unsigned int value) noexcept nogil:
    return <int> value


# Pieces

cdef inline void copy(
    unsigned char* out, Py_ssize_t at, const unsigned char* data, Py_ssize_t start, Py_ssize_t size
) noexcept nogil:
    memcpy(out + at, data + start, size)


cdef inline bint same(
    const unsigned char* data, Py_ssize_t at, const unsigned char* other, Py_ssize_t size
) noexcept nogil:
    return memcmp(data + at, other, size) == 0


cdef inline Py_ssize_t find(
    const unsigned char* data, Py_ssize_t at, Py_ssize_t end, int byte
) noexcept nogil:
    cdef const unsigned char* found = <const unsigned char*> memchr(data + at, byte, end - at)
    return end if found == NULL else found - data


# Text, put at a place; each says where it ends

cdef inline Py_ssize_t put(unsigned char* out, Py_ssize_t at, bytes text) noexcept:
    memcpy(out + at, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
    return at + PyBytes_GET_SIZE(text)


cdef inline Py_ssize_t put_hex(
    unsigned char* out, Py_ssize_t at, const unsigned char* data, Py_ssize_t start, Py_ssize_t size
) noexcept nogil:
    cdef const char* digits = b"0123456789ABCDEF"
    cdef Py_ssize_t i
    for i in range(size):
        out[at + 2 * i] = <unsigned char> digits[data[start + i] >> 4]
        out[at + 2 * i + 1] = <unsigned char> digits[data[start + i] & 15]
    return at + 2 * size


cdef inline Py_ssize_t put_hex_number(
    unsigned char* out, Py_ssize_t at, unsigned long long number, Py_ssize_t digit_count
) noexcept nogil:
    cdef const char* digits = b"0123456789ABCDEF"
    cdef Py_ssize_t place = at + digit_count
    while place > at:
        place -= 1
        out[place] = <unsigned char> digits[number & 15]
        number >>= 4
    return at + digit_count


cdef inline Py_ssize_t put_number(
    unsigned char* out, Py_ssize_t at, long long number
) noexcept nogil:
    cdef unsigned long long rest = <unsigned long long> number
    cdef Py_ssize_t first, last
    cdef unsigned char digit
    if number < 0:
        out[at] = 0x2D
        at += 1
        rest = 0 - rest
    first = at
    while True:
        out[at] = <unsigned char> (0x30 + rest % 10)
        at += 1
        rest //= 10
        if rest == 0:
            break
    last = at - 1
    while first < last:
        digit = out[first]
        out[first] = out[last]
        out[last] = digit
        first += 1
        last -= 1
    return at
