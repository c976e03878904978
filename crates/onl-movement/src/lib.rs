//! Kernels that move data: transpose, concat, slice, gather, expand, cast.
