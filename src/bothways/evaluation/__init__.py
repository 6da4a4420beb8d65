"""Scores with intervals, beside what should be beaten."""
