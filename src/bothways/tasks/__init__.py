"""One file a task: examples, head, loss, decoding and metrics together."""
