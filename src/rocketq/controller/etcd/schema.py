"""The messages of etcd's v3 interface that are used here.

Written down as a table and not as generated code: it is a page long, has no build step, and
lives in a pool of its own, so that another copy of etcd's messages in the same process does no
harm. Numbers and names are those of etcd's `rpc.proto` and `kv.proto`; fields that nobody here
reads are left out, as the format allows.
"""

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto
_PACKAGE: Final = "etcdserverpb"

_SCALARS: Final = {
    "bytes": _Field.TYPE_BYTES,
    "string": _Field.TYPE_STRING,
    "int64": _Field.TYPE_INT64,
    "int32": _Field.TYPE_INT32,
    "bool": _Field.TYPE_BOOL,
}

# Message -> its fields: number, type, name. `*` before a type: repeated; `|`: one of a union.
# Enums travel as int32 does.
_MESSAGES: Final = {
    "ResponseHeader": "3 int64 revision",
    "KeyValue": """1 bytes key  2 int64 create_revision  3 int64 mod_revision
                   4 int64 version  5 bytes value  6 int64 lease""",
    "Event": "1 int32 type  2 KeyValue kv",
    "RangeRequest": "1 bytes key  2 bytes range_end  3 int64 limit",
    "RangeResponse": "1 ResponseHeader header  2 *KeyValue kvs",
    "PutRequest": "1 bytes key  2 bytes value  3 int64 lease",
    "PutResponse": "1 ResponseHeader header",
    "DeleteRangeRequest": "1 bytes key  2 bytes range_end",
    "DeleteRangeResponse": "1 ResponseHeader header  2 int64 deleted",
    "Compare": """1 int32 result  2 int32 target  3 bytes key
                  5 |int64 create_revision  6 |int64 mod_revision""",
    "RequestOp": """1 |RangeRequest request_range  2 |PutRequest request_put
                    3 |DeleteRangeRequest request_delete_range""",
    "ResponseOp": "1 |RangeResponse response_range  2 |PutResponse response_put",
    "TxnRequest": "1 *Compare compare  2 *RequestOp success  3 *RequestOp failure",
    "TxnResponse": "1 ResponseHeader header  2 bool succeeded  3 *ResponseOp responses",
    "WatchCreateRequest": "1 bytes key  2 bytes range_end  3 int64 start_revision",
    "WatchRequest": "1 |WatchCreateRequest create_request",
    "WatchResponse": """1 ResponseHeader header  3 bool created  4 bool canceled
                        5 int64 compact_revision  6 string cancel_reason  11 *Event events""",
    "LeaseGrantRequest": "1 int64 TTL  2 int64 ID",
    "LeaseGrantResponse": "1 ResponseHeader header  2 int64 ID  3 int64 TTL",
    "LeaseRevokeRequest": "1 int64 ID",
    "LeaseRevokeResponse": "1 ResponseHeader header",
    "LeaseKeepAliveRequest": "1 int64 ID",
    "LeaseKeepAliveResponse": "1 ResponseHeader header  2 int64 ID  3 int64 TTL",
    "AuthenticateRequest": "1 string name  2 string password",
    "AuthenticateResponse": "1 ResponseHeader header  2 string token",
}

# Compare.target; the only result compared for is EQUAL, 0.
CREATE_REVISION: Final = 1
MOD_REVISION: Final = 2

# Event.type
DELETE: Final = 1


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="rocketq/etcd.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        words = fields.split()
        for number, kind, field_name in zip(words[::3], words[1::3], words[2::3], strict=True):
            field = message.field.add(name=field_name, number=int(number))
            is_repeated = kind.startswith("*")
            field.label = _Field.LABEL_REPEATED if is_repeated else _Field.LABEL_OPTIONAL
            if kind.startswith("|"):
                if not message.oneof_decl:
                    message.oneof_decl.add(name="union")
                field.oneof_index = 0
            kind = kind.lstrip("*|")
            if kind in _SCALARS:
                field.type = _SCALARS[kind]
            else:
                field.type = _Field.TYPE_MESSAGE
                field.type_name = f".{_PACKAGE}.{kind}"
    return file


_POOL: Final = descriptor_pool.DescriptorPool()
_POOL.Add(_file())


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


AuthenticateRequest: Final = _message("AuthenticateRequest")
AuthenticateResponse: Final = _message("AuthenticateResponse")
Compare: Final = _message("Compare")
DeleteRangeRequest: Final = _message("DeleteRangeRequest")
DeleteRangeResponse: Final = _message("DeleteRangeResponse")
LeaseGrantRequest: Final = _message("LeaseGrantRequest")
LeaseGrantResponse: Final = _message("LeaseGrantResponse")
LeaseKeepAliveRequest: Final = _message("LeaseKeepAliveRequest")
LeaseKeepAliveResponse: Final = _message("LeaseKeepAliveResponse")
LeaseRevokeRequest: Final = _message("LeaseRevokeRequest")
LeaseRevokeResponse: Final = _message("LeaseRevokeResponse")
PutRequest: Final = _message("PutRequest")
PutResponse: Final = _message("PutResponse")
RangeRequest: Final = _message("RangeRequest")
RangeResponse: Final = _message("RangeResponse")
RequestOp: Final = _message("RequestOp")
TxnRequest: Final = _message("TxnRequest")
TxnResponse: Final = _message("TxnResponse")
WatchCreateRequest: Final = _message("WatchCreateRequest")
WatchRequest: Final = _message("WatchRequest")
WatchResponse: Final = _message("WatchResponse")
