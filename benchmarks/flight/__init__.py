"""Synthetic Flight Recorder dumps of any size, the program that plays them, and what is measured on them."""
