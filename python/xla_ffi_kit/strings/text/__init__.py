"""The C++ text that is made of strings, and what it says."""
