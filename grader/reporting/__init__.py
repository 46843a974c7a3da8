"""The instructor's report: what is known (gradebook, attempts, classroom), what follows from it (items, risk, regrade, similarity:
`summary.Report` holds it all), and how it is shown (terminal, page, exports).

Imports of the grader only the schema of results, the course and, to compare submissions, how they are found: a report can be made
wherever the result files are.
"""
