# Types of pull.py when compiled.

cimport cython

from rocketq.remoting.wire.command cimport Command as CommandType
from rocketq.remoting.hot.pull cimport PullFields as PullFieldsType
from rocketq.store.results cimport GetResult as GetResultType


@cython.final
cdef class _Pull:
    cdef PullFieldsType asked
    cdef CommandType reply_to
    cdef object connection
    cdef long long start
    cdef object filter
    cdef bint was_held
    cdef bint was_loaded
    cdef object group
    cdef object topic


cdef class PullProcessor:
    cdef object _live
    cdef object _reading
    cdef object _topics
    cdef object _groups
    cdef object _offsets
    cdef object _consumers
    cdef object _long_polling
    cdef object _store
    cdef object _stats
    cdef dict _stalled
    cdef set _waiters

    cpdef _on_pull(self, CommandType request, object connection)

    @cython.locals(asked=PullFieldsType)
    cdef object _run(self, _Pull pull)

    @cython.locals(asked=PullFieldsType)
    cdef object _check(self, _Pull pull)

    cdef object _subscription_in_request(self, PullFieldsType asked)
    cdef object _subscription_from_heartbeat(self, PullFieldsType asked, object config)
    cdef object _refuse_filters_we_lack(self, object data)
    cdef object _refuse_strangers(self, _Pull pull)

    @cython.locals(asked=PullFieldsType, result=GetResultType)
    cdef object _read(self, _Pull pull)

    cdef object _run_loaded(self, _Pull pull)
    cdef object _byte_budget(self, PullFieldsType asked)
    cdef object _offset_reset(self, _Pull pull, object offset)
    cdef object _answer(
        self,
        _Pull pull,
        object code,
        bytes remark,
        long long next_offset,
        long long min_offset,
        long long max_offset,
        GetResultType result,
    )
    cdef object _suggested_broker(self, object group, GetResultType result)

    @cython.locals(asked=PullFieldsType, request=CommandType)
    cdef object _hold(self, _Pull pull)
    @cython.locals(asked=PullFieldsType, result=GetResultType)
    cpdef _look(self, _Pull pull, long long offset)
    cpdef _resume(self, _Pull pull, long long offset)
    cdef object _finish(self, _Pull pull)
    cdef object _send(self, _Pull pull, CommandType reply)
    cdef object _start(self, object work)
    cdef object _stall(self, _Pull pull)
