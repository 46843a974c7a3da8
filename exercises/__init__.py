"""Your exercises: one module per rung, with its lesson beside it."""
