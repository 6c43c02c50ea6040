"""The rules, by what they replace; `registry` has the table."""
