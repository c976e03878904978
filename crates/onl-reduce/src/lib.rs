//! Reductions, softmax and normalization.
