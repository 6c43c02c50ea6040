"""Handler libraries: finding, reading and registering them.

Nothing but `registration` imports JAX.
"""
