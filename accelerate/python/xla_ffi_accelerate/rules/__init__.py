"""The rules, by what they are lowered to; `registry` maps names to them."""
