"""Operations from strings of C++, from files and from numba functions."""
