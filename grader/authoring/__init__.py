"""What whoever teaches the course needs: stubs, the learner's kit and the proof of the suites."""
