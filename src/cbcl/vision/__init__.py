"""Pictures in, vectors out."""
