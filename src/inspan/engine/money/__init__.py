"""What runs cost and may cost: the ledger, budgets, rates and prices, for one run; start reading at `account.py`."""
