"""One module for each LSP method or command, found by listing this folder. Each has a `register(server)`."""
