//! One form for every published document: names in alphabetical order, the head first, short lists on one line.

use serde_json::Value;
use std::fmt::Write;

/// Columns that a list or object may take on one line.
const WIDTH: usize = 120;

/// The document as text; equal documents give equal bytes.
pub fn stable(document: &Value) -> String {
    let mut text = String::new();
    match document {
        Value::Object(fields) => {
            let head = fields.iter().filter(|(name, _)| *name == "head");
            let others = fields.iter().filter(|(name, _)| *name != "head");
            object(head.chain(others), 0, &mut text);
        }
        other => value(other, 0, &mut text),
    }
    text.push('\n');
    text
}

fn value(document: &Value, depth: usize, text: &mut String) {
    let line = document.to_string();
    let nested = matches!(document, Value::Object(_) | Value::Array(_));
    if !nested || line.len() + 2 * depth <= WIDTH {
        text.push_str(&line);
        return;
    }
    match document {
        Value::Object(fields) => object(fields.iter(), depth, text),
        Value::Array(items) => {
            text.push('[');
            let simple = |item: &Value| !matches!(item, Value::Object(_) | Value::Array(_));
            if items.iter().all(simple) {
                filled(items, depth + 1, text);
            } else {
                for (i, item) in items.iter().enumerate() {
                    break_line(i, depth + 1, text);
                    value(item, depth + 1, text);
                }
            }
            end_line(depth, text);
            text.push(']');
        }
        _ => text.push_str(&line),
    }
}

fn object<'a>(
    fields: impl Iterator<Item = (&'a String, &'a Value)>,
    depth: usize,
    text: &mut String,
) {
    text.push('{');
    for (i, (name, field)) in fields.enumerate() {
        break_line(i, depth + 1, text);
        // Writing into a string cannot fail.
        let _ = write!(text, "{}: ", Value::from(name.as_str()));
        value(field, depth + 1, text);
    }
    end_line(depth, text);
    text.push('}');
}

/// Numbers and words, as many to a line as fit.
fn filled(items: &[Value], depth: usize, text: &mut String) {
    let mut column = WIDTH;
    for (i, item) in items.iter().enumerate() {
        let word = item.to_string();
        if column + word.len() + 2 > WIDTH {
            break_line(i, depth, text);
            column = 2 * depth;
        } else {
            text.push_str(", ");
        }
        column += word.len() + 2;
        text.push_str(&word);
    }
}

fn break_line(index: usize, depth: usize, text: &mut String) {
    if index > 0 {
        text.push(',');
    }
    end_line(depth, text);
}

fn end_line(depth: usize, text: &mut String) {
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", depth));
}
