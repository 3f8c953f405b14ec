def json_head(
    code: int,
    ext_json: bytes | None,
    flag: int,
    language: bytes,
    opaque: int,
    remark_json: bytes | None,
    version: int,
    body_size: int,
) -> bytes: ...
