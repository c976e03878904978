use super::format::stable;
use super::input::Kind;
use serde_json::{Value, json};

#[test]
fn documents_have_one_form() {
    let document = json!({
        "z": [1.5, 2, 1e-9],
        "a": { "long": vec![123_456_789; 30], "short": {"x": null} },
        "head": { "kind": "baseline" },
        "list": (0..3).map(|i| json!({ "name": "n".repeat(60), "text": "t".repeat(60), "i": i })).collect::<Vec<_>>(),
    });
    let text = stable(&document);
    assert!(
        text.starts_with("{\n  \"head\": {\"kind\":\"baseline\"},\n  \"a\": {"),
        "{text}"
    );
    assert!(text.lines().all(|line| line.len() <= 160), "{text}");
    let read: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(read, document);
    assert_eq!(stable(&read), text);
}

/// Calls `look` for every schema within a schema.
fn walk(schema: &Value, place: &str, look: &mut dyn FnMut(&Value, &str)) {
    look(schema, place);
    match schema {
        Value::Object(fields) => {
            for (name, field) in fields {
                walk(field, &format!("{place}/{name}"), look);
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                walk(item, &format!("{place}/{i}"), look);
            }
        }
        _ => {}
    }
}

#[test]
fn schemas_are_legal_strict_and_fix_kind_and_version() {
    for kind in Kind::ALL {
        let schema: Value = serde_json::from_str(kind.schema()).unwrap();
        assert!(
            jsonschema::draft202012::meta::validate(&schema).is_ok(),
            "{}",
            kind.name()
        );
        let head = &schema["$defs"]["head"]["properties"];
        assert_eq!(head["kind"]["const"], kind.name());
        assert!(head["schema"]["const"].is_u64());
        walk(&schema, "", &mut |part, place| {
            if part["type"] == "object" && part.get("properties").is_some() {
                assert_eq!(
                    part["additionalProperties"],
                    false,
                    "{} {place}",
                    kind.name()
                );
                let fields = part["properties"].as_object().unwrap().len();
                assert_eq!(
                    part["required"].as_array().unwrap().len(),
                    fields,
                    "{} {place}",
                    kind.name()
                );
            }
        });
    }
}
