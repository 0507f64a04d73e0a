"""What training did: results, fairness, flatness, loss surfaces, comparisons."""
