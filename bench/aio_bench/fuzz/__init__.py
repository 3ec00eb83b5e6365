"""The generator: random work, settings and faults, judged by oracles that need no stored answer."""
