"""What the language leaves out: names imported late, sources of compiled modules, signatures."""
