"""Text to pieces and back, with an account of what was lost."""
