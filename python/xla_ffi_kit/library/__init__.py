"""Finds, reads and registers handler libraries.

Only `registration` imports JAX.
"""
