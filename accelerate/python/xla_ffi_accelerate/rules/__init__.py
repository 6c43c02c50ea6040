"""The rules; `registry` maps names to them."""
