"""Watching: answers about the new photos of a folder or the frames of a camera, told to others."""
