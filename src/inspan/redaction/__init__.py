"""A streaming redactor for bytes, and the one gate that events pass before anyone sees them."""

from inspan.redaction.gate import Gate
from inspan.redaction.redactor import Redactor
from inspan.redaction.secret_set import Secrets, SecretSet

from .env_secrets import find_secrets

__all__ = ["Gate", "Redactor", "SecretSet", "Secrets", "find_secrets"]
