"""Parts for tests, ours and a stranger's: an agent of our own that does what a scripted model says."""
