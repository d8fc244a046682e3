"""Elman networks with a diagonal recurrent matrix: their kernel, and what gradient descent does.

The companion, "C&E" in these docstrings, is Cayci and Eryilmaz (2024), Convergence of gradient
descent for recurrent neural networks: a nonasymptotic analysis. In the order of the paper:

* `network`: activations, network, symmetric start, empirical risk; derivatives, C&E Proposition 1
* `descent`: gradient descent, free and projected, C&E Eq. (5)
* `kernel`: the tangent kernel, C&E Proposition 2; transport maps and their targets, C&E Eq. (8)
* `bounds`: constants, approximation and convergence, C&E Lemma 1 to C&E Theorem 2
"""
