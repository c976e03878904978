//! Development tasks of the workspace.

fn main() {}
