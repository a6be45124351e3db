"""Layers on a GPU: kernels on a stream, weights in its memory, windows as graphs."""
