//! After preparation a run of a planned shape allocates nothing, opens nothing and asks the registry nothing; its caller
//! reads no clock. A run on one lane makes no system call; on several the only ones are those of waiting lanes: futex wait
//! and wake, the repair of a lane's own mask, and giving way on a processor that others want too.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use onl::profiling::Collector;
use onl::{CpuExecutionPolicy, Environment, ProfileSource, RunControl, Session, Tensor};
use onl_ir::Attribute;
use onl_tensor::ElementType;
use onl_tests::ModelBuilder;
use std::alloc::{GlobalAlloc, Layout, System};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A system call that is allowed, for one value of one of its arguments where an argument is named.
struct Allowed {
    number: i64,
    argument: Option<(u32, i64)>,
}

const fn allow(number: i64) -> Allowed {
    Allowed {
        number,
        argument: None,
    }
}

const fn allow_with(number: i64, index: u32, value: i64) -> Allowed {
    Allowed {
        number,
        argument: Some((index, value)),
    }
}

/// The end of the process, which is no part of the runs.
const END: Allowed = allow(libc::SYS_exit_group);

/// What lanes may do while they wait for each other, and the end of the process.
const WAITING: [Allowed; 8] = [
    // Sleep and wake, without a time limit and within the process.
    allow_with(
        libc::SYS_futex,
        1,
        (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as i64,
    ),
    allow_with(
        libc::SYS_futex,
        1,
        (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as i64,
    ),
    // A lane that leaves its caller's processor: its own mask.
    allow_with(libc::SYS_sched_setaffinity, 0, 0),
    allow_with(libc::SYS_sched_getaffinity, 0, 0),
    // A lane that shares its processor with others while it waits gives way to them.
    allow(libc::SYS_sched_yield),
    // Which processor and which time it is, where the system has no faster way to ask.
    allow(libc::SYS_getcpu),
    allow_with(libc::SYS_clock_gettime, 0, libc::CLOCK_MONOTONIC as i64),
    END,
];

/// From here on any other system call of any thread kills the process.
fn forbid_system_calls(allowed: &[Allowed]) {
    // Classic packet filter: load a word of the call, jump when equal, return.
    let instruction = |code: u32, jf: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    };
    let load = |offset| instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, offset);
    let or_skip = |value, skipped| {
        let code = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        instruction(code, skipped, value)
    };
    let verdict = |value| instruction(libc::BPF_RET | libc::BPF_K, 0, value);
    let mut program = Vec::new();
    for call in allowed {
        program.push(load(0));
        let rest = if call.argument.is_some() { 3 } else { 1 };
        program.push(or_skip(call.number as u32, rest));
        if let Some((index, value)) = call.argument {
            // Arguments are 64 bits wide from byte 16 on; their low half comes first.
            program.push(load(16 + 8 * index));
            program.push(or_skip(value as u32, 1));
        }
        program.push(verdict(libc::SECCOMP_RET_ALLOW));
    }
    program.push(verdict(libc::SECCOMP_RET_KILL_PROCESS));
    let mut filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: both calls get constants and a program that lives through the call.
    let result = unsafe {
        assert_eq!(
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
            0,
            "privileges can be given up"
        );
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_TSYNC,
            &raw mut filter,
        )
    };
    assert_eq!(result, 0, "the filter can be installed");
    // Freeing it would be no system call of the runs.
    std::mem::forget(program);
}

/// From here on this thread dies by SIGSEGV when it reads the time-stamp counter, which every clock is made of.
fn forbid_clocks() {
    // SAFETY: sets a flag of the calling thread.
    let result = unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV, 0, 0, 0) };
    assert_eq!(result, 0, "reading the counter can be forbidden");
}

fn model() -> Vec<u8> {
    let f32s = ElementType::Float32;
    let values = |n: usize| {
        (0..n)
            .map(|i| ((i * 37 % 101) as f32 - 50.0) / 64.0)
            .collect::<Vec<f32>>()
    };
    let tensor = |dims: &[usize]| {
        Tensor::from_slice(dims, &values(dims.iter().product())).expect("sizes agree")
    };
    ModelBuilder::new(17)
        .input("x", f32s, &[-1, 256])
        .initializer("w", tensor(&[256, 512]))
        .initializer("b", tensor(&[512]))
        .initializer("scale", tensor(&[512]))
        .initializer("axes", Tensor::from_slice(&[1], &[-1i64]).expect("one"))
        .initializer("tail", Tensor::from_slice(&[1], &[-1i64]).expect("one"))
        .node("MatMul", &["x", "w"], &["product"])
        .node("Add", &["product", "b"], &["sum"])
        .node("LayerNormalization", &["sum", "scale", "b"], &["normal"])
        .node("Erf", &["normal"], &["curve"])
        .node("Shape", &["curve"], &["shape"])
        .node("Reshape", &["curve", "shape"], &["same"])
        .node_with(
            "Transpose",
            &["same"],
            &["turned"],
            &[("perm", Attribute::Ints(vec![1, 0]))],
        )
        .node("MatMul", &["same", "turned"], &["scores"])
        .node_with(
            "Softmax",
            &["scores"],
            &["shares"],
            &[("axis", Attribute::Int(-1))],
        )
        .node("ReduceSum", &["shares", "axes"], &["totals"])
        .output("shares", f32s)
        .output("totals", f32s)
        .bytes()
}

fn thousand_quiet_runs(threads: u32, recorded: bool) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let environment = Environment::new(ProfileSource::Folder(folder.path().join("tuning")));
    let session = Session::builder()
        .environment(environment.clone())
        .policy(CpuExecutionPolicy {
            threads,
            ..CpuExecutionPolicy::default()
        })
        .model_bytes(model())
        .build()
        .expect("the model is sound");
    let input = Tensor::from_slice(&[192, 256], &vec![0.25f32; 192 * 256]).expect("sizes agree");
    let mut outputs: Vec<Tensor> = session
        .run(&[("x", input.try_clone().expect("memory").into())])
        .expect("the model runs")
        .iter()
        .map(|value| {
            value
                .as_tensor()
                .expect("a tensor")
                .try_clone()
                .expect("memory")
        })
        .collect();
    let expected: Vec<Vec<u8>> = outputs.iter().map(|o| o.bytes().to_vec()).collect();
    let views = [input.view()];
    session
        .run_into(&views, &mut outputs)
        .expect("a planned run");
    folder.close().expect("the cache folder can be deleted");
    environment.registry().poison();
    let collector = Collector::new(16);
    let control = RunControl {
        collector: recorded.then_some(&collector),
        ..RunControl::default()
    };
    // A caller that waits for other lanes may read one.
    if threads == 1 {
        forbid_clocks();
    }
    if !recorded {
        let alone = [END];
        forbid_system_calls(if threads == 1 { &alone } else { &WAITING });
    }
    let before = ALLOCATIONS.load(Ordering::SeqCst);
    let mut failed = false;
    for _ in 0..1_000 {
        failed |= session
            .run_into_with(&views, &mut outputs, control)
            .is_err();
    }
    let allocations = ALLOCATIONS.load(Ordering::SeqCst) - before;
    let equal = outputs
        .iter()
        .zip(&expected)
        .all(|(o, e)| o.bytes() == e.as_slice());
    let code = match (failed, equal, allocations) {
        (true, _, _) => 10,
        (_, false, _) => 11,
        (_, _, 0) => 0,
        _ => 12,
    };
    // SAFETY: ends the process at once, without the system calls of an orderly end.
    unsafe { libc::_exit(code) }
}

/// Makes the runs in a process of their own.
fn in_child(threads: u32, recorded: bool, test: &str) -> Output {
    if std::env::var_os("ONL_QUIET_RUNS").is_some() {
        thousand_quiet_runs(threads, recorded);
    }
    let executable = std::env::current_exe().expect("a test has a path");
    Command::new(executable)
        .env("ONL_QUIET_RUNS", "1")
        .args(["--exact", test, "--nocapture", "--test-threads", "1"])
        .output()
        .expect("the test starts again")
}

fn assert_quiet(threads: u32, test: &str) {
    let output = in_child(threads, false, test);
    let meaning = match output.status.code() {
        Some(0) => return,
        Some(10) => "a run failed".to_owned(),
        Some(11) => "outputs changed".to_owned(),
        Some(12) => "runs allocated memory".to_owned(),
        other => format!(
            "a run made a system call or read a clock, or preparation failed ({other:?}, {})",
            output.status
        ),
    };
    panic!("{meaning}\n{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn serial_runs_are_quiet() {
    assert_quiet(1, "serial_runs_are_quiet");
}

#[test]
fn parallel_runs_are_quiet() {
    assert_quiet(2, "parallel_runs_are_quiet");
}

#[test]
fn other_system_calls_are_found() {
    const TEST: &str = "other_system_calls_are_found";
    match std::env::var("ONL_QUIET_RUNS").as_deref() {
        Ok("number") => {
            forbid_system_calls(&WAITING);
            // SAFETY: no arguments, no memory.
            unsafe { libc::getppid() };
        }
        Ok("argument") => {
            forbid_system_calls(&WAITING);
            // SAFETY: wakes nobody; the word outlives the call.
            unsafe { libc::syscall(libc::SYS_futex, &0u32, libc::FUTEX_WAKE, 1) };
        }
        Ok("allowed") => {
            forbid_system_calls(&WAITING);
            let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
            // SAFETY: wakes nobody; the word outlives the call. Then the process ends.
            unsafe {
                libc::syscall(libc::SYS_futex, &0u32, operation, 1);
                libc::_exit(0)
            }
        }
        _ => {}
    }
    let child = |what: &str| {
        let executable = std::env::current_exe().expect("a test has a path");
        let output = Command::new(executable)
            .env("ONL_QUIET_RUNS", what)
            .args(["--exact", TEST, "--nocapture", "--test-threads", "1"])
            .output()
            .expect("the test starts again");
        (output.status.code(), output.status.signal())
    };
    assert_eq!(child("number"), (None, Some(libc::SIGSYS)));
    assert_eq!(child("argument"), (None, Some(libc::SIGSYS)));
    assert_eq!(child("allowed"), (Some(0), None));
}

#[test]
fn recorded_runs_are_found_to_read_a_clock() {
    let output = in_child(1, true, "recorded_runs_are_found_to_read_a_clock");
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{output:?}");
}
