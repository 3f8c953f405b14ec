# Types of signed.py when compiled.

cimport cython

cimport rocketq.remoting.hot.hmac_sha1 as hmac_sha1
cimport rocketq.common.memory as memory
cimport rocketq.remoting.wire.command as commands
cimport rocketq.remoting.wire.scan as scan
from rocketq.remoting.wire.command cimport Command as CommandType
from rocketq.remoting.wire.command cimport EntryStruct


cdef Py_ssize_t _SHORT
cdef const unsigned char* _BASE64


cdef class SignedFields:
    cdef public str access_key
    cdef public bytes signature
    cdef public bytes content


@cython.locals(
    fields=SignedFields, base="const unsigned char*", i="int", room="Py_ssize_t",
    values=bytearray, out="unsigned char*", used="Py_ssize_t", end="Py_ssize_t", value=bytes,
)
cpdef SignedFields read_signed(CommandType command)

cpdef bytes ready_key(bytes block)

cpdef bytes sign(bytes content, bytes key)

cpdef bint is_match(SignedFields fields, bytes key)

cdef bytes _digest(bytes content, bytes key)

@cython.locals(
    written="const unsigned char*", raw="const unsigned char*", different="unsigned int",
    bits="unsigned int", group="int",
)
cdef bint _is_base64_of(bytes text, bytes digest)

@cython.locals(base="const unsigned char*", word=bytes, i="int")
cpdef str field_of(CommandType command, str name)

@cython.locals(base="const unsigned char*", name=bytes, value=str, values=list, fields=dict, i="int")
cpdef tuple fields_of(CommandType command, tuple names)

@cython.locals(i="int", at="int", held=EntryStruct)
cdef void _sort(CommandType command, const unsigned char* base) noexcept

@cython.locals(shorter="int", i="int")
cdef bint _is_before(
    const unsigned char* base, int at, int size, int other_at, int other_size
) noexcept

@cython.locals(fields=SignedFields, key=bytes)
cpdef bint is_allowed(
    CommandType command, object code, tuple names, str host, set allowed, dict keys
)
