//! Kernels of a test registry whose costs are known: three with a default that is 1.5 times too slow, and a placebo.

use onl_executor::{Lanes, RegionSpec};
use onl_ir::OpId;
use onl_kernels::{
    Coverage, Example, ExampleInput, InferContext, InferError, KernelEntry, KernelError, KernelIo,
    KernelTable, PrepareContext, PrepareError, PreparedKernel, SearchContext, ShapeDependence,
    TypeSource, infer,
};
use onl_profiling::{RegionSite, region_site};
use onl_snapshot::{
    Candidate, Parameter, ParameterKind, ParameterRow, ParameterValue, Schema, Search, TunedConfig,
};
use onl_tensor::ElementType;

const TYPES: &[ElementType] = &[ElementType::Float32];
const SIZES: &[usize] = &[4_096, 16_384];
/// Passes over the data of the fast form; the slow one makes half as many more.
const PASSES: usize = 40;

static SITE: RegionSite = region_site!("planted");

static SITES: &[&RegionSite] = &[&SITE];

static SCHEMA: Schema = Schema {
    parameters: &[Parameter {
        name: "algorithm.path",
        kind: ParameterKind::Choice {
            default: "first",
            values: &["first", "second"],
        },
        unit: "",
        meaning: "Which of two forms with equal outputs runs.",
    }],
    check: |_| Ok(()),
};

fn schema() -> &'static Schema {
    &SCHEMA
}

#[derive(Debug, Clone)]
struct Path {
    second: bool,
}

impl TunedConfig for Path {
    fn schema() -> &'static Schema {
        &SCHEMA
    }

    fn from_row(row: &ParameterRow) -> Self {
        Path {
            second: row.choice("algorithm.path") == "second",
        }
    }
}

struct Planted {
    passes: usize,
    path: &'static str,
}

impl PreparedKernel for Planted {
    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let input = io.input(0)?;
        let elements = input.as_slice::<f32>()?;
        let mut output = io.output(0, ElementType::Float32, input.dims())?;
        let output = output.as_slice_mut::<f32>()?;
        let spec = RegionSpec {
            path: self.path,
            ..RegionSpec::new(elements.len(), elements.len().max(1))
        };
        lanes.region_over(&SITE, spec, output, 1, |_, part| {
            for _ in 0..self.passes {
                for (y, x) in part.iter_mut().zip(std::hint::black_box(elements)) {
                    *y = (x * 0.5).abs();
                }
                std::hint::black_box(&mut *part);
            }
        })?;
        Ok(())
    }
}

fn prepared(
    passes: [usize; 2],
    entry: &KernelEntry,
    context: &PrepareContext<'_>,
) -> Box<dyn PreparedKernel> {
    let config = context
        .snapshot
        .config::<Path>(&entry.key(ElementType::Float32));
    let second = config.at(0).second;
    Box::new(Planted {
        passes: passes[usize::from(second)],
        path: if second { "second" } else { "first" },
    })
}

fn examples(element_type: ElementType, size: usize) -> Vec<Example> {
    vec![Example::new(
        "ordinary",
        vec![ExampleInput::random(element_type, &[size])],
    )]
}

fn search(_: &SearchContext) -> Search {
    let candidate = |name: &str| Candidate {
        name: name.to_owned(),
        values: SCHEMA
            .defaults()
            .with("algorithm.path", ParameterValue::Choice(name.to_owned())),
    };
    Search::Candidates(vec![candidate("second")])
}

fn infer_same(context: &mut InferContext<'_>) -> Result<(), InferError> {
    infer::same_as_first(context)
}

fn entry(
    op_type: &'static str,
    prepare: fn(
        &onl_ir::NodeView<'_>,
        &PrepareContext<'_>,
    ) -> Result<Box<dyn PreparedKernel>, PrepareError>,
) -> KernelEntry {
    KernelEntry {
        domain: OpId::ONNX,
        op_type,
        opsets: (1, i64::MAX),
        type_source: TypeSource::Input(0),
        element_types: TYPES,
        implementation: "planted",
        revision: 1,
        prepare,
        infer: infer_same,
        shape_dependence: ShapeDependence::Shapes,
        coverage: Coverage::Calibratable {
            schema,
            sizes: SIZES,
            search,
        },
        regions: SITES,
        examples,
    }
}

fn slow_default(op_type: &'static str) -> KernelEntry {
    entry(op_type, |node, context| {
        let op_type = ["SlowOne", "SlowTwo", "SlowThree"]
            .into_iter()
            .find(|t| *t == node.node.op.op_type);
        let op_type =
            op_type.ok_or_else(|| PrepareError::Other("not a planted operator".to_owned()))?;
        Ok(prepared(
            [PASSES * 3 / 2, PASSES],
            &slow_default(op_type),
            context,
        ))
    })
}

fn placebo() -> KernelEntry {
    entry("Placebo", |_, context| {
        Ok(prepared([PASSES, PASSES], &placebo(), context))
    })
}

/// A table with `SlowOne`, `SlowTwo`, `SlowThree` and `Placebo`.
pub fn planted_table() -> KernelTable {
    let mut table = KernelTable::empty();
    for entry in [
        slow_default("SlowOne"),
        slow_default("SlowTwo"),
        slow_default("SlowThree"),
        placebo(),
    ] {
        table
            .register(entry)
            .expect("planted kernels do not overlap");
    }
    table
}

static GRAIN_SCHEMA: Schema = Schema {
    parameters: &[Parameter {
        name: "parallel.grain_elements",
        kind: ParameterKind::Integer {
            default: 16_384,
            minimum: 256,
            maximum: 1 << 40,
        },
        unit: "elements",
        meaning: "Elements that one claim of a lane covers.",
    }],
    check: |_| Ok(()),
};

fn grain_schema() -> &'static Schema {
    &GRAIN_SCHEMA
}

/// Doubles its input in chunks of a size that no parameter reaches, or of the size that its parameter says.
struct Doubling {
    grain: usize,
}

impl PreparedKernel for Doubling {
    fn run(&self, io: &mut KernelIo<'_>, lanes: Lanes<'_>) -> Result<(), KernelError> {
        let input = io.input(0)?;
        let elements = input.as_slice::<f32>()?;
        let mut output = io.output(0, ElementType::Float32, input.dims())?;
        let output = output.as_slice_mut::<f32>()?;
        let spec = RegionSpec::new(elements.len(), self.grain);
        lanes.region_over(&SITE, spec, output, 1, |chunk, part| {
            for (y, x) in part.iter_mut().zip(&elements[chunk.range]) {
                *y = x + x;
            }
        })?;
        Ok(())
    }
}

/// A table with one kernel that declares a grain parameter: one that obeys it, one with a constant grain.
pub fn grain_table(obeys: bool) -> KernelTable {
    let mut table = KernelTable::empty();
    let mut planted = entry("Doubling", |node, context| {
        let key = onl_snapshot::KernelKey::builtin("Doubling", "planted", ElementType::Float32, 1);
        let _ = node;
        let given = context
            .snapshot
            .row(&key)
            .map(|row| row.values.integer("parallel.grain_elements"));
        Ok(Box::new(Doubling {
            grain: usize::try_from(given.unwrap_or(16_384)).unwrap_or(usize::MAX),
        }))
    });
    if !obeys {
        planted.prepare = |_, _| Ok(Box::new(Doubling { grain: 16_384 }));
    }
    planted.coverage = Coverage::Tunable(grain_schema);
    table
        .register(planted)
        .expect("one kernel does not overlap");
    table
}

/// A table with one kernel that declares a path parameter and ignores it.
pub fn ignoring_table() -> KernelTable {
    let mut table = KernelTable::empty();
    let mut planted = entry("Doubling", |_, _| Ok(Box::new(Doubling { grain: 4_096 })));
    planted.coverage = Coverage::Tunable(schema);
    table
        .register(planted)
        .expect("one kernel does not overlap");
    table
}

/// A table with one kernel that says it is serial and is not.
pub fn secretly_parallel_table() -> KernelTable {
    let mut table = KernelTable::empty();
    let mut planted = entry("Doubling", |_, _| Ok(Box::new(Doubling { grain: 256 })));
    planted.coverage = Coverage::Serial {
        category: onl_kernels::SerialCategory::TinyPayload,
        reason: "said to be small",
    };
    table
        .register(planted)
        .expect("one kernel does not overlap");
    table
}
