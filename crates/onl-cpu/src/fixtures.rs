//! Machines as trees of text files, for tests.
