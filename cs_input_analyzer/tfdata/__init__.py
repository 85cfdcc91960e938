"""Read the user's pipeline as data: its graph, its ops, its source lines, and possible edits."""
