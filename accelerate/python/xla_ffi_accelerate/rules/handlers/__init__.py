"""Rules that call a handler of the package; one file for each kernel."""
