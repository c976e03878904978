//! Naive reference arithmetic: one element at a time, integers as `i128`, floats as `f64`.
#![allow(dead_code)]

use half::{bf16, f16};
use onl_snapshot::ParallelConfig;
use onl_tensor::{Bool, ElementType, Tensor};

/// An element of any numeric type or a boolean. Floats of 32 and 16 bits are exact in `f64`, and sums, differences,
/// products, quotients and square roots of theirs round to `f32` as if computed in it (53 ≥ 2 · 24 + 2 bits).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    Integer(i128),
    Float(f64),
    Boolean(bool),
}

use Number::{Boolean, Float, Integer};

/// Never divided among lanes.
pub const SERIAL: ParallelConfig = ParallelConfig {
    minimum_elements: usize::MAX,
    grain_elements: 16_384,
    maximum_participants: 0,
};

pub const NUMERIC: [ElementType; 12] = [
    ElementType::Float32,
    ElementType::Float64,
    ElementType::Float16,
    ElementType::BFloat16,
    ElementType::Int8,
    ElementType::Int16,
    ElementType::Int32,
    ElementType::Int64,
    ElementType::UInt8,
    ElementType::UInt16,
    ElementType::UInt32,
    ElementType::UInt64,
];

impl Number {
    pub fn float(self) -> f64 {
        match self {
            Float(x) => x,
            Integer(x) => x as f64,
            Boolean(_) => panic!("a boolean is no number"),
        }
    }

    pub fn integer(self) -> i128 {
        match self {
            Integer(x) => x,
            other => panic!("{other:?} is no integer"),
        }
    }
}

/// Elements of a tensor.
pub fn numbers(tensor: &Tensor) -> Vec<Number> {
    macro_rules! read {
        ($($onnx:ident $rust:ty: |$x:ident| $body:expr),*) => {
            match tensor.element_type() {
                $(ElementType::$onnx => tensor.as_slice::<$rust>().unwrap().iter().map(|&$x| $body).collect(),)*
                other => panic!("no numbers in {other}"),
            }
        };
    }
    read!(
        Float32 f32: |x| Float(x.into()), Float64 f64: |x| Float(x),
        Float16 f16: |x| Float(x.to_f64()), BFloat16 bf16: |x| Float(x.to_f64()),
        Int8 i8: |x| Integer(x.into()), Int16 i16: |x| Integer(x.into()),
        Int32 i32: |x| Integer(x.into()), Int64 i64: |x| Integer(x.into()),
        UInt8 u8: |x| Integer(x.into()), UInt16 u16: |x| Integer(x.into()),
        UInt32 u32: |x| Integer(x.into()), UInt64 u64: |x| Integer(x.into()),
        Bool Bool: |x| Boolean(x.into())
    )
}

/// A tensor of numbers, rounded (16-bit floats through `f32`) or wrapped to the type.
pub fn tensor(element_type: ElementType, dims: &[usize], numbers: &[Number]) -> Tensor {
    macro_rules! write {
        ($($onnx:ident: |$x:ident| $body:expr),*) => {
            match element_type {
                $(ElementType::$onnx => {
                    let elements: Vec<_> = numbers.iter().map(|&$x| $body).collect();
                    Tensor::from_slice(dims, &elements)
                })*
                other => panic!("no numbers in {other}"),
            }
        };
    }
    let tensor = write!(
        Float32: |x| x.float() as f32, Float64: |x| x.float(),
        Float16: |x| f16::from_f32(x.float() as f32), BFloat16: |x| bf16::from_f32(x.float() as f32),
        Int8: |x| x.integer() as i8, Int16: |x| x.integer() as i16,
        Int32: |x| x.integer() as i32, Int64: |x| x.integer() as i64,
        UInt8: |x| x.integer() as u8, UInt16: |x| x.integer() as u16,
        UInt32: |x| x.integer() as u32, UInt64: |x| x.integer() as u64,
        Bool: |x| Bool::from(x == Boolean(true))
    );
    tensor.unwrap()
}

/// Equal bits, any NaN being equal to any NaN.
pub fn assert_same(case: &str, actual: &Tensor, expected: &Tensor) {
    assert_eq!(actual.dims(), expected.dims(), "{case}: shape");
    assert_eq!(
        actual.element_type(),
        expected.element_type(),
        "{case}: type"
    );
    if actual.bytes() == expected.bytes() {
        return;
    }
    let size = actual.element_type().bits() / 8;
    let (a, e) = (numbers(actual), numbers(expected));
    for i in 0..a.len() {
        let same_bits = actual.bytes()[i * size..][..size] == expected.bytes()[i * size..][..size];
        let both_nan = matches!((a[i], e[i]), (Float(x), Float(y)) if x.is_nan() && y.is_nan());
        assert!(
            same_bits || both_nan,
            "{case}: element {i} is {:?}, expected {:?}",
            a[i],
            e[i]
        );
    }
}

/// A small generator (xorshift), so that tests repeat.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() >> 11) as usize % n
    }

    pub fn choose<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// An element: special and edge values, small numbers, and any bits.
    pub fn number(&mut self, element_type: ElementType) -> Number {
        let kind = self.below(8);
        if element_type == ElementType::Bool {
            return Boolean(kind < 4);
        }
        if element_type.is_float() {
            const SPECIAL: [f64; 12] = [
                0.0,
                -0.0,
                1.0,
                -1.0,
                0.5,
                -2.5,
                f64::INFINITY,
                f64::NEG_INFINITY,
                f64::NAN,
                65504.0,
                6e-8,
                1e-40,
            ];
            return Float(match kind {
                0 => self.choose(&SPECIAL),
                1 => f64::from(f32::from_bits(self.next() as u32)),
                _ => (self.next() as i32 as f64) / f64::from(1 << 28),
            });
        }
        let bits = element_type.bits();
        let signed = matches!(
            element_type,
            ElementType::Int8 | ElementType::Int16 | ElementType::Int32 | ElementType::Int64
        );
        let any = self.next();
        let value = match kind {
            0 => self.choose(&[0, 1, u64::MAX, 1 << (bits - 1), (1 << (bits - 1)) - 1]),
            1 => any,
            _ => any % 11,
        };
        let shift = 64 - bits;
        Integer(if signed {
            i128::from(((value << shift) as i64) >> shift)
        } else {
            i128::from((value << shift) >> shift)
        })
    }

    pub fn tensor(&mut self, element_type: ElementType, dims: &[usize]) -> Tensor {
        let count = dims.iter().product();
        let numbers: Vec<Number> = (0..count).map(|_| self.number(element_type)).collect();
        tensor(element_type, dims, &numbers)
    }
}

/// An output shape and shapes of `operands` operands that broadcast to it, one of them in full.
pub fn shapes(
    random: &mut Random,
    operands: usize,
    largest: usize,
) -> (Vec<usize>, Vec<Vec<usize>>) {
    let rank = random.below(6);
    let mut output: Vec<usize> = (0..rank)
        .map(|_| random.choose(&[0, 1, 1, 2, 3, 4, 5, 7, 64, 70, 130, 600]))
        .collect();
    while output.iter().product::<usize>() > largest {
        let axis = random.below(rank);
        output[axis] = 1 + random.below(3);
    }
    let full = random.below(operands);
    let shapes: Vec<Vec<usize>> = (0..operands)
        .map(|k| {
            if k == full {
                return output.clone();
            }
            let first = random.below(rank + 1);
            output[first..]
                .iter()
                .map(|&d| if random.below(2) == 0 { 1 } else { d })
                .collect()
        })
        .collect();
    (output, shapes)
}

/// Flat index of the element of an operand that an output element reads, found axis by axis.
pub fn operand_index(output: &[usize], operand: &[usize], position: usize) -> usize {
    let mut rest = position;
    let (mut index, mut stride) = (0, 1);
    for back in 0..output.len() {
        let size = output[output.len() - 1 - back];
        let coordinate = rest % size;
        rest /= size;
        if back < operand.len() {
            let own = operand[operand.len() - 1 - back];
            if own != 1 {
                index += coordinate * stride;
            }
            stride *= own;
        }
    }
    index
}
