module lagom/bench/peers

go 1.19
