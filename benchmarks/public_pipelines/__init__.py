"""The analyzer on public input functions by other authors: are its numbers, lines, findings and fixes right there?"""
