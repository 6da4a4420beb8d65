"""One file a published family: its configuration, weight names, heads and tokenizer."""
