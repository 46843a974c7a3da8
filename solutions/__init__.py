"""The reference solutions: one module per exercise, and the source of the stubs in `exercises`."""
