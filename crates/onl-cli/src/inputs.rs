//! Inputs of a model from files, or seeded random ones.

use anyhow::{Context, Result, bail};
use onl::{Dim, InputInfo, Session, Tensor, TypeInfo, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Where the inputs of a run come from.
#[derive(clap::Args, Clone)]
pub struct InputArguments {
    /// Input from a .npy or .pb file; repeat for more inputs. Others are seeded random.
    #[arg(long = "input", value_name = "NAME=FILE", value_parser = pair)]
    files: Vec<(String, String)>,
    /// Size of a named dimension of random inputs; 1 where not given.
    #[arg(long = "dim", value_name = "NAME=N", value_parser = dimension)]
    dims: Vec<(String, usize)>,
    /// Seed of random inputs: floats are near normal, integers and booleans 0 or 1.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

/// Reads `NAME=N`.
pub fn dimension(text: &str) -> Result<(String, usize), String> {
    let (name, value) = pair(text)?;
    value
        .parse()
        .map(|size| (name, size))
        .map_err(|_| format!("'{value}' is not a size"))
}

impl InputArguments {
    /// Seeded random inputs with these named dimensions, of which the first of a name holds.
    pub fn random_of(dims: Vec<(String, usize)>) -> Self {
        InputArguments {
            files: Vec::new(),
            dims,
            seed: 0,
        }
    }

    /// All inputs in graph order, with a note for every dimension that was assumed.
    ///
    /// # Errors
    /// When a file cannot be read, or names an input that the model does not have.
    pub fn gather(&self, session: &Session) -> Result<Gathered> {
        let inputs = session.inputs();
        let mut files: BTreeMap<&str, PathBuf> = BTreeMap::new();
        for (name, file) in &self.files {
            if !inputs.iter().any(|input| input.name == *name) {
                let known = inputs
                    .iter()
                    .map(|i| i.name.as_str())
                    .collect::<Vec<_>>()
                    .join(", ");
                bail!("the model has no input '{name}'; its inputs are: {known}");
            }
            if files.insert(name, PathBuf::from(file)).is_some() {
                bail!("input '{name}' is given twice");
            }
        }
        let mut notes = Vec::new();
        let mut values = Vec::new();
        for (index, input) in inputs.iter().enumerate() {
            let value = match files.get(input.name.as_str()) {
                Some(path) => onl::read_value(path, input.value_type.as_ref())
                    .with_context(|| format!("input '{}' from {}", input.name, path.display()))?,
                None => self.random(input, index as u64, &mut notes)?.into(),
            };
            values.push((input.name.clone(), value));
        }
        Ok(Gathered { values, notes })
    }

    fn random(&self, input: &InputInfo, index: u64, notes: &mut Vec<String>) -> Result<Tensor> {
        let Some(TypeInfo::Tensor(tensor)) = &input.value_type else {
            bail!(
                "input '{}' is not a tensor of known type; give a file with --input",
                input.name
            );
        };
        let Some(declared) = &tensor.dims else {
            bail!(
                "input '{}' has no declared rank; give a file with --input",
                input.name
            );
        };
        let mut dims = Vec::new();
        for (axis, dim) in declared.iter().enumerate() {
            dims.push(match dim {
                Dim::Known(size) => *size,
                Dim::Named(name) => match self.dims.iter().find(|(n, _)| n == name) {
                    Some((_, size)) => *size,
                    None => {
                        let note =
                            format!("dimension '{name}' is taken as 1; set it with --dim {name}=N");
                        if !notes.contains(&note) {
                            notes.push(note);
                        }
                        1
                    }
                },
                Dim::Unknown => {
                    notes.push(format!(
                        "axis {axis} of input '{}' is unknown and taken as 1",
                        input.name
                    ));
                    1
                }
            });
        }
        Ok(onl::random_tensor(
            tensor.element_type,
            &dims,
            self.seed.wrapping_add(index),
        )?)
    }
}

/// Inputs, and what was assumed to make them.
pub struct Gathered {
    /// Inputs in graph order.
    pub values: Vec<(String, Value)>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

impl Gathered {
    /// The inputs as the session takes them.
    pub fn named(&self) -> Vec<(&str, Value)> {
        self.values
            .iter()
            .map(|(name, value)| (name.as_str(), value.clone()))
            .collect()
    }
}
