# Big-endian integers in raw memory, for the compiled modules of all packages.


cdef inline void put32(unsigned char* p, int value) noexcept nogil:
    cdef unsigned int v = <unsigned int> value
    p[0] = <unsigned char> (v >> 24)
    p[1] = <unsigned char> (v >> 16)
    p[2] = <unsigned char> (v >> 8)
    p[3] = <unsigned char> v


cdef inline void put64(unsigned char* p, long long value) noexcept nogil:
    put32(p, <int> (value >> 32))
    put32(p + 4, <int> value)


cdef inline short get16(const unsigned char* p) noexcept nogil:
    return <short> ((<unsigned int> p[0] << 8) | p[1])


cdef inline int get32(const unsigned char* p) noexcept nogil:
    return <int> (
        (<unsigned int> p[0] << 24) | (<unsigned int> p[1] << 16) | (<unsigned int> p[2] << 8) | p[3]
    )


cdef inline long long get64(const unsigned char* p) noexcept nogil:
    return (<long long> get32(p) << 32) | <unsigned int> get32(p + 4)
