"""strata-gen: from declarative specs to a native runtime for one hardware target."""

__version__ = "0.1.0"
