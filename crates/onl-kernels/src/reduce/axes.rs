//! ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceProd, ReduceL1, ReduceL2, ReduceSumSquare, ReduceLogSum,
//! ReduceLogSumExp.

use super::{CALIBRATABLE, Division, TUNABLE, entry};
use crate::movement::support::{Integers, axis_flags, check_inputs, known_integers};
use crate::{
    Example, ExampleInput, InferContext, InferError, KernelEntry, KernelError, KernelIo,
    PrepareContext, PrepareError, PreparedKernel, ShapeDependence,
};
use onl_executor::Lanes;
use onl_ir::{Attribute, Dim, NodeView};
use onl_reduce::{COLUMNS, INTEGERS, ROWS, ReduceKind, reduce, reduce_workspace};
use onl_tensor::{ElementType, Shape};
use smallvec::SmallVec;

const TYPES: &[ElementType] = &[
    ElementType::Float32,
    ElementType::Float64,
    ElementType::Float16,
    ElementType::BFloat16,
    ElementType::Int32,
    ElementType::Int64,
    ElementType::UInt32,
    ElementType::UInt64,
];

const SELECTION_TYPES: &[ElementType] = &[
    ElementType::Float32,
    ElementType::Float64,
    ElementType::Float16,
    ElementType::BFloat16,
    ElementType::Int32,
    ElementType::Int64,
    ElementType::UInt32,
    ElementType::UInt64,
    ElementType::Int8,
    ElementType::UInt8,
    ElementType::Bool,
];

pub(super) fn entries() -> Vec<KernelEntry> {
    let mut entries = Vec::new();
    macro_rules! reductions {
        ($($op:literal $kind:ident $by_input:literal $types:ident $coverage:ident;)*) => {$(
            let old = KernelEntry {
                element_types: $types,
                coverage: $coverage,
                regions: const { &[&ROWS, &COLUMNS, &INTEGERS] },
                ..entry(
                    $op,
                    (1, $by_input - 1),
                    |node, context| prepare($op, ReduceKind::$kind, $by_input, node, context),
                    |context| infer($by_input, context),
                    examples_by_attribute,
                )
            };
            entries.push(KernelEntry {
                opsets: ($by_input, i64::MAX),
                shape_dependence: ShapeDependence::Values(&[1]),
                examples: examples_by_input,
                ..old.clone()
            });
            entries.push(old);
        )*};
    }
    reductions! {
        "ReduceSum" Sum 13 TYPES CALIBRATABLE;
        "ReduceMean" Mean 18 TYPES TUNABLE;
        "ReduceMax" Max 18 SELECTION_TYPES CALIBRATABLE;
        "ReduceMin" Min 18 SELECTION_TYPES TUNABLE;
        "ReduceProd" Prod 18 TYPES TUNABLE;
        "ReduceL1" L1 18 TYPES TUNABLE;
        "ReduceL2" L2 18 TYPES TUNABLE;
        "ReduceSumSquare" SumSquare 18 TYPES TUNABLE;
        "ReduceLogSum" LogSum 18 TYPES TUNABLE;
        "ReduceLogSumExp" LogSumExp 18 TYPES TUNABLE;
    }
    entries
}

struct Reduce {
    kind: ReduceKind,
    axes: Integers,
    keep_dims: bool,
    /// Whether no axes means that none is reduced.
    empty_is_none: bool,
    element_type: Option<ElementType>,
    division: Division,
}

fn prepare(
    op_type: &'static str,
    kind: ReduceKind,
    by_input: i64,
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    let axes = if node.opset < by_input {
        check_inputs(node, 1, 1)?;
        Integers::attribute(node, "axes")?
    } else {
        check_inputs(node, 1, 2)?;
        let constant = context.constant_input(node, 1);
        match constant.as_ref().and_then(|t| t.as_slice::<i64>().ok()) {
            Some(values) => Integers::Fixed(SmallVec::from_slice(values)),
            None => Integers::input(node, 1),
        }
    };
    Ok(Box::new(Reduce {
        kind,
        axes,
        keep_dims: node.int("keepdims")?.unwrap_or(1) != 0,
        empty_is_none: node.opset >= by_input
            && node.int("noop_with_empty_axes")?.unwrap_or(0) != 0,
        element_type: node.input_element_type(0),
        division: Division::new(op_type, node, context),
    }))
}

/// Which axes are reduced: all without axes, unless that means none.
fn flags(
    axes: Option<&[i64]>,
    empty_is_none: bool,
    rank: usize,
) -> Result<SmallVec<[bool; 8]>, KernelError> {
    match axes {
        None | Some([]) => Ok(SmallVec::from_elem(!empty_is_none, rank)),
        Some(axes) => axis_flags(axes, rank),
    }
}

fn reduced_shape<D: Clone>(dims: &[D], flags: &[bool], keep_dims: bool, one: D) -> Vec<D> {
    dims.iter()
        .zip(flags)
        .filter_map(|(dim, &reduced)| match (reduced, keep_dims) {
            (false, _) => Some(dim.clone()),
            (true, true) => Some(one.clone()),
            (true, false) => None,
        })
        .collect()
}

impl PreparedKernel for Reduce {
    fn workspace(&self, input_dims: &[&[usize]], _: usize) -> usize {
        let dims = input_dims.first().copied().unwrap_or(&[]);
        let axes = match &self.axes {
            Integers::Fixed(axes) => flags(Some(axes), self.empty_is_none, dims.len()).ok(),
            Integers::Absent => flags(None, self.empty_is_none, dims.len()).ok(),
            Integers::Input(_) => None,
        };
        let types = match &self.element_type {
            Some(element_type) => std::slice::from_ref(element_type),
            None => super::FLOATS,
        };
        types
            .iter()
            .map(|&t| reduce_workspace(self.kind, t, dims, axes.as_deref()))
            .max()
            .unwrap_or(0)
    }

    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let input = io.input(0)?;
        let dims = input.dims();
        let axes = self.axes.read(io)?;
        let flags = flags(axes.as_deref(), self.empty_is_none, dims.len())?;
        let mut shape = Shape::default();
        for (axis, &size) in dims.iter().enumerate() {
            match (flags[axis], self.keep_dims) {
                (false, _) => shape.push(size),
                (true, true) => shape.push(1),
                (true, false) => {}
            }
        }
        let identity = matches!(
            self.kind,
            ReduceKind::Sum
                | ReduceKind::Mean
                | ReduceKind::Max
                | ReduceKind::Min
                | ReduceKind::Prod
        );
        if identity && (0..dims.len()).all(|a| !flags[a] || dims[a] == 1) {
            io.alias_output(0, 0, shape);
            return Ok(());
        }
        let execution = self.division.execution(input.len(), lanes);
        let (mut output, workspace) = io.output_and_workspace(0, input.element_type(), &shape)?;
        Ok(reduce(
            self.kind,
            input,
            &flags,
            &mut output,
            workspace,
            &execution,
        )?)
    }
}

fn infer(by_input: i64, context: &mut InferContext<'_>) -> Result<(), InferError> {
    let element_type = context.element_type(0)?;
    let keep_dims = context.node.int("keepdims")?.unwrap_or(1) != 0;
    let by_attribute = context.node.opset < by_input;
    let empty_is_none =
        !by_attribute && context.node.int("noop_with_empty_axes")?.unwrap_or(0) != 0;
    let axes = known_integers(context, by_attribute.then_some("axes"), 1);
    let dims = match (context.dims(0), axes) {
        (Some(dims), Ok(axes)) => {
            let flags = flags(axes.as_deref(), empty_is_none, dims.len())
                .map_err(|e| InferError::Shapes(e.to_string()))?;
            Some(reduced_shape(dims, &flags, keep_dims, Dim::Known(1)))
        }
        (Some(dims), Err(())) if keep_dims => Some(vec![Dim::Unknown; dims.len()]),
        _ => None,
    };
    context.set_output(0, element_type, dims);
    Ok(())
}

/// One example for each path, with the axes that it reduces.
fn shapes(size: usize) -> [(&'static str, Vec<usize>, Vec<i64>); 5] {
    [
        ("last_axis", vec![(size / 768).max(1), 768], vec![1]),
        ("first_axis", vec![(size / 256).max(1), 256], vec![0]),
        ("middle_axis", vec![2, (size / 64).max(1), 32], vec![1]),
        (
            "outer_and_inner_axes",
            vec![2, 4, (size / 8).max(1)],
            vec![0, 2],
        ),
        ("one_row", vec![1, size], vec![1]),
    ]
}

fn examples_by_attribute(element_type: ElementType, size: usize) -> Vec<Example> {
    shapes(size)
        .into_iter()
        .map(|(name, dims, axes)| {
            Example::new(name, vec![ExampleInput::random(element_type, &dims)])
                .with_attribute("axes", Attribute::Ints(axes))
        })
        .collect()
}

fn examples_by_input(element_type: ElementType, size: usize) -> Vec<Example> {
    shapes(size)
        .into_iter()
        .map(|(name, dims, axes)| {
            Example::new(
                name,
                vec![
                    ExampleInput::random(element_type, &dims),
                    ExampleInput::integers(&axes),
                ],
            )
        })
        .collect()
}
