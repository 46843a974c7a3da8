"""The instructor's report, room by room: gradebook (what is known), terminal, table (CSV) and page (HTML).

Imports of the grader only `grader.grading.result`: a report can be made wherever the result files are.
"""
