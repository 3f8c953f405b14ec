# Types of hashing.py when compiled.

cimport cython

cimport rocketq.common.memory as memory


cpdef int java_hash(str text) except? -1

@cython.locals(encoded=bytes)
cpdef int java_hash_bytes(object data, int seed=*) except? -1

@cython.locals(code="unsigned int", place="Py_ssize_t")
cdef int hash_at(const unsigned char* data, Py_ssize_t at, Py_ssize_t size, int seed) except? -1

@cython.locals(units=bytes, half="const unsigned char*", code="unsigned int", place="Py_ssize_t")
cdef int _unicode_hash(str text, int seed) except? -1
