//! Packed, blocked, vectorized matrix products.
