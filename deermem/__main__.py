"""`python -m deermem` is the command line."""

from deermem.cli.main import main

if __name__ == "__main__":
    main()
