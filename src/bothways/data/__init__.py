"""Files to rows, rows to batches."""
