"""Runs suites on submissions, scores them, keeps the results; one exercise, one learner, or a class."""
