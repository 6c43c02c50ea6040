"""Operations of C functions that the process has already: no compiler."""
