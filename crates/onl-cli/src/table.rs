use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

/// A plain table; columns named in `right` are aligned to the right.
pub fn table(header: &[&str], right: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.iter().map(Cell::new));
    for (index, name) in header.iter().enumerate() {
        if right.contains(name)
            && let Some(column) = table.column_mut(index)
        {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// A duration for people.
pub fn duration(nanoseconds: f64) -> String {
    match nanoseconds {
        n if n < 1e3 => format!("{n:.0} ns"),
        n if n < 1e6 => format!("{:.2} µs", n / 1e3),
        n if n < 1e9 => format!("{:.3} ms", n / 1e6),
        n => format!("{:.3} s", n / 1e9),
    }
}

/// Bytes for people.
pub fn bytes(count: u64) -> String {
    match count as f64 {
        n if n < 1024.0 => format!("{n:.0} B"),
        n if n < 1024.0 * 1024.0 => format!("{:.1} KiB", n / 1024.0),
        n if n < 1024.0 * 1024.0 * 1024.0 => format!("{:.1} MiB", n / (1024.0 * 1024.0)),
        n => format!("{:.2} GiB", n / (1024.0 * 1024.0 * 1024.0)),
    }
}
