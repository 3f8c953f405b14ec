"""JSON as RocketMQ speaks it: fastjson's dialect, written and read.

What Java writes is not always JSON. A map key that is not a string goes out as it is, be
it a number or a whole object:

    {0:"10.0.0.1:10911"}
    {{"brokerName":"b","queueId":0,"topic":"t"}:12}

and what it accepts is wider still: single quotes, bare names, stray commas, references
to objects written before (`{"$ref":"$.a.b"}`).

Writing, in three forms:

    dumps           compact, raw keys        bodies between programs
    dumps_pretty    tabs, raw keys           the files in store/config, as 5.5.0 lays them out
    standard_dumps  compact, strict JSON     topic routes for clients that ask for it

Reading: `loads` takes all of these. Keys come out as strings, whichever way they were
written, except objects, which come out as `ObjectKey`. orjson does the work wherever the
text is plain JSON, which most of it is; the parser in `dialect.py` is for the rest.
What strangers send is read within limits: see `Limits`.
"""

from rocketq.common.json.dialect import JsonError, ObjectKey
from rocketq.common.json.reading import HEADER_LIMITS, REQUEST_LIMITS, TRUSTED, Limits, loads
from rocketq.common.json.writing import dumps, dumps_pretty, pretty_pieces, standard_dumps

__all__ = [
    "HEADER_LIMITS",
    "REQUEST_LIMITS",
    "TRUSTED",
    "JsonError",
    "Limits",
    "ObjectKey",
    "dumps",
    "dumps_pretty",
    "loads",
    "pretty_pieces",
    "standard_dumps",
]
