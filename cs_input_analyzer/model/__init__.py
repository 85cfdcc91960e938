"""From measurements and demand to a launch. Pure: numbers in, numbers out."""
