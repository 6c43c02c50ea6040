// Of the stand-in for ROCm.
