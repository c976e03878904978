//! Regions of a pool with one worker, and its end.

use super::{Stores, explore};
use crate::pool::{Admission, Body, Pool, Task, Team};
use crate::sync::{Condvar, Mutex, UnsafeCell, lock, thread};
use crate::wait::WaitMode;
use crate::{Chunk, RegionSpec};
use onl_cpu::DenormalMode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn pool(workers: usize, wait: WaitMode) -> Arc<Pool> {
    Arc::new(Pool::new(workers, wait, false, DenormalMode::default()))
}

fn serve(pool: &Arc<Pool>, index: usize) -> thread::JoinHandle<()> {
    let pool = Arc::clone(pool);
    thread::spawn(move || pool.serve(index, None))
}

/// What a region writes, an element a unit.
struct Output<const UNITS: usize>([UnsafeCell<usize>; UNITS]);

// SAFETY: the model checks how the elements are accessed.
unsafe impl<const UNITS: usize> Sync for Output<UNITS> {}

impl<const UNITS: usize> Output<UNITS> {
    fn new() -> Self {
        Output(std::array::from_fn(|_| UnsafeCell::new(0)))
    }

    fn add(&self, index: usize, value: usize) {
        // SAFETY: checked by the model.
        self.0[index].with_mut(|element| unsafe { *element += value });
    }

    fn get(&self) -> [usize; UNITS] {
        // SAFETY: checked by the model.
        std::array::from_fn(|index| self.0[index].with(|element| unsafe { *element }))
    }
}

/// Runs `body` once for each of `units`; false when another region is open. The body must outlive the worker: a
/// weakened pool returns too early.
fn region(
    pool: &Pool,
    team: &Team,
    units: usize,
    awake_only: bool,
    body: &(impl Fn(Chunk) + Sync),
) -> bool {
    let task = Task::new(Body::new(body), &RegionSpec::new(units, 1));
    let admission = Admission {
        lanes: pool.workers() + 1,
        awake_only,
    };
    let Some(outcome) = pool.run::<false>(team, task, admission) else {
        return false;
    };
    if let Some(panic) = outcome.panic {
        panic!("{}", panic.message);
    }
    true
}

/// A region returns when its units are done, and its caller sees their work.
#[test]
fn region_returns() {
    for (workers, awake_only, preemptions) in [(1, false, 4), (1, true, 4), (2, false, 2)] {
        explore(Stores::Exchanges, preemptions, move || {
            let pool = pool(workers, WaitMode::Frugal);
            let threads: Vec<_> = (0..workers).map(|index| serve(&pool, index)).collect();
            let output = Output::<2>::new();
            let body = |chunk: Chunk| output.add(chunk.index, 5);
            let team = pool.take(workers);
            assert!(region(&pool, &team, 2, awake_only, &body));
            assert_eq!(output.get(), [5; 2]);
            pool.give_back(&team);
            pool.stop();
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }
}

/// A descriptor is written again only when no lane can read it, whether lanes came in time, late or not at all.
#[test]
fn reuse() {
    for (awake_only, preemptions) in [(false, 4), (true, 3)] {
        explore(Stores::Exchanges, preemptions, move || {
            let pool = pool(1, WaitMode::Balanced);
            let thread = serve(&pool, 0);
            // Invisible to the model, so that the only memory it sees shared is the descriptor.
            let visits: [AtomicUsize; 2] = Default::default();
            let bodies = [1, 100].map(|value| {
                let visits = &visits;
                move |chunk: Chunk| {
                    visits[chunk.index].fetch_add(value, Ordering::Relaxed);
                }
            });
            let team = pool.take(1);
            for body in &bodies {
                assert!(region(&pool, &team, 2, awake_only, body));
            }
            for visits in &visits {
                assert_eq!(
                    visits.load(Ordering::Relaxed),
                    101,
                    "each region visits a unit once"
                );
            }
            pool.give_back(&team);
            pool.stop();
            thread.join().unwrap();
        });
    }
}

/// A lane that is told of a region comes, even if it was about to sleep: here the caller waits for it.
#[test]
fn told_lanes_come() {
    explore(Stores::Exchanges, 3, || {
        let pool = pool(1, WaitMode::Frugal);
        let thread = serve(&pool, 0);
        let (came, changed) = (Mutex::new(false), Condvar::new());
        let body = |chunk: Chunk| {
            let mut came = lock(&came);
            if chunk.index == 1 {
                *came = true;
                changed.notify_one();
            }
            while !*came {
                came = changed.wait(came).unwrap();
            }
        };
        let team = pool.take(1);
        assert!(region(&pool, &team, 2, false, &body));
        pool.give_back(&team);
        pool.stop();
        thread.join().unwrap();
    });
}

/// A worker and its descriptor go from one run to another.
#[test]
fn handed_over() {
    explore(Stores::Exchanges, 2, || {
        let pool = pool(1, WaitMode::Frugal);
        let thread = serve(&pool, 0);
        let run = {
            let pool = Arc::clone(&pool);
            move || {
                let output = Output::<2>::new();
                let body = |chunk: Chunk| output.add(chunk.index, 7);
                let team = pool.take(1);
                if team.workers == 1 {
                    assert!(region(&pool, &team, 2, false, &body));
                    assert_eq!(output.get(), [7; 2]);
                    pool.give_back(&team);
                }
            }
        };
        let other = thread::spawn(run.clone());
        run();
        other.join().unwrap();
        pool.stop();
        thread.join().unwrap();
    });
}

/// Two threads of a run that open regions share the descriptor one after the other.
#[test]
fn one_region_at_a_time() {
    explore(Stores::Exchanges, 5, || {
        let pool = pool(1, WaitMode::Frugal);
        let team = Arc::new(pool.take(1));
        let opened = Arc::new(AtomicUsize::new(0));
        let open = {
            let (pool, team, opened) = (Arc::clone(&pool), Arc::clone(&team), Arc::clone(&opened));
            move || {
                let output = Output::<2>::new();
                let body = |chunk: Chunk| output.add(chunk.index, 3);
                // Lanes that are awake are told without a fence, which would order the descriptor too.
                if region(&pool, &team, 2, true, &body) {
                    assert_eq!(output.get(), [3; 2]);
                    opened.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        let other = thread::spawn(open.clone());
        open();
        other.join().unwrap();
        assert!(opened.load(Ordering::Relaxed) >= 1);
    });
}

/// What the owner of a worker did with it is seen by its next owner.
#[test]
fn ownership() {
    explore(Stores::Plain, 5, || {
        let pool = pool(1, WaitMode::Frugal);
        let owned = Arc::new(Output::<1>::new());
        let own = {
            let (pool, owned) = (Arc::clone(&pool), Arc::clone(&owned));
            move || {
                let team = pool.take(1);
                if team.workers == 1 {
                    owned.add(0, 1);
                    pool.give_back(&team);
                }
            }
        };
        let other = thread::spawn(own.clone());
        own();
        other.join().unwrap();
    });
}

/// A worker ends when told to, whether it sleeps or is about to.
#[test]
fn stop() {
    for wait in [WaitMode::Frugal, WaitMode::Balanced] {
        explore(Stores::Plain, 5, move || {
            let pool = pool(1, wait);
            let worker = serve(&pool, 0);
            pool.stop();
            worker.join().unwrap();
        });
    }
}
