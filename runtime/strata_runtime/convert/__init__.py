"""A safetensors model folder packed into one GGUF file."""
