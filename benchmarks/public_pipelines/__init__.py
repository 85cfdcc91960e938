"""The analyzer on public input functions that nobody here wrote: are its numbers, lines, findings and fixes right there?"""
