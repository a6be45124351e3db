"""Comparing settings: arms of knobs on the same prompts, in turn, a fresh engine each time."""
