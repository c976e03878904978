//! The tokens of a source file that can change what a kernel computes or how fast.

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

/// Attributes that change nothing of the compiled body.
const INERT: [&str; 6] = ["allow", "deny", "doc", "expect", "must_use", "warn"];
/// Items that end at a semicolon, whatever groups they hold.
const ENDED_BY_SEMICOLON: [&str; 4] = ["const", "static", "type", "use"];

/// What a source file holds.
#[derive(Debug, PartialEq, Eq)]
pub struct Source {
    /// Lower-case hexadecimal SHA-256 of the tokens that count.
    pub digest: String,
    /// Names of the modules in files of their own that are compiled for tests only.
    pub test_modules: Vec<String>,
}

impl Source {
    /// Reads a file. Comments, doc comments, lints, white space, trailing commas and everything under `#[cfg(test)]` or
    /// `#[test]` do not count.
    pub fn read(text: &str) -> Result<Self> {
        let stream: TokenStream = text
            .parse()
            .map_err(|error| anyhow!("it has no Rust tokens: {error}"))?;
        let mut tokens = Tokens::default();
        tokens.add(stream);
        Ok(Source {
            digest: sha256_hex(tokens.text.as_bytes()),
            test_modules: tokens.test_modules,
        })
    }
}

/// Lower-case hexadecimal SHA-256.
pub fn sha256_hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// What an attribute says of the item below it.
#[derive(PartialEq)]
enum Attribute {
    /// The item is compiled for tests only.
    Test,
    /// Nothing of the body.
    Inert,
    /// Something that counts.
    Counts,
}

fn classify(attribute: TokenStream) -> Attribute {
    let text: String = attribute
        .into_iter()
        .map(|token| token.to_string())
        .collect();
    let name = text.split(['(', '=', ' ']).next().unwrap_or("");
    if text == "test" || text.replace(' ', "") == "cfg(test)" {
        Attribute::Test
    } else if INERT.contains(&name) {
        Attribute::Inert
    } else {
        Attribute::Counts
    }
}

#[derive(Default)]
struct Tokens {
    text: String,
    test_modules: Vec<String>,
}

impl Tokens {
    fn push(&mut self, token: &str) {
        self.text.push_str(token);
        self.text.push(' ');
    }

    fn add(&mut self, stream: TokenStream) {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            if let Some((attribute, next)) = attribute(&tokens, at) {
                match classify(attribute) {
                    Attribute::Test => at = self.skip_item(&tokens, next),
                    Attribute::Inert => at = next,
                    Attribute::Counts => {
                        for token in &tokens[at..next] {
                            self.add_token(token);
                        }
                        at = next;
                    }
                }
                continue;
            }
            let trailing = at + 1 == tokens.len() && is_punct(&tokens[at], ',');
            if !trailing {
                self.add_token(&tokens[at]);
            }
            at += 1;
        }
    }

    fn add_token(&mut self, token: &TokenTree) {
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                self.push(open);
                self.add(group.stream());
                self.push(close);
            }
            TokenTree::Punct(punct) => self.push(&punct.as_char().to_string()),
            TokenTree::Ident(_) | TokenTree::Literal(_) => self.push(&token.to_string()),
        }
    }

    /// The place after the item that begins at `at`, its further attributes included.
    fn skip_item(&mut self, tokens: &[TokenTree], mut at: usize) -> usize {
        while let Some((_, next)) = attribute(tokens, at) {
            at = next;
        }
        let start = at;
        let mut by_semicolon = false;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Ident(word) => {
                    let word = word.to_string();
                    let next_is_fn = matches!(
                        tokens.get(at + 1),
                        Some(TokenTree::Ident(next)) if next == "fn" || next == "unsafe"
                    );
                    by_semicolon |= ENDED_BY_SEMICOLON.contains(&word.as_str()) && !next_is_fn;
                }
                TokenTree::Group(group)
                    if group.delimiter() == Delimiter::Brace && !by_semicolon =>
                {
                    return at + 1;
                }
                token if is_punct(token, ';') => {
                    self.note_module(&tokens[start..at]);
                    return at + 1;
                }
                _ => {}
            }
            at += 1;
        }
        at
    }

    fn note_module(&mut self, item: &[TokenTree]) {
        if let [.., TokenTree::Ident(word), TokenTree::Ident(name)] = item
            && word == "mod"
        {
            self.test_modules.push(name.to_string());
        }
    }
}

fn is_punct(token: &TokenTree, character: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == character)
}

/// The attribute that begins at `at`, and the place after it.
fn attribute(tokens: &[TokenTree], at: usize) -> Option<(TokenStream, usize)> {
    if !is_punct(tokens.get(at)?, '#') {
        return None;
    }
    let place = at + 1 + usize::from(is_punct(tokens.get(at + 1)?, '!'));
    match tokens.get(place)? {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => {
            Some((group.stream(), place + 1))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "pub fn twice(x: f32) -> f32 { helper(x, 2.0) }";

    fn digest(text: &str) -> String {
        Source::read(text).unwrap().digest
    }

    #[test]
    fn what_changes_no_body_does_not_count() {
        let same = [
            (
                "comment",
                "// why\npub fn twice(x: f32) -> f32 { /* in */ helper(x, 2.0) }",
            ),
            (
                "doc comment",
                "//! File.\n/// Twice.\npub fn twice(x: f32) -> f32 { helper(x, 2.0) }",
            ),
            (
                "format",
                "pub fn twice(\n    x: f32,\n) -> f32 {\n    helper(\n        x,\n        2.0,\n    )\n}\n",
            ),
            (
                "lint",
                "#![allow(dead_code)]\n#[must_use]\npub fn twice(x: f32) -> f32 { helper(x, 2.0) }",
            ),
            (
                "test module",
                "pub fn twice(x: f32) -> f32 { helper(x, 2.0) }\n#[cfg(test)]\nmod tests { use super::*; #[test] fn one() {} }",
            ),
            (
                "test import",
                "#[cfg(test)]\nuse std::{fs, io};\npub fn twice(x: f32) -> f32 { helper(x, 2.0) }",
            ),
            (
                "test constant",
                "#[cfg(test)]\nconst LIMIT: usize = { 3 };\npub fn twice(x: f32) -> f32 { helper(x, 2.0) }",
            ),
            (
                "test function",
                "#[cfg(test)]\n#[inline]\npub(crate) const fn a() -> u8 { 1 }\npub fn twice(x: f32) -> f32 { helper(x, 2.0) }",
            ),
        ];
        for (name, text) in same {
            assert_eq!(digest(text), digest(BODY), "{name}");
        }
    }

    #[test]
    fn what_changes_a_body_counts() {
        let other = [
            ("constant", "pub fn twice(x: f32) -> f32 { helper(x, 3.0) }"),
            ("name", "pub fn twice(x: f32) -> f32 { other(x, 2.0) }"),
            (
                "inlining",
                "#[inline]\npub fn twice(x: f32) -> f32 { helper(x, 2.0) }",
            ),
            (
                "target feature",
                "#[target_feature(enable = \"fma\")]\npub fn twice(x: f32) -> f32 { helper(x, 2.0) }",
            ),
            (
                "architecture",
                "#[cfg(not(test))]\npub fn twice(x: f32) -> f32 { helper(x, 2.0) }",
            ),
            (
                "after a test module",
                "#[cfg(test)]\nmod tests;\npub fn more() {}\npub fn twice(x: f32) -> f32 { helper(x, 2.0) }",
            ),
            (
                "macro",
                "macro_rules! two { () => { 2.0 } }\npub fn twice(x: f32) -> f32 { helper(x, 2.0) }",
            ),
        ];
        for (name, text) in other {
            assert_ne!(digest(text), digest(BODY), "{name}");
        }
    }

    #[test]
    fn modules_for_tests_are_named() {
        let text = "mod real;\n#[cfg(test)]\npub(crate) mod harness;\n#[cfg(test)]\nmod tests;\n#[cfg(test)]\nmod inner { }";
        let source = Source::read(text).unwrap();
        assert_eq!(source.test_modules, ["harness", "tests"]);
        assert_eq!(source.digest, digest("mod real;"));
        assert!(Source::read("fn broken( {").is_err());
    }
}
