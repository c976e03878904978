//! A model that is run again and again on the same inputs.

use onl::profiling::{Collector, CollectorOptions};
use onl::{Error, RunControl, Session, Tensor, TensorView, Value};

/// Events of each kind that are held at most, unless the user asks for more.
const MOST_EVENTS: usize = 1 << 20;

/// A model that is run again and again on the same inputs, with bound outputs where all values are tensors.
pub struct Repeated<'s> {
    session: &'s Session,
    named: Vec<(&'s str, Value)>,
    views: Vec<TensorView<'s>>,
    bound: Option<Vec<Tensor>>,
}

/// What a collector has to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Events of regions.
    pub regions: usize,
    /// Events of nodes.
    pub nodes: usize,
}

impl<'s> Repeated<'s> {
    /// `inputs` are in graph order, `outputs` those of an earlier run on the same inputs.
    ///
    /// # Errors
    /// When the outputs cannot be copied.
    pub fn new(
        session: &'s Session,
        inputs: &'s [(String, Value)],
        outputs: &[Value],
    ) -> Result<Self, Error> {
        let views: Vec<TensorView<'s>> = inputs
            .iter()
            .filter_map(|(_, value)| value.as_tensor().map(Tensor::view))
            .collect();
        let bound = outputs
            .iter()
            .map(|value| value.as_tensor().map(Tensor::try_clone).transpose())
            .collect::<Result<Option<Vec<_>>, _>>()?
            .filter(|_| views.len() == inputs.len());
        Ok(Repeated {
            session,
            named: inputs
                .iter()
                .map(|(name, value)| (name.as_str(), value.clone()))
                .collect(),
            views,
            bound,
        })
    }

    /// One run.
    ///
    /// # Errors
    /// As [`Session::run_with`].
    pub fn run(&mut self, control: RunControl<'_>) -> Result<(), Error> {
        match &mut self.bound {
            Some(bound) => self.session.run_into_with(&self.views, bound, control)?,
            None => {
                self.session.run_with(&self.named, control)?;
            }
        }
        Ok(())
    }

    /// Room for recorded runs, by what one run leaves.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn room(&mut self, runs: u32) -> Result<Room, Error> {
        let probe = Collector::with_options(CollectorOptions {
            lanes: self.session.policy().descriptor().participants as usize,
            ..CollectorOptions::default()
        });
        self.run(RunControl {
            collector: Some(&probe),
            ..RunControl::default()
        })?;
        let (events, dropped) = (probe.drain(), probe.dropped());
        let room = |held: usize, dropped: u64| {
            let of_a_run = held.saturating_add(dropped as usize).saturating_add(1);
            of_a_run.saturating_mul(runs as usize).min(MOST_EVENTS)
        };
        Ok(Room {
            regions: room(events.regions.len(), dropped.regions),
            nodes: room(events.nodes.len(), dropped.nodes),
        })
    }
}
