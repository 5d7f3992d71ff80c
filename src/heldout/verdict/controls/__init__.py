"""Challenges to a finding: each says what it would take for the finding to be about memory."""
