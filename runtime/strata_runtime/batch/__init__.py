"""Several requests on one model: slots, joint windows, and prompts that are read beside them."""
