"""netket: the Hamiltonian of 12 spins as a sparse matrix, and its energy."""

import netket as nk
import numpy as np


def program():
    graph = nk.graph.Chain(12)
    hilbert = nk.hilbert.Spin(0.5, 12)
    hamiltonian = nk.operator.IsingJax(hilbert, graph, h=1.0)

    def run():
        matrix = hamiltonian.to_sparse()
        return np.asarray(matrix.sum(1))

    return run
