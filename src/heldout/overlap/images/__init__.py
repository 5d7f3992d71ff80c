"""Images of a benchmark in corpora: fingerprints, encoders, exact joins, registration."""
