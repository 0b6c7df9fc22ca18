"""What a run costs and may cost: the ledger, budgets, rates and prices."""
