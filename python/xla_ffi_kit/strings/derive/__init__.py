"""Derivatives by the string itself: numbers with slopes."""
