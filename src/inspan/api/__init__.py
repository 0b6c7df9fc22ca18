"""What a Python program imports: runners, results, sessions, completions. A face like the command line."""
