"""What other programs keep, read as facts: text in, checked facts out, everything that is wrong in one error."""
