"""The paper's rivals: networks trained on pictures, a few classes at a time. They need torch."""
