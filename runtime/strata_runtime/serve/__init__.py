"""The HTTP surface: an OpenAI-compatible API over a batch, a page with chat and monitor, metrics, logs."""
