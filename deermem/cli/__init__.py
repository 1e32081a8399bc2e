"""The command line: parse, call the engine, print. It holds no rule of its own."""
