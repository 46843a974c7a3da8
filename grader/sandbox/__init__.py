"""Runs untrusted code in jailed processes and lets trusted code call it; knows nothing of courses, suites or scores."""
