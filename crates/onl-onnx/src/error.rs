use onl_ir::GraphError;
use onl_tensor::{ElementType, TensorError};
use std::fmt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a model or a value file could not be read or written: the file, the place in it, the problem and what to
/// do about it.
#[derive(Debug, Error)]
#[error("{details}")]
pub struct OnnxError {
    details: Box<Details>,
}

#[derive(Debug)]
struct Details {
    file: Option<PathBuf>,
    place: Vec<String>,
    problem: Problem,
}

impl OnnxError {
    pub(crate) fn new(problem: impl Into<Problem>) -> Self {
        OnnxError {
            details: Box::new(Details {
                file: None,
                place: Vec::new(),
                problem: problem.into(),
            }),
        }
    }

    /// The same error seen from one level further out.
    pub(crate) fn within(mut self, place: impl Into<String>) -> Self {
        self.details.place.insert(0, place.into());
        self
    }

    /// Names the file, unless one is named already.
    pub(crate) fn in_file(mut self, file: &Path) -> Self {
        self.details.file.get_or_insert_with(|| file.to_owned());
        self
    }

    /// What is wrong.
    pub fn problem(&self) -> &Problem {
        &self.details.problem
    }

    /// The file that was read or written; `None` for bytes in memory.
    pub fn file(&self) -> Option<&Path> {
        self.details.file.as_deref()
    }

    /// Where in the model the problem lies, outermost first: graph, node, attribute, tensor.
    pub fn place(&self) -> &[String] {
        &self.details.place
    }
}

impl<P: Into<Problem>> From<P> for OnnxError {
    fn from(problem: P) -> Self {
        OnnxError::new(problem)
    }
}

impl fmt::Display for Details {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}: ", file.display())?;
        }
        for (i, place) in self.place.iter().enumerate() {
            f.write_str(if i > 0 { ", " } else { "" })?;
            f.write_str(place)?;
        }
        if !self.place.is_empty() {
            f.write_str(": ")?;
        }
        self.problem.fmt(f)
    }
}

/// What is wrong with a model or a value file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Problem {
    /// The system refused to open, map, read or write the file.
    #[error("{action} failed: {source}; check that the path names a readable regular file")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// There are no bytes.
    #[error("the file is empty; it may not have been written or downloaded completely")]
    Empty,
    /// The bytes are no protobuf message of the expected kind.
    #[error("not a valid ONNX {message}: {reason}; the file may be truncated or of another format")]
    Decode {
        /// Expected message.
        message: &'static str,
        /// What the decoder met.
        reason: String,
    },
    /// A limit of [`LoadLimits`](crate::LoadLimits) is exceeded.
    #[error(
        "{what} is {actual}, the limit is {limit}; raise the limit of that name in the load limits if you \
         trust the file"
    )]
    Limit {
        /// Name of the limit.
        what: &'static str,
        /// Allowed value.
        limit: u64,
        /// Value of the file, or the first one past the limit.
        actual: u64,
    },
    /// The IR version is missing or unknown.
    #[error(
        "IR version {version} is not one of 1 to {newest}; convert the model with an ONNX release that writes \
         one of these"
    )]
    IrVersion {
        /// Version in the file, 0 when it is missing.
        version: i64,
        /// Newest version that is read.
        newest: i64,
    },
    /// A part that the specification requires is missing.
    #[error("{what} is missing; export the model again")]
    Missing {
        /// The missing part.
        what: &'static str,
    },
    /// One name is given twice.
    #[error("{what} '{name}' is given more than once; names must be unique there")]
    Duplicate {
        /// What is named.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A domain is imported in two versions.
    #[error(
        "operator set '{domain}' is imported in versions {first} and {second}; keep one of them"
    )]
    OpsetConflict {
        /// Domain of the operator set.
        domain: String,
        /// Version imported first.
        first: i64,
        /// Another version imported later.
        second: i64,
    },
    /// Model-local functions call each other in a circle.
    #[error(
        "function '{name}' calls itself, directly or through others; functions must not be recursive"
    )]
    RecursiveFunction {
        /// A function that the circle keeps from being expanded.
        name: String,
    },
    /// The graph breaks a structural rule.
    #[error("{0}")]
    Graph(#[from] GraphError),
    /// The tensor cannot be made.
    #[error("{0}")]
    Tensor(#[from] TensorError),
    /// An element type outside ONNX IR version 13.
    #[error(
        "element type {number} is not known (1 to 26 are); the file may come from a newer ONNX"
    )]
    ElementType {
        /// Number in the file.
        number: i32,
    },
    /// A dimension of a tensor with data is negative or past the address space.
    #[error("dimension {dim} of a tensor with data is not a size; export the model again")]
    Dimension {
        /// The refused dimension.
        dim: i64,
    },
    /// The data of a tensor have another length than its shape asks for.
    #[error(
        "shape {dims:?} of {element_type} needs {expected} entries in {field}, the file has {actual}; the \
         file is damaged or its producer is faulty"
    )]
    DataLength {
        /// Dimensions of the tensor.
        dims: Vec<usize>,
        /// Element type of the tensor.
        element_type: ElementType,
        /// Field of the TensorProto or file part that holds the data.
        field: &'static str,
        /// Entries that the shape asks for.
        expected: u64,
        /// Entries in the file.
        actual: u64,
    },
    /// The data stand in a field that is not meant for the element type, or in several.
    #[error("data of {element_type} stand in {found}; they belong in {expected}")]
    DataField {
        /// Element type of the tensor.
        element_type: ElementType,
        /// Fields that have data.
        found: String,
        /// Field that the specification names.
        expected: &'static str,
    },
    /// A stored number does not fit the element type.
    #[error("entry {index} of {field} is {value}, which does not fit {element_type}")]
    DataRange {
        /// Element type of the tensor.
        element_type: ElementType,
        /// Field with the number.
        field: &'static str,
        /// Position in the field.
        index: usize,
        /// The number.
        value: i128,
    },
    /// A string is not UTF-8.
    #[error("string {index} is not valid UTF-8; ONNX strings must be")]
    StringEncoding {
        /// Position of the string.
        index: usize,
    },
    /// The data of a sparse tensor contradict each other.
    #[error("sparse tensor: {reason}")]
    Sparse {
        /// What does not fit.
        reason: String,
    },
    /// External data cannot be used.
    #[error("external data '{location}': {reason}")]
    External {
        /// Path in the model.
        location: String,
        /// What is wrong with it and what to do.
        reason: ExternalProblem,
    },
    /// An attribute cannot be understood.
    #[error("{reason}")]
    Attribute {
        /// What is wrong with it.
        reason: String,
    },
    /// A type that has no counterpart in this runtime, or is incomplete.
    #[error("type {reason}")]
    Type {
        /// Which type, and why it is refused.
        reason: String,
    },
    /// An `.npy` file that is damaged or holds something that ONNX has no type for.
    #[error("npy file: {reason}")]
    Npy {
        /// What is wrong and what to do.
        reason: String,
    },
    /// A file holds a value of another type than expected.
    #[error("the file holds {actual}, the expected type is {expected}")]
    ValueType {
        /// Expected type.
        expected: String,
        /// Type in the file.
        actual: String,
    },
    /// A file name whose ending names no known format.
    #[error("the format is told by the file name's ending, .npy or .pb; this name has neither")]
    UnknownFormat,
}

/// What is wrong with a reference to external data.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ExternalProblem {
    /// The model was given as bytes without a folder.
    #[error("the model came from memory without a folder; name the folder that holds its data")]
    NoFolder,
    /// No location is given.
    #[error("no location is given; export the model again")]
    NoLocation,
    /// The path is absolute.
    #[error("the path is absolute; it must be relative to the model's folder")]
    Absolute,
    /// The path climbs out of a folder.
    #[error("the path has '..' parts; it must stay in the model's folder")]
    Climbs,
    /// Links lead out of the model's folder.
    #[error(
        "a symbolic link leads out of the model's folder to {target}; copy the file into the folder if you \
         trust it"
    )]
    Leaves {
        /// Where the link leads.
        target: PathBuf,
    },
    /// There is no such file.
    #[error("there is no such file in {folder}; put the file beside the model")]
    NotFound {
        /// The model's folder.
        folder: PathBuf,
    },
    /// The path names something that is no regular file.
    #[error("not a regular file; put the data file itself beside the model")]
    NotAFile,
    /// The file could not be opened or mapped.
    #[error("cannot be mapped: {0}; check its permissions")]
    Map(String),
    /// Offset or length is not a number.
    #[error("{key} '{value}' is not a number of bytes; export the model again")]
    NotANumber {
        /// `offset` or `length`.
        key: &'static str,
        /// Text in the model.
        value: String,
    },
    /// The offset lies past the end of the file.
    #[error(
        "offset {offset} lies past the file's end at {size}; the file is truncated or of another model"
    )]
    OffsetPastEnd {
        /// Offset in the model.
        offset: u64,
        /// Size of the file.
        size: u64,
    },
    /// The data would end past the end of the file.
    #[error(
        "{length} bytes from offset {offset} end past the file's end at {size}; the file is truncated or of \
         another model"
    )]
    LengthPastEnd {
        /// Offset in the model.
        offset: u64,
        /// Length in the model, or of the tensor.
        length: u64,
        /// Size of the file.
        size: u64,
    },
    /// The given length is not that of the tensor.
    #[error(
        "length {length} is given, the tensor's shape and type need {expected} bytes; export it again"
    )]
    LengthMismatch {
        /// Length in the model.
        length: u64,
        /// Length that shape and type ask for.
        expected: u64,
    },
    /// Strings have no byte form.
    #[error("strings cannot be external; store them in the model")]
    Strings,
}
