"""The autograder of Attention Ladder: `python -m grader --help`."""

__version__ = "0.1.0"
