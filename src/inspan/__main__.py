"""`python -m inspan`: the same as the command `inspan`."""

from inspan.cli.start import main

main()
