"""A page and an API on which one memory is taught, asked and put right, by many at a time."""
