"""strata: runs mixture-of-experts language models through a generated native runtime."""

__version__ = "0.1.0"
