//! Prints a digest of the outputs of every kernel path, for comparing architectures: `cargo xtask test-arm64` runs this
//! natively and under emulation, and the lines must be equal.

use onl_cpu::IsaTier;
use onl_executor::CpuExecutor;
use onl_kernels::{BenchNode, KernelTable};
use onl_snapshot::TuningSnapshot;

/// Small enough for an emulator, large enough for every tail of the vector loops.
const SIZES: [usize; 2] = [67, 4_500];

#[test]
fn digests_of_all_paths() {
    let executor = CpuExecutor::with_lanes(2);
    let snapshot = TuningSnapshot::portable();
    let mut lines = 0;
    for entry in KernelTable::builtin().entries() {
        for &element_type in entry.element_types {
            for size in SIZES {
                for example in (entry.examples)(element_type, size) {
                    let mut node = BenchNode::new(entry, &example, &snapshot, IsaTier::detect(), 2)
                        .unwrap_or_else(|error| {
                            panic!("{} {}: {error}", entry.key(element_type), example.name)
                        });
                    for special in [false, true] {
                        if special {
                            node.sprinkle_special_values();
                        }
                        let run = executor.enter();
                        // A kernel may refuse special values (as an index); the text of the refusal is then compared.
                        let outcome = match node.run(run.lanes()) {
                            Ok(()) => node
                                .digest()
                                .0
                                .iter()
                                .map(|w| format!("{w:016x}"))
                                .collect::<String>(),
                            Err(error) => format!("{error}")
                                .bytes()
                                .map(|byte| format!("{byte:02x}"))
                                .collect(),
                        };
                        let (key, first) = (entry.key(element_type), entry.opsets.0);
                        println!(
                            "digest {key}@{first}/{}/{size}/{special} {outcome}",
                            example.name
                        );
                        lines += 1;
                    }
                }
            }
        }
    }
    assert!(lines > 100, "the table has kernels with examples");
}
