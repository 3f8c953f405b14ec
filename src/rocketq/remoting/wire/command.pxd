# How `Command` lies in memory when compiled; the code is in command.py.

cimport cython

cimport rocketq.common.memory as memory
cimport rocketq.remoting.wire.json_header as json_header


cdef enum:
    ENTRY_LIMIT = 20

cdef struct EntryStruct:
    int name_at
    int value_at
    int value_size
    unsigned char name_size
    unsigned char is_escaped


cdef int _RESPONSE
cdef int _ONEWAY
cdef int _JSON
cdef int _BINARY
cdef int _PYTHON
cdef int _CURRENT
cdef int _last_opaque
cdef Py_ssize_t _COPIED_SIZE


cdef class Command:
    cdef public int code
    cdef public int language
    cdef public int version
    cdef public int opaque
    cdef public int flag
    cdef public int serialize_type
    cdef object _remark
    cdef object _ext_fields
    cdef object _body
    cdef object _frame
    cdef Py_ssize_t _header_at
    cdef Py_ssize_t _header_end
    cdef Py_ssize_t _body_end
    cdef bint _has_ext_fields
    cdef bint _is_encoded
    # The header's fields as the scan found them in `_frame`; -1 when it was not scanned.
    cdef int _entry_count
    cdef int _remark_at
    cdef int _remark_size
    cdef bint _remark_is_escaped
    cdef EntryStruct[ENTRY_LIMIT] _entries

    cdef str _text_at(self, Py_ssize_t at, Py_ssize_t size, bint is_escaped)

    @cython.locals(i="int", ext_fields=dict)
    cdef int _unpack(self) except -1

    @cython.locals(start="Py_ssize_t", size="Py_ssize_t")
    cdef object _body_of_frame(self)

    cdef bytes _encode_head(self, Py_ssize_t body_size)

    @cython.locals(body_size="Py_ssize_t", head=bytes)
    cpdef Py_ssize_t encode_into(self, list out) except -1


@cython.locals(command=Command)
cdef Command new_command()

@cython.locals(head=bytes, reply=Command)
cdef Command encoded_reply(
    Command request, int code, bytes ext_json, bytes remark_json, object body
)

@cython.locals(size="Py_ssize_t")
cdef Py_ssize_t size_of(object body) except -1

cdef const unsigned char* address_of(object buffer) except NULL

cpdef int next_opaque() except -1
