"""What makes a program of code that is none yet: a file for each kind of language."""
