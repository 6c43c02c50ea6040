"""What `tools/bazel test //...` leaves to --config=ci, with which .ci/run runs.

Tests that repeat others with other headers, compilers or more examples, or in
whole programs, and what a release needs.
"""

# target_compatible_with of a target that is skipped without --config=ci.
CI_ONLY = select({
    Label("//tools/ci:is_enabled"): [],
    "//conditions:default": [Label("//tools/ci:runs_with_config_ci")],
})

# Environment of a test whose cases marked `pytest.mark.ci` run with --config=ci
# alone: //tools/pytest_test:run.py reads it.
CI_CASES = select({
    Label("//tools/ci:is_enabled"): {},
    "//conditions:default": {"XLA_FFI_KIT_WITHOUT_CI_CASES": "1"},
})
