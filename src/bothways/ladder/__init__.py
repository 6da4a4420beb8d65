"""The smallest encoder that is good enough: candidates, evidence, rungs, the choice."""
