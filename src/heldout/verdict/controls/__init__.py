"""Challenges to a finding: each says what has to hold for the finding to be about memory."""
