"""Commands that measure this tool itself; see README.md."""
