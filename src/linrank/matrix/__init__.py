"""Products with X: dense and CSR rows, and binned rows of additive scores."""
