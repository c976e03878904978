//! Damaged files: the property that the fuzz target checks, on mutations of a valid file.

#[path = "support/damaged.rs"]
mod damaged;

use damaged::{check, valid_text};
use onl_tuning::statistics::SplitMix64;
use onl_tuning::{CacheFolder, FileState};
use std::path::Path;

const CASES: u64 = 3_000;
const PIECES: [&[u8]; 22] = [
    b"[[choice]]\n",
    b"[choice.values]\n",
    b"[[profile]]\n",
    b"[profile.selector]\n",
    b"[execution.x]\n",
    b"[[lane_costs]]\n",
    b"  [later]\n",
    b"  [[choice]]\n",
    b"\"\"\"",
    b"'",
    b"nan",
    b"-0.0",
    b"inf",
    b"9223372036854775808",
    b"[[",
    b" = { a = [[]] }\n",
    b"\r\n",
    b"\0",
    b"\xff",
    "\u{feff}".as_bytes(),
    b"# ",
    b"domain.minimum = 1\n",
];

fn mutate(bytes: &mut Vec<u8>, random: &mut SplitMix64) {
    let mut below = |n: usize| (random.next_u64() % n.max(1) as u64) as usize;
    let (a, b) = (below(bytes.len() + 1), below(bytes.len() + 1));
    let (low, high) = (a.min(b), a.max(b));
    // Short ranges keep most of the file as it is.
    let short = high.min(low + below(60));
    match below(9) {
        0 => bytes.truncate(low),
        1 => drop(bytes.drain(low..short)),
        2 => {
            let copy = bytes[low..short].to_vec();
            let at = below(bytes.len() + 1);
            bytes.splice(at..at, copy);
        }
        3 if low < bytes.len() => bytes[low] = below(256) as u8,
        4 if low < bytes.len() => bytes[low] ^= 1 << below(8),
        5 => {
            let piece = PIECES[below(PIECES.len())];
            bytes.splice(low..low, piece.iter().copied());
        }
        6 => {
            let mut lines: Vec<Vec<u8>> =
                bytes.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
            let (i, j) = (below(lines.len()), below(lines.len()));
            lines.swap(i, j);
            *bytes = lines.join(&b'\n');
        }
        7 => {
            let mut lines: Vec<Vec<u8>> =
                bytes.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
            let i = below(lines.len());
            if below(2) == 0 {
                lines.remove(i);
            } else {
                lines.insert(i, lines[i].clone());
            }
            *bytes = lines.join(&b'\n');
        }
        _ => {
            if let Some(at) = bytes[low..].iter().position(u8::is_ascii_digit) {
                bytes[low + at] = b'0' + below(10) as u8;
            }
        }
    }
}

#[test]
fn mutations_of_a_valid_file_keep_every_promise() {
    let valid = valid_text();
    check(valid.as_bytes());
    for seed in 0..CASES {
        let mut random = SplitMix64(seed);
        let mut bytes = valid.clone().into_bytes();
        for _ in 0..1 + random.next_u64() % 6 {
            mutate(&mut bytes, &mut random);
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let broken = std::panic::catch_unwind(|| check(&bytes));
        assert!(broken.is_ok(), "seed {seed}:\n{text}");
    }
}

#[test]
fn headers_that_are_indented_lose_nothing_without_a_word() {
    let valid = valid_text();
    for (name, from, to) in [
        ("an unknown block", "[[later]]", "  [[later]]"),
        ("a row", "\n[[choice]]", "\n  [[choice]]"),
        ("an execution", "\n[execution.", "\n [execution."),
        ("lane costs", "\n[[lane_costs]]", "\n\t[[lane_costs]]"),
        ("a profile", "\n[[profile]]", "\n  [[profile]]"),
    ] {
        let text = valid.replace(from, to);
        assert_ne!(text, valid, "{name}");
        check(text.as_bytes());
        let (before, after) = (
            CacheFolder::parse(Path::new("a"), &valid),
            CacheFolder::parse(Path::new("b"), &text),
        );
        assert_eq!(after.state, FileState::Read, "{name}");
        let rows = |r: &onl_tuning::LoadReport| r.choices.rows.len() + r.choices.profiles.len();
        assert!(
            rows(&after) == rows(&before) || !after.void.is_empty(),
            "{name}: {:?}",
            after.diagnostics()
        );
    }
}

/// The seeds of the fuzz target are files that this version wrote, and stay readable.
#[test]
fn committed_seeds_keep_every_promise() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fuzz/seeds");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).expect("the seeds are committed") {
        let path = entry.expect("a readable folder").path();
        let bytes = std::fs::read(&path).expect("a readable seed");
        check(&bytes);
        if path.file_name().is_some_and(|name| name == "valid.toml") {
            let report = CacheFolder::parse(&path, &bytes);
            assert_eq!(report.state, FileState::Read);
            assert_eq!(report.void, []);
            assert_eq!(
                (report.choices.rows.len(), report.choices.profiles.len()),
                (3, 1)
            );
        }
        seen += 1;
    }
    assert!(seen >= 5, "{seen} seeds");
}

/// Writes the first seed; run by hand when the format grows.
#[test]
#[ignore = "writes into the source tree"]
fn write_the_valid_seed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fuzz/seeds");
    std::fs::write(folder.join("valid.toml"), valid_text()).expect("a writable tree");
}
