"""Wheels: a kernels package as a distribution of its own, the runtime, and the generator."""
