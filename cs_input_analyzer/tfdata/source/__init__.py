"""Read and change the user's source: the statement of a line, small edits, and patches of files."""
