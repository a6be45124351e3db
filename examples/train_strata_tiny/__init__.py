"""Trains strata-tiny from scratch: corpus and tokenizer, model, training loop, export in the layout of GLM-4-MoE."""
