"""Makes `messaging.binpb` of `messaging.proto`; for whoever changes the latter.

    python src/rocketq/proxy/protocol/compiled.py

Needs grpcio-tools, which is not needed to run anything.
"""

import tempfile
from pathlib import Path

HERE = Path(__file__).parent


def descriptor_set() -> bytes:
    """What the compiler makes of the definitions, with the files they import."""
    import grpc_tools
    from grpc_tools import protoc

    included = Path(grpc_tools.__file__).parent / "_proto"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        code = protoc.main(
            [
                "protoc",
                f"--proto_path={HERE}",
                f"--proto_path={included}",
                "--include_imports",
                f"--descriptor_set_out={out}",
                "messaging.proto",
            ]
        )
        if code:
            raise SystemExit(code)
        return out.read_bytes()


if __name__ == "__main__":
    (HERE / "messaging.binpb").write_bytes(descriptor_set())
