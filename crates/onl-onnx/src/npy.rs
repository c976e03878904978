//! The `.npy` format of NumPy (NEP 1), versions 1 to 3: magic, version, length of the header, a Python dictionary
//! literal with `descr`, `fortran_order` and `shape`, then the elements.

use crate::read::map;
use crate::write::write_replacing;
use crate::{OnnxError, Problem};
use bytes::Bytes;
use onl_tensor::{AlignedBuffer, ElementType, Tensor, byte_length, element_count};
use std::path::Path;

const MAGIC: &[u8] = b"\x93NUMPY";

/// Longest header that is looked at; real ones are about a hundred bytes.
const MAX_HEADER_BYTES: usize = 1 << 20;

/// Elements start at a multiple of this many bytes.
const DATA_ALIGNMENT: usize = 64;

/// Reads a tensor from an `.npy` file: booleans, integers, floats of 16 to 64 bits, complex numbers, and byte (`S`)
/// and unicode (`U`) strings, of either byte order and memory order. Aligned little-endian elements in C order
/// share the file's mapping. Trailing zeros of strings are padding, as in NumPy.
///
/// # Errors
/// [`OnnxError`] for a file that cannot be mapped, is damaged, or holds another type (objects, records, times,
/// long doubles, and the raw bytes as which NumPy stores bfloat16 and the 8-bit floats).
pub fn read_npy(path: impl AsRef<Path>) -> Result<Tensor, OnnxError> {
    let path = path.as_ref();
    npy_from_bytes(map(path)?).map_err(|e| e.in_file(path))
}

/// Writes a tensor as an `.npy` file of version 1 (2 where the header needs it) in C order and little-endian;
/// strings become unicode strings as wide as the longest one.
///
/// # Errors
/// [`OnnxError`] when the file cannot be written, or for bfloat16, the 8-bit floats and the types below one byte,
/// which NumPy has no type for: write `.pb` instead.
pub fn write_npy(path: impl AsRef<Path>, tensor: &Tensor) -> Result<(), OnnxError> {
    let path = path.as_ref();
    let bytes = npy_to_bytes(tensor).map_err(|e| e.in_file(path))?;
    write_replacing(path, |file| file.write_all(&bytes))
}

fn npy(reason: impl Into<String>) -> OnnxError {
    OnnxError::new(Problem::Npy {
        reason: reason.into(),
    })
}

/// Reads a tensor from the bytes of an `.npy` file, as [`read_npy`] does.
///
/// # Errors
/// As [`read_npy`].
pub fn npy_from_bytes(bytes: Bytes) -> Result<Tensor, OnnxError> {
    let truncated = || npy("it ends within its header; the file is truncated");
    if !bytes.starts_with(MAGIC) {
        return Err(npy(
            "it does not start with \\x93NUMPY; the file has another format",
        ));
    }
    let version = *bytes.get(MAGIC.len()).ok_or_else(truncated)?;
    let length_bytes = match version {
        1 => 2,
        2 | 3 => 4,
        _ => return Err(npy(format!("version {version} is not known (1 to 3 are)"))),
    };
    let length_start = MAGIC.len() + 2;
    let length = bytes
        .get(length_start..length_start + length_bytes)
        .ok_or_else(truncated)?
        .iter()
        .rev()
        .fold(0usize, |length, &byte| length << 8 | usize::from(byte));
    if length > MAX_HEADER_BYTES {
        return Err(npy(format!(
            "its header of {length} bytes is longer than any real one"
        )));
    }
    let header_start = length_start + length_bytes;
    let data_start = header_start + length;
    let header = bytes.get(header_start..data_start).ok_or_else(truncated)?;
    let header = std::str::from_utf8(header).map_err(|_| npy("its header is not UTF-8"))?;
    let header = Header::parse(header)?;
    let descr = Descr::parse(&header.descr)?;
    header.check_data(&descr, bytes.len() - data_start)?;
    tensor(&header, &descr, bytes.slice(data_start..))
}

struct Header {
    descr: String,
    fortran_order: bool,
    dims: Vec<usize>,
}

impl Header {
    fn parse(text: &str) -> Result<Self, OnnxError> {
        let mut literal = Literal {
            rest: text.trim_end(),
        };
        let (mut descr, mut fortran_order, mut dims) = (None, None, None);
        literal.expect('{')?;
        while !literal.eat('}') {
            let key = literal.string()?;
            literal.expect(':')?;
            match key {
                "descr" => descr = Some(literal.descr()?.to_owned()),
                "fortran_order" => fortran_order = Some(literal.boolean()?),
                "shape" => dims = Some(literal.dims()?),
                _ => return Err(npy(format!("its header has the unknown key '{key}'"))),
            }
            if !literal.eat(',') {
                literal.expect('}')?;
                break;
            }
        }
        let (Some(descr), Some(fortran_order), Some(dims), true) =
            (descr, fortran_order, dims, literal.rest.trim().is_empty())
        else {
            return Err(npy(
                "its header must have exactly descr, fortran_order and shape",
            ));
        };
        Ok(Header {
            descr,
            fortran_order,
            dims,
        })
    }

    fn check_data(&self, descr: &Descr, actual: usize) -> Result<(), OnnxError> {
        let expected = element_count(&self.dims)
            .and_then(|count| count.checked_mul(descr.bytes))
            .ok_or_else(|| {
                npy(format!(
                    "its shape {:?} overflows the address space",
                    self.dims
                ))
            })?;
        if expected != actual {
            return Err(npy(format!(
                "shape {:?} of '{}' needs {expected} bytes, the file has {actual}; it is damaged or holds \
                 something else after the array",
                self.dims, self.descr
            )));
        }
        Ok(())
    }
}

/// A cursor over the few forms of Python literal that headers have.
struct Literal<'a> {
    rest: &'a str,
}

impl<'a> Literal<'a> {
    fn eat(&mut self, symbol: char) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(symbol) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, symbol: char) -> Result<(), OnnxError> {
        if self.eat(symbol) {
            return Ok(());
        }
        let found: String = self.rest.chars().take(20).collect();
        Err(npy(format!(
            "its header has '{found}' where '{symbol}' must stand"
        )))
    }

    fn string(&mut self) -> Result<&'a str, OnnxError> {
        let quote = if self.eat('\'') {
            '\''
        } else {
            self.expect('"')?;
            '"'
        };
        let (text, rest) = self
            .rest
            .split_once(quote)
            .ok_or_else(|| npy("its header has a string without end"))?;
        self.rest = rest;
        Ok(text)
    }

    fn descr(&mut self) -> Result<&'a str, OnnxError> {
        if self.rest.trim_start().starts_with('[') {
            return Err(npy(
                "it holds records (a structured dtype); save each field as an array of its own",
            ));
        }
        self.string()
    }

    fn boolean(&mut self) -> Result<bool, OnnxError> {
        self.rest = self.rest.trim_start();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(value);
            }
        }
        Err(npy("fortran_order in its header is neither True nor False"))
    }

    fn dims(&mut self) -> Result<Vec<usize>, OnnxError> {
        self.expect('(')?;
        let mut dims = Vec::new();
        while !self.eat(')') {
            self.rest = self.rest.trim_start();
            let digits = self
                .rest
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(self.rest.len());
            let (number, rest) = self.rest.split_at(digits);
            dims.push(
                number
                    .parse()
                    .map_err(|_| npy("its shape has an entry that is no size"))?,
            );
            // Python 2 wrote long integers with this suffix.
            self.rest = rest.strip_prefix('L').unwrap_or(rest);
            if !self.eat(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(dims)
    }
}

/// How the elements of an `.npy` file are stored.
struct Descr {
    element_type: ElementType,
    /// Bytes of one stored element.
    bytes: usize,
    big_endian: bool,
    unicode: bool,
}

impl Descr {
    fn parse(text: &str) -> Result<Self, OnnxError> {
        let unsupported = || {
            let advice = match text.trim_start_matches(['<', '>', '=', '|']).chars().next() {
                Some('O') => "save an array of numbers or of strings of fixed width",
                Some('V') => {
                    "it is how NumPy stores bfloat16 and 8-bit floats; use a .pb file for those"
                }
                Some('M' | 'm') => "convert times to integers first",
                _ => "convert the array to a type of ONNX first",
            };
            npy(format!("element type '{text}' is not read; {advice}"))
        };
        let mut characters = text.chars();
        let mut kind = characters.next().ok_or_else(unsupported)?;
        let mut big_endian = false;
        if matches!(kind, '<' | '>' | '=' | '|') {
            big_endian = kind == '>' || (kind == '=' && cfg!(target_endian = "big"));
            kind = characters.next().ok_or_else(unsupported)?;
        }
        let size: usize = match characters.as_str() {
            "" => 1,
            digits => digits.parse().map_err(|_| unsupported())?,
        };
        use ElementType::*;
        let (element_type, bytes) = match (kind, size) {
            ('b' | '?', 1) => (Bool, 1),
            ('i', 1) => (Int8, 1),
            ('i', 2) => (Int16, 2),
            ('i', 4) => (Int32, 4),
            ('i', 8) => (Int64, 8),
            ('u', 1) => (UInt8, 1),
            ('u', 2) => (UInt16, 2),
            ('u', 4) => (UInt32, 4),
            ('u', 8) => (UInt64, 8),
            ('f', 2) => (Float16, 2),
            ('f', 4) => (Float32, 4),
            ('f', 8) => (Float64, 8),
            ('c', 8) => (Complex64, 8),
            ('c', 16) => (Complex128, 16),
            ('S' | 'a', _) => (String, size),
            ('U', _) => (String, size.checked_mul(4).ok_or_else(unsupported)?),
            _ => return Err(unsupported()),
        };
        Ok(Descr {
            element_type,
            bytes,
            big_endian,
            unicode: kind == 'U',
        })
    }
}

fn tensor(header: &Header, descr: &Descr, data: Bytes) -> Result<Tensor, OnnxError> {
    let dims = &header.dims;
    let reorder = header.fortran_order && dims.len() > 1 && !data.is_empty();
    if descr.element_type == ElementType::String {
        let count = element_count(dims).unwrap_or(0);
        if descr.bytes == 0 {
            // Strings without width take no bytes in the file, so nothing there bounds their number.
            return Err(npy(
                "its strings have no width; save strings of at least one character",
            ));
        }
        let data = if reorder {
            Bytes::from(c_order(dims, descr.bytes, &data)?)
        } else {
            data
        };
        let mut strings = Vec::with_capacity(count);
        for (index, bytes) in data.chunks_exact(descr.bytes).enumerate() {
            let text = if descr.unicode {
                unicode(bytes, descr.big_endian)
            } else {
                let end = bytes.iter().rposition(|&b| b != 0).map_or(0, |i| i + 1);
                String::from_utf8(bytes[..end].to_vec()).ok()
            };
            strings.push(text.ok_or_else(|| OnnxError::new(Problem::StringEncoding { index }))?);
        }
        return Ok(Tensor::from_strings(dims, strings)?);
    }
    byte_length(descr.element_type, dims)?;
    if !reorder && !descr.big_endian {
        return Ok(Tensor::from_shared(descr.element_type, dims, data)?);
    }
    let mut buffer = if reorder {
        let mut buffer = AlignedBuffer::zeroed(data.len())?;
        copy_to_c_order(dims, descr.bytes, &data, buffer.as_bytes_mut());
        buffer
    } else {
        AlignedBuffer::from_bytes(&data)?
    };
    if descr.big_endian {
        // The two parts of a complex number are swapped one by one.
        let width = descr.element_type.alignment();
        buffer
            .as_bytes_mut()
            .chunks_exact_mut(width)
            .for_each(<[u8]>::reverse);
    }
    Ok(Tensor::from_buffer(descr.element_type, dims, buffer)?)
}

fn unicode(bytes: &[u8], big_endian: bool) -> Option<String> {
    let mut text = String::new();
    for unit in bytes.chunks_exact(4) {
        let unit: [u8; 4] = unit.try_into().ok()?;
        let code = if big_endian {
            u32::from_be_bytes(unit)
        } else {
            u32::from_le_bytes(unit)
        };
        text.push(char::from_u32(code)?);
    }
    text.truncate(text.trim_end_matches('\0').len());
    Some(text)
}

fn c_order(dims: &[usize], width: usize, data: &[u8]) -> Result<Vec<u8>, OnnxError> {
    let mut out = vec![0; data.len()];
    copy_to_c_order(dims, width, data, &mut out);
    Ok(out)
}

/// Copies elements of `width` bytes from column-major to row-major order.
fn copy_to_c_order(dims: &[usize], width: usize, data: &[u8], out: &mut [u8]) {
    let mut strides = vec![width; dims.len()];
    for axis in 1..dims.len() {
        strides[axis] = strides[axis - 1] * dims[axis - 1];
    }
    let mut index = vec![0; dims.len()];
    let mut from = 0;
    for out in out.chunks_exact_mut(width) {
        out.copy_from_slice(&data[from..from + width]);
        for axis in (0..dims.len()).rev() {
            index[axis] += 1;
            from += strides[axis];
            if index[axis] < dims[axis] {
                break;
            }
            from -= strides[axis] * dims[axis];
            index[axis] = 0;
        }
    }
}

/// The bytes of an `.npy` file with this tensor, as [`write_npy`] writes it.
///
/// # Errors
/// [`OnnxError`] for element types that NumPy has no type for.
pub fn npy_to_bytes(tensor: &Tensor) -> Result<Vec<u8>, OnnxError> {
    use ElementType::*;
    let descr = match tensor.element_type() {
        Bool => "|b1",
        Int8 => "|i1",
        Int16 => "<i2",
        Int32 => "<i4",
        Int64 => "<i8",
        UInt8 => "|u1",
        UInt16 => "<u2",
        UInt32 => "<u4",
        UInt64 => "<u8",
        Float16 => "<f2",
        Float32 => "<f4",
        Float64 => "<f8",
        Complex64 => "<c8",
        Complex128 => "<c16",
        String => return strings_to_bytes(tensor),
        other => {
            return Err(npy(format!(
                "NumPy has no type for {other}; write a .pb file instead"
            )));
        }
    };
    let mut bytes = header_bytes(descr, tensor.shape());
    bytes.extend_from_slice(tensor.bytes());
    Ok(bytes)
}

fn strings_to_bytes(tensor: &Tensor) -> Result<Vec<u8>, OnnxError> {
    let strings = tensor.as_strings()?;
    let width = strings
        .iter()
        .map(|s| s.chars().count())
        .max()
        .unwrap_or(0)
        .max(1);
    let mut bytes = header_bytes(&format!("<U{width}"), tensor.shape());
    for text in strings {
        let padding = width - text.chars().count();
        let units = text
            .chars()
            .map(u32::from)
            .chain(std::iter::repeat_n(0, padding));
        bytes.extend(units.flat_map(u32::to_le_bytes));
    }
    Ok(bytes)
}

fn header_bytes(descr: &str, dims: &[usize]) -> Vec<u8> {
    let mut shape: String = dims.iter().map(|d| format!("{d}, ")).collect();
    if dims.len() > 1 {
        shape.truncate(shape.len() - 2);
    } else {
        shape.truncate(shape.trim_end().len());
    }
    let mut header =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    let version: u8 = if header.len() + DATA_ALIGNMENT < usize::from(u16::MAX) {
        1
    } else {
        2
    };
    let prefix = MAGIC.len() + 2 + if version == 1 { 2 } else { 4 };
    let total = (prefix + header.len() + 1).next_multiple_of(DATA_ALIGNMENT);
    header.extend(std::iter::repeat_n(' ', total - prefix - header.len() - 1));
    header.push('\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend([version, 0]);
    if version == 1 {
        bytes.extend((header.len() as u16).to_le_bytes());
    } else {
        bytes.extend((header.len() as u32).to_le_bytes());
    }
    bytes.extend(header.as_bytes());
    bytes
}
