"""rax: NDCG, and the gradient of a pairwise loss, of 200 lists of 200."""

import jax
import rax


def program():
    scores = jax.random.normal(jax.random.key(0), (200, 200))
    labels = jax.random.randint(jax.random.key(1), (200, 200), 0, 5) * 1.0

    @jax.jit
    def run(scores, labels):
        gradient = jax.grad(lambda s: rax.pairwise_logistic_loss(s, labels))
        return rax.ndcg_metric(scores, labels), gradient(scores)

    return lambda: run(scores, labels)
