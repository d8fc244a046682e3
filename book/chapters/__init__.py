"""Tested estimators and experiments that one or two chapters need."""
