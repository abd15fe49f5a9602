module nodeless/tests/kubernetes/unused

go 1.24.0
