"""Stage 2b: the semantic model, frozen dataclasses filled once. Emitters read this and nothing else."""
