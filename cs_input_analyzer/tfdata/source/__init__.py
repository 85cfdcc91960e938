"""The user's source: the statement behind a line, small changes of it, and patches of files."""
