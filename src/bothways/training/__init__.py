"""The loop and what runs in it."""
