"""A git repository with many files, for benches."""

import os
import subprocess

_IDENTITY = ("-c", "user.name=A", "-c", "user.email=a@example.org")


def write_repository(top: str, *, files: int) -> str:
    """Fills a folder with files in a hundred folders, and commits them; gives its real path."""
    top = os.path.realpath(top)
    run_git(top, "init", "-q")
    for number in range(files):
        folder = os.path.join(top, str(number % 100))
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, f"{number}.py"), "w", encoding="utf-8") as file:
            file.write(f"value = {number}\n" * 50)
    run_git(top, "add", "-A")
    run_git(top, "commit", "-qm", "first")
    return top


def run_git(top: str, *arguments: str) -> None:
    subprocess.run(["git", *_IDENTITY, *arguments], cwd=top, check=True, capture_output=True)
