"""A streaming redactor for bytes, and the one gate that events pass before anyone sees them."""

from inspan.redaction.gate import Gate
from inspan.redaction.names import secrets_in
from inspan.redaction.redactor import Redactor
from inspan.redaction.secret_set import SecretSet

__all__ = ["Gate", "Redactor", "SecretSet", "secrets_in"]
