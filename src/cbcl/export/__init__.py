"""Exports of a memory: one ONNX file, and an app without a server."""
