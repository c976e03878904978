use serde::Serialize;

/// A place in a kernel that opens parallel regions. Made by [`region_site!`](crate::region_site), one static per
/// place.
#[derive(Debug, PartialEq, Eq, Hash, Serialize)]
pub struct RegionSite {
    /// Name of the region, as `elementwise.unary`.
    pub label: &'static str,
    /// Source file.
    pub file: &'static str,
    /// Source line.
    pub line: u32,
}

/// A static [`RegionSite`] with label and source line.
///
/// ```
/// use onl_profiling::{RegionSite, region_site};
/// static SITE: RegionSite = region_site!("elementwise.unary");
/// assert_eq!(SITE.label, "elementwise.unary");
/// ```
#[macro_export]
macro_rules! region_site {
    ($label:expr) => {
        $crate::RegionSite {
            label: $label,
            file: file!(),
            line: line!(),
        }
    };
}
