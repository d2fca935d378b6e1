"""The discriminant as a head of a memory."""
