//! One node on its own, made of a kernel entry and an [`Example`]: what calibration, verification, bit tests and
//! benches run.

use crate::infer::InferContext;
use crate::{
    Example, ExampleInput, KernelEntry, KernelError, KernelIo, NoSubgraphs, OutputSlot,
    PrepareContext, PrepareError, PreparedKernel,
};
use half::{bf16, f16};
use onl_cpu::IsaTier;
use onl_executor::{Lanes, RegionSpec};
use onl_ir::{Graph, Node, NodeView, OpId, TensorType, TypeInfo, ValueId, ValueInfo};
use onl_profiling::{RegionSite, region_site};
use onl_snapshot::{Digest, TuningSnapshot};
use onl_tensor::{AlignedBuffer, Bool, ElementType, Tensor, TensorView};
use std::sync::Arc;

/// Operator-set version that examples are written for when an entry serves it.
const EXAMPLE_OPSET: i64 = 22;

/// Division of produced inputs.
const PRODUCER_CHUNKS: usize = 8;
const SMALLEST_CHUNK: usize = 4_096;
const CACHE_LINE: usize = 64;
/// Distance between special values.
const SPRINKLE: usize = 5;
/// Values at which kernels go wrong.
const SPECIAL_VALUES: [f64; 14] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    -0.0,
    0.0,
    1e-40,
    -1e-40,
    5e-324,
    3.0e38,
    -3.0e38,
    88.8,
    -104.0,
    65_519.0,
    1.0,
];

/// A prepared node with inputs, outputs and scratch memory.
pub struct BenchNode {
    kernel: Box<dyn PreparedKernel>,
    inputs: Vec<Option<Arc<Tensor>>>,
    memory: BenchMemory,
    /// Whether each input is a constant of the graph.
    constant: Vec<bool>,
    output_count: usize,
    workspace_bytes: usize,
}

static PRODUCER: RegionSite = region_site!("bench_node.producer");

/// Produced inputs, outputs and scratch memory of a [`BenchNode`]. Nodes of one example can work in the same memory, one after the other,
/// so that its place favours none of them.
#[derive(Debug, Default)]
pub struct BenchMemory {
    /// Copies of the inputs that are written before each run, if any.
    produced: Vec<Option<Tensor>>,
    outputs: Vec<OutputSlot>,
    workspace: AlignedBuffer,
}

impl BenchNode {
    /// Prepares an example of an entry. `lanes` is the most that a run will have.
    ///
    /// # Errors
    /// [`PrepareError`] when the example does not fit its own operator.
    pub fn new(
        entry: &KernelEntry,
        example: &Example,
        snapshot: &TuningSnapshot,
        tier: IsaTier,
        lanes: usize,
    ) -> Result<Self, PrepareError> {
        Self::with_inputs(
            entry,
            example,
            example.materialize()?,
            snapshot,
            tier,
            lanes,
        )
    }

    /// As [`new`](Self::new), on inputs that [`Example::materialize`] gave.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_inputs(
        entry: &KernelEntry,
        example: &Example,
        inputs: Vec<Option<Arc<Tensor>>>,
        snapshot: &TuningSnapshot,
        tier: IsaTier,
        lanes: usize,
    ) -> Result<Self, PrepareError> {
        let mut graph = Graph::default();
        let mut node = Node {
            name: example.name.to_owned(),
            op: OpId::new(entry.domain, entry.op_type),
            overload: String::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            attributes: example.attributes.clone(),
        };
        let mut constants: Vec<Option<Arc<Tensor>>> = Vec::new();
        for (index, (input, spec)) in inputs.iter().zip(&example.inputs).enumerate() {
            node.inputs.push(input.as_ref().map(|tensor| {
                constants.push(is_constant(spec.as_ref()).then(|| Arc::clone(tensor)));
                let value_type =
                    TypeInfo::Tensor(TensorType::with_dims(tensor.element_type(), tensor.dims()));
                graph.add_value(ValueInfo {
                    name: format!("input_{index}"),
                    value_type: Some(value_type),
                })
            }));
        }
        for index in 0..example.outputs {
            let id = graph.add_value(ValueInfo {
                name: format!("output_{index}"),
                value_type: None,
            });
            constants.push(None);
            node.outputs.push(Some(id));
        }
        let types: Vec<Option<TypeInfo>> = node
            .inputs
            .iter()
            .map(|input| input.and_then(|id| graph.values[id.index()].value_type.clone()))
            .collect();
        graph.nodes.push(node);
        let constant = |id: ValueId| constants.get(id.index()).cloned().flatten();
        let opset = EXAMPLE_OPSET.clamp(entry.opsets.0, entry.opsets.1);
        let view = NodeView {
            graph: &graph,
            node: &graph.nodes[0],
            index: 0,
            opset,
        };
        let mut context = InferContext::new(view, &types, &constant);
        (entry.infer)(&mut context).map_err(|error| PrepareError::Other(error.to_string()))?;
        let context = PrepareContext {
            snapshot,
            tier,
            lanes,
            constants: &constant,
            subgraphs: &NoSubgraphs,
        };
        let kernel = (entry.prepare)(&view, &context)?;
        let dims: Vec<&[usize]> = inputs
            .iter()
            .map(|i| i.as_ref().map_or(&[][..], |tensor| tensor.dims()))
            .collect();
        let workspace_bytes = kernel.workspace(&dims, lanes);
        Ok(BenchNode {
            kernel,
            inputs,
            memory: BenchMemory::default(),
            constant: example
                .inputs
                .iter()
                .map(|spec| is_constant(spec.as_ref()))
                .collect(),
            output_count: example.outputs,
            workspace_bytes,
        })
    }

    /// Exchanges the node's memory with another's of the same example, or with fresh memory.
    pub fn swap_memory(&mut self, other: &mut BenchMemory) {
        std::mem::swap(&mut self.memory, other);
    }

    /// Runs the node once; the first run allocates outputs, later ones reuse them.
    ///
    /// # Errors
    /// [`KernelError`] of the kernel.
    pub fn run(&mut self, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let BenchMemory {
            produced,
            outputs,
            workspace,
        } = &mut self.memory;
        if workspace.len() < self.workspace_bytes {
            *workspace = AlignedBuffer::zeroed(self.workspace_bytes)?;
        }
        outputs.resize_with(self.output_count, OutputSlot::default);
        let views: smallvec::SmallVec<[Option<TensorView<'_>>; 6]> = self
            .inputs
            .iter()
            .enumerate()
            .map(|(index, input)| match produced.get(index) {
                Some(Some(tensor)) => Some(tensor.view()),
                _ => input.as_ref().map(|tensor| tensor.view()),
            })
            .collect();
        let mut io = KernelIo::new(&views, &[], outputs, workspace.as_bytes_mut());
        self.kernel.run(&mut io, lanes)?;
        for slot in outputs {
            slot.keep_as_plan();
        }
        Ok(())
    }

    /// Writes every input that is not constant anew, divided among lanes, as the operator before this one would in a
    /// graph: each lane's cache then holds a part of it.
    ///
    /// # Errors
    /// [`KernelError`] when memory for the inputs cannot be had.
    pub fn produce_inputs(&mut self, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let produced = &mut self.memory.produced;
        produced.resize_with(self.inputs.len(), || None);
        for ((slot, input), constant) in produced.iter_mut().zip(&self.inputs).zip(&self.constant) {
            let Some(input) = input
                .as_ref()
                .filter(|i| !constant && !i.bytes().is_empty())
            else {
                continue;
            };
            if slot.is_none() {
                *slot = Some(input.try_clone()?);
            }
            let Some(copy) = slot else { continue };
            let (source, mut target) = (input.bytes(), copy.view_mut()?);
            let grain = (source.len() / PRODUCER_CHUNKS)
                .next_multiple_of(CACHE_LINE)
                .max(SMALLEST_CHUNK);
            let spec = RegionSpec::new(source.len(), grain);
            lanes.region_over(&PRODUCER, spec, target.bytes_mut(), 1, |chunk, part| {
                part.copy_from_slice(&source[chunk.range]);
            })?;
        }
        Ok(())
    }

    /// Puts NaN, infinities, zeros of both signs, denormals and extreme values among the elements of float inputs that
    /// are not constant.
    pub fn sprinkle_special_values(&mut self) {
        for input in self.inputs.iter_mut().flatten() {
            // Inputs are shared with other nodes of the example; the changed ones are this node's own.
            let Ok(mut changed) = input.try_clone() else {
                continue;
            };
            let Ok(mut view) = changed.view_mut() else {
                continue;
            };
            let special = |index: usize| SPECIAL_VALUES[index / SPRINKLE % SPECIAL_VALUES.len()];
            macro_rules! sprinkle {
                ($($rust:ty: $convert:expr),*) => {
                    $(if let Ok(elements) = view.as_slice_mut::<$rust>() {
                        for index in (0..elements.len()).step_by(SPRINKLE) {
                            elements[index] = $convert(special(index));
                        }
                    })*
                };
            }
            sprinkle!(f32: |v| v as f32, f64: |v| v, f16: f16_from, bf16: bf16_from);
            *input = Arc::new(changed);
        }
    }

    /// Overwrites all outputs with zeros.
    pub fn clear_outputs(&mut self) {
        for slot in &mut self.memory.outputs {
            if let OutputSlot::Planned { buffer, .. } = slot {
                buffer.as_bytes_mut().fill(0);
            }
        }
    }

    /// Digest of all outputs: types, shapes and elements, any NaN counting as the same NaN.
    pub fn digest(&self) -> Digest {
        let mut hash = OutputHash::new();
        for slot in &self.memory.outputs {
            match slot {
                OutputSlot::Planned {
                    element_type,
                    shape,
                    buffer,
                    ..
                } => {
                    let length = onl_tensor::byte_length(*element_type, shape).unwrap_or(0);
                    hash.tensor(*element_type, shape, &buffer.as_bytes()[..length]);
                }
                OutputSlot::Allocated { tensor, .. } => {
                    hash.tensor(tensor.element_type(), tensor.dims(), tensor.bytes());
                }
                OutputSlot::Alias { shape, .. } => hash.tensor(ElementType::UInt8, shape, &[]),
                OutputSlot::Unplanned | OutputSlot::Value(_) => hash.word(u64::MAX),
            }
        }
        hash.finish()
    }
}

fn is_constant(input: Option<&ExampleInput>) -> bool {
    matches!(
        input,
        Some(ExampleInput::Constant(_) | ExampleInput::Random { constant: true, .. })
    )
}

/// Four lanes of a multiply-rotate hash over 64-bit words.
struct OutputHash {
    state: [u64; 4],
    words: usize,
}

impl OutputHash {
    fn new() -> Self {
        OutputHash {
            state: [
                0x243f_6a88_85a3_08d3,
                0x1319_8a2e_0370_7344,
                0xa409_3822_299f_31d0,
                0x082e_fa98_ec4e_6c89,
            ],
            words: 0,
        }
    }

    fn word(&mut self, word: u64) {
        let lane = &mut self.state[self.words % 4];
        *lane = (*lane ^ word)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29);
        self.words += 1;
    }

    fn tensor(&mut self, element_type: ElementType, dims: &[usize], bytes: &[u8]) {
        self.word(element_type.onnx_number() as u64);
        for &dim in dims {
            self.word(dim as u64);
        }
        match element_type {
            ElementType::Float32 => self.floats(bytes, 4, |b| {
                let value = f32::from_le_bytes(b.try_into().expect("four bytes"));
                if value.is_nan() {
                    u64::MAX
                } else {
                    u64::from(value.to_bits())
                }
            }),
            ElementType::Float64 => self.floats(bytes, 8, |b| {
                let value = f64::from_le_bytes(b.try_into().expect("eight bytes"));
                if value.is_nan() {
                    u64::MAX
                } else {
                    value.to_bits()
                }
            }),
            ElementType::Float16 => self.floats(bytes, 2, |b| {
                let value = f16::from_le_bytes(b.try_into().expect("two bytes"));
                if value.is_nan() {
                    u64::MAX
                } else {
                    u64::from(value.to_bits())
                }
            }),
            ElementType::BFloat16 => self.floats(bytes, 2, |b| {
                let value = bf16::from_le_bytes(b.try_into().expect("two bytes"));
                if value.is_nan() {
                    u64::MAX
                } else {
                    u64::from(value.to_bits())
                }
            }),
            _ => {
                for chunk in bytes.chunks(8) {
                    let mut word = [0; 8];
                    word[..chunk.len()].copy_from_slice(chunk);
                    self.word(u64::from_le_bytes(word));
                }
            }
        }
    }

    fn floats(&mut self, bytes: &[u8], width: usize, word: impl Fn(&[u8]) -> u64) {
        for element in bytes.chunks_exact(width) {
            self.word(word(element));
        }
    }

    fn finish(mut self) -> Digest {
        for round in 0..8 {
            self.word(round);
        }
        Digest(self.state)
    }
}

/// The splitmix64 generator (Steele, Lea, Flood 2014): equal numbers on every architecture.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `[0, 1)`.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Near normal with unit variance: a sum of four uniforms, which needs no library function.
    fn normal(&mut self) -> f64 {
        let sum = self.unit() + self.unit() + self.unit() + self.unit();
        (sum - 2.0) * 3f64.sqrt()
    }
}

impl Example {
    /// The input tensors: equal on every architecture.
    ///
    /// # Errors
    /// [`PrepareError`] when memory for them cannot be had.
    pub fn materialize(&self) -> Result<Vec<Option<Arc<Tensor>>>, PrepareError> {
        self.inputs
            .iter()
            .enumerate()
            .map(|(index, input)| {
                input
                    .as_ref()
                    .map(|i| materialize(i, index as u64 + 1))
                    .transpose()
            })
            .collect()
    }
}

impl ExampleInput {
    /// The tensor: equal for equal seeds, on every architecture.
    ///
    /// # Errors
    /// [`PrepareError`] when memory for it cannot be had.
    pub fn materialize(&self, seed: u64) -> Result<Arc<Tensor>, PrepareError> {
        materialize(self, seed)
    }
}

fn materialize(input: &ExampleInput, seed: u64) -> Result<Arc<Tensor>, PrepareError> {
    let mut random = Random(seed.wrapping_mul(0x5851_f42d_4c95_7f2d));
    Ok(match input {
        ExampleInput::Constant(tensor) => Arc::clone(tensor),
        ExampleInput::Random {
            element_type,
            shape,
            ..
        } => {
            let signed = !element_type.name().starts_with('u');
            fill(*element_type, shape, |float| {
                if float {
                    random.normal()
                } else if signed {
                    (random.next() % 201) as f64 - 100.0
                } else {
                    (random.next() % 101) as f64
                }
            })?
        }
        ExampleInput::Uniform {
            element_type,
            shape,
            low,
            high,
        } => fill(*element_type, shape, |float| {
            let value = low + (high - low) * random.unit();
            if float { value } else { value.round() }
        })?,
    })
}

/// Rounds through f32: inputs must have equal bits everywhere, and `f16::from_f64` rounds once or twice by architecture.
fn f16_from(value: f64) -> f16 {
    f16::from_f32(value as f32)
}

/// Rounds like [`f16_from`].
fn bf16_from(value: f64) -> bf16 {
    bf16::from_f32(value as f32)
}

fn fill(
    element_type: ElementType,
    dims: &[usize],
    mut next: impl FnMut(bool) -> f64,
) -> Result<Arc<Tensor>, PrepareError> {
    use ElementType as T;
    let count = onl_tensor::element_count(dims).unwrap_or(0);
    macro_rules! typed {
        ($float:expr, $convert:expr) => {{
            let values: Vec<_> = (0..count).map(|_| $convert(next($float))).collect();
            Tensor::from_slice(dims, &values)?
        }};
    }
    let tensor = match element_type {
        T::Float32 => typed!(true, |v| v as f32),
        T::Float64 => typed!(true, |v| v),
        T::Float16 => typed!(true, f16_from),
        T::BFloat16 => typed!(true, bf16_from),
        T::Int8 => typed!(false, |v| v as i8),
        T::Int16 => typed!(false, |v| v as i16),
        T::Int32 => typed!(false, |v| v as i32),
        T::Int64 => typed!(false, |v| v as i64),
        T::UInt8 => typed!(false, |v| v as u8),
        T::UInt16 => typed!(false, |v| v as u16),
        T::UInt32 => typed!(false, |v| v as u32),
        T::UInt64 => typed!(false, |v| v as u64),
        T::Bool => typed!(false, |v: f64| Bool::from(v as i64 % 2 != 0)),
        T::String => {
            let strings = (0..count).map(|_| format!("{:.3}", next(true))).collect();
            Tensor::from_strings(dims, strings)?
        }
        _ => Tensor::zeros(element_type, dims)?,
    };
    Ok(Arc::new(tensor))
}
