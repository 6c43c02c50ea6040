"""Rules of plain HLO, which XLA compiles into the function of a loop."""
