"""Model folders on disk: names of weights, reading and writing."""
