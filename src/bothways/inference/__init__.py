"""A loaded model at work: plan batches, predict, embed."""
