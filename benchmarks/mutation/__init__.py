"""Mutation testing of the theory, transport and cells."""
