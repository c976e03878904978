//! Adapters of the elementwise family: one prepared kernel per operand count, chosen by the operator's name.
//!
//! Entries serve every element type of an operator's newest version from the first version of that form on: a model of
//! an older operator set that uses a type which only a later one admits runs rather than fails.

mod examples;
mod kernels;

use crate::infer::{broadcast, broadcast_all, broadcast_to_bool, same_as_first};
use crate::{
    Coverage, Example, InferContext, InferError, KernelEntry, KernelError, ShapeDependence,
    TypeSource,
};
use onl_elementwise::{ElementwiseError, region};
use onl_ir::OpId;
use onl_profiling::RegionSite;
use onl_snapshot::{ParallelConfig, TunedConfig};
use onl_tensor::ElementType;

/// Name of the implementation of all types with vector bodies.
const VECTOR: &str = "vector";
/// Name of the implementation of strings.
const PORTABLE: &str = "portable";
/// Revision of every implementation.
const REVISION: u32 = 4;

use ElementType::{
    BFloat16, Bool, Complex64, Complex128, Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2,
    Float8E5M2FNUZ, Float16, Float32, Float64, Int8, Int16, Int32, Int64, String, UInt8, UInt16,
    UInt32, UInt64,
};

const FLOATS: &[ElementType] = &[Float32, Float64, Float16, BFloat16];
const SMALL_FLOATS: &[ElementType] = &[Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ];
const FLOATS_SIGNED: &[ElementType] = &[
    Float32, Float64, Float16, BFloat16, Int8, Int16, Int32, Int64,
];
const UNSIGNED: &[ElementType] = &[UInt8, UInt16, UInt32, UInt64];
const INTEGERS: &[ElementType] = &[Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64];
const NUMERIC: &[ElementType] = &[
    Float32, Float64, Float16, BFloat16, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64,
];
const NUMERIC_BOOL: &[ElementType] = &[
    Float32, Float64, Float16, BFloat16, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64,
    Bool,
];
const MOVABLE: &[ElementType] = &[
    Float32, Float64, Float16, BFloat16, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64,
    Bool, Complex64, Complex128,
];
const POW_BASES: &[ElementType] = &[Float32, Float64, Float16, BFloat16, Int32, Int64];
const PRELU_TYPES: &[ElementType] = &[
    Float32, Float64, Float16, BFloat16, Int32, Int64, UInt32, UInt64,
];
const BOOL: &[ElementType] = &[Bool];
const STRING: &[ElementType] = &[String];

/// Sizes that calibration measures, in output elements.
const SIZES: &[usize] = &[
    1 << 10,
    1 << 11,
    1 << 12,
    1 << 13,
    1 << 14,
    1 << 15,
    1 << 16,
    1 << 17,
    1 << 18,
    1 << 19,
    1 << 20,
    1 << 21,
];

const TUNABLE: Coverage = Coverage::Tunable(ParallelConfig::schema);
const CALIBRATABLE: Coverage = Coverage::Calibratable {
    schema: ParallelConfig::schema,
    sizes: SIZES,
    search: |_| ParallelConfig::crossover(10..=23),
};

/// What entries of one kind of operator share.
#[derive(Clone, Copy)]
struct Form {
    prepare: fn(
        &onl_ir::NodeView<'_>,
        &crate::PrepareContext<'_>,
    ) -> Result<Box<dyn crate::PreparedKernel>, crate::PrepareError>,
    infer: fn(&mut InferContext<'_>) -> Result<(), InferError>,
    type_source: TypeSource,
    regions: &'static [&'static RegionSite],
}

const UNARY: Form = Form {
    prepare: kernels::prepare_unary,
    infer: same_as_first,
    type_source: TypeSource::Input(0),
    regions: &[&region::UNARY],
};
const UNARY_TEST: Form = Form {
    infer: same_shape_bool,
    ..UNARY
};
const CLIP: Form = Form {
    prepare: kernels::prepare_clip,
    ..UNARY
};
const BINARY: Form = Form {
    prepare: kernels::prepare_binary,
    infer: broadcast,
    type_source: TypeSource::Input(0),
    regions: &[&region::BINARY],
};
const COMPARISON: Form = Form {
    infer: broadcast_to_bool,
    ..BINARY
};
const PRELU: Form = Form {
    infer: same_as_first,
    ..BINARY
};
const POW: Form = Form {
    prepare: kernels::prepare_pow,
    ..BINARY
};
const VARIADIC: Form = Form {
    prepare: kernels::prepare_variadic,
    infer: broadcast,
    type_source: TypeSource::Input(0),
    regions: &[&region::BINARY, &region::VARIADIC],
};
const SELECT: Form = Form {
    prepare: kernels::prepare_select,
    infer: infer_select,
    type_source: TypeSource::Input(1),
    regions: &[&region::SELECT],
};

fn same_shape_bool(context: &mut InferContext<'_>) -> Result<(), InferError> {
    context.element_type(0)?;
    let dims = context.dims(0).map(<[_]>::to_vec);
    context.set_output(0, Bool, dims);
    Ok(())
}

fn infer_select(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let element_type = context.element_type(1)?;
    let dims = broadcast_all(context)?;
    context.set_output(0, element_type, dims);
    Ok(())
}

/// Kernels of the family.
pub(crate) fn entries() -> Vec<KernelEntry> {
    use examples as e;
    const NEWEST: i64 = i64::MAX;
    type Row = (
        &'static str,
        (i64, i64),
        &'static [ElementType],
        Form,
        Coverage,
        fn(ElementType, usize) -> Vec<Example>,
    );
    #[rustfmt::skip]
    let rows: &[Row] = &[
        ("Abs", (6, NEWEST), FLOATS_SIGNED, UNARY, CALIBRATABLE, e::unary),
        ("Abs", (6, NEWEST), UNSIGNED, UNARY, TUNABLE, e::unary),
        ("Neg", (6, NEWEST), FLOATS_SIGNED, UNARY, TUNABLE, e::unary),
        ("Not", (1, NEWEST), BOOL, UNARY, CALIBRATABLE, e::unary),
        ("Exp", (6, NEWEST), FLOATS, UNARY, CALIBRATABLE, e::unary),
        ("Log", (6, NEWEST), FLOATS, UNARY, CALIBRATABLE, e::unary_positive),
        ("Sqrt", (6, NEWEST), FLOATS, UNARY, TUNABLE, e::unary_positive),
        ("Reciprocal", (6, NEWEST), FLOATS, UNARY, TUNABLE, e::unary_positive),
        ("Sigmoid", (6, NEWEST), FLOATS, UNARY, CALIBRATABLE, e::unary),
        ("Tanh", (6, NEWEST), FLOATS, UNARY, CALIBRATABLE, e::unary),
        ("Erf", (9, NEWEST), FLOATS, UNARY, CALIBRATABLE, e::unary),
        ("Erf", (9, NEWEST), INTEGERS, UNARY, TUNABLE, e::unary),
        ("Sin", (7, NEWEST), FLOATS, UNARY, CALIBRATABLE, e::unary),
        ("Cos", (7, NEWEST), FLOATS, UNARY, CALIBRATABLE, e::unary),
        ("Tan", (7, NEWEST), FLOATS, UNARY, CALIBRATABLE, e::unary),
        ("Asin", (7, NEWEST), FLOATS, UNARY, TUNABLE, e::unary_unit),
        ("Acos", (7, NEWEST), FLOATS, UNARY, TUNABLE, e::unary_unit),
        ("Atan", (7, NEWEST), FLOATS, UNARY, TUNABLE, e::unary),
        ("Sinh", (9, NEWEST), FLOATS, UNARY, TUNABLE, e::unary),
        ("Cosh", (9, NEWEST), FLOATS, UNARY, TUNABLE, e::unary),
        ("Asinh", (9, NEWEST), FLOATS, UNARY, CALIBRATABLE, e::unary),
        ("Acosh", (9, NEWEST), FLOATS, UNARY, CALIBRATABLE, e::unary_above_one),
        ("Atanh", (9, NEWEST), FLOATS, UNARY, CALIBRATABLE, e::unary_unit),
        ("Gelu", (20, NEWEST), FLOATS, UNARY, CALIBRATABLE, e::gelu),
        ("Softplus", (1, NEWEST), FLOATS, UNARY, CALIBRATABLE, e::unary),
        ("Softsign", (1, NEWEST), FLOATS, UNARY, TUNABLE, e::unary),
        ("Mish", (18, NEWEST), FLOATS, UNARY, CALIBRATABLE, e::unary),
        ("Swish", (24, NEWEST), FLOATS, UNARY, CALIBRATABLE, e::unary),
        ("Elu", (6, NEWEST), FLOATS, UNARY, TUNABLE, e::unary),
        ("Celu", (12, NEWEST), FLOATS, UNARY, TUNABLE, e::unary),
        ("Selu", (6, NEWEST), FLOATS, UNARY, TUNABLE, e::unary),
        ("HardSigmoid", (6, NEWEST), FLOATS, UNARY, TUNABLE, e::unary),
        ("HardSwish", (14, NEWEST), FLOATS, UNARY, TUNABLE, e::unary),
        ("LeakyRelu", (6, NEWEST), FLOATS, UNARY, TUNABLE, e::unary),
        ("ThresholdedRelu", (10, NEWEST), FLOATS, UNARY, TUNABLE, e::unary),
        ("Shrink", (9, NEWEST), NUMERIC, UNARY, TUNABLE, e::unary),
        ("Relu", (6, NEWEST), FLOATS_SIGNED, UNARY, TUNABLE, e::unary),
        ("Floor", (6, NEWEST), FLOATS, UNARY, TUNABLE, e::unary),
        ("Ceil", (6, NEWEST), FLOATS, UNARY, TUNABLE, e::unary),
        ("Round", (11, NEWEST), FLOATS, UNARY, TUNABLE, e::unary),
        ("Sign", (9, NEWEST), NUMERIC, UNARY, TUNABLE, e::unary),
        ("BitwiseNot", (18, NEWEST), INTEGERS, UNARY, TUNABLE, e::unary),
        ("IsNaN", (9, NEWEST), FLOATS, UNARY_TEST, TUNABLE, e::unary),
        ("IsNaN", (9, NEWEST), SMALL_FLOATS, UNARY_TEST, TUNABLE, e::unary_bytes),
        ("IsInf", (10, NEWEST), FLOATS, UNARY_TEST, TUNABLE, e::unary),
        ("IsInf", (10, NEWEST), SMALL_FLOATS, UNARY_TEST, TUNABLE, e::unary_bytes),
        ("Clip", (6, 10), FLOATS, CLIP, TUNABLE, e::clip_attributes),
        ("Clip", (11, NEWEST), NUMERIC, CLIP, TUNABLE, e::clip),
        ("Add", (7, NEWEST), NUMERIC, BINARY, CALIBRATABLE, e::binary),
        ("Sub", (7, NEWEST), NUMERIC, BINARY, TUNABLE, e::binary),
        ("Mul", (7, NEWEST), NUMERIC, BINARY, TUNABLE, e::binary),
        ("Div", (7, NEWEST), NUMERIC, BINARY, TUNABLE, e::dividing),
        ("Mod", (10, NEWEST), NUMERIC, BINARY, TUNABLE, e::modulo),
        ("Pow", (7, NEWEST), POW_BASES, POW, CALIBRATABLE, e::power),
        ("PRelu", (7, NEWEST), PRELU_TYPES, PRELU, TUNABLE, e::unidirectional),
        ("BitShift", (11, NEWEST), INTEGERS, BINARY, TUNABLE, e::shift),
        ("BitwiseAnd", (18, NEWEST), INTEGERS, BINARY, TUNABLE, e::binary),
        ("BitwiseOr", (18, NEWEST), INTEGERS, BINARY, TUNABLE, e::binary),
        ("BitwiseXor", (18, NEWEST), INTEGERS, BINARY, TUNABLE, e::binary),
        ("And", (7, NEWEST), BOOL, BINARY, TUNABLE, e::binary),
        ("Or", (7, NEWEST), BOOL, BINARY, TUNABLE, e::binary),
        ("Xor", (7, NEWEST), BOOL, BINARY, TUNABLE, e::binary),
        ("Equal", (7, NEWEST), NUMERIC_BOOL, COMPARISON, TUNABLE, e::binary),
        ("Equal", (7, NEWEST), STRING, COMPARISON, TUNABLE, e::strings),
        ("Less", (7, NEWEST), NUMERIC, COMPARISON, TUNABLE, e::binary),
        ("LessOrEqual", (12, NEWEST), NUMERIC, COMPARISON, TUNABLE, e::binary),
        ("Greater", (7, NEWEST), NUMERIC, COMPARISON, TUNABLE, e::binary),
        ("GreaterOrEqual", (12, NEWEST), NUMERIC, COMPARISON, TUNABLE, e::binary),
        ("Sum", (6, NEWEST), FLOATS, VARIADIC, TUNABLE, e::variadic),
        ("Mean", (6, NEWEST), FLOATS, VARIADIC, TUNABLE, e::variadic),
        ("Min", (6, NEWEST), NUMERIC, VARIADIC, TUNABLE, e::variadic),
        ("Max", (6, NEWEST), NUMERIC, VARIADIC, TUNABLE, e::variadic),
        ("Where", (9, NEWEST), MOVABLE, SELECT, TUNABLE, e::select),
        ("Where", (9, NEWEST), STRING, SELECT, TUNABLE, e::select_strings),
    ];
    rows.iter()
        .map(
            |&(op_type, opsets, element_types, form, coverage, examples)| KernelEntry {
                domain: OpId::ONNX,
                op_type,
                opsets,
                type_source: form.type_source,
                element_types,
                implementation: implementation(element_types[0]),
                revision: REVISION,
                prepare: form.prepare,
                infer: form.infer,
                shape_dependence: ShapeDependence::Shapes,
                coverage,
                regions: form.regions,
                examples,
            },
        )
        .collect()
}

/// Name of the implementation for an element type.
fn implementation(element_type: ElementType) -> &'static str {
    if element_type == String {
        PORTABLE
    } else {
        VECTOR
    }
}

impl From<ElementwiseError> for KernelError {
    fn from(error: ElementwiseError) -> Self {
        match error {
            ElementwiseError::Region(error) => KernelError::Region(error),
            ElementwiseError::Tensor(error) => KernelError::Tensor(error),
            ElementwiseError::Shapes { shapes, reason } => KernelError::Shapes { shapes, reason },
            ElementwiseError::DivisionByZero { position } => {
                KernelError::DivisionByZero { position }
            }
            ElementwiseError::NotScalar { index, dims } => KernelError::InvalidInput {
                index,
                reason: format!("it must hold one element, its shape is {dims:?}"),
            },
            error @ ElementwiseError::ElementType { .. } => KernelError::Other(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_look_up_the_key_of_their_entry() {
        for entry in entries() {
            for &element_type in entry.element_types {
                assert_eq!(
                    kernels::key(entry.op_type, element_type),
                    entry.key(element_type)
                );
            }
        }
    }
}
