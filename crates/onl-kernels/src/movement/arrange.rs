//! Transpose, DepthToSpace, SpaceToDepth, Expand, Tile, Trilu.

use super::support::{ALL_TYPES, NUMERIC_TYPES, check_inputs, shape_error};
use super::{CALIBRATED_TYPES, Division, calibrated, entry, matrix, without_calibrated};
use crate::infer::{broadcast_dims, same_as_first};
use crate::{
    Example, ExampleInput, InferContext, InferError, KernelEntry, KernelError, KernelIo,
    PrepareContext, PrepareError, PreparedKernel, ShapeDependence,
};
use onl_executor::Lanes;
use onl_ir::{Attribute, Dim, NodeView};
use onl_movement::{STRIDED, TRANSPOSE, expand, rearrange, tile, transpose, triangle};
use onl_tensor::{ElementType, Shape};
use smallvec::SmallVec;

pub(super) fn entries() -> Vec<KernelEntry> {
    let depth_to_space = KernelEntry {
        regions: const { &[&TRANSPOSE] },
        ..entry(
            "DepthToSpace",
            (1, i64::MAX),
            prepare_depth_to_space,
            infer_space,
            depth_to_space_examples,
        )
    };
    const REST: usize = ALL_TYPES.len() - CALIBRATED_TYPES.len();
    let [transpose, transpose_of_the_rest] = calibrated(
        KernelEntry {
            regions: const { &[&TRANSPOSE] },
            ..entry(
                "Transpose",
                (1, i64::MAX),
                prepare_transpose,
                infer_transpose,
                transpose_examples,
            )
        },
        const { &without_calibrated::<REST>(ALL_TYPES) },
    );
    vec![
        KernelEntry {
            op_type: "SpaceToDepth",
            prepare: prepare_space_to_depth,
            examples: space_to_depth_examples,
            ..depth_to_space.clone()
        },
        depth_to_space,
        transpose,
        transpose_of_the_rest,
        KernelEntry {
            regions: const { &[&STRIDED] },
            shape_dependence: ShapeDependence::Values(&[1]),
            ..entry(
                "Expand",
                (8, i64::MAX),
                prepare_expand,
                infer_expand,
                expand_examples,
            )
        },
        KernelEntry {
            regions: const { &[&STRIDED] },
            shape_dependence: ShapeDependence::Values(&[1]),
            ..entry(
                "Tile",
                (6, i64::MAX),
                prepare_tile,
                infer_tile,
                tile_examples,
            )
        },
        KernelEntry {
            element_types: NUMERIC_TYPES,
            regions: const { &[&STRIDED] },
            ..entry(
                "Trilu",
                (14, i64::MAX),
                prepare_trilu,
                same_as_first,
                trilu_examples,
            )
        },
    ]
}

struct Transpose {
    perm: Option<SmallVec<[i64; 8]>>,
    division: Division,
}

fn prepare_transpose(
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 1, 1)?;
    Ok(Box::new(Transpose {
        perm: node.ints("perm")?.map(SmallVec::from_slice),
        division: Division::new("Transpose", node, context),
    }))
}

/// The permutation of a node for an input of this rank: reversed axes when it gives none.
fn permutation(perm: Option<&[i64]>, rank: usize) -> Option<SmallVec<[usize; 8]>> {
    let Some(perm) = perm else {
        return Some((0..rank).rev().collect());
    };
    let mut seen: SmallVec<[bool; 8]> = SmallVec::from_elem(false, rank);
    if perm.len() != rank {
        return None;
    }
    perm.iter()
        .map(|&axis| {
            let axis = usize::try_from(axis).ok().filter(|&a| a < rank)?;
            (!std::mem::replace(&mut seen[axis], true)).then_some(axis)
        })
        .collect()
}

impl PreparedKernel for Transpose {
    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let input = io.input(0)?;
        let dims = input.dims();
        let perm = permutation(self.perm.as_deref(), dims.len()).ok_or_else(|| {
            shape_error(
                &[dims],
                format!("perm {:?} is no permutation of the axes", self.perm),
            )
        })?;
        let shape: Shape = perm.iter().map(|&a| dims[a]).collect();
        if perm.iter().filter(|&&a| dims[a] != 1).is_sorted() {
            io.alias_output(0, 0, shape);
            return Ok(());
        }
        let execution = self.division.execution(input.len(), lanes);
        let mut output = io.output(0, input.element_type(), &shape)?;
        Ok(transpose(input, &perm, &mut output, &execution)?)
    }
}

fn infer_transpose(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let element_type = context.element_type(0)?;
    let perm = context.node.ints("perm")?;
    let dims = match (context.dims(0), perm) {
        (Some(dims), perm) => {
            let perm = permutation(perm, dims.len()).ok_or_else(|| {
                InferError::Shapes(format!(
                    "perm {perm:?} is no permutation of {} axes",
                    dims.len()
                ))
            })?;
            Some(perm.iter().map(|&a| dims[a].clone()).collect())
        }
        (None, Some(perm)) => Some(vec![Dim::Unknown; perm.len()]),
        (None, None) => None,
    };
    context.set_output(0, element_type, dims);
    Ok(())
}

fn transpose_examples(element_type: ElementType, size: usize) -> Vec<Example> {
    let heads = ExampleInput::random(element_type, &[1, (size / 768).max(1), 12, 64]);
    vec![
        Example::new("matrix", vec![matrix(element_type, size)])
            .with_attribute("perm", Attribute::Ints(vec![1, 0])),
        Example::new("heads", vec![heads])
            .with_attribute("perm", Attribute::Ints(vec![0, 2, 1, 3])),
    ]
}

/// DepthToSpace and SpaceToDepth: axes split, permuted and joined.
struct Space {
    to_depth: bool,
    block: usize,
    /// Whether the block's place comes before the channel in the order of depth.
    place_first: bool,
    division: Division,
}

fn space(
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
    to_depth: bool,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 1, 1)?;
    let (op_type, mode_since) = if to_depth {
        ("SpaceToDepth", 28)
    } else {
        ("DepthToSpace", 11)
    };
    let place_first = match node.string("mode")?.unwrap_or("DCR") {
        "DCR" => true,
        "CRD" if node.opset >= mode_since => false,
        other => {
            return Err(PrepareError::Attribute {
                attribute: "mode",
                reason: format!("'{other}' is neither DCR nor (since version {mode_since}) CRD"),
            });
        }
    };
    Ok(Box::new(Space {
        to_depth,
        block: block_size(node)?,
        place_first,
        division: Division::new(op_type, node, context),
    }))
}

fn block_size(node: &NodeView<'_>) -> Result<usize, PrepareError> {
    let value = node.int("blocksize")?.unwrap_or(0);
    usize::try_from(value)
        .ok()
        .filter(|&block| block > 0)
        .ok_or_else(|| PrepareError::Attribute {
            attribute: "blocksize",
            reason: format!("{value} is not positive"),
        })
}

fn prepare_depth_to_space(
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    space(node, context, false)
}

fn prepare_space_to_depth(
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    space(node, context, true)
}

impl PreparedKernel for Space {
    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let input = io.input(0)?;
        let block = self.block;
        let refuse = || {
            shape_error(
                &[input.dims()],
                format!("four axes that blocks of {block} divide are needed"),
            )
        };
        let &[batch, depth, height, width] = input.dims() else {
            return Err(refuse());
        };
        let (divided, perm, shape) = if self.to_depth {
            if !height.is_multiple_of(block) || !width.is_multiple_of(block) {
                return Err(refuse());
            }
            let (height, width) = (height / block, width / block);
            let perm = if self.place_first {
                [0, 3, 5, 1, 2, 4]
            } else {
                [0, 1, 3, 5, 2, 4]
            };
            let area = depth * block * block;
            (
                [batch, depth, height, block, width, block],
                perm,
                [batch, area, height, width],
            )
        } else {
            let area = block * block;
            if !depth.is_multiple_of(area) {
                return Err(refuse());
            }
            let depth = depth / area;
            let shape = [batch, depth, height * block, width * block];
            if self.place_first {
                (
                    [batch, block, block, depth, height, width],
                    [0, 3, 4, 1, 5, 2],
                    shape,
                )
            } else {
                (
                    [batch, depth, block, block, height, width],
                    [0, 1, 4, 2, 5, 3],
                    shape,
                )
            }
        };
        let execution = self.division.execution(input.len(), lanes);
        let mut output = io.output(0, input.element_type(), &shape)?;
        Ok(rearrange(input, &divided, &perm, &mut output, &execution)?)
    }
}

fn infer_space(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let element_type = context.element_type(0)?;
    let block = block_size(&context.node)?;
    let to_depth = context.node.node.op.op_type == "SpaceToDepth";
    let dims = match context.dims(0) {
        Some([batch, depth, height, width]) => {
            let scaled = |dim: &Dim, factor: usize, multiply: bool| match dim {
                Dim::Known(size) if multiply => Dim::Known(size.saturating_mul(factor)),
                Dim::Known(size) => Dim::Known(size / factor),
                _ => Dim::Unknown,
            };
            Some(vec![
                batch.clone(),
                scaled(depth, block.saturating_mul(block), to_depth),
                scaled(height, block, !to_depth),
                scaled(width, block, !to_depth),
            ])
        }
        Some(dims) => {
            return Err(InferError::Shapes(format!(
                "four axes are needed, the input has {}",
                dims.len()
            )));
        }
        None => None,
    };
    context.set_output(0, element_type, dims);
    Ok(())
}

fn depth_to_space_examples(element_type: ElementType, size: usize) -> Vec<Example> {
    let side = ((size as f64 / 16.0).sqrt() as usize).max(1);
    ["DCR", "CRD"]
        .into_iter()
        .map(|mode| {
            Example::new(
                mode,
                vec![ExampleInput::random(element_type, &[1, 16, side, side])],
            )
            .with_attribute("blocksize", Attribute::Int(2))
            .with_attribute("mode", Attribute::String(mode.into()))
        })
        .collect()
}

fn space_to_depth_examples(element_type: ElementType, size: usize) -> Vec<Example> {
    let side = ((size as f64 / 16.0).sqrt() as usize).max(1) * 2;
    vec![
        Example::new(
            "image",
            vec![ExampleInput::random(element_type, &[1, 4, side, side])],
        )
        .with_attribute("blocksize", Attribute::Int(2)),
    ]
}

struct Expand {
    division: Division,
}

fn prepare_expand(
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 2, 2)?;
    Ok(Box::new(Expand {
        division: Division::new("Expand", node, context),
    }))
}

/// The input's shape broadcast with the target's.
fn expanded(dims: &[usize], target: &[i64]) -> Result<Shape, KernelError> {
    let rank = dims.len().max(target.len());
    (0..rank)
        .map(|axis| {
            let own = (axis + dims.len()).checked_sub(rank).map_or(1, |a| dims[a]);
            let wanted = (axis + target.len())
                .checked_sub(rank)
                .map_or(1, |a| target[a]);
            match usize::try_from(wanted) {
                Ok(1) => Ok(own),
                Ok(wanted) if own == 1 || own == wanted => Ok(wanted),
                _ => Err(shape_error(
                    &[dims],
                    format!("size {own} of axis {axis} cannot be broadcast with target {target:?}"),
                )),
            }
        })
        .collect()
}

impl PreparedKernel for Expand {
    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let input = io.input(0)?;
        let shape = expanded(input.dims(), &io.integers(1)?)?;
        if *shape == *input.dims() {
            io.alias_output(0, 0, shape);
            return Ok(());
        }
        let mut output = io.output(0, input.element_type(), &shape)?;
        let execution = self.division.execution(output.len(), lanes);
        Ok(expand(input, &mut output, &execution)?)
    }
}

fn infer_expand(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let element_type = context.element_type(0)?;
    let dims = match (
        context.dims(0),
        context.constant_integers(1),
        context.dims(1),
    ) {
        (Some(dims), Some(target), _) => {
            let target: Vec<Dim> = target
                .iter()
                .map(|&d| usize::try_from(d).map(Dim::Known))
                .collect::<Result<_, _>>()
                .map_err(|_| InferError::Shapes(format!("target {target:?} has negative sizes")))?;
            Some(broadcast_dims(dims, &target)?)
        }
        (Some(dims), None, Some([Dim::Known(rank)])) => {
            Some(vec![Dim::Unknown; dims.len().max(*rank)])
        }
        _ => None,
    };
    context.set_output(0, element_type, dims);
    Ok(())
}

fn expand_examples(element_type: ElementType, size: usize) -> Vec<Example> {
    let rows = (size / 256).max(1);
    vec![
        Example::new(
            "rows",
            vec![
                ExampleInput::random(element_type, &[1, 256]),
                ExampleInput::integers(&[rows as i64, 256]),
            ],
        ),
        Example::new(
            "columns",
            vec![
                ExampleInput::random(element_type, &[rows, 1]),
                ExampleInput::integers(&[1, 256]),
            ],
        ),
    ]
}

struct Tile {
    division: Division,
}

fn prepare_tile(
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 2, 2)?;
    Ok(Box::new(Tile {
        division: Division::new("Tile", node, context),
    }))
}

fn repeats_of(values: &[i64], rank: usize) -> Result<Shape, KernelError> {
    if values.len() != rank {
        return Err(KernelError::InvalidInput {
            index: 1,
            reason: format!("{} repeats for a tensor of rank {rank}", values.len()),
        });
    }
    values
        .iter()
        .map(|&r| {
            usize::try_from(r).map_err(|_| KernelError::InvalidInput {
                index: 1,
                reason: format!("repeat {r} is negative"),
            })
        })
        .collect()
}

impl PreparedKernel for Tile {
    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let input = io.input(0)?;
        let dims = input.dims();
        let repeats = repeats_of(&io.integers(1)?, dims.len())?;
        let shape: Shape = dims
            .iter()
            .zip(repeats.iter())
            .map(|(&d, &r)| d.saturating_mul(r))
            .collect();
        if repeats.iter().all(|&r| r == 1) {
            io.alias_output(0, 0, shape);
            return Ok(());
        }
        let mut output = io.output(0, input.element_type(), &shape)?;
        let execution = self.division.execution(output.len(), lanes);
        Ok(tile(input, &repeats, &mut output, &execution)?)
    }
}

fn infer_tile(context: &mut InferContext<'_>) -> Result<(), InferError> {
    let element_type = context.element_type(0)?;
    let dims = match (context.dims(0), context.constant_integers(1)) {
        (Some(dims), Some(repeats)) => {
            let repeats =
                repeats_of(&repeats, dims.len()).map_err(|e| InferError::Shapes(e.to_string()))?;
            let sizes = dims.iter().zip(repeats.iter());
            Some(
                sizes
                    .map(|(d, &r)| match (d, r) {
                        (_, 1) => d.clone(),
                        (_, 0) => Dim::Known(0),
                        (Dim::Known(d), r) => Dim::Known(d.saturating_mul(r)),
                        _ => Dim::Unknown,
                    })
                    .collect(),
            )
        }
        (Some(dims), None) => Some(vec![Dim::Unknown; dims.len()]),
        _ => None,
    };
    context.set_output(0, element_type, dims);
    Ok(())
}

fn tile_examples(element_type: ElementType, size: usize) -> Vec<Example> {
    let rows = (size / 256).max(1);
    vec![Example::new(
        "twice",
        vec![
            ExampleInput::random(element_type, &[rows, 64]),
            ExampleInput::integers(&[2, 2]),
        ],
    )]
}

struct Trilu {
    upper: bool,
    division: Division,
}

fn prepare_trilu(
    node: &NodeView<'_>,
    context: &PrepareContext<'_>,
) -> Result<Box<dyn PreparedKernel>, PrepareError> {
    check_inputs(node, 1, 2)?;
    Ok(Box::new(Trilu {
        upper: node.int("upper")?.unwrap_or(1) != 0,
        division: Division::new("Trilu", node, context),
    }))
}

impl PreparedKernel for Trilu {
    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let input = io.input(0)?;
        let k = match io.optional_input(1) {
            Some(_) => io.integers(1)?.first().copied().unwrap_or(0),
            None => 0,
        };
        let execution = self.division.execution(input.len(), lanes);
        let mut output = io.output(0, input.element_type(), input.dims())?;
        Ok(triangle(input, self.upper, k, &mut output, &execution)?)
    }
}

fn trilu_examples(element_type: ElementType, size: usize) -> Vec<Example> {
    vec![Example::new("upper", vec![matrix(element_type, size)])]
}
