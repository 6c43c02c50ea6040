"""netket: Metropolis sampling of a restricted Boltzmann machine, 16 spins."""

import jax
import netket as nk


def program():
    hilbert = nk.hilbert.Spin(0.5, 16)
    model = nk.models.RBM(alpha=2, param_dtype=float)
    sampler = nk.sampler.MetropolisLocal(hilbert, n_chains=64)
    w = model.init(
        jax.random.key(0), hilbert.random_state(jax.random.key(1), 1)
    )
    start = sampler.init_state(model, w, seed=2)

    def run():
        state = sampler.reset(model, w, start)
        return sampler.sample(model, w, state=state, chain_length=50)[0]

    return run
