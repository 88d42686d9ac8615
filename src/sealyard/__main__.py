"""`python -m sealyard` is the `sealyard` command."""

from sealyard.cli import main

if __name__ == "__main__":
    main()
