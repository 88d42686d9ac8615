"""`python -m toolyard` is the `toolyard` command."""

from toolyard.cli import main

if __name__ == "__main__":
    main()
