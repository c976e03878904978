//! The onl command.

fn main() {}
