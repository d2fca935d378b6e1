"""Photos in, answers out: what `Recognizer` is made of."""
