"""The course as a Gradescope autograder: `build` makes the zip, the rest runs in it. Learner code runs in the sandbox, as everywhere."""
