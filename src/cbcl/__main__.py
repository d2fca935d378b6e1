"""`python -m cbcl` is `cbcl`."""

from cbcl.cli import main

main(prog_name="cbcl")
