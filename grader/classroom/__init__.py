"""nbgrader's classroom: its roster, exchange, gradebook and feedback, with the grading done by this course's sandbox.

nbgrader's kernel never runs learner code here. The way of a submission:

    build      source/ and release/     a notebook and a stub per exercise, from lesson, stub and suite
    grade      submitted/ -> ladder/    `grading` writes result files, as for any class
               -> gradebook.db          nbgrader's own autograde, in this process, with `preprocessors` in place of its kernel
               -> feedback/             nbgrader's own pages
    export     gradebook.db -> CSV

`submitted`, `folder` and `scores` need no nbgrader; everything that imports it says so in its first line.
"""
