"""The book's own Python: estimators of its chapters, the ledger of claims, and its charts. `lwcore`
knows nothing of it."""
