"""What a memory becomes elsewhere: one ONNX file, and an app without a server."""
