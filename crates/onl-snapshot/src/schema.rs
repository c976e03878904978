use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;

/// Value of a tuning parameter; types are strict, nothing is converted. In files a value is written as the bare
/// integer, float, truth value or name, and a float always carries a point or an exponent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ParameterValue {
    /// A 64-bit integer.
    Integer(i64),
    /// A finite 64-bit float.
    Float(f64),
    /// A truth value.
    Boolean(bool),
    /// One of the names that the schema lists.
    Choice(String),
}

impl fmt::Display for ParameterValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParameterValue::Integer(value) => write!(f, "{value}"),
            ParameterValue::Float(value) => write!(f, "{value:?}"),
            ParameterValue::Boolean(value) => write!(f, "{value}"),
            ParameterValue::Choice(value) => f.write_str(value),
        }
    }
}

/// Type, range and portable default of a parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs)]
pub enum ParameterKind {
    Integer {
        default: i64,
        minimum: i64,
        maximum: i64,
    },
    Float {
        default: f64,
        minimum: f64,
        maximum: f64,
    },
    Boolean {
        default: bool,
    },
    /// Names are stored, never their positions.
    Choice {
        default: &'static str,
        values: &'static [&'static str],
    },
}

/// One named parameter of a schema.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameter {
    /// Dotted name, as `parallel.minimum_elements`.
    pub name: &'static str,
    /// Type, range and default.
    pub kind: ParameterKind,
    /// Unit, as `elements`; empty when there is none.
    pub unit: &'static str,
    /// One sentence that says what the parameter does.
    pub meaning: &'static str,
}

impl Parameter {
    /// A parameter with an integer value from `range.0` to `range.1`.
    pub const fn integer(
        name: &'static str,
        default: i64,
        range: (i64, i64),
        unit: &'static str,
        meaning: &'static str,
    ) -> Parameter {
        Parameter {
            name,
            kind: ParameterKind::Integer {
                default,
                minimum: range.0,
                maximum: range.1,
            },
            unit,
            meaning,
        }
    }

    /// The portable default.
    pub fn default_value(&self) -> ParameterValue {
        match self.kind {
            ParameterKind::Integer { default, .. } => ParameterValue::Integer(default),
            ParameterKind::Float { default, .. } => ParameterValue::Float(default),
            ParameterKind::Boolean { default } => ParameterValue::Boolean(default),
            ParameterKind::Choice { default, .. } => ParameterValue::Choice(default.to_owned()),
        }
    }

    /// Checks type and range of a value.
    ///
    /// # Errors
    /// [`SchemaError::Type`] or [`SchemaError::Range`].
    pub fn check(&self, value: &ParameterValue) -> Result<(), SchemaError> {
        let in_range = match (self.kind, value) {
            (
                ParameterKind::Integer {
                    minimum, maximum, ..
                },
                ParameterValue::Integer(v),
            ) => (minimum..=maximum).contains(v),
            (
                ParameterKind::Float {
                    minimum, maximum, ..
                },
                ParameterValue::Float(v),
            ) => v.is_finite() && (minimum..=maximum).contains(v),
            (ParameterKind::Boolean { .. }, ParameterValue::Boolean(_)) => true,
            (ParameterKind::Choice { values, .. }, ParameterValue::Choice(v)) => {
                values.contains(&v.as_str())
            }
            _ => {
                return Err(SchemaError::Type {
                    parameter: self.name.to_owned(),
                    expected: self.type_name(),
                    value: value.to_string(),
                });
            }
        };
        if in_range {
            Ok(())
        } else {
            Err(SchemaError::Range {
                parameter: self.name.to_owned(),
                value: value.to_string(),
                legal: self.legal_values(),
            })
        }
    }

    /// Name of the parameter's type in messages and reports.
    pub fn type_name(&self) -> &'static str {
        match self.kind {
            ParameterKind::Integer { .. } => "integer",
            ParameterKind::Float { .. } => "float",
            ParameterKind::Boolean { .. } => "boolean",
            ParameterKind::Choice { .. } => "name",
        }
    }

    /// The legal values in words.
    pub fn legal_values(&self) -> String {
        match self.kind {
            ParameterKind::Integer {
                minimum, maximum, ..
            } => format!("{minimum} to {maximum}"),
            ParameterKind::Float {
                minimum, maximum, ..
            } => format!("{minimum:?} to {maximum:?}"),
            ParameterKind::Boolean { .. } => "true or false".to_owned(),
            ParameterKind::Choice { values, .. } => values.join(", "),
        }
    }
}

/// Values of all parameters of a schema, by name.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ParameterRow(pub BTreeMap<String, ParameterValue>);

impl ParameterRow {
    /// The value of a parameter.
    pub fn get(&self, name: &str) -> Option<&ParameterValue> {
        self.0.get(name)
    }

    /// The row with one value replaced or added.
    pub fn with(mut self, name: &str, value: ParameterValue) -> Self {
        self.0.insert(name.to_owned(), value);
        self
    }

    /// An integer of a row that was checked against its schema.
    ///
    /// # Panics
    /// When the row has no such integer: rows reach a kernel only after [`Schema::check_row`].
    pub fn integer(&self, name: &str) -> i64 {
        match self.get(name) {
            Some(ParameterValue::Integer(value)) => *value,
            other => panic!("checked row has no integer '{name}' (found {other:?})"),
        }
    }

    /// A float of a row that was checked against its schema.
    ///
    /// # Panics
    /// When the row has no such float: rows reach a kernel only after [`Schema::check_row`].
    pub fn float(&self, name: &str) -> f64 {
        match self.get(name) {
            Some(ParameterValue::Float(value)) => *value,
            other => panic!("checked row has no float '{name}' (found {other:?})"),
        }
    }

    /// A truth value of a row that was checked against its schema.
    ///
    /// # Panics
    /// When the row has no such truth value: rows reach a kernel only after [`Schema::check_row`].
    pub fn boolean(&self, name: &str) -> bool {
        match self.get(name) {
            Some(ParameterValue::Boolean(value)) => *value,
            other => panic!("checked row has no truth value '{name}' (found {other:?})"),
        }
    }

    /// A name of a row that was checked against its schema.
    ///
    /// # Panics
    /// When the row has no such name: rows reach a kernel only after [`Schema::check_row`].
    pub fn choice(&self, name: &str) -> &str {
        match self.get(name) {
            Some(ParameterValue::Choice(value)) => value,
            other => panic!("checked row has no name '{name}' (found {other:?})"),
        }
    }
}

impl fmt::Display for ParameterRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, value)) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{name}={value}")?;
        }
        Ok(())
    }
}

/// The parameters of a kernel and how they depend on each other.
#[derive(Debug, Clone, Copy)]
pub struct Schema {
    /// Parameters; names are unique.
    pub parameters: &'static [Parameter],
    /// Check across parameters; gets a row whose values are in range one by one.
    pub check: fn(&ParameterRow) -> Result<(), String>,
}

impl Schema {
    /// The row of portable defaults.
    pub fn defaults(&self) -> ParameterRow {
        ParameterRow(
            self.parameters
                .iter()
                .map(|p| (p.name.to_owned(), p.default_value()))
                .collect(),
        )
    }

    /// The parameter with this name.
    pub fn parameter(&self, name: &str) -> Option<&'static Parameter> {
        self.parameters.iter().find(|p| p.name == name)
    }

    /// Checks the schema itself: at least one parameter, dotted names of identifiers that start with a letter or an
    /// underscore, no name twice, choices without repetition, and defaults that pass [`check_row`](Self::check_row).
    ///
    /// # Errors
    /// [`SchemaError::Definition`] for the schema's form, otherwise what `check_row` says of the defaults.
    pub fn check_definition(&self) -> Result<(), SchemaError> {
        let fail = |reason: String| Err(SchemaError::Definition(reason));
        if self.parameters.is_empty() {
            return fail("it has no parameters".to_owned());
        }
        for (i, parameter) in self.parameters.iter().enumerate() {
            let segment = |s: &str| {
                s.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                    && s.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            };
            if !parameter.name.split('.').all(segment) {
                return fail(format!("'{}' is not a dotted name", parameter.name));
            }
            if self.parameters[..i]
                .iter()
                .any(|p| p.name == parameter.name)
            {
                return fail(format!("parameter '{}' appears twice", parameter.name));
            }
            if let ParameterKind::Choice { values, .. } = parameter.kind
                && (1..values.len()).any(|j| values[..j].contains(&values[j]))
            {
                return fail(format!("'{}' lists a name twice", parameter.name));
            }
        }
        self.check_row(&self.defaults())
    }

    /// Checks a row: exactly the schema's names, strict types, ranges, and relations between parameters.
    ///
    /// # Errors
    /// The first [`SchemaError`] in the order of the schema.
    pub fn check_row(&self, row: &ParameterRow) -> Result<(), SchemaError> {
        for parameter in self.parameters {
            let value = row
                .get(parameter.name)
                .ok_or_else(|| SchemaError::Missing {
                    parameter: parameter.name.to_owned(),
                })?;
            parameter.check(value)?;
        }
        if let Some(name) = row.0.keys().find(|name| self.parameter(name).is_none()) {
            return Err(SchemaError::Unknown {
                parameter: name.clone(),
            });
        }
        (self.check)(row).map_err(SchemaError::Relation)
    }
}

/// Why a row does not fit its schema.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)]
pub enum SchemaError {
    #[error("parameter '{parameter}' is missing")]
    Missing { parameter: String },
    #[error("parameter '{parameter}' is not in the schema")]
    Unknown { parameter: String },
    #[error("parameter '{parameter}' must be of type {expected}, the value is {value}")]
    Type {
        parameter: String,
        expected: &'static str,
        value: String,
    },
    #[error("parameter '{parameter}' = {value} is out of range; legal: {legal}")]
    Range {
        parameter: String,
        value: String,
        legal: String,
    },
    #[error("parameters contradict each other: {0}")]
    Relation(String),
    #[error("the schema is not well formed: {0}; correct it where the kernel declares it")]
    Definition(String),
}
