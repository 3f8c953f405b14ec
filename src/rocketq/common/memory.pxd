# Bytes in memory, as compiled modules see them; memory.py says what each of these does.

from cpython.buffer cimport PyBUF_READ, PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory, PyMemoryView_GET_BUFFER
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.string cimport memcmp, memcpy


# Where bytes lie

cdef inline const unsigned char* address(bytes data) noexcept:
    return <const unsigned char*> PyBytes_AS_STRING(data)


cdef inline unsigned char* room(bytearray out) noexcept:
    return <unsigned char*> PyByteArray_AS_STRING(out)


cdef inline unsigned char* viewed(object view) noexcept:
    return <unsigned char*> PyMemoryView_GET_BUFFER(view).buf


cdef inline int* viewed_int32s(object view) noexcept:
    return <int*> PyMemoryView_GET_BUFFER(view).buf


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


cdef inline const unsigned char* part(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    return data + at


# New objects

cdef inline bytearray unfilled(Py_ssize_t size):
    return PyByteArray_FromStringAndSize(NULL, size)


cdef inline bytes bytes_at(const unsigned char* data, Py_ssize_t at, Py_ssize_t size):
    return PyBytes_FromStringAndSize(<const char*> data + at, size)


cdef inline str text_at(const unsigned char* data, Py_ssize_t at, Py_ssize_t size):
    return PyUnicode_DecodeUTF8(<const char*> data + at, size, b"replace")


cdef inline object view(const unsigned char* data, Py_ssize_t at, Py_ssize_t size):
    return PyMemoryView_FromMemory(<char*> data + at, size, PyBUF_READ)


# Numbers, big-endian
#
# Compilers do not see that four shifted bytes are one load, so they are told.

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    #if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    static CYTHON_INLINE uint16_t rocketq_load16(const unsigned char *p) {
        uint16_t v; memcpy(&v, p, 2); return __builtin_bswap16(v);
    }
    static CYTHON_INLINE uint32_t rocketq_load32(const unsigned char *p) {
        uint32_t v; memcpy(&v, p, 4); return __builtin_bswap32(v);
    }
    static CYTHON_INLINE uint64_t rocketq_load64(const unsigned char *p) {
        uint64_t v; memcpy(&v, p, 8); return __builtin_bswap64(v);
    }
    static CYTHON_INLINE void rocketq_store16(unsigned char *p, uint16_t v) {
        v = __builtin_bswap16(v); memcpy(p, &v, 2);
    }
    static CYTHON_INLINE void rocketq_store32(unsigned char *p, uint32_t v) {
        v = __builtin_bswap32(v); memcpy(p, &v, 4);
    }
    static CYTHON_INLINE void rocketq_store64(unsigned char *p, uint64_t v) {
        v = __builtin_bswap64(v); memcpy(p, &v, 8);
    }
    #else
    static CYTHON_INLINE uint16_t rocketq_load16(const unsigned char *p) {
        return (uint16_t) (p[0] << 8 | p[1]);
    }
    static CYTHON_INLINE uint32_t rocketq_load32(const unsigned char *p) {
        return (uint32_t) rocketq_load16(p) << 16 | rocketq_load16(p + 2);
    }
    static CYTHON_INLINE uint64_t rocketq_load64(const unsigned char *p) {
        return (uint64_t) rocketq_load32(p) << 32 | rocketq_load32(p + 4);
    }
    static CYTHON_INLINE void rocketq_store16(unsigned char *p, uint16_t v) {
        p[0] = (unsigned char) (v >> 8); p[1] = (unsigned char) v;
    }
    static CYTHON_INLINE void rocketq_store32(unsigned char *p, uint32_t v) {
        rocketq_store16(p, (uint16_t) (v >> 16)); rocketq_store16(p + 2, (uint16_t) v);
    }
    static CYTHON_INLINE void rocketq_store64(unsigned char *p, uint64_t v) {
        rocketq_store32(p, (uint32_t) (v >> 32)); rocketq_store32(p + 4, (uint32_t) v);
    }
    #endif
    """
    unsigned short rocketq_load16(const unsigned char*) noexcept nogil
    unsigned int rocketq_load32(const unsigned char*) noexcept nogil
    unsigned long long rocketq_load64(const unsigned char*) noexcept nogil
    void rocketq_store16(unsigned char*, unsigned short) noexcept nogil
    void rocketq_store32(unsigned char*, unsigned int) noexcept nogil
    void rocketq_store64(unsigned char*, unsigned long long) noexcept nogil


cdef inline short get16(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    return <short> rocketq_load16(data + at)


cdef inline int get32(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    return <int> rocketq_load32(data + at)


cdef inline unsigned int get32u(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    return rocketq_load32(data + at)


cdef inline unsigned int get32u_little(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    return (
        data[at]
        | (<unsigned int> data[at + 1] << 8)
        | (<unsigned int> data[at + 2] << 16)
        | (<unsigned int> data[at + 3] << 24)
    )


cdef inline long long get64(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    return <long long> rocketq_load64(data + at)


cdef inline void put16(unsigned char* out, Py_ssize_t at, int value) noexcept nogil:
    rocketq_store16(out + at, <unsigned short> value)


cdef inline void put32(unsigned char* out, Py_ssize_t at, long long value) noexcept nogil:
    rocketq_store32(out + at, <unsigned int> value)


cdef inline void put64(unsigned char* out, Py_ssize_t at, long long value) noexcept nogil:
    rocketq_store64(out + at, <unsigned long long> value)


cdef inline unsigned int unsigned32(long long value) noexcept nogil:
    return <unsigned int> value


cdef inline int signed32(unsigned int value) noexcept nogil:
    return <int> value


cdef inline unsigned long long bit(int place) noexcept nogil:
    return <unsigned long long> 1 << place


# Pieces

cdef inline void copy(
    unsigned char* out, Py_ssize_t at, const unsigned char* data, Py_ssize_t start, Py_ssize_t size
) noexcept nogil:
    memcpy(out + at, data + start, size)


cdef inline bint same(
    const unsigned char* data, Py_ssize_t at, const unsigned char* other, Py_ssize_t size
) noexcept nogil:
    return memcmp(data + at, other, size) == 0


# What is looked for is mostly near, where the call of memchr would cost more than the search.

cdef extern from *:
    """
    #if defined(__SSE2__) && defined(__GNUC__)
    #include <emmintrin.h>
    static CYTHON_INLINE Py_ssize_t rocketq_find(
        const unsigned char *data, Py_ssize_t at, Py_ssize_t end, int byte
    ) {
        const __m128i wanted = _mm_set1_epi8((char) byte);
        for (int block = 0; block < 4 && at + 16 <= end; block++, at += 16) {
            int found = _mm_movemask_epi8(
                _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *) (data + at)), wanted));
            if (found) return at + __builtin_ctz(found);
        }
        const void *p = at < end ? memchr(data + at, byte, (size_t) (end - at)) : NULL;
        return p == NULL ? end : (const unsigned char *) p - data;
    }
    #else
    static CYTHON_INLINE Py_ssize_t rocketq_find(
        const unsigned char *data, Py_ssize_t at, Py_ssize_t end, int byte
    ) {
        const void *p = at < end ? memchr(data + at, byte, (size_t) (end - at)) : NULL;
        return p == NULL ? end : (const unsigned char *) p - data;
    }
    #endif
    """
    Py_ssize_t rocketq_find(const unsigned char*, Py_ssize_t, Py_ssize_t, int) noexcept nogil


cdef inline Py_ssize_t find(
    const unsigned char* data, Py_ssize_t at, Py_ssize_t end, int byte
) noexcept nogil:
    return rocketq_find(data, at, end, byte)


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
