"""Checkpoints: safetensors folders, read as untrusted input against a model family."""
