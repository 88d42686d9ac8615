"""Attacks on the sandbox as data, and what runs them: `python -m attack` is one leg, in a process of its own."""
