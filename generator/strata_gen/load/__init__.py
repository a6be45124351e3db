"""Stage 1: text to plain data with a source span for every key and value."""
