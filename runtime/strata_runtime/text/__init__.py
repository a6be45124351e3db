"""Text: tokenizer, chat templates, incremental decoding and stop strings."""
