"""GGUF files: metadata, tensors and vocabulary, read as untrusted input."""
