"""`python -m inspan`: the same as the command `inspan`."""

from inspan.cli import main

main()
