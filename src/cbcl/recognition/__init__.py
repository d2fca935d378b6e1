"""Photos in, answers out: the parts of `Recognizer`."""
