"""The requests that are sent to the real and to the simulated API server, and the comparison of the responses."""
