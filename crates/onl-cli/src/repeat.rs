use crate::inputs::Gathered;
use anyhow::Result;
use onl::{RunControl, Session, Tensor, TensorView, Value};

/// A model that is run again and again on the same inputs, with bound outputs where all values are tensors.
pub struct Repeated<'s> {
    session: &'s Session,
    named: Vec<(&'s str, Value)>,
    views: Vec<TensorView<'s>>,
    bound: Option<Vec<Tensor>>,
}

impl<'s> Repeated<'s> {
    /// `outputs` are those of an earlier run on the same inputs.
    ///
    /// # Errors
    /// When the outputs cannot be copied.
    pub fn new(session: &'s Session, gathered: &'s Gathered, outputs: &[Value]) -> Result<Self> {
        let views: Vec<TensorView<'s>> = gathered
            .values
            .iter()
            .filter_map(|(_, value)| value.as_tensor().map(Tensor::view))
            .collect();
        let bound = outputs
            .iter()
            .map(|value| value.as_tensor().map(Tensor::try_clone).transpose())
            .collect::<Result<Option<Vec<_>>, _>>()?
            .filter(|_| views.len() == gathered.values.len());
        Ok(Repeated {
            session,
            named: gathered.named(),
            views,
            bound,
        })
    }

    /// One run.
    ///
    /// # Errors
    /// As [`Session::run_with`].
    pub fn run(&mut self, control: RunControl<'_>) -> Result<()> {
        match &mut self.bound {
            Some(bound) => self.session.run_into_with(&self.views, bound, control)?,
            None => {
                self.session.run_with(&self.named, control)?;
            }
        }
        Ok(())
    }
}
