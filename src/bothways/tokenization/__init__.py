"""Texts to token ids and back, with an account of everything that is lost on the way."""
