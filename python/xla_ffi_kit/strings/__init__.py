"""Operations from strings of C++ and CUDA, and from files."""
