"""Questions about a model and its data that a score does not answer, one file each."""
