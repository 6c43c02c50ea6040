"""Operations of C functions of the process, and of numba: no compiler."""
