"""`python -m cbcl` is `cbcl`."""

from cbcl.cli.commands import main

main(prog_name="cbcl")
