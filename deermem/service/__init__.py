"""One verb a file; store and index meet here alone."""
