//! What a parallel region did: sites, events, and the bounded collector that keeps them.

mod site;

pub use site::RegionSite;
