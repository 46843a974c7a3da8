"""What a test of a suite may use. Runs in the trusted process only; knows the sandbox, but no course and no score."""

from grader.sandbox.client import Stream
from grader.sandbox.remote import LearnerError, ParameterInfo, Vjp

from .checks import (
    TOLERANCE,
    assert_arguments_unchanged,
    assert_close,
    assert_equal,
    assert_shape,
    assert_value_error,
    fail,
    not_assessed,
)
from .inputs import choice, noncontiguous, rand_bool, randint, randn, uniform
from .modules import assert_chunks_close, assert_module_close
from .plugin import points

__all__ = [
    "TOLERANCE",
    "LearnerError",
    "ParameterInfo",
    "Stream",
    "Vjp",
    "assert_arguments_unchanged",
    "assert_chunks_close",
    "assert_close",
    "assert_equal",
    "assert_module_close",
    "assert_shape",
    "assert_value_error",
    "choice",
    "fail",
    "noncontiguous",
    "not_assessed",
    "points",
    "rand_bool",
    "randint",
    "randn",
    "uniform",
]
