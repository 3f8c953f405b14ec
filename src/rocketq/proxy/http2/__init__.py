"""HTTP/2 as gRPC needs it, on the event loop: frames, headers, streams, flow control."""
