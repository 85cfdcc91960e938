"""The user's pipeline as data: its graph, its ops, its source lines, and the edits that can be made to it."""
