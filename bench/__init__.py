"""What inspan costs, side by side with what it is compared to: `python -m bench.run`. Never part of a test."""
