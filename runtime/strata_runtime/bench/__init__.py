"""Speed of a loaded model: prompts, decode and windows, beside what memory allows."""
