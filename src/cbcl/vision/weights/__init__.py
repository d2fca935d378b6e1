"""Files of pretrained weights, read without trusting them."""
