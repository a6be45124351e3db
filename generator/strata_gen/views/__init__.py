"""Stage 4: what templates print. One module per slice of typed views, each with its `EMITTERS` or its page."""
