"""Checkpoints: safetensors folders and GGUF files, read as untrusted input against a model family."""
