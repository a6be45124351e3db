"""Drafts: guesses of the tokens that come next, which one pass of the network then checks together."""
