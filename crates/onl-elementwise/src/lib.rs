//! Unary, binary and ternary elementwise kernels with broadcasting.
